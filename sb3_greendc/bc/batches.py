"""Batches for imitation's trainers, gathered whole.

Given transitions, imitation has torch's ``DataLoader`` pick them one by one and stack them, which for
``Dict`` observations takes longer than the update itself. It takes any iterable of ready batches instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_greendc.datasets import OfflineDataset


class Batches:
    """One pass over some transitions in random order, a new one at each iteration over it.

    The last rows that fill no whole batch wait for another pass.

    :param data: the data set
    :param rows: ``(n,)`` which transitions
    :param batch_size: transitions in a batch
    :param rng: source of randomness
    :raises ValueError: if there are fewer rows than a batch holds
    """

    def __init__(
        self, data: OfflineDataset, rows: NDArray[np.int64], batch_size: int, rng: np.random.Generator
    ) -> None:
        if not 1 <= batch_size <= len(rows):
            raise ValueError(
                f"batch_size={batch_size}: must be between 1 and {len(rows):,}, the transitions to train on"
            )
        self.data, self.rows, self.batch_size, self.rng = data, rows, batch_size, rng

    def __len__(self) -> int:
        return len(self.rows) // self.batch_size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from imitation.data.types import maybe_wrap_in_dictobs

        shuffled = self.rng.permutation(self.rows)
        for k in range(len(self)):
            batch = self.data.batch(
                shuffled[k * self.batch_size : (k + 1) * self.batch_size], ["observations", "actions"]
            )
            yield {"obs": maybe_wrap_in_dictobs(batch["observations"]), "acts": batch["actions"]}


def split_episodes(
    data: OfflineDataset, fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on and those to validate with: whole episodes, from every source that has two.

    :param data: the data set
    :param fraction: share of each source's episodes to validate with, rounded up; 0 for none
    :param rng: source of randomness
    :raises ValueError: if no source has two episodes
    """
    everything = np.arange(len(data))
    if fraction == 0.0:
        return everything, everything[:0]
    held_out: list[NDArray[np.int64]] = []
    for source in range(len(data.sources)):
        episodes = np.unique(data.episode_id[data.source_id == source])
        n = min(int(np.ceil(fraction * len(episodes))), len(episodes) - 1)
        held_out.append(rng.permutation(episodes)[:n])
    validation = np.isin(data.episode_id, np.concatenate(held_out))
    if not validation.any():
        raise ValueError(
            f"validation_fraction={fraction}: no source has two episodes, one of which could be held out; "
            "0 trains without validation"
        )
    return everything[~validation], everything[validation]
