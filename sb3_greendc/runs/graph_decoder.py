"""Gives freshly built objects the state that :mod:`~sb3_greendc.runs.object_graphs` wrote down."""

from __future__ import annotations

import functools
import json
import random
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnvWrapper

from sb3_greendc.runs.object_graphs import (
    PLAIN,
    GraphEncoder,
    attributes_of,
    class_key,
    fixed_name,
    is_record_tuple,
    slots_of,
)

_MAPPINGS: dict[str, type[dict[Any, Any]]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "defaultdict": defaultdict,
}
_BIT_GENERATORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
_COMPILED = "greendc."
"""Package whose objects hand their arrays to compiled code."""

Finder: TypeAlias = Callable[[str], type | None]
"""Finds a class whose objects may be made, by its name; ``None`` if there is none."""


class GraphDecoder:
    """Gives fresh objects the state that a :class:`GraphEncoder` wrote down.

    :param named: the objects that stand for themselves
    :param fresh: what has met the fresh objects
    :param find_class: finds further classes whose objects may be made where the fresh graph has none
    """

    def __init__(self, named: Mapping[str, Any], fresh: GraphEncoder, find_class: Finder) -> None:
        self._named = named
        self._classes, self._fixed = fresh.classes, fresh.fixed
        self._find_class = find_class
        self._made: dict[int, Any] = {}
        self._used: dict[int, Any] = {}

    def decode(self, tree: Any, fresh: Any, place: str) -> Any:
        """Return the value that was written; where ``fresh`` is of its kind, that object is given its state.

        :param tree: what :meth:`GraphEncoder.encode` returned
        :param fresh: what stands at this place in the fresh graph, ``None`` if nothing does
        :param place: what it is, for messages
        :raises ValueError: if it does not fit
        """
        if type(tree) in PLAIN or isinstance(tree, np.generic):
            return tree
        kind, *content = tree
        if kind == "named":
            return self._named[content[0]]
        if kind == "again":
            return self._made[content[0]]
        if kind == "left out":
            return fresh
        if kind == "fixed":
            if fixed_name(fresh) == content[0]:
                return fresh
            if content[0] not in self._fixed:
                raise ValueError(f"{place}: {content[0]} there, {fixed_name(fresh)} here")
            return self._fixed[content[0]]
        if kind == "enum":
            return self._class(content[0], fresh, place)[content[1]]
        if kind == "tuple":
            return tuple(self._items(content[0], fresh, place))
        if kind == "record":
            cls: Any = self._class(content[0], fresh, place)
            return cls._make(self._items(content[1], fresh, place))
        number, *rest = content
        if id(fresh) in self._used:  # it has become another one's
            fresh = None
        elif fresh is not None:
            self._used[id(fresh)] = fresh
        return self._READERS[kind](self, number, fresh, place, *rest)

    def _keep(self, number: int, value: Any) -> Any:
        self._made[number] = value
        return value

    def _class(self, key: str, fresh: Any, place: str) -> Any:
        if class_key(type(fresh)) == key:
            return type(fresh)
        cls = self._classes.get(key) or self._find_class(key)
        if cls is None:
            raise ValueError(f"{place}: {key} there, {class_key(type(fresh))} here")
        return cls

    def _items(self, trees: list[Any], fresh: Any, place: str) -> list[Any]:
        there = list(fresh) if isinstance(fresh, list | tuple | deque) else []
        there += [None] * (len(trees) - len(there))
        return [self.decode(tree, there[i], f"{place}[{i}]") for i, tree in enumerate(trees)]

    # ------------------------------------------------------------------ numbers

    def _array(self, number: int, fresh: Any, place: str, length: int, order: str, array: Any) -> Any:
        array = array.T if order == "F" else array
        return self._keep(number, _put(_whole(array, length), fresh))

    def _records(
        self,
        number: int,
        fresh: Any,
        place: str,
        length: int,
        order: str,
        described: str,
        shape: Any,
        raw: Any,
    ) -> Any:
        dtype = np.lib.format.descr_to_dtype(_as_tuples(json.loads(described)))
        if dtype.hasobject:
            raise ValueError(f"{place}: an array of {dtype} is no array of numbers")
        if isinstance(fresh, np.ndarray) and fresh.dtype == dtype:
            dtype = fresh.dtype  # aligned or not, which NumPy calls equal and compiled code tells apart
        array = np.frombuffer(raw.tobytes(), dtype).reshape(shape, order=order).copy(order)  # type: ignore[call-overload]
        return self._keep(number, _put(_whole(array, length), fresh))

    def _scalar(self, number: int, fresh: Any, place: str, *content: Any) -> Any:
        return self._keep(number, self._records(number, None, place, *content)[()])

    def _objects(self, number: int, fresh: Any, place: str, shape: list[int], items: list[Any]) -> Any:
        array = self._keep(number, np.empty(shape, object))
        there = fresh.ravel().tolist() if isinstance(fresh, np.ndarray) and fresh.dtype == object else None
        array.flat = self._items(items, there, place)
        return array

    def _tensor(self, number: int, fresh: Any, place: str, saved: th.Tensor, requires_grad: bool) -> Any:
        if isinstance(fresh, th.Tensor) and fresh.is_leaf:
            if isinstance(fresh, th.nn.Parameter) and (fresh.shape, fresh.dtype) != (
                saved.shape,
                saved.dtype,
            ):
                raise ValueError(f"{place}: of shape {tuple(saved.shape)} there, {tuple(fresh.shape)} here")
            if (fresh.shape, fresh.dtype) == (saved.shape, saved.dtype):
                fresh.data.copy_(saved)
                return self._keep(number, fresh)
        device = fresh.device if isinstance(fresh, th.Tensor) else self._named["device"]
        return self._keep(number, saved.to(device).requires_grad_(requires_grad))

    def _bytes(self, number: int, fresh: Any, place: str, data: Any) -> bytes:
        made: bytes = self._keep(number, data.tobytes())
        return made

    def _bytearray(self, number: int, fresh: Any, place: str, data: Any) -> bytearray:
        made: bytearray = self._keep(number, bytearray(data.tobytes()))
        return made

    def _generator(self, number: int, fresh: Any, place: str, kind: str, state: Any) -> Any:
        if not isinstance(fresh, np.random.Generator) or type(fresh.bit_generator).__name__ != kind:
            fresh = np.random.Generator(_BIT_GENERATORS[kind]())
        fresh.bit_generator.state = self.decode(state, None, place)
        return self._keep(number, fresh)

    def _random_state(self, number: int, fresh: Any, place: str, kind: str, state: Any) -> Any:
        made = np.random.RandomState(_BIT_GENERATORS[kind]())
        made._bit_generator.state = self.decode(state, None, place)
        return self._keep(number, made)

    def _python_random(self, number: int, fresh: Any, place: str, state: Any) -> Any:
        made = fresh if type(fresh) is random.Random else random.Random()
        made.setstate(self.decode(state, None, place))
        return self._keep(number, made)

    def _torch_random(self, number: int, fresh: Any, place: str, state: th.Tensor) -> Any:
        made = fresh if type(fresh) is th.Generator else th.Generator()
        made.set_state(state)
        return self._keep(number, made)

    # ------------------------------------------------------------------ containers

    def _mapping(
        self, number: int, fresh: Any, place: str, kind: str, factory: Any, items: list[list[Any]]
    ) -> Any:
        if type(fresh) is not _MAPPINGS[kind]:
            fresh = (
                defaultdict(self.decode(factory, None, place)) if kind == "defaultdict" else _MAPPINGS[kind]()
            )
        self._keep(number, fresh)
        keys = {fixed_name(key): key for key in fresh if fixed_name(key) is not None}
        filled = {}
        for key_tree, tree in items:
            is_fixed = isinstance(key_tree, list) and key_tree[0] == "fixed"
            key = keys.get(key_tree[1]) if is_fixed else None
            key = self.decode(key_tree, None, f"key of {place}") if key is None else key
            filled[key] = self.decode(tree, fresh.get(key), f"{place}[{key!r}]")
        fresh.clear()
        fresh.update(filled)
        return fresh

    def _list(self, number: int, fresh: Any, place: str, items: list[Any]) -> Any:
        made = self._keep(number, fresh if type(fresh) is list else [])
        made[:] = self._items(items, list(made), place)
        return made

    def _deque(self, number: int, fresh: Any, place: str, maxlen: int | None, items: list[Any]) -> Any:
        same = type(fresh) is deque and fresh.maxlen == maxlen
        made = self._keep(number, fresh if same else deque(maxlen=maxlen))
        filled = self._items(items, made, place)
        made.clear()
        made.extend(filled)
        return made

    def _set(self, number: int, fresh: Any, place: str, items: list[Any]) -> Any:
        made = self._keep(number, fresh if type(fresh) is set else set())
        filled = self._items(items, None, place)
        made.clear()
        made.update(filled)
        return made

    def _frozenset(self, number: int, fresh: Any, place: str, items: list[Any]) -> Any:
        return self._keep(number, frozenset(self._items(items, None, place)))

    # ------------------------------------------------------------------ objects

    def _partial(self, number: int, fresh: Any, place: str, parts: list[Any]) -> Any:
        if not isinstance(fresh, functools.partial):
            raise ValueError(f"{place}: functools.partial there, {class_key(type(fresh))} here")
        self._keep(number, fresh)
        there = (fresh.func, fresh.args, fresh.keywords)
        made = [self.decode(tree, there[i], f"{place}()") for i, tree in enumerate(parts)]
        fresh.__setstate__((*made, vars(fresh)))  # type: ignore[attr-defined]
        return fresh

    def _weak(self, number: int, fresh: Any, place: str, target: Any) -> Any:
        here = fresh() if type(fresh) is weakref.ref else None
        made = self.decode(target, here, f"{place}()")
        same = here is not None and made is here
        return self._keep(number, fresh if same else (lambda: None) if made is None else weakref.ref(made))

    def _method(self, number: int, fresh: Any, place: str, name: str, owner: Any) -> Any:
        kinds = types.MethodType | types.BuiltinFunctionType
        if not isinstance(fresh, kinds) or fresh.__qualname__ != name:
            raise ValueError(f"{place}: method {name} there, {class_key(type(fresh))} here")
        self._keep(number, fresh)
        self.decode(owner, fresh.__self__, f"{place}.__self__")
        return fresh

    def _function(self, number: int, fresh: Any, place: str, key: str, cells: list[Any]) -> Any:
        if not (isinstance(fresh, types.FunctionType) and class_key(fresh) == key):  # type: ignore[arg-type]
            fresh = self._fixed.get(key)
        here = () if fresh is None else fresh.__closure__ or ()
        if fresh is None or len(here) != len(cells):
            raise ValueError(f"{place}: function {key} there, and not here")
        self._keep(number, fresh)
        for i, tree in enumerate(cells):
            here[i].cell_contents = self.decode(tree, here[i].cell_contents, f"{place}()[{i}]")
        return fresh

    def _optimizer(self, number: int, fresh: Any, place: str, state: Any) -> Any:
        if not isinstance(fresh, th.optim.Optimizer):
            raise ValueError(f"{place}: an optimizer there, {class_key(type(fresh))} here")
        self._keep(number, fresh)
        fresh.load_state_dict(self.decode(state, None, place))
        return fresh

    def _object(self, number: int, fresh: Any, place: str, key: str, state: list[list[Any]]) -> Any:
        cls = self._class(key, fresh, place)
        if type(fresh) is not cls:
            fresh = cls.__new__(cls)
        self._keep(number, fresh)
        there = attributes_of(fresh)
        here = arrays_of(there, place)
        made = {name: self.decode(tree, there.get(name), f"{place}.{name}") for name, tree in state}
        for name in there:
            if name not in made and not (isinstance(fresh, VecEnvWrapper) and name == "class_attributes"):
                object.__delattr__(fresh, name)
        if class_key(cls).startswith(_COMPILED):
            _require_same_arrays(arrays_of(made, place), here)
        slots = slots_of(cls)
        for name, value in made.items():
            if name in slots:
                object.__setattr__(fresh, name, value)
            else:
                vars(fresh)[name] = value
        return fresh

    def _self_made(self, number: int, fresh: Any, place: str, key: str, state: Any) -> Any:
        cls = self._class(key, fresh, place)
        there = fresh.__getstate__() if type(fresh) is cls else None
        here = arrays_of(there, place)
        if type(fresh) is not cls:
            fresh = cls.__new__(cls)
        self._keep(number, fresh)
        made = self.decode(state, there, place)
        if class_key(cls).startswith(_COMPILED):
            _require_same_arrays(arrays_of(made, place), here)
        if hasattr(cls, "__setstate__"):
            fresh.__setstate__(made)
        else:
            vars(fresh).update(made)
        return fresh

    _READERS: dict[str, Callable[..., Any]] = {  # noqa: RUF012
        "array": _array,
        "array of records": _records,
        "scalar of records": _scalar,
        "objects": _objects,
        "tensor": _tensor,
        "bytes": _bytes,
        "bytearray": _bytearray,
        "generator": _generator,
        "random state": _random_state,
        "python random": _python_random,
        "torch random": _torch_random,
        "mapping": _mapping,
        "list": _list,
        "deque": _deque,
        "set": _set,
        "frozenset": _frozenset,
        "partial": _partial,
        "weak": _weak,
        "method": _method,
        "function": _function,
        "optimizer": _optimizer,
        "object": _object,
        "self-made": _self_made,
    }


Arrays: TypeAlias = dict[str, tuple[Any, ...]]


def arrays_of(value: Any, place: str) -> Arrays:
    """Return type and shape of the arrays of a simulator, by where they are."""
    if isinstance(value, np.ndarray):
        return {place: (value.dtype, value.shape)}
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif is_record_tuple(value):
        items = value._asdict().items()
    found: Arrays = {}
    for name, item in items:
        found |= arrays_of(item, f"{place}.{name}")
    return found


def _require_same_arrays(there: Arrays, here: Arrays) -> None:
    """Compare arrays of a simulator with those that it has: compiled code reads them without checks.

    :raises ValueError: if types or shapes differ
    """
    for place in {**here, **there}:
        if there.get(place) != here.get(place):
            said = [
                "none" if one is None else f"{one[0]} of shape {one[1]}"
                for one in (there.get(place), here.get(place))
            ]
            raise ValueError(f"{place}: {said[0]} there, {said[1]} here")


def _put(array: NDArray[Any], fresh: Any) -> NDArray[Any]:
    """Return an array, or the fresh one if that is the same and nothing else writes to it."""
    if type(fresh) is not np.ndarray or (fresh.base is not None and fresh.flags.writeable):
        return array
    if (fresh.dtype, fresh.shape) != (array.dtype, array.shape):
        return array
    if not (fresh.flags.c_contiguous and array.flags.c_contiguous and fresh.size):
        return array
    same = np.array_equal(fresh.reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8))
    return fresh if same else array


def _whole(rows: NDArray[Any], length: int) -> NDArray[Any]:
    """Return an array of so many rows, the first of which are given; the others are zeros."""
    if length < 0:
        return rows
    array = np.zeros((length, *rows.shape[1:]), rows.dtype)
    array[: len(rows)] = rows
    return array


def _as_tuples(described: Any) -> Any:
    """Return the description of a dtype as NumPy takes it, which JSON has turned into lists."""
    if not isinstance(described, list):
        return described
    return [
        tuple(_as_tuples(part) if i == 1 else tuple(part) if i == 2 else part for i, part in enumerate(field))
        for field in described
    ]
