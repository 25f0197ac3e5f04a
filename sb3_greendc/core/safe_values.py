"""Values as JSON and tensors, exactly, and back: what saved models are made of. Nothing is ever unpickled.

Plain JSON values stand for themselves. Everything else is an object whose key ``$`` says what it is: a
tensor by its name, an array, a tuple, a space, a class or an object of one of the classes of
:mod:`~sb3_greendc.core.safe_classes`. Whatever cannot be written so is an error that names it.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces

from sb3_greendc.core.safe_classes import class_name, class_named, is_record

TAG = "$"
_ARRAY_TYPES = {
    np.dtype(name).name for name in ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}


class NotExpressibleError(ValueError):
    """Something that JSON and tensors cannot hold."""


class Encoder:
    """Turns values into JSON; tensors and arrays are put aside by name.

    :param inline: write arrays into the JSON instead; tensors are refused then
    """

    def __init__(self, inline: bool = False) -> None:
        self.tensors: dict[str, th.Tensor] = {}
        self._inline = inline
        self._names: dict[tuple[Any, ...], str] = {}
        self._kept: list[th.Tensor] = []  # as long as their addresses stand for them

    def encode(self, value: Any, place: str) -> Any:
        """Return the JSON of a value.

        :param value: the value
        :param place: what it is called in errors, and what tensors in it are called
        :raises NotExpressibleError: if it, or something in it, cannot be written so
        """
        try:
            return self._encode(value, place)
        except RecursionError:
            raise NotExpressibleError(f"{place}: nested too deeply") from None

    def _encode(self, value: Any, place: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {TAG: "float", "value": str(value)}
        if kind is list:
            return self._all(value, place)
        if kind in (dict, OrderedDict):
            return self._mapping(value, place)
        if kind is tuple:
            return {TAG: "tuple", "items": self._all(value, place)}
        if kind is deque:
            return {TAG: "deque", "items": self._all(value, place), "maxlen": value.maxlen}
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, np.generic) and value.dtype.name in _ARRAY_TYPES:
            item = self._encode(value.item(), place)
            return {TAG: "scalar", "dtype": value.dtype.name, "value": item}
        if isinstance(value, th.Tensor):
            return {TAG: "tensor", "name": self._tensor(value, place)}
        if isinstance(value, spaces.Space):
            return self._space(value, place)
        if isinstance(value, np.dtype) and value.name in _ARRAY_TYPES:
            return {TAG: "dtype", "name": value.name}
        if isinstance(value, PurePath):
            return str(value)
        if isinstance(value, type):
            return self._class(value, place)
        return self._record(value, place)

    def _all(self, values: Iterable[Any], place: str) -> list[Any]:
        return [self._encode(item, f"{place}/{index}") for index, item in enumerate(values)]

    def _mapping(self, value: Mapping[Any, Any], place: str) -> dict[str, Any]:
        if all(type(key) is str for key in value) and TAG not in value:
            return {key: self._encode(item, f"{place}/{key}") for key, item in value.items()}
        items = [
            [self._encode(key, place), self._encode(item, f"{place}/{key}")] for key, item in value.items()
        ]
        return {TAG: "dict", "items": items}

    def _array(self, value: np.ndarray[Any, Any], place: str) -> dict[str, Any]:
        if type(value) is not np.ndarray or value.dtype.name not in _ARRAY_TYPES:
            raise NotExpressibleError(f"{place}: an array of {value.dtype} cannot be kept as a tensor")
        if not self._inline:
            plain = np.array(value, dtype=value.dtype.newbyteorder("="), order="C")
            return {TAG: "array", "name": self._tensor(th.from_numpy(plain), place)}
        items = [self._encode(item, place) for item in value.ravel().tolist()]
        return {TAG: "array", "dtype": value.dtype.name, "shape": list(value.shape), "items": items}

    def _tensor(self, value: th.Tensor, place: str) -> str:
        """Put a tensor aside; one that is there already is not kept twice."""
        plain = value.layout == th.strided and not value.is_complex() and not value.is_quantized
        if self._inline or not plain:
            raise NotExpressibleError(f"{place}: a tensor of {value.dtype} that cannot be kept as JSON")
        key = (value.data_ptr(), value.dtype, value.device, value.shape, value.stride())
        if value.numel() == 0 or key not in self._names:
            while place in self.tensors:  # of {"a/b": x, "a": {"b": y}}, or of {1: x, "1": y}
                place += "_"
            self.tensors[place] = value.detach().cpu().contiguous().clone()
            self._names[key] = place
            self._kept.append(value)
            return place
        return self._names[key]

    def _space(self, space: spaces.Space[Any], place: str) -> dict[str, Any]:
        kind = type(space)
        given: dict[str, Any]
        if kind is spaces.Box:
            given = {"low": space.low, "high": space.high}  # type: ignore[attr-defined]
        elif kind is spaces.Discrete:
            given = {"n": int(space.n), "start": int(space.start)}  # type: ignore[attr-defined]
        elif kind is spaces.MultiDiscrete:
            given = {"nvec": space.nvec, "start": getattr(space, "start", None)}  # type: ignore[attr-defined]
        elif kind is spaces.MultiBinary:
            n = space.n  # type: ignore[attr-defined]
            given = {"n": n if isinstance(n, int) else tuple(map(int, n))}
        elif kind is spaces.Dict:
            given = {"spaces": list(map(list, space.spaces.items()))}  # type: ignore[attr-defined]
        elif kind is spaces.Tuple:
            given = {"spaces": list(space.spaces)}  # type: ignore[attr-defined]
        else:
            raise NotExpressibleError(f"{place}: a space of {kind.__module__}.{kind.__qualname__}")
        # Observations are never drawn, and their generators are of each process.
        generator = None if "observation_space" in place else space._np_random
        state = None if generator is None else generator.bit_generator.state
        if state is not None and state["bit_generator"] != "PCG64":
            raise NotExpressibleError(f"{place}: a random generator {state['bit_generator']}")
        given |= {"dtype": None if space.dtype is None else np.dtype(space.dtype).name, "random": state}
        return {
            TAG: "space",
            "kind": kind.__name__,
            **{key: self._encode(one, f"{place}/{key}") for key, one in given.items()},
        }

    def _class(self, value: type, place: str) -> dict[str, Any]:
        if issubclass(value, np.generic) and value.__name__ in _ARRAY_TYPES | {"bool_"}:
            return {TAG: "numpy", "name": np.dtype(value).name}
        name = class_name(value)
        if name is None:
            raise NotExpressibleError(
                f"{place}: class {value.__module__}.{value.__qualname__} is none that a saved model may name"
            )
        return {TAG: "class", "name": name}

    def _record(self, value: Any, place: str) -> dict[str, Any]:
        kind = type(value)
        if not is_record(kind):
            raise NotExpressibleError(
                f"{place}: a {kind.__module__}.{kind.__qualname__} cannot be kept as JSON and tensors"
            )
        name = class_name(kind)
        if isinstance(value, Enum):
            return {TAG: "enum", "class": name, "name": value.name}
        if isinstance(value, tuple):
            return {TAG: "record", "class": name, "items": self._all(value, place)}
        return {TAG: "record", "class": name, "state": self._mapping(vars(value), place)}


class Decoder:
    """Turns JSON back into values.

    :param tensors: what was put aside, by name
    :param device: of the tensors that are returned
    """

    def __init__(self, tensors: Mapping[str, th.Tensor], device: th.device | str = "cpu") -> None:
        self._tensors, self._device = tensors, device

    def decode(self, value: Any) -> Any:
        """Return what a JSON value stands for.

        :raises ValueError: if it stands for nothing known
        """
        try:
            return self._decode(value)
        except (AssertionError, AttributeError, KeyError, OverflowError, RecursionError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {str(error)[:200]}") from error

    def _decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: self._decode(item) for key, item in value.items()}
        kind = value[TAG]
        if kind == "space":
            return self._space(value)
        if kind == "record":
            return self._record(value)
        readers: dict[str, Callable[[], Any]] = {
            "float": lambda: float(value["value"]),
            "dict": lambda: {self._decode(key): self._decode(item) for key, item in value["items"]},
            "tuple": lambda: tuple(self._decode(value["items"])),
            "deque": lambda: deque(self._decode(value["items"]), maxlen=value["maxlen"]),
            "array": lambda: self._array(value),
            "scalar": lambda: _dtype(value["dtype"]).type(self._decode(value["value"])),
            "tensor": lambda: self._tensor(value["name"]).to(self._device),
            "dtype": lambda: _dtype(value["name"]),
            "numpy": lambda: _dtype(value["name"]).type,
            "class": lambda: class_named(value["name"]),
            "enum": lambda: _enum(value),
        }
        if not isinstance(kind, str) or kind not in readers:
            raise ValueError(f"{TAG}: {kind!r} is nothing that a saved model holds")
        return readers[kind]()

    def _tensor(self, name: str) -> th.Tensor:
        if name not in self._tensors:
            raise ValueError(f"tensor {name!r}: missing")
        return self._tensors[name]

    def _array(self, value: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        if "name" in value:
            return np.array(self._tensor(value["name"]).cpu().numpy())
        flat = np.array([self._decode(item) for item in value["items"]], dtype=_dtype(value["dtype"]))
        return flat.reshape(value["shape"])

    def _space(self, value: Mapping[str, Any]) -> spaces.Space[Any]:
        given = {key: self._decode(item) for key, item in value.items() if key not in (TAG, "kind")}
        dtype = None if given["dtype"] is None else _dtype(given["dtype"])
        kind = value["kind"]
        space: spaces.Space[Any]
        if kind == "Box":
            space = spaces.Box(given["low"], given["high"], dtype=dtype.type)  # type: ignore[union-attr]
        elif kind == "Discrete":
            space = spaces.Discrete(given["n"], start=given["start"])
        elif kind == "MultiDiscrete":
            start = {} if given["start"] is None else {"start": given["start"]}
            space = spaces.MultiDiscrete(given["nvec"], dtype=dtype.type, **start)  # type: ignore[union-attr]
        elif kind == "MultiBinary":
            space = spaces.MultiBinary(given["n"])
        elif kind == "Dict":
            space = spaces.Dict(OrderedDict(map(tuple, given["spaces"])))
        elif kind == "Tuple":
            space = spaces.Tuple(given["spaces"])
        else:
            raise ValueError(f"space {kind!r}: no such kind")
        if given["random"] is not None:
            bits = np.random.PCG64()
            bits.state = given["random"]
            space._np_random = np.random.Generator(bits)
        return space

    def _record(self, value: Mapping[str, Any]) -> Any:
        cls: Any = class_named(value["class"])
        if not is_record(cls) or issubclass(cls, Enum):
            raise ValueError(f"class {value['class']!r}: its objects are not kept so")
        if issubclass(cls, tuple):
            return cls(*self._decode(value["items"]))
        record = cls.__new__(cls)
        state = {str(key): self._decode(item) for key, item in value["state"].items()}
        wrong = [key for key in state if hasattr(cls, key)]
        if wrong:
            raise ValueError(f"{cls.__name__}: {wrong[0]!r} is no attribute of its objects")
        vars(record).update(state)
        return record


def _enum(value: Mapping[str, Any]) -> Any:
    cls = class_named(value["class"])
    if not issubclass(cls, Enum):
        raise ValueError(f"class {value['class']!r}: no enumeration")
    return cls[value["name"]]


def _dtype(name: Any) -> np.dtype[Any]:
    if name not in _ARRAY_TYPES:
        raise ValueError(f"dtype {name!r}: must be one of {', '.join(sorted(_ARRAY_TYPES))}")
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype
