"""Nested dictionaries, lists, numbers, text and arrays as JSON with the arrays beside it, and back.

Nothing but these comes out: no class is looked up by a name in the file, and nothing of it is called.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th

from sb3_greendc.runs.checkpoints import State

_PLAIN = (bool, int, float, str, type(None))


def pack_tree(value: Any) -> State:
    """Return a nested value as :func:`unpack_tree` reads it, to the last bit.

    :param value: dictionaries, lists and tuples of numbers, text, ``None``, NumPy arrays and torch tensors
    :raises TypeError: for anything else; names the place
    """
    arrays: list[memoryview] = []
    tree = _packed(value, arrays, "state")
    return State(json.dumps(tree).encode(), arrays)


def unpack_tree(state: State) -> Any:
    """Return the value; tensors are on the CPU.

    :raises ValueError: if the state is not what :func:`pack_tree` returns
    """
    try:
        return _unpacked(json.loads(state.data), state.arrays)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is no tree of plain values: {type(error).__name__}: {error}") from error


def _packed(value: Any, arrays: list[memoryview], place: str) -> Any:
    if isinstance(value, th.Tensor):
        return _packed_array("tensor", value.detach().cpu().numpy(), arrays, place)
    if isinstance(value, np.generic | np.ndarray):
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return _packed_array(kind, np.asarray(value), arrays, place)
    if isinstance(value, dict):
        items = [
            [_packed(key, arrays, place), _packed(item, arrays, f"{place}[{key!r}]")]
            for key, item in value.items()
        ]
        return ["dict", items]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_packed(item, arrays, f"{place}[{i}]") for i, item in enumerate(value)]]
    if type(value) in _PLAIN:
        return value
    raise TypeError(f"{place}: {type(value).__name__} is no plain value")


def _packed_array(kind: str, array: Any, arrays: list[memoryview], place: str) -> list[Any]:
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{place}: an array of {array.dtype} is no plain value")
    arrays.append(memoryview(array.tobytes()))
    return [kind, len(arrays) - 1, array.dtype.str, list(array.shape)]


def _unpacked(tree: Any, arrays: Sequence[memoryview]) -> Any:
    if type(tree) in _PLAIN:
        return tree
    kind, content, *rest = tree
    if kind == "dict":
        return {_unpacked(key, arrays): _unpacked(item, arrays) for key, item in content}
    if kind == "list":
        return [_unpacked(item, arrays) for item in content]
    if kind == "tuple":
        return tuple(_unpacked(item, arrays) for item in content)
    dtype = np.dtype(str(rest[0]))
    if kind not in ("array", "scalar", "tensor") or dtype.kind not in "biufc":
        raise ValueError(f"{kind!r} of {dtype} is unknown")
    array = np.frombuffer(arrays[content], dtype).reshape(rest[1]).copy()
    if kind == "tensor":
        return th.from_numpy(array)
    return array[()] if kind == "scalar" else array
