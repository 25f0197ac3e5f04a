"""Frozen-dataclass configurations: checked when built, with errors that name the culprit."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard, TypeVar

import numpy as np

T = TypeVar("T")

KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "str": ((str,), "text"),
    "bool": ((bool, np.bool_), "true or false"),
    "None": ((type(None),), "None"),
}
"""What a value is, by the name in an annotation: its classes, and what errors call it."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known word nearest to ``word``, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raise a ``ValueError`` naming the field, its value and what is allowed, unless ``condition`` holds."""
    if not condition:
        raise ValueError(f"{field}={value!r}: must be {allowed}")


def require_default(field: str, value: object, default: object, where: str) -> None:
    """Raise a ``ValueError`` for an option that has no effect, unless it has its default value.

    :param field: the option
    :param value: what it was given
    :param default: what it may stay
    :param where: where it has no effect (``'with power="constant"'``)
    """
    if value != default:
        raise ValueError(f"{field}={value!r}: has no effect {where}; its default is {default!r}")


def require_one_of(field: str, value: object, allowed: Iterable[str]) -> None:
    """Raise a ``ValueError`` unless ``value`` is one of the names in ``allowed``."""
    allowed = tuple(allowed)
    if value not in allowed:
        hint = nearest(str(value), allowed)
        raise ValueError(f"{field}={value!r}: must be one of {', '.join(map(repr, allowed))}{hint}")


def require_kinds(annotations: Mapping[str, str], values: Mapping[str, Any], prefix: str = "") -> None:
    """Raise a ``ValueError`` for a value that is not what its annotation says.

    :param annotations: by field, as written (``"float | None"``); those with other names than :data:`KINDS`
        has are left to the reader of the value
    :param values: by field; those without an annotation are not looked at
    :param prefix: of the field's name in the error (``"site."``)
    """
    for field, value in values.items():
        allowed = annotations.get(field, "").split(" | ")
        if not KINDS.keys() >= set(allowed):
            continue
        truth = isinstance(value, bool | np.bool_) and "bool" not in allowed  # no number, though an int
        classes = tuple(kind for name in allowed for kind in KINDS[name][0])
        right = isinstance(value, classes) and not truth
        require(right, prefix + field, value, " or ".join(KINDS[name][1] for name in allowed))


def require_class(field: str, value: object, classes: tuple[type, ...], allowed: str) -> None:
    """Raise a ``TypeError`` naming the field, unless ``value`` is of one of the classes."""
    if not isinstance(value, classes):
        raise TypeError(f"{field}: must be {allowed}, not {type(value).__name__}")


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a real number, of Python or NumPy; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def numbers(field: str, values: object) -> tuple[float, ...]:
    """Return a sequence of numbers as a tuple; a ``ValueError`` names the field of anything else."""
    several = isinstance(values, Sequence | np.ndarray) and all(is_number(value) for value in values)
    require(several, field, values, "a sequence of numbers")
    return tuple(float(value) for value in values)  # type: ignore[attr-defined]


def from_mapping(cls: type[T], values: Mapping[str, Any], owner: str | None = None) -> T:
    """Build the dataclass ``cls`` from ``values``.

    :param cls: a dataclass
    :param values: field names and values
    :param owner: what the error calls the thing being configured (default: the name of ``cls``)
    :raises TypeError: for an unknown key; the message names the key and the nearest known one
    """
    known = [field.name for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise TypeError(
                f"{owner or cls.__name__}: unknown option {key!r}{nearest(key, known)} "
                f"(known: {', '.join(known)})"
            )
    return cls(**values)
