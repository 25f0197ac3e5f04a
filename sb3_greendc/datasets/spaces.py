"""Spaces of data sets: written as JSON, guessed from arrays, and compared with arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.simulator import Observation
from sb3_greendc.core.masking import ACTION_MASK

_CHUNK = 1 << 25  # bytes looked at in one go


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return a space as JSON values; a bound that all entries share is written once.

    :raises ValueError: for a space that is no ``Box``, ``Discrete``, ``MultiBinary``, ``MultiDiscrete``, or
        ``Dict`` of those
    """
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {key: space_to_json(part) for key, part in space.spaces.items()}}
    if isinstance(space, spaces.Box):
        bounds = {"low": _bound(space.low), "high": _bound(space.high)}
        return {"type": "Box", **bounds, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiBinary):
        n: Any = space.n  # what the space was made with: a number, or a shape
        return {"type": "MultiBinary", **({"n": n} if isinstance(n, int) else {"shape": list(n)})}
    if isinstance(space, spaces.MultiDiscrete):
        sizes = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"type": "MultiDiscrete", **sizes, "dtype": np.dtype(space.dtype).name}
    raise ValueError(
        f"space {space}: must be Box, Discrete, MultiBinary, MultiDiscrete, or a Dict of those (not nested)"
    )


def space_from_json(value: Mapping[str, Any]) -> spaces.Space[Any]:
    """Return the space that :func:`space_to_json` wrote.

    :raises ValueError: for an unknown type
    """
    match value["type"]:
        case "Dict":
            return spaces.Dict({key: space_from_json(part) for key, part in value["spaces"].items()})
        case "Box":
            shape, dtype = tuple(value["shape"]), np.dtype(value["dtype"])
            low, high = (np.broadcast_to(np.asarray(value[end], dtype), shape) for end in ("low", "high"))
            return spaces.Box(low.copy(), high.copy(), shape, dtype.type)
        case "Discrete":
            return spaces.Discrete(value["n"], start=value["start"])
        case "MultiBinary":
            n = value["shape"] if "shape" in value else value["n"]
            before = "n" in value and isinstance(n, list) and len(n) == 1  # as version 0.2 wrote all of them
            return spaces.MultiBinary(n[0] if before else n)
        case "MultiDiscrete":  # version 0.2 wrote neither a dtype nor a start
            dtype = np.dtype(value.get("dtype", "int64")).type
            return spaces.MultiDiscrete(value["nvec"], dtype, start=value.get("start"))
    raise ValueError(f"space of type {value['type']!r}: unknown")


def _bound(bound: NDArray[Any]) -> Any:
    same = bound.size > 0 and bool((bound == bound.flat[0]).all())
    return bound.flat[0].item() if same else bound.tolist()


def guess_observation_space(observations: Observation) -> spaces.Space[Any]:
    """Return a space that holds the observations: the range of the dtype, (0, 1) for an action mask.

    :raises ValueError: for single numbers, of which nobody can tell whether they count or measure
    """
    if isinstance(observations, dict):
        return spaces.Dict({key: _guess_box(f"obs/{key}", array) for key, array in observations.items()})
    return _guess_box("obs", observations)


def guess_action_space(actions: NDArray[Any], observations: Observation) -> spaces.Space[Any]:
    """Return ``Discrete`` for whole numbers (as many as a mask is long), else ``Box`` of [-1, 1] or [0, 1].

    :param actions: ``(N,)`` or ``(N, 1)`` whole numbers, or ``(N, *shape)`` others
    :param observations: of the same transitions
    :raises ValueError: if the actions lie in none of these
    """
    if actions.dtype.kind not in "biuf":
        raise ValueError(f"actions: of dtype {actions.dtype}; must be numbers")
    if actions.dtype.kind in "biu":
        if actions.shape[1:] not in ((), (1,)):
            raise ValueError(f"actions: whole numbers of shape {actions.shape}: give action_space")
        if (least := int(actions.min())) < 0:
            raise ValueError(f"actions: whole numbers, of which the least is {least}: give action_space")
        masked = isinstance(observations, dict) and ACTION_MASK in observations
        n = observations[ACTION_MASK].shape[1] if masked else int(actions.max()) + 1
        return spaces.Discrete(n)
    low, high = float(np.min(actions)), float(np.max(actions))
    if low < -1 or high > 1:
        raise ValueError(
            f"actions between {low:g} and {high:g}: give action_space, which data outside [-1, 1] do not tell"
        )
    return spaces.Box(-1.0 if low < 0 else 0.0, 1.0, actions.shape[1:], np.float32)


def _guess_box(name: str, array: NDArray[Any]) -> spaces.Box:
    shape, dtype = array.shape[1:], array.dtype
    if array.ndim < 2:
        raise ValueError(f"{name}: one number a row: give observation_space, or an array of shape (N, 1)")
    if dtype.kind not in "biuf":
        raise ValueError(f"{name}: of dtype {dtype}; must be numbers")
    if name == f"obs/{ACTION_MASK}" or dtype == np.bool_:
        return spaces.Box(0, 1, shape, np.int8)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return spaces.Box(limits.min, limits.max, shape, dtype.type)
    return spaces.Box(-np.inf, np.inf, shape, np.float32 if dtype == np.float16 else dtype.type)


def fit_to_space(name: str, values: Any, space: spaces.Space[Any]) -> NDArray[Any]:
    """Return the rows of an array in the dtype of a space; the array itself where it has that dtype already.

    Floats may be rounded, whole numbers must stay what they are.

    :param name: what errors call the array
    :param values: ``(N, *space.shape)``; also ``(N, 1)`` for a ``Discrete`` space
    :param space: not a ``Dict``
    :raises ValueError: if the shape or the dtype does not fit
    """
    array: NDArray[Any] = values if isinstance(values, np.ndarray) else np.asarray(values)
    shape, dtype = space.shape or (), np.dtype(cast("Any", space.dtype))
    if shape == () and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape[1:] != shape or array.ndim == 0:
        raise ValueError(f"{name}: of shape {array.shape}; the space asks for (N{_tail(shape)})")
    if array.dtype == dtype:
        return array
    floats = np.issubdtype(dtype, np.floating) and np.issubdtype(array.dtype, np.floating)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: of dtype {array.dtype}; the space asks for {dtype}")
    with np.errstate(invalid="ignore"):
        fitted: NDArray[Any] = array.astype(dtype)
    if not floats and not np.array_equal(fitted, array):
        raise ValueError(
            f"{name}: values of dtype {array.dtype} do not fit {dtype}, which the space asks for"
        )
    return fitted


def check_in_space(name: str, array: NDArray[Any], space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` that counts the rows outside a space and shows the first.

    :param name: what errors call the array
    :param array: as :func:`fit_to_space` returns it
    :param space: not a ``Dict``
    """
    inside = rows_in_space(array, space)
    if not inside.all():
        count, first = int((~inside).sum()), int(inside.argmin())
        row = np.asarray(array[first]).reshape(-1)
        where = int(_outside(np.asarray(array[first : first + 1]), space).reshape(-1).argmax())
        value = row[where].item()
        allowed = "a finite number" if not np.isfinite(value) else _range(space, where)
        place = f", entry {where}" if row.size > 1 else ""
        raise ValueError(
            f"{name}: {count:,} of {len(array):,} rows are outside their space; the first is row {first}"
            f"{place}: {value!r}, must be {allowed}"
        )


def rows_in_space(array: NDArray[Any], space: spaces.Space[Any]) -> NDArray[np.bool_]:
    """Tell which rows of an array lie in a space that is not a ``Dict``."""
    inside = np.ones(len(array), dtype=np.bool_)
    if not _holds_everything(space):
        for start, rows in chunks(array):
            outside = _outside(rows, space).reshape(len(rows), -1).any(axis=1)
            inside[start : start + len(rows)] = ~outside
    return inside


def chunks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield runs of rows that fit in memory, each with the number of its first row."""
    rows = max(1, _CHUNK // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]


def _holds_everything(space: spaces.Space[Any]) -> bool:
    """Tell whether every value of the space's dtype is in the space, as with the bytes of an image."""
    if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind not in "iu":
        return False
    limits = np.iinfo(np.dtype(space.dtype))
    return bool((space.low == limits.min).all() and (space.high == limits.max).all())


def _outside(rows: NDArray[Any], space: spaces.Space[Any]) -> NDArray[np.bool_]:
    outside: NDArray[np.bool_]
    if isinstance(space, spaces.Box):
        # Written so that NaN is outside; and infinities are, whatever the bounds.
        outside = ~((rows >= space.low) & (rows <= space.high))
        return outside | ~np.isfinite(rows) if rows.dtype.kind == "f" else outside
    if isinstance(space, spaces.Discrete):
        outside = (rows < space.start) | (rows >= space.start + space.n)
    elif isinstance(space, spaces.MultiBinary):
        outside = (rows != 0) & (rows != 1)
    else:
        several, rows = cast("spaces.MultiDiscrete", space), rows.astype(np.int64)
        start = several.start.astype(np.int64)
        outside = (rows < start) | (rows >= start + several.nvec.astype(np.int64))
    return outside


def _range(space: spaces.Space[Any], entry: int) -> str:
    if isinstance(space, spaces.Box):
        return f"between {space.low.flat[entry]!s} and {space.high.flat[entry]!s}"
    return f"in {space}"


def _tail(shape: tuple[int, ...]) -> str:
    return "".join(f", {size}" for size in shape)
