"""Chance, in any environment: the floor of every comparison."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.baselines.policy import draws_of
from greendc.config import require
from sb3_greendc.core.masking import ACTION_MASK


@dataclass
class Uniform:
    """Each valid action with the same probability; of other spaces, what ``space.sample()`` draws.

    :param action_space: ``Discrete``, ``MultiDiscrete`` and ``MultiBinary`` obey masks; a bounded ``Box`` is
        drawn evenly
    :param seed: fixes the actions
    """

    action_space: spaces.Space[Any]
    seed: int = 0
    rng: np.random.Generator = field(init=False, repr=False, compare=False)
    _space: spaces.Space[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require(isinstance(self.seed, int) and self.seed >= 0, "seed", self.seed, "a whole number from 0")
        self._space = deepcopy(self.action_space)
        self.begin_at(0)

    def begin_at(self, episode: int) -> None:
        """See :class:`~greendc.baselines.policy.BaselinePolicy`."""
        self.rng = draws_of(self.seed, episode)
        self._space.seed(self.seed if episode == 0 else int(self.rng.integers(2**31)))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], Any]:
        """Draw an action for each observation of a batch.

        :param observation: ``(n, ...)``, or a dict of such; masks in it, as ``action_mask``, are obeyed
        :param state: returned as it came
        :param episode_start: makes no difference
        :param deterministic: makes no difference
        :param action_masks: ``(n, choices)``, in the form of sb3-contrib
        """
        rows = len(next(iter(observation.values())) if isinstance(observation, Mapping) else observation)
        if action_masks is None and isinstance(observation, Mapping):
            action_masks = observation.get(ACTION_MASK)
        space = self._space
        if isinstance(space, spaces.Discrete):
            return self._choices(rows, [int(space.n)], action_masks)[:, 0] + space.start, state
        if isinstance(space, spaces.MultiDiscrete):
            sizes = list(map(int, space.nvec.flat))
            return self._choices(rows, sizes, action_masks).reshape(rows, *space.shape), state
        if isinstance(space, spaces.MultiBinary):
            sizes = [2] * int(np.prod(space.shape))
            return self._choices(rows, sizes, action_masks).reshape(rows, *space.shape), state
        if isinstance(space, spaces.Box) and space.is_bounded():
            drawn = self.rng.uniform(space.low, space.high, (rows, *space.shape))
            return drawn.astype(space.dtype), state
        return np.stack([space.sample() for _ in range(rows)]), state

    def _choices(self, rows: int, sizes: list[int], masks: NDArray[Any] | None) -> NDArray[np.int64]:
        """Return ``(rows, len(sizes))`` numbers of valid choices, one of each part of the masks."""
        masks = np.ones((rows, sum(sizes))) if masks is None else np.asarray(masks)
        drawn = self.rng.random(masks.shape) * (masks != 0)
        parts = np.split(drawn, np.cumsum(sizes)[:-1], axis=1)
        return np.stack([part.argmax(axis=1) for part in parts], axis=1)
