"""Several data sets as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.config import require_class
from sb3_greendc.datasets.dataset import OfflineDataset, require_data

_PLAIN = ("actions", "rewards", "terminated", "truncated")


def concatenate(datasets: Sequence[OfflineDataset]) -> OfflineDataset:
    """Return the transitions of several data sets, one after the other, each with its own episodes.

    Metadata are those on which all agree, keyword arguments of the environment one by one. Sources of one
    name are one source.

    :param datasets: with the same spaces and the same labels, all with costs or all without
    :raises TypeError: for something else than a sequence of data sets
    :raises ValueError: if there is none, or one does not fit the first
    """
    require_class("datasets", datasets, (Sequence,), "a sequence of data sets")
    for k, data in enumerate(datasets):
        require_data(f"datasets[{k}]", data)
    if not datasets:
        raise ValueError("datasets: there is none")
    first = datasets[0]
    for k, other in enumerate(datasets):
        for what in ("observation_space", "action_space"):
            if getattr(other, what) != getattr(first, what):
                raise ValueError(f"datasets[{k}]: its {what} is not that of the first")
        if sorted(other.labels) != sorted(first.labels):
            raise ValueError(
                f"datasets[{k}]: has the labels {sorted(other.labels)}; must be {sorted(first.labels)}"
            )
        for name, label in other.labels.items():
            shape, wanted = label.shape[1:], first.labels[name].shape[1:]
            if shape != wanted:
                raise ValueError(
                    f"datasets[{k}]: label {name!r} with rows of shape {shape}; must be {wanted}"
                )
        if (other.costs is None) != (first.costs is None):
            raise ValueError(f"datasets[{k}]: either all have costs, or none")
    sources = tuple(dict.fromkeys(name for data in datasets for name in data.sources))
    lasts = [_length(data.final_observations) for data in datasets]
    rows = np.cumsum([0, *map(len, datasets)])
    finals = rows[-1] + np.cumsum([0, *lasts])
    following, episodes, acted = [], [], []
    n_episodes = 0
    for k, data in enumerate(datasets):
        here = data.next_index < len(data)
        following.append(data.next_index + np.where(here, rows[k], finals[k] - len(data)))
        _, numbered = np.unique(data.episode_id, return_inverse=True)
        episodes.append(numbered + n_episodes)
        n_episodes += int(numbered.max(initial=-1)) + 1
        acted.append(np.array([sources.index(name) for name in data.sources], np.int64)[data.source_id])
    return OfflineDataset(
        observation_space=first.observation_space,
        action_space=first.action_space,
        observations=_join([data.observations for data in datasets]),
        final_observations=_join([data.final_observations for data in datasets]),
        next_index=np.concatenate(following),
        **{name: np.concatenate([getattr(data, name) for data in datasets]) for name in _PLAIN},
        episode_id=np.concatenate(episodes),
        source_id=np.concatenate(acted),
        sources=sources,
        costs=None if first.costs is None else np.concatenate([data.costs for data in datasets]),
        labels={name: np.concatenate([data.labels[name] for data in datasets]) for name in first.labels},
        metadata=_common([data.metadata for data in datasets]),
        check=False,
    )


def _length(observations: Any) -> int:
    return len(next(iter(observations.values())) if isinstance(observations, Mapping) else observations)


def _join(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], Mapping):
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    joined: NDArray[Any] = np.concatenate(list(parts))
    return joined


def _common(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that all have in common; of nested ones, what these have in common."""
    found: dict[str, Any] = {}
    for key, value in parts[0].items():
        values = [part.get(key) for part in parts]
        if all(isinstance(one, Mapping) for one in values):
            found[key] = _common(values)  # type: ignore[arg-type]
        elif all(key in part and part[key] == value for part in parts):
            found[key] = value
    return found
