"""Kinds of hyperparameters, by the annotations of the constructors that take them: wrong ones are told apart.

Stable-Baselines3 uses most values as they come. Text where a number belongs, or 0 steps, would end a training
somewhere inside it.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
import typing
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union

from sb3_greendc.pid_ppo import PIDController

_LEAST = {
    "actor_starts": 0,
    "gradient_steps": -1,
    "learning_starts": 0,
    "sde_sample_freq": -1,
    "top_quantiles_to_drop_per_net": 0,
}
"""Whole numbers that may be below 1, and how far."""
_SHARES = ("gamma", "gae_lambda", "cost_gamma", "cost_gae_lambda", "tau")
"""Numbers from 0 to 1."""
_POSITIVE = ("clip_range", "clip_range_vf", "max_grad_norm", "target_kl")
"""Numbers above 0: no update would change anything otherwise, or every one would be undone."""
_AUTO = re.compile(r"auto(_[0-9.]+(e[-+]?[0-9]+)?)?", re.IGNORECASE)
"""What may stand where a number may be found by the algorithm."""


def checked(owner: type, key: str, value: Any, written: object) -> Any:
    """Return the value of a hyperparameter; a whole number that is written as a float (1e6) as an integer.

    :param owner: class whose constructor takes it, as its own or for a parent
    :param key: its name
    :param value: of it, as constructors take it
    :param written: the value as it was written, for the message
    :raises ValueError: if it is of another kind than the constructor says, or out of range
    """
    annotation = _annotation(owner, key)
    kinds = _members(annotation)
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if int in kinds and float not in kinds and is_number and math.isfinite(value) and value % 1 == 0:
        value = int(value)
    if not _is_of(value, annotation):
        raise ValueError(f"{written!r}: must be {' or '.join(sorted(map(_word, kinds), key='null'.__eq__))}")
    if isinstance(value, str) and float in kinds and not _AUTO.fullmatch(value):
        raise ValueError(f"{written!r}: must be a number, auto or auto_NUMBER")
    if key == "gradient_steps" and value == 0:
        raise ValueError(f"{written!r}: must be 1 or more, or -1 for as many as the environments did steps")
    count = value[0] if isinstance(value, tuple) and value else value
    if isinstance(count, int) and not isinstance(count, bool) and int in kinds and count < _LEAST.get(key, 1):
        raise ValueError(f"{written!r}: must be {_LEAST.get(key, 1)} or more")
    if key in _SHARES and is_number and not 0 <= value <= 1:
        raise ValueError(f"{written!r}: must be from 0 to 1")
    start = getattr(value, "start", value)  # of a schedule
    if key in _POSITIVE and isinstance(start, Real) and not float(start) > 0:
        raise ValueError(f"{written!r}: must be greater than 0")
    if key == "learning_rate" and isinstance(start, Real) and float(start) < 0:
        raise ValueError(f"{written!r}: must be 0 or more")
    return value


@functools.lru_cache(maxsize=1024)
def _annotation(owner: type, key: str) -> Any:
    """Return what a constructor, or a parent's, says that it takes; ``Any`` if it says nothing."""
    for cls in (*owner.__mro__, PIDController):  # whose settings constrained algorithms take, too
        parameter = inspect.signature(vars(cls).get("__init__", lambda: None)).parameters.get(key)
        if parameter is None or parameter.annotation is parameter.empty:
            continue
        said = type("Said", (), {"__annotations__": {key: parameter.annotation}})
        try:
            return typing.get_type_hints(said, vars(sys.modules[cls.__module__]))[key]
        except NameError:  # imported for type checkers alone
            return Any
    return Any


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return what a union is made of, or the annotation alone."""
    is_union = typing.get_origin(annotation) in (Union, UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _is_of(value: Any, annotation: Any) -> bool:
    """Tell whether a value is of a kind; of kinds that are not known here, everything is."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, UnionType):
        return any(_is_of(value, one) for one in arguments)
    if annotation is Any:  # which Python 3.11 has as a class
        return True
    if annotation is None or annotation is NoneType:
        return value is None
    if annotation is float:
        return not isinstance(value, bool) and isinstance(value, Real) and not math.isnan(value)
    if annotation is int:
        return not isinstance(value, bool) and isinstance(value, Integral)
    if origin is Literal:
        return value in arguments
    if origin is tuple and Ellipsis not in arguments:
        fits = isinstance(value, tuple) and len(value) == len(arguments)
        return fits and all(map(_is_of, value, arguments))
    if annotation is Callable or origin is Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type)
    if isinstance(origin, type):
        return isinstance(value, origin) and not (isinstance(value, str) and origin is not str)
    return isinstance(value, annotation) if isinstance(annotation, type) else True


_WORDS: dict[Any, str] = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    NoneType: "null",
    str: "text",
}


def _word(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if origin is tuple:
        return f"[{', '.join(map(_word, arguments))}]"
    if annotation is Callable or origin is Callable:
        return "a schedule (lin_NUMBER)"
    if origin is type:
        return "a class"
    if origin in (Mapping, dict):
        return "a mapping"
    if isinstance(origin, type) and issubclass(origin, Collection):
        return "a list"
    return str(getattr(annotation, "__name__", annotation))
