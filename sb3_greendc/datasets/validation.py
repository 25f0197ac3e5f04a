"""What makes arrays a data set of transitions: checks that count the offenders and name the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.simulator import Observation
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.datasets.spaces import check_in_space, chunks


def parts(observations: Observation, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of observations by the names that errors and files call them."""
    if isinstance(observations, dict):
        return {f"{name}/{key}": array for key, array in observations.items()}
    return {name: observations}


def part_spaces(space: spaces.Space[Any], name: str) -> dict[str, spaces.Space[Any]]:
    """Return the space of each of the :func:`parts`."""
    if isinstance(space, spaces.Dict):
        return {f"{name}/{key}": part for key, part in space.spaces.items()}
    return {name: space}


def label_arrays(labels: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return labels as arrays of plain values.

    :raises ValueError: names the label that is none
    """
    arrays = {}
    for name, values in labels.items():
        try:
            array = values if isinstance(values, np.ndarray) else np.asarray(values)
        except ValueError as error:
            raise ValueError(f"labels/{name}: rows of several shapes; must be one array (N, ...)") from error
        if array.dtype.hasobject:
            raise ValueError(
                f"labels/{name}: of dtype {array.dtype}; must be plain values, no Python objects"
            )
        if array.ndim == 0:
            raise ValueError(f"labels/{name}: a single value; must have a row for each action")
        arrays[name] = array
    return arrays


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Raise a ``ValueError`` unless all values are finite."""
    require_all(name, np.isfinite(values), "finite", values)


def require_all(name: str, good: NDArray[np.bool_], allowed: str, values: NDArray[Any] | None = None) -> None:
    """Raise a ``ValueError`` that counts the rows that are not good and names the first."""
    if not good.all():
        bad = ~good
        first = int(bad.argmax())
        value = "" if values is None else f" ({values[first].item()!r})"
        raise ValueError(
            f"{name}: {int(bad.sum()):,} of {len(good):,} rows are not {allowed}; "
            f"the first is row {first}{value}"
        )


def check_episodes(
    terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], episode_id: NDArray[np.int64]
) -> None:
    """Raise a ``ValueError`` unless each episode ends with its last transition, and only there."""
    following = successors(episode_id)
    ended = terminated | truncated
    require_all("episode_id", ~(ended & (following >= 0)), "the last of their episode, though they end it")
    require_all("truncated", ended | (following >= 0), "marked as ends, though their episode has no more")


def successors(episode_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row that follows each in its episode, -1 for the last; episodes may interleave."""
    order = np.argsort(episode_id, kind="stable")
    following = np.full(len(order), -1, dtype=np.int64)
    same = episode_id[order[1:]] == episode_id[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    return following


def check_action_space(space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` unless actions are a ``Box``, or ``Discrete`` from 0 on."""
    if not isinstance(space, spaces.Discrete | spaces.Box) or getattr(space, "start", 0) != 0:
        raise ValueError(f"action_space={space}: must be Box, or Discrete that starts at 0")


def check_observation_space(space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` unless an observation is an array, or a dict of arrays."""
    arrays = spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete
    if not all(isinstance(part, arrays) for part in part_spaces(space, "").values()):
        raise ValueError(
            f"observation_space={space}: must be Box, Discrete, MultiBinary, MultiDiscrete, "
            "or a Dict of those (not nested)"
        )


def check_spaces(observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` unless a data set can have these spaces, and masks fit the actions."""
    check_observation_space(observation_space)
    check_action_space(action_space)
    if not isinstance(observation_space, spaces.Dict) or ACTION_MASK not in observation_space.spaces:
        return
    if not isinstance(action_space, spaces.Discrete):
        raise ValueError(f"observations/{ACTION_MASK}: masks Discrete actions, not {action_space}")
    shape = observation_space[ACTION_MASK].shape
    if shape != (int(action_space.n),):
        raise ValueError(f"observations/{ACTION_MASK}: rows of shape {shape} for {action_space.n} actions")


def check_kinds(name: str, observations: Observation, space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` unless observations have the keys, shapes and dtypes of their space."""
    wanted = part_spaces(space, name)
    found = parts(observations, name)
    if found.keys() != wanted.keys():
        raise ValueError(f"{name}: has {', '.join(found)}; the space asks for {', '.join(wanted)}")
    for part, array in found.items():
        shape, dtype = wanted[part].shape, wanted[part].dtype
        if array.shape[1:] != shape or array.dtype != dtype:
            raise ValueError(
                f"{part}: rows of shape {array.shape[1:]} and dtype {array.dtype}; "
                f"the space asks for {shape} and {dtype}"
            )


def check_lengths(arrays: Mapping[str, NDArray[Any]], n: int) -> None:
    """Raise a ``ValueError`` unless every array has ``n`` rows, and columns of numbers one dimension."""
    for name, array in arrays.items():
        if len(array) != n:
            raise ValueError(f"{name}: {len(array):,} rows, but there are {n:,} actions")
    for name in ("rewards", "costs", "terminated", "truncated", "episode_id", "source_id"):
        if name in arrays and arrays[name].ndim != 1:
            raise ValueError(f"{name}: of shape {arrays[name].shape}; must be (N,)")


def check_sources(sources: Sequence[str], source_id: NDArray[np.int64]) -> None:
    """Raise a ``ValueError`` unless every row has a source, and every source a row and a name of its own."""
    n_sources = len(sources)
    if len(set(sources)) != n_sources:
        raise ValueError(f"sources={sources!r}: must be distinct names")
    known = (source_id >= 0) & (source_id < n_sources)
    require_all("source_id", known, f"in [0, {n_sources}), the number of sources", source_id)
    for name, count in zip(sources, np.bincount(source_id, minlength=n_sources), strict=True):
        if count == 0:
            raise ValueError(f"source {name!r}: has no transitions")


def check_next_index(next_index: NDArray[np.int64], total: int) -> None:
    """Raise a ``ValueError`` unless every transition has a next observation among ``total``."""
    require_all("next_index", (next_index >= 0) & (next_index < total), f"in [0, {total})")


def check_observations(name: str, observations: Observation, space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` unless all values lie in their space."""
    wanted = part_spaces(space, name)
    for part, array in parts(observations, name).items():
        check_in_space(part, array, wanted[part])


def check_masks(observations: Observation, actions: NDArray[Any]) -> None:
    """Raise a ``ValueError`` unless every action is allowed by its mask, if there are masks."""
    require_all("actions", allowed_by_masks(observations, actions), "allowed by their action mask", actions)


def allowed_by_masks(observations: Observation, actions: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which actions, all in their space, the masks allow; all, if there are no masks."""
    allowed = np.ones(len(actions), dtype=np.bool_)
    if not isinstance(observations, dict) or ACTION_MASK not in observations:
        return allowed
    for start, rows in chunks(observations[ACTION_MASK]):
        of_rows = actions[start : start + len(rows)]
        allowed[start : start + len(rows)] = rows[np.arange(len(rows)), of_rows] != 0
    return allowed
