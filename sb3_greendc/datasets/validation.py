"""What makes arrays a data set of transitions: checks that count the offenders and name the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.simulator import Observation
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.datasets.spaces import check_in_space, chunks

if TYPE_CHECKING:
    from sb3_greendc.datasets.dataset import OfflineDataset


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


def validate(data: OfflineDataset) -> None:
    """Check everything that can be wrong with a data set.

    :raises ValueError: names the array, how many rows are wrong, and the first of them
    """
    n = len(data.actions)
    if n == 0:
        raise ValueError("the data set holds no transitions")
    _check_kinds(data)
    _check_lengths(data, n)
    _check_sources(data)
    check_episodes(data.terminated, data.truncated, data.episode_id)
    check_finite("rewards", data.rewards)
    if data.costs is not None:
        check_finite("costs", data.costs)
    total = n + len(next(iter(parts(data.final_observations, "final_observations").values())))
    require_all("next_index", (data.next_index >= 0) & (data.next_index < total), f"in [0, {total})")
    for name in ("observations", "final_observations"):
        wanted = part_spaces(data.observation_space, name)
        for part, array in parts(getattr(data, name), name).items():
            check_in_space(part, array, wanted[part])
    check_in_space("actions", data.actions, data.action_space)
    _check_masks(data)


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


def _check_kinds(data: OfflineDataset) -> None:
    for name in ("observations", "final_observations"):
        observations = getattr(data, name)
        wanted = part_spaces(data.observation_space, name)
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
    space = data.action_space
    if not isinstance(space, spaces.Discrete | spaces.Box) or getattr(space, "start", 0) != 0:
        raise ValueError(f"action_space={space}: must be Box, or Discrete that starts at 0")


def _check_lengths(data: OfflineDataset, n: int) -> None:
    arrays: dict[str, NDArray[Any]] = {
        **parts(data.observations, "observations"),
        **{
            name: getattr(data, name)
            for name in ("next_index", "rewards", "terminated", "truncated", "episode_id", "source_id")
        },
        **({} if data.costs is None else {"costs": data.costs}),
        **{f"labels/{name}": label for name, label in data.labels.items()},
    }
    for name, array in arrays.items():
        if len(array) != n:
            raise ValueError(f"{name}: {len(array):,} rows, but there are {n:,} actions")
    for name in ("rewards", "costs", "terminated", "truncated", "episode_id", "source_id"):
        if name in arrays and arrays[name].ndim != 1:
            raise ValueError(f"{name}: of shape {arrays[name].shape}; must be (N,)")


def _check_sources(data: OfflineDataset) -> None:
    n_sources = len(data.sources)
    if len(set(data.sources)) != n_sources:
        raise ValueError(f"sources={data.sources!r}: must be distinct names")
    known = (data.source_id >= 0) & (data.source_id < n_sources)
    require_all("source_id", known, f"in [0, {n_sources}), the number of sources", data.source_id)
    for name, count in zip(data.sources, np.bincount(data.source_id, minlength=n_sources), strict=True):
        if count == 0:
            raise ValueError(f"source {name!r}: has no transitions")


def _check_masks(data: OfflineDataset) -> None:
    """Every action must be allowed by its mask; a mask of zeros allows nothing in a running episode."""
    if not isinstance(data.observations, dict) or ACTION_MASK not in data.observations:
        return
    if not isinstance(data.action_space, spaces.Discrete):
        raise ValueError(f"observations/{ACTION_MASK}: masks Discrete actions, not {data.action_space}")
    masks = data.observations[ACTION_MASK]
    if masks.shape[1:] != (int(data.action_space.n),):
        raise ValueError(
            f"observations/{ACTION_MASK}: rows of shape {masks.shape[1:]} for {data.action_space.n} actions"
        )
    allowed = np.empty(len(data), dtype=np.bool_)
    for start, rows in chunks(masks):
        of_rows = data.actions[start : start + len(rows)]
        allowed[start : start + len(rows)] = rows[np.arange(len(rows)), of_rows] != 0
    require_all("actions", allowed, "allowed by their action mask", data.actions)
