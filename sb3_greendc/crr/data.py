"""The data of a run: where they come from, how batches are drawn, and what their returns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer

from greendc.config import nearest
from sb3_greendc.crr.action_scale import has_scaled_actions
from sb3_greendc.crr.batches import Batch
from sb3_greendc.datasets import OfflineDataset, from_minari, from_replay_buffer, from_trajectories
from sb3_greendc.datasets.episodes import broken_after
from sb3_greendc.datasets.images import space_as_recorded

CHUNK = 8
"""Batches that are drawn and gathered at once."""
_USED = ("observations", "next_observations", "actions", "rewards", "terminated")
PROBE = 256
"""Transitions of each source that diagnostics look at."""
NEGLIGIBLE = 0.1
"""A return that was cut counts as known where the discount of what is missing is below this."""


def as_dataset(
    source: Any,
    observation_space: spaces.Space[Any] | None = None,
    action_space: spaces.Space[Any] | None = None,
) -> OfflineDataset:
    """Return data of any kind that :meth:`CRR.set_dataset` takes as an ``OfflineDataset``.

    :param source: see there
    :param observation_space: for kinds that do not say their spaces
    :param action_space: for kinds that do not say their spaces
    :raises ValueError: if the data make no sense
    :raises TypeError: for anything else
    """
    if isinstance(source, OfflineDataset):
        return source
    if isinstance(source, str | Path):
        return OfflineDataset.load(source)
    if isinstance(source, Mapping):
        return OfflineDataset.from_dict(source, space_as_recorded(observation_space, source), action_space)
    if isinstance(source, ReplayBuffer):
        return from_replay_buffer(source, scaled_actions=has_scaled_actions(source))
    if hasattr(source, "iterate_episodes"):
        return from_minari(source)
    if isinstance(source, Sequence) and source and all(hasattr(item, "acts") for item in source):
        return from_trajectories(source, space_as_recorded(observation_space, source), action_space)
    raise TypeError(
        f"dataset of type {type(source).__name__}: must be an OfflineDataset, a path, a dict of arrays, "
        "a replay buffer, a sequence of trajectories, or a Minari data set"
    )


def check_same_spaces(
    data: OfflineDataset, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> None:
    """Raise a ``ValueError`` that names the first difference, unless the data have the model's spaces."""
    theirs, ours = data.observation_space, observation_space
    if isinstance(theirs, spaces.Dict) and isinstance(ours, spaces.Dict):
        for key in sorted({*theirs.spaces, *ours.spaces}):
            a, b = theirs.spaces.get(key), ours.spaces.get(key)
            if a != b:
                raise ValueError(f"dataset: observation key {key!r} is {a}, the model's is {b}")
    elif theirs != ours:
        raise ValueError(f"dataset: its observation space is {theirs}, the model's is {ours}")
    if data.action_space != action_space:
        raise ValueError(f"dataset: its action space is {data.action_space}, the model's is {action_space}")


class Returns(NamedTuple):
    """Discounted returns-to-go of every transition, in the order of the data.

    :param values: ``(N,)``, not scaled
    :param known: ``(N,)``, whether the episode went on to its termination, or long enough that what was cut
        off, or left out, no longer counts
    :param starts: rows of the transitions that begin an episode
    """

    values: NDArray[np.float64]
    known: NDArray[np.bool_]
    starts: NDArray[np.int64]


def returns_to_go(
    rewards: NDArray[Any],
    terminated: NDArray[Any],
    episode_id: NDArray[Any],
    gamma: float,
    broken: NDArray[np.bool_] | None = None,
) -> Returns:
    """Return the discounted sum of the rewards from each transition to the end of its episode.

    The transitions of an episode must be in order; those of several may be interleaved.

    :param rewards: ``(N,)``
    :param terminated: ``(N,)``
    :param episode_id: ``(N,)``
    :param gamma: discount
    :param broken: ``(N,)``, after which transitions others were left out; ``None``: after none
    """
    order = np.argsort(episode_id, kind="stable")
    ids = np.asarray(episode_id)[order]
    n = len(ids)
    ends = np.flatnonzero(np.append(ids[1:] != ids[:-1], True))
    lengths = np.diff(ends, prepend=-1)
    end_of = np.repeat(ends, lengths)
    left = end_of - np.arange(n)
    values = np.asarray(rewards, dtype=np.float64)[order]
    # All transitions with one more step to go follow from those with one less.
    by_left = np.argsort(left, kind="stable")
    bounds = np.searchsorted(left[by_left], np.arange(1, int(left.max()) + 2))
    for first, last in pairwise(bounds):
        rows = by_left[first:last]
        values[rows] += gamma * values[rows + 1]
    whole = np.asarray(terminated, dtype=bool)[order][end_of]
    if broken is not None:
        gaps = np.where(broken[order], np.arange(n), n)
        next_gap = np.minimum.accumulate(gaps[::-1])[::-1]
        whole &= next_gap > end_of
        left = np.minimum(next_gap, end_of) - np.arange(n)
    known = whole | (gamma ** (left + 1.0) < NEGLIGIBLE)
    back = np.empty(n, dtype=np.int64)
    back[order] = np.arange(n)
    return Returns(values[back], known[back], order[ends - lengths + 1])


class SourceSampler:
    """Draws transitions so that every source has its share, however many transitions it has.

    :param source_id: ``(N,)``, the source of every transition
    :param sources: their names
    :param weights: by name or in order, proportional to the shares; ``None``: equal
    :raises ValueError: for an empty source, an unknown name, or weights that are no shares
    """

    def __init__(
        self,
        source_id: NDArray[Any],
        sources: Sequence[str],
        weights: Mapping[str, float] | Sequence[float] | None = None,
    ) -> None:
        counts = np.bincount(source_id, minlength=len(sources))
        for name, count in zip(sources, counts, strict=True):
            if count == 0:
                raise ValueError(f"dataset: source {name!r} has no transitions")
        shares = self.shares = _shares(sources, weights)
        self.rows = np.argsort(source_id, kind="stable")
        self.counts = counts
        self.offsets = np.cumsum(counts) - counts
        self.bounds = np.cumsum(shares / shares.sum())
        self.bounds[-1] = 1.0

    def draw(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return ``n`` rows, with replacement."""
        uniform = generator.random((2, n))
        source = np.searchsorted(self.bounds, uniform[0], side="right")
        rows: NDArray[np.int64] = self.rows[
            self.offsets[source] + (uniform[1] * self.counts[source]).astype(np.int64)
        ]
        return rows


def _shares(
    sources: Sequence[str], weights: Mapping[str, float] | Sequence[float] | None
) -> NDArray[np.float64]:
    if weights is None:
        return np.ones(len(sources))
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in sources:
                raise ValueError(
                    f"source_weights: the data have no source {name!r}{nearest(name, sources)} "
                    f"(sources: {', '.join(sources)})"
                )
        weights = [weights.get(name, 0.0) for name in sources]
    try:
        shares = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"source_weights={weights!r}: must be numbers") from None
    if shares.shape != (len(sources),):
        raise ValueError(f"source_weights={weights!r}: must be {len(sources)} numbers, one for each source")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        raise ValueError(f"source_weights={shares.tolist()}: must be finite, at least 0, and not all 0")
    return shares


class TrainingData:
    """A data set as a model uses it.

    :param dataset: the data
    :param gamma: discount of the returns
    :param source_weights: shares of the sources
    :param device: where batches go
    :raises ValueError: if there are no transitions, or the sources make no sense
    """

    def __init__(
        self,
        dataset: OfflineDataset,
        gamma: float,
        source_weights: Mapping[str, float] | Sequence[float] | None,
        device: th.device,
    ) -> None:
        if len(dataset) == 0:
            raise ValueError("dataset: holds no transitions")
        self.dataset = dataset
        self.gamma = gamma
        self.device = device
        source_id = np.asarray(dataset.source_id)
        self.sampler = SourceSampler(source_id, dataset.sources, source_weights)
        self.broken = broken_after(dataset)
        self.returns = returns_to_go(
            dataset.rewards, dataset.terminated, dataset.episode_id, gamma, self.broken
        )
        discrete = isinstance(dataset.action_space, spaces.Discrete)
        self.actions_seen = np.unique(dataset.actions) if discrete else np.empty(0, dtype=np.int64)
        self.greatest_reward = float(np.abs(dataset.rewards).max())
        probes = [_evenly(np.flatnonzero(source_id == i), PROBE) for i in range(len(dataset.sources))]
        self.probe_rows = np.concatenate(probes)
        self.probe_source = source_id[self.probe_rows]
        self.start_rows = _evenly(self.returns.starts, PROBE)

    def follows(self, gamma: float, source_weights: Mapping[str, float] | Sequence[float] | None) -> bool:
        """Tell whether the data are used with this discount and these shares of the sources.

        :raises ValueError: for an unknown name, or weights that are no shares
        """
        shares = _shares(self.dataset.sources, source_weights)
        return self.gamma == gamma and np.array_equal(self.sampler.shares, shares)

    def natural_scale(self) -> float:
        """Return one over the standard deviation of the returns-to-go; 1 where they are all the same."""
        std = float(self.returns.values.std())
        return 1.0 / std if std > 1e-8 else 1.0

    def says_nothing(self) -> bool:
        """Tell whether all actions are worth the same: all rewards are equal, and no episode terminates."""
        return not np.any(self.dataset.terminated) and float(np.ptp(self.dataset.rewards)) == 0.0

    def batch(self, rows: NDArray[np.int64], scale: float = 1.0) -> Batch:
        """Return the transitions of these rows, on the device.

        :param rows: any number, in any order
        :param scale: factor on the rewards
        """
        arrays = self.dataset.batch(rows, _USED)
        discounts = self.gamma * (1.0 - arrays["terminated"])
        return Batch(
            self._tensors(arrays["observations"]),
            self._tensor(arrays["actions"]),
            self._tensors(arrays["next_observations"]),
            self._tensor((arrays["rewards"] * scale).astype(np.float32)),
            self._tensor(discounts.astype(np.float32)),
        )

    def _tensors(self, arrays: Any) -> Any:
        if isinstance(arrays, Mapping):
            return {key: self._tensor(array) for key, array in arrays.items()}
        return self._tensor(arrays)

    def _tensor(self, array: NDArray[Any]) -> th.Tensor:
        return th.from_numpy(array).to(self.device)


def stream_seed_of(seed: int | None) -> int:
    """Return the seed of a run's batches and draws; a new one at each call without a seed."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


class BatchStream:
    """The batches of a run: that of update ``i`` follows from the run's seed and ``i`` alone.

    So there is no state to save: a run that is continued draws what it would have drawn. Several batches are
    gathered at once, since a batch alone costs more calls than copies.

    :param data: the data
    :param stream_seed: of the run
    :param n: transitions a batch
    :param scale: factor on the rewards
    """

    def __init__(self, data: TrainingData, stream_seed: int, n: int, scale: float) -> None:
        self.data = data
        self.stream_seed = stream_seed
        self.n = n
        self.scale = scale
        self._chunk = -1
        self._rows: Batch | None = None

    def batch(self, update: int) -> Batch:
        """Return the transitions of an update.

        :param update: its number, from 0
        """
        chunk, place = divmod(update, CHUNK)
        if chunk != self._chunk or self._rows is None:
            generator = np.random.default_rng((self.stream_seed, chunk))
            rows = self.data.sampler.draw(CHUNK * self.n, generator)
            self._chunk, self._rows = chunk, self.data.batch(rows, self.scale)
        return self._rows.part(slice(place * self.n, (place + 1) * self.n))


def _evenly(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return at most ``n`` of the rows, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(n, len(rows))).astype(np.int64)]
