"""The state of objects as plain values, for objects of the same kind that are there already to take it.

:class:`GraphEncoder` follows every attribute, item and cell from an object on, and writes down numbers, text
and arrays. :class:`~sb3_greendc.runs.graph_decoder.GraphDecoder` follows the same way through freshly built
objects and gives each of them what was written. So a file never says which class to build or which function
to call: classes, functions and modules are those of the fresh objects. What was shared is shared again.

Objects that keep something outside Python's attributes, such as locks, open files and running generators,
cannot be written down; the error says which one, and where.
"""

from __future__ import annotations

import enum
import functools
import json
import random
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from gymnasium.utils import EzPickle
from numba.core.dispatcher import Dispatcher
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.vec_env import VecEnvWrapper

PLAIN = (bool, int, float, str, type(None))
NUMBERS = "biufc"
_FIXED = (
    type,
    types.ModuleType,
    np.dtype,
    np.ufunc,
    th.dtype,
    th.device,
    PurePath,
    Dispatcher,
)
"""Values that do not change: the fresh graph has the same ones, which are recognized by their names."""
_BUILTIN = (dict, list, tuple, set, frozenset, deque, str, bytes, int, float, np.ndarray)
"""Kinds whose subclasses hold more than attributes."""
_BY_ATTRIBUTES = (VecEnvWrapper, EzPickle, th.nn.Module, BaseBuffer, spaces.Space)
"""Kinds whose own way of pickling leaves out what matters here, or adds what does not."""


class NotKeptError(TypeError):
    """Something has a state that cannot be written down; the message says what it is, and where."""


def class_key(cls: type) -> str:
    """Return the name under which a class is recognized."""
    return f"{cls.__module__}:{cls.__qualname__}"


def fixed_name(value: Any) -> str | None:
    """Return the name of a value that does not change, ``None`` for all others."""
    if isinstance(value, type):
        return class_key(value)
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, types.BuiltinFunctionType):
        of_module = value.__self__ is None or isinstance(value.__self__, types.ModuleType)
        return f"{value.__module__}:{value.__qualname__}" if of_module else None
    if isinstance(value, Dispatcher):
        return class_key(value.py_func)
    return f"{class_key(type(value))} {value}" if isinstance(value, _FIXED) else None


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, those in slots included."""
    names = slots_of(type(value))
    in_slots = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **in_slots}


def slots_of(cls: type) -> list[str]:
    """Return the names of the attributes that a class keeps in slots."""
    return [name for one in cls.__mro__ for name in _slots(one)]


def _slots(cls: type) -> Iterator[str]:
    slots = vars(cls).get("__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if name not in ("__dict__", "__weakref__"):
            private = name.startswith("__") and not name.endswith("__")
            yield f"_{cls.__name__.lstrip('_')}{name}" if private else name


def pickles_itself(value: Any) -> bool:
    """Tell whether an object says itself what its state is, by ``__getstate__``."""
    if isinstance(value, _BY_ATTRIBUTES):
        return False
    return getattr(type(value), "__getstate__", None) not in (None, getattr(object, "__getstate__", None))


def is_record_tuple(value: Any) -> bool:
    """Tell whether a value is a named tuple."""
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


class GraphEncoder:
    """Turns objects into plain values; those that are met twice are written once.

    :param named: objects that stand for themselves, by a name

    ``classes`` and ``fixed`` are the classes, and the values that do not change, that it has met.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = {id(value): name for name, value in named.items()}
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._rows: tuple[int, int] | None = None
        self.classes: dict[str, type] = {}
        self.fixed: dict[str, Any] = {}

    def encode(self, value: Any, place: str) -> Any:
        """Return the value as plain values and arrays, which :func:`sb3_greendc.runs.trees.pack_tree` takes.

        :param value: the value
        :param place: what it is, for messages
        :raises NotKeptError: if something in it cannot be written down
        """
        if type(value) in PLAIN or (isinstance(value, np.generic) and value.dtype.kind in NUMBERS):
            return value
        if id(value) in self._named:
            return ["named", self._named[id(value)]]
        if id(value) in self._numbers:
            return ["again", self._numbers[id(value)]]
        name = fixed_name(value)
        if name is not None:
            self.fixed.setdefault(name, value)
            return ["fixed", name]
        if isinstance(value, enum.Enum):
            self.classes[class_key(type(value))] = type(value)
            return ["enum", class_key(type(value)), value.name]
        if type(value) in (tuple, th.Size):
            return ["tuple", self._items(value, place)]
        if is_record_tuple(value):
            cls = type(value)
            self.classes[class_key(cls)] = cls
            names = zip(cls._fields, value, strict=True)
            return ["record", class_key(cls), [self.encode(item, f"{place}.{key}") for key, item in names]]
        if isinstance(value, th.distributions.Distribution) or getattr(type(value), "of_one_rollout", False):
            return ["left out"]  # algorithms make one for each use
        number = self._numbers[id(value)] = len(self._alive)
        self._alive.append(value)
        kind, *content = self._shared(value, place)
        return [kind, number, *content]

    def _shared(self, value: Any, place: str) -> list[Any]:
        """Return kind and content of a value that others may hold, too."""
        cls = type(value)
        if cls is np.ndarray or isinstance(value, np.generic):
            return self._array(value, place)
        if isinstance(value, th.Tensor):
            if value.dtype is th.bfloat16 or value.layout is not th.strided:
                raise NotKeptError(f"{place}: a tensor of {value.dtype}, {value.layout} cannot be kept")
            return ["tensor", value.detach(), value.requires_grad]
        if isinstance(value, th.optim.Optimizer):
            return ["optimizer", self.encode(value.state_dict(), place)]
        if cls in (dict, OrderedDict, defaultdict):
            factory = self.encode(value.default_factory, place) if cls is defaultdict else None
            return ["mapping", cls.__name__, factory, self._mapping(value, place)]
        if cls is list:
            return ["list", self._items(value, place)]
        if cls is deque:
            return ["deque", value.maxlen, self._items(value, place)]
        if cls in (set, frozenset):
            return [cls.__name__, self._items(value, place)]
        if cls in (bytes, bytearray):
            return [cls.__name__, np.frombuffer(value, np.uint8)]
        if isinstance(value, np.random.Generator | np.random.RandomState):
            bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
            kind = "generator" if isinstance(value, np.random.Generator) else "random state"
            return [kind, type(bits).__name__, self.encode(bits.state, place)]
        if cls is random.Random:
            return ["python random", self.encode(value.getstate(), place)]
        if cls is th.Generator:
            return ["torch random", value.get_state()]
        if type(value) is weakref.ref:
            return ["weak", self.encode(value(), f"{place}()")]
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return ["partial", [self.encode(part, f"{place}()") for part in parts]]
        if isinstance(value, types.MethodType | types.BuiltinFunctionType):
            return ["method", value.__qualname__, self.encode(value.__self__, f"{place}.__self__")]
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            self.fixed.setdefault(class_key(value), value)  # type: ignore[arg-type]
            return ["function", class_key(value), self._items(cells, f"{place}()")]  # type: ignore[arg-type]
        return self._object(value, place)

    def _object(self, value: Any, place: str) -> list[Any]:
        cls = type(value)
        key = class_key(cls)
        if pickles_itself(value):
            self.classes[key] = cls
            return ["self-made", key, self.encode(value.__getstate__(), place)]
        try:
            if isinstance(value, _BUILTIN) or not (hasattr(value, "__dict__") or slots_of(cls)):
                raise TypeError
            if not isinstance(value, _BY_ATTRIBUTES):
                object.__reduce_ex__(value, 2)  # raises what keeps more than attributes
        except TypeError:
            raise NotKeptError(
                f"{place}: a {key.replace(':', '.')} cannot be kept in a checkpoint, which holds numbers and "
                "text"
            ) from None
        self.classes[key] = cls
        attributes = attributes_of(value)
        if isinstance(value, VecEnvWrapper):
            attributes.pop("class_attributes", None)
        before = self._rows
        if isinstance(value, BaseBuffer):
            used = value.buffer_size if value.full else min(value.pos + 1, value.buffer_size)
            self._rows = (value.buffer_size, used)
            made_at_use = [name for name, item in attributes.items() if isinstance(item, functools.partial)]
            for name in made_at_use:
                del attributes[name]
        state = [[name, self.encode(item, f"{place}.{name}")] for name, item in attributes.items()]
        self._rows = before
        return ["object", key, state]

    def _array(self, value: Any, place: str) -> list[Any]:
        array = np.asarray(value)
        if array.dtype.hasobject:
            if array.dtype != object:
                raise NotKeptError(f"{place}: an array of {array.dtype} cannot be kept")
            return ["objects", list(array.shape), self._items(array.ravel().tolist(), place)]
        length = -1
        if self._rows is not None and array.ndim and len(array) == self._rows[0]:
            used = self._rows[1]
            if not array[used:].any():  # rows that nothing has been written to
                length, array = len(array), array[:used]
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        kind = "scalar" if isinstance(value, np.generic) else "array"
        if array.dtype.kind in NUMBERS:
            return [kind, length, order, array.T if order == "F" else array]
        described = json.dumps(np.lib.format.dtype_to_descr(array.dtype))
        raw = np.frombuffer(array.tobytes(order), np.uint8)  # type: ignore[arg-type]
        return [f"{kind} of records", length, order, described, list(array.shape), raw]

    def _items(self, values: Any, place: str) -> list[Any]:
        return [self.encode(item, f"{place}[{i}]") for i, item in enumerate(values)]

    def _mapping(self, value: Mapping[Any, Any], place: str) -> list[list[Any]]:
        return [
            [self.encode(key, f"key of {place}"), self.encode(item, f"{place}[{key!r}]")]
            for key, item in value.items()
        ]
