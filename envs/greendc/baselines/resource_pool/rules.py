"""The orders of the papers' heuristics, and of some stronger ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import draws_of
from greendc.baselines.resource_pool.policy import Heuristic
from greendc.config import require
from greendc.resource_pool import ResourcePoolSimulator, orders


class ShortestJobFirst(Heuristic):
    """``sjf``: the shortest remaining run time first (that is the duration, unless it was suspended)."""

    order = orders.SJF


class HighestQosFirst(Heuristic):
    """``qos``: the highest QoS value first."""

    order = orders.QOS


class HighestValueFirst(Heuristic):
    """``hvf``: the highest job value first."""

    order = orders.HVF


class FirstComeFirstServed(Heuristic):
    """``fcfs``: the earliest arrival first."""

    order = orders.FCFS


class RandomOrder(Heuristic):
    """``random``: a new random order at each decision.

    :param seed: fixes the orders
    :raises ValueError: for a negative seed, or as of :class:`Heuristic`
    """

    order = orders.RANDOM

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        dispatch: str = "skip",
        scope: str = "ready",
        seed: int = 0,
        suspend: bool = False,
    ) -> None:
        super().__init__(simulator, dispatch, scope, suspend)
        require(seed >= 0, "seed", seed, "at least 0")
        self.seed = seed
        self.begin_at(0)

    def begin_at(self, episode: int) -> None:
        """See :class:`~greendc.baselines.policy.BaselinePolicy`."""
        self._generator = draws_of(self.seed, episode)

    def _draws(self, rows: int, jobs: int) -> NDArray[np.float64]:
        return self._generator.random((rows, jobs))


class EarliestDeadlineFirst(Heuristic):
    """``edf``: the earliest latest finish first (CoCoRL, section V-B, says its QoS policy behaves so)."""

    order = orders.EDF


class DensestFirst(Heuristic):
    """``density``: the highest value per step and share of the busiest resource type first.

    That is ``value / (duration * max_k units_k / M_k)``; value per unit-step would be the QoS value again.
    """

    order = orders.DENSITY


class DeadlineLast(Heuristic):
    """``deadline_last``: the highest QoS value first; jobs that would be late only when no other will do."""

    order = orders.QOS
    late_rule = orders.LATE_LAST


class DeadlineNever(Heuristic):
    """``deadline_never``: the highest QoS value first, and jobs that would be late not at all."""

    order = orders.QOS
    late_rule = orders.LATE_NEVER
