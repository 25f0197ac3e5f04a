"""The growing arrays of a data set that is being recorded from a batch of environments."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.simulator import Observation
from sb3_greendc.datasets.arrays import episodes_in_order, mark_cut_episodes
from sb3_greendc.datasets.dataset import OfflineDataset
from sb3_greendc.datasets.salvage import valid_rows

_PIECE = 1 << 24


class Recorder:
    """The growing data set. Each environment of a policy fills a block of consecutive rows.

    :param size: transitions in all
    :param observation_space: of one observation
    :param action_space: of one action
    :param folder: where observations are kept instead of in memory
    """

    def __init__(
        self,
        size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        folder: Path | None,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._folder = folder
        self.observations = self._allocate(size)
        self.actions = np.zeros((size, *(action_space.shape or ())), dtype=action_space.dtype)
        self.rewards, self.costs = np.zeros(size), np.zeros(size)
        self.terminated, self.truncated = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        self.next_index = np.arange(1, size + 1)
        self.source_id = np.zeros(size, np.int64)
        self.labels: dict[str, NDArray[Any]] = {}
        self.recorded = np.zeros(size, np.bool_)
        """Transitions that are whole: what follows them is there, too."""
        self._finals: list[Observation] = []
        self._has_costs = False
        self._filled = 0
        self._rows = self._starts = self._ends = self._envs = np.zeros(0, np.int64)

    @property
    def running(self) -> bool:
        """Whether the present policy's share is not yet full."""
        return len(self._rows) > 0

    def begin(self, source: int, shares: list[int]) -> None:
        """Start a policy's environments, of which each will give so many transitions."""
        self._ends = self._filled + np.cumsum(shares)
        self._rows = self._starts = self._ends - shares
        self._envs = np.arange(len(shares))
        self.source_id[self._filled : self._ends[-1]] = source
        self._filled = int(self._ends[-1])

    def before(self, observations: Any, actions: NDArray[Any], labels: Mapping[str, NDArray[Any]]) -> None:
        """Keep what a step begins with."""
        rows, envs = self._rows, self._envs
        if isinstance(self.observations, dict):
            for key, array in self.observations.items():
                array[rows] = observations[key][envs]
        else:
            self.observations[rows] = observations[envs]
        self.recorded[rows[rows > self._starts[envs]] - 1] = True
        self.actions[rows] = actions[envs]
        for name, values in labels.items():
            if name not in self.labels:
                self.labels[name] = np.full((len(self.actions), *values.shape[1:]), np.nan, values.dtype)
            self.labels[name][rows] = values[envs]

    def after(
        self, observations: Any, rewards: NDArray[Any], dones: NDArray[Any], infos: list[dict[str, Any]]
    ) -> int:
        """Keep what a step ends with, and return how many transitions it gave."""
        rows, envs = self._rows, self._envs
        self.rewards[rows] = rewards[envs]
        self.costs[rows] = [infos[i].get("cost", 0.0) for i in envs]
        self._has_costs = self._has_costs or any("cost" in infos[i] for i in envs)
        last = rows + 1 == self._ends[envs]
        for j in np.flatnonzero(dones[envs] | last):
            i, row = int(envs[j]), int(rows[j])
            if dones[i]:
                truncated = bool(infos[i].get("TimeLimit.truncated", False))
                self.terminated[row], self.truncated[row] = not truncated, truncated
            final = infos[i]["terminal_observation"] if dones[i] else _row(observations, i)
            self.next_index[row] = len(self.actions) + len(self._finals)
            self._finals.append(final)
        self.recorded[rows[dones[envs] | last]] = True
        self._rows, self._envs = rows[~last] + 1, envs[~last]
        return len(rows)

    def finish(self, sources: list[str], metadata: Mapping[str, Any]) -> OfflineDataset:
        """Return the data set; of a recording that was stopped, what is there.

        Transitions that are not valid are left out, with a warning, and the episode is cut there.

        :raises ValueError: if nothing is there, or nothing that is valid
        """
        data = self._dataset(self.recorded, sources, metadata)
        try:
            return self._part(data, self.recorded)
        except ValueError as error:
            valid = valid_rows(data, self.recorded)
            kept, n = int(valid.sum()), int(self.recorded.sum())
            if kept in (0, n):
                raise
            warnings.warn(f"{error}; {n - kept:,} of {n:,} transitions are left out", stacklevel=2)
            return self._part(self._dataset(valid, sources, {**metadata, "left_out": n - kept}), valid)

    @staticmethod
    def _part(data: OfflineDataset, wanted: NDArray[np.bool_]) -> OfflineDataset:
        """Return these transitions, validated."""
        if not wanted.all():
            return data.select(np.flatnonzero(wanted))
        data.validate()
        return data

    def _dataset(
        self, wanted: NDArray[np.bool_], sources: list[str], metadata: Mapping[str, Any]
    ) -> OfflineDataset:
        """Return all rows, of which only those that are wanted need be valid."""
        before_a_gap = wanted & ~np.append(wanted[1:], True)
        episode_id = episodes_in_order((self.next_index >= len(self.actions)) | before_a_gap)
        finals = self._final_observations()
        cut = mark_cut_episodes(self.terminated, self.truncated, episode_id)
        return OfflineDataset(
            observation_space=self.observation_space,
            action_space=self.action_space,
            observations=self.observations,
            final_observations=finals,
            next_index=self.next_index,
            actions=self.actions,
            rewards=self.rewards,
            terminated=self.terminated,
            truncated=cut,
            episode_id=episode_id,
            source_id=self.source_id,
            sources=tuple(sources),
            costs=self.costs if self._has_costs else None,
            labels=self.labels,
            metadata=metadata,
            check=False,
        )

    def _final_observations(self) -> Observation:
        if isinstance(self.observations, dict):
            return {
                key: np.stack([final[key] for final in self._finals]) if self._finals else array[:0]
                for key, array in self.observations.items()
            }
        return np.stack(self._finals) if self._finals else self.observations[:0]  # type: ignore[arg-type]

    def _allocate(self, size: int) -> Observation:
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return {key: self._array(size, part) for key, part in space.spaces.items()}
        return self._array(size, space)

    def _array(self, size: int, space: spaces.Space[Any]) -> NDArray[Any]:
        shape, dtype = (size, *(space.shape or ())), np.dtype(cast("Any", space.dtype))
        if self._folder is None:
            return np.zeros(shape, dtype)
        self._folder.mkdir(parents=True, exist_ok=True)
        # A file without a name: it lasts as long as the array. Its room is taken now: to write into a mapped
        # file that the disk has no room for ends the process.
        with tempfile.TemporaryFile(dir=self._folder) as file:
            size_in_bytes = dtype.itemsize * math.prod(shape)
            try:
                _take_room(file, size_in_bytes)
            except OSError as error:
                reason = f"no room for {size_in_bytes:,} bytes: {error.strerror or error}"
                raise OSError(f"{self._folder}: {reason}") from error
            mapped: NDArray[Any] = np.memmap(file, dtype, "w+", shape=shape)
        return mapped


def _take_room(file: IO[bytes], size: int) -> None:
    """Give a file its blocks on the disk.

    :raises OSError: if the disk has no room for them
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, _PIECE):
        file.write(bytes(min(_PIECE, size - start)))
    file.flush()


def _row(observations: Any, index: int) -> Observation:
    if isinstance(observations, dict):
        return {key: array[index].copy() for key, array in observations.items()}
    one: NDArray[Any] = observations[index].copy()
    return one
