"""Whole episodes out of a data set, and data sets out of whole episodes: what all conversions share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from greendc.simulator import Observation
from sb3_greendc.datasets.dataset import OfflineDataset
from sb3_greendc.datasets.validation import parts, successors

_Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Episode:
    """The transitions of one episode.

    :param observations: ``(T + 1, ...)`` or a dict of such, the last one included
    :param rows: ``(T,)`` rows of the data set
    """

    observations: Observation
    rows: NDArray[np.int64]


def episodes(data: OfflineDataset) -> Iterator[Episode]:
    """Yield the episodes in the order in which they begin.

    :raises ValueError: if the transitions of an episode do not follow from one another, as in data that were
        shuffled
    """
    broken = broken_after(data)
    if broken.any():
        row = int(broken.argmax())
        raise ValueError(
            f"{int(broken.sum()):,} transitions are not followed by the next one of their episode; the first "
            f"is row {row}: only whole episodes, in order, can be converted"
        )
    order = np.argsort(data.episode_id, kind="stable")
    ends = np.flatnonzero(successors(data.episode_id)[order] < 0) + 1
    runs = np.split(order, ends[:-1])
    for rows in sorted(runs, key=lambda run: int(run[0])):
        batch = data.batch(rows, ["observations"])["observations"]
        last = data.batch(rows[-1:], ["next_observations"])["next_observations"]
        yield Episode(_append(batch, last), rows)


def broken_after(data: OfflineDataset) -> NDArray[np.bool_]:
    """Tell ``(N,)`` after which transitions the next one of their episode in the data does not come next."""
    following = successors(data.episode_id)
    broken: NDArray[np.bool_] = (following >= 0) & (data.next_index != following)
    return broken


def join_episodes(
    observations: Sequence[Observation], columns: Mapping[str, Sequence[NDArray[Any]]], kind: str = "episode"
) -> dict[str, Any]:
    """Return the arrays that ``OfflineDataset.from_dict`` takes.

    :param observations: of each episode ``(T + 1, ...)``
    :param columns: of each episode ``(T, ...)``, by the names of arrays
    :param kind: what errors call an episode
    :raises ValueError: names the episode whose arrays have other names or shapes than those of the first
    """
    shapes = [
        {name: np.shape(array)[1:] for name, array in parts(episode, "observations").items()}
        | {name: np.shape(arrays[number])[1:] for name, arrays in columns.items()}
        for number, episode in enumerate(observations)
    ]
    for number, found in enumerate(shapes):
        _require_shapes(f"{kind} {number}", found, shapes[0])
    lengths = [len(episode) for episode in columns["actions"]]
    data: dict[str, Any] = {name: np.concatenate(list(arrays)) for name, arrays in columns.items()}
    data["episode_id"] = np.repeat(np.arange(len(lengths)), lengths)
    if isinstance(observations[0], dict):
        for key in observations[0]:
            of_key = [np.asarray(episode[key]) for episode in observations]
            data[f"obs/{key}"], data[f"next_obs/{key}"] = _split(of_key)
    else:
        data["obs"], data["next_obs"] = _split([np.asarray(episode) for episode in observations])
    return data


def _require_shapes(episode: str, shapes: _Shapes, wanted: _Shapes) -> None:
    if shapes.keys() != wanted.keys():
        raise ValueError(f"{episode}: has {', '.join(shapes)}; the first has {', '.join(wanted)}")
    for name, shape in shapes.items():
        if shape != wanted[name]:
            raise ValueError(f"{episode}: {name} with rows of shape {shape}; the first has {wanted[name]}")


def _split(arrays: list[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.concatenate([one[:-1] for one in arrays]), np.concatenate([one[1:] for one in arrays])


def _append(observations: Observation, last: Observation) -> Observation:
    if isinstance(observations, dict):
        assert isinstance(last, dict)
        return {key: np.concatenate([array, last[key]]) for key, array in observations.items()}
    return np.concatenate([observations, last])
