"""Heuristics of the cluster: they take the waiting job that is first in some order; and chance."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.cluster.kernel_policy import choose_visible
from greendc.baselines.policy import BaselinePolicy, draws_of
from greendc.cluster.simulator import ClusterSimulator
from greendc.compiled import EntryPoint
from greendc.config import require
from greendc.simulator import Observation


def require_cluster(simulator: object) -> ClusterSimulator:
    """Return the simulator if it is one of this family.

    :raises TypeError: for anything else
    """
    if not isinstance(simulator, ClusterSimulator):
        raise TypeError(f"simulator: must be a ClusterSimulator, not {type(simulator).__name__}")
    return simulator


class Heuristic(BaselinePolicy[ClusterSimulator]):
    """Takes the visible job that is first by a rule (:data:`greendc.cluster.rules.RULES`).

    Who overtakes a job that cannot start is up to the environment (``backfill``). For the whole queue at the
    speed of compiled code see :meth:`~greendc.cluster.simulator.ClusterSimulator.play`.

    :param simulator: the simulator to act on
    :param fitting: jobs that can start now come first
    :param predicted: run times are expected from the user's jobs so far, not requested ones
        (:mod:`greendc.cluster.kernel_groups`)
    :raises TypeError: for the simulator of another family
    """

    rule: ClassVar[str]
    reads_state = True

    def __init__(self, simulator: ClusterSimulator, fitting: bool = False, predicted: bool = False) -> None:
        super().__init__(require_cluster(simulator))
        self._rule = simulator.rule(self.rule, fitting, predicted)
        self._choose = EntryPoint(choose_visible)

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the actions for a batch; see :class:`~greendc.baselines.policy.BaselinePolicy`.

        :raises RuntimeError: if an episode has not begun
        """
        for i in range(self.simulator.num_envs):
            self.simulator.in_episode(i)
        actions = np.zeros(self.simulator.num_envs, np.int64)
        self._choose(actions, self._rule, self.simulator.world, self.simulator.state)
        return actions


class FirstComeFirstServed(Heuristic):
    """In order of arrival."""

    rule = "fcfs"


class ShortestJobFirst(Heuristic):
    """By requested seconds."""

    rule = "sjf"


class SmallestFirst(Heuristic):
    """By processors."""

    rule = "smallest"


class SmallestAreaFirst(Heuristic):
    """By requested processor-seconds."""

    rule = "saf"


class WeightedShortestFirst(Heuristic):
    """By processor-seconds times seconds: least work for most bounded slowdown."""

    rule = "wspt"


class WFP3(Heuristic):
    """By cubed relative wait, times processors (Tang et al., IPDPS 2009)."""

    rule = "wfp3"


class Unicep(Heuristic):
    """By wait over the logarithm of processors times requested seconds (Tang et al., IPDPS 2009)."""

    rule = "unicep"


class F1(Heuristic):
    """By the first function of Carastan-Santos and de Camargo (SC 2017)."""

    rule = "f1"


class F2(Heuristic):
    """By their second."""

    rule = "f2"


class F3(Heuristic):
    """By their third."""

    rule = "f3"


class F4(Heuristic):
    """By their fourth."""

    rule = "f4"


class Evolved(Heuristic):
    """By a small network that evolution has found (:mod:`greendc.cluster.evolved`)."""

    rule = "evolved"


class RandomJob(BaselinePolicy[ClusterSimulator]):
    """``random``: any valid action, each as likely as another: the floor of every comparison.

    :param simulator: the simulator to act on
    :param seed: fixes the actions
    :raises TypeError: for the simulator of another family
    :raises ValueError: for a negative seed
    """

    reads_state = True

    def __init__(self, simulator: ClusterSimulator, seed: int = 0) -> None:
        super().__init__(require_cluster(simulator))
        require(seed >= 0, "seed", seed, "at least 0")
        self.seed = seed
        self.begin_at(0)

    def begin_at(self, episode: int) -> None:
        """See :class:`~greendc.baselines.policy.BaselinePolicy`."""
        self._generator = draws_of(self.seed, episode)

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the actions for a batch; see :class:`~greendc.baselines.policy.BaselinePolicy`.

        :raises RuntimeError: if an episode has not begun
        """
        for i in range(self.simulator.num_envs):
            self.simulator.in_episode(i)
        masks = self.simulator.action_masks()
        actions: NDArray[Any] = (self._generator.random(masks.shape) * masks).argmax(axis=1)
        return actions
