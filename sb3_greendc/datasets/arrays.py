"""From plain arrays to the parts of a data set: names, dtypes, episodes, and observations stored once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.config import nearest
from greendc.simulator import Observation
from sb3_greendc.datasets.spaces import (
    chunks,
    fit_to_space,
    guess_action_space,
    guess_observation_space,
)
from sb3_greendc.datasets.validation import (
    check_action_space,
    check_observation_space,
    part_spaces,
    parts,
    require_all,
    successors,
)

REQUIRED = ("actions", "rewards", "terminated", "truncated")
OPTIONAL = ("costs", "source_id", "episode_id")


def dataset_arguments(
    data: Mapping[str, Any],
    observation_space: spaces.Space[Any] | None,
    action_space: spaces.Space[Any] | None,
    sources: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the constructor arguments of a data set; see ``OfflineDataset.from_dict``.

    :raises ValueError: for a missing or unknown array, one that does not fit, or a space of another kind
    """
    if observation_space is not None:
        check_observation_space(observation_space)
    if action_space is not None:
        check_action_space(action_space)
    _check_names(data)
    observations, following = observations_of(data, "obs"), observations_of(data, "next_obs")
    actions = np.asarray(data["actions"])
    n = len(actions)
    if n == 0:
        raise ValueError("the data set holds no transitions")
    observation_space = observation_space or guess_observation_space(observations)
    action_space = action_space or guess_action_space(actions, observations)
    observations = fit_observations("obs", observations, observation_space)
    following = fit_observations("next_obs", following, observation_space)
    for name, array in {**parts(observations, "obs"), **parts(following, "next_obs")}.items():
        if len(array) != n:
            raise ValueError(f"{name}: {len(array):,} rows, but there are {n:,} actions")
    terminated, truncated = (flags(name, data[name], n) for name in ("terminated", "truncated"))
    episode_id = _integers("episode_id", data["episode_id"], n) if "episode_id" in data else None
    source_id = _integers("source_id", data.get("source_id", np.zeros(n, np.int64)), n)
    if episode_id is None:
        episode_id = episodes_in_order(terminated | truncated)
    truncated = mark_cut_episodes(terminated, truncated, episode_id)
    next_index, finals = share_observations(observations, following, episode_id)
    count = int(source_id.max(initial=-1)) + 1
    return {
        "observation_space": observation_space,
        "action_space": action_space,
        "observations": observations,
        "final_observations": finals,
        "next_index": next_index,
        "actions": fit_to_space("actions", actions, action_space),
        "rewards": _floats("rewards", data["rewards"], n),
        "terminated": terminated,
        "truncated": truncated,
        "episode_id": episode_id,
        "source_id": source_id,
        "sources": tuple(sources) if sources is not None else tuple(f"source_{i}" for i in range(count)),
        "costs": _floats("costs", data["costs"], n) if "costs" in data else None,
    }


def check_shapes(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check names and lengths of the arrays of a data set before they are read.

    :param shapes: of each array, by its name as :func:`dataset_arguments` takes it
    :raises ValueError: for a missing or unknown array, or one with another number of rows
    """
    _check_names(shapes)
    check_lengths(shapes)


def check_lengths(shapes: Mapping[str, tuple[int, ...]], free: str | None = None) -> None:
    """Raise a ``ValueError`` for an array that has another number of rows than there are actions.

    :param shapes: of each array
    :param free: what the names of arrays of any length begin with
    """
    n = shapes["actions"][:1]
    for name, shape in shapes.items():
        if not shape:
            raise ValueError(f"{name}: a single value; must have a row for each action")
        if shape[:1] != n and (free is None or not name.startswith(free)):
            raise ValueError(f"{name}: {shape[0]:,} rows, but there are {n[0] if n else 0:,} actions")


def fit_observations(name: str, observations: Observation, space: spaces.Space[Any]) -> Observation:
    """Return observations in the dtypes of their space.

    :raises ValueError: names the part that does not fit
    """
    wanted, found = part_spaces(space, name), parts(observations, name)
    if wanted.keys() != found.keys():
        raise ValueError(
            f"{name}: the data have {', '.join(sorted(found))}; "
            f"the space asks for {', '.join(sorted(wanted))}"
        )
    fitted = {part: fit_to_space(part, found[part], wanted[part]) for part in wanted}
    if isinstance(observations, dict):
        return {part.removeprefix(f"{name}/"): array for part, array in fitted.items()}
    return fitted[name]


def episodes_in_order(ended: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the episode of each row, where rows are in order and ``ended`` marks the last of each."""
    episode_id: NDArray[np.int64] = np.concatenate([[0], np.cumsum(ended[:-1])]).astype(np.int64)
    return episode_id


def mark_cut_episodes(
    terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], episode_id: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return ``truncated`` with the last transition of each episode that does not end marked too."""
    cut = (successors(episode_id) < 0) & ~terminated & ~truncated
    return truncated | cut if cut.any() else truncated


def share_observations(
    observations: Observation, following: Observation, episode_id: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Observation]:
    """Return where each next observation is, and those that are none of the observations.

    :param observations: ``(N, ...)``
    :param following: the next observations, in the same form
    :param episode_id: ``(N,)``
    """
    next_row = successors(episode_id)
    shared = next_row >= 0
    ours = parts(observations, "")
    for name, array in parts(following, "").items():
        for start, rows in chunks(array):
            window = slice(start, start + len(rows))
            candidates = np.where(shared[window], next_row[window], 0)
            equal = (ours[name][candidates] == rows).reshape(len(rows), -1).all(axis=1)
            shared[window] &= equal
    next_index = np.where(shared, next_row, 0)
    alone = np.flatnonzero(~shared)
    next_index[alone] = len(next_row) + np.arange(len(alone))
    if isinstance(following, dict):
        return next_index, {key: array[alone] for key, array in following.items()}
    return next_index, following[alone]


def _check_names(data: Mapping[str, Any]) -> None:
    known = (*REQUIRED, *OPTIONAL, "obs", "next_obs")
    for name in data:
        if name not in known and not name.startswith(("obs/", "next_obs/")):
            raise ValueError(f"unknown array {name!r}{nearest(name, known)} (known: {', '.join(known)})")
    for name in REQUIRED:
        if name not in data:
            why = ": only terminated episodes have no value to come" if name == "truncated" else ""
            raise ValueError(f"no array {name!r}{why} (needed: {', '.join(REQUIRED)}, obs, next_obs)")


def observations_of(data: Mapping[str, Any], name: str) -> Observation:
    """Return ``name`` as one array or a dict of arrays, whichever of the forms the data have it in.

    :raises ValueError: if it is missing, or there in two forms
    """
    prefix = f"{name}/"
    by_key = {key.removeprefix(prefix): np.asarray(data[key]) for key in data if key.startswith(prefix)}
    if name in data:
        if by_key:
            raise ValueError(f"{name} and {prefix}{next(iter(by_key))}: give one of the two forms")
        whole = data[name]
        if isinstance(whole, Mapping):
            return {key: np.asarray(array) for key, array in whole.items()}
        return np.asarray(whole)
    if not by_key:
        raise ValueError(f"the data have no array {name!r}, nor {prefix}KEY")
    return by_key


def flags(name: str, values: Any, n: int) -> NDArray[np.bool_]:
    """Return ``n`` flags.

    :param name: what errors call them
    :param values: ``(n,)`` or ``(n, 1)`` of 0, 1, false or true
    :raises ValueError: for other values, or another shape
    """
    array = _column(name, values, n)
    if array.dtype != np.bool_:
        require_all(name, (array == 0) | (array == 1), "true or false", array)
    return array.astype(np.bool_)


def _integers(name: str, values: Any, n: int) -> NDArray[np.int64]:
    array = _column(name, values, n)
    if array.dtype.kind not in "biu":
        raise ValueError(f"{name}: of dtype {array.dtype}; must be whole numbers")
    return array.astype(np.int64)


def _floats(name: str, values: Any, n: int) -> NDArray[np.float64]:
    array = _column(name, values, n)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: of dtype {array.dtype}; must be numbers")
    return array.astype(np.float64)


def _column(name: str, values: Any, n: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise ValueError(f"{name}: of shape {array.shape}; must be ({n},), one for each action")
    return array
