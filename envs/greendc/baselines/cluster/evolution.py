"""Evolution: weights of the rule ``"evolved"`` by which whole sequences of jobs have less slowdown.

Weights are drawn around a mean, play the same sequences, and the better half moves the mean and the spread:
the separable form of CMA-ES (Ros and Hansen, "A Simple Modification in CMA-ES Achieving Linear Time and
Space Complexity", PPSN 2008), of the package ``cmaes``. Every generation plays other sequences, so that none
is learned by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from greendc.baselines.cluster.policy import require_cluster
from greendc.cluster.evolved import evolved_weights
from greendc.cluster.kernel_evolved import HIDDEN, SEEN, SEEN_OF_JOB, WEIGHTS
from greendc.cluster.simulator import ClusterSimulator
from greendc.config import require
from greendc.records import Floats

BASE = "f2"
"""The rule whose slowdown on the same sequences is the measure."""
POPULATION = 20
"""Sets of weights that a generation tries."""


@dataclass(frozen=True)
class Practice:
    """Jobs to practise on.

    :param simulators: clusters with their jobs; each sequence is one of a random one of them
    :param sequences: of a generation, an episode each
    :param share: of this practice in what a set of weights is judged by
    :param first: row of the jobs with which the first sequence may begin
    :raises TypeError: for the simulator of another family
    :raises ValueError: for no simulator, no sequence, or jobs with no room for a sequence behind ``first``
    """

    simulators: Sequence[ClusterSimulator]
    sequences: int = 48
    share: float = 1.0
    first: int = 0

    def __post_init__(self) -> None:
        require(len(self.simulators) > 0, "simulators", self.simulators, "at least one")
        for simulator in self.simulators:
            require_cluster(simulator)
        require(self.sequences >= 1, "sequences", self.sequences, "1 or more")
        require(self.share > 0, "share", self.share, "above 0")
        room = min(self._last(simulator) for simulator in self.simulators)
        require(0 <= self.first <= room, "first", self.first, f"from 0 to {room}")

    def draw(self, rng: np.random.Generator) -> list[tuple[ClusterSimulator, int]]:
        """Return the sequences of a generation: a simulator and a row of its jobs each."""
        chosen = [self.simulators[k] for k in rng.integers(len(self.simulators), size=self.sequences)]
        return [(one, int(rng.integers(self.first, self._last(one) + 1))) for one in chosen]

    def _last(self, simulator: ClusterSimulator) -> int:
        return len(simulator.jobs) - simulator.config.episode_jobs


def evolve(
    practices: Sequence[Practice],
    generations: int,
    seed: int,
    on_generation: Callable[[int, float], None] | None = None,
    start: ArrayLike | None = None,
    sigma: float = 1.0,
) -> Floats:
    """Return weights of the rule ``"evolved"``; the same arguments give the same ones.

    :param practices: what to practise on, all with one kind of backfilling
    :param generations: how many
    :param seed: of the sequences and of the weights that are tried
    :param on_generation: called after each with its number from 1 and with the mean over all weights tried of
        the logarithm of their slowdown over that of F2, which is below 0 where they are better
    :param start: weights to begin with; ``None``: WSPT's
    :param sigma: standard deviation of the first changes of a weight
    :return: ``(WEIGHTS,)``
    :raises ValueError: for weights that do not fit, no practice, kinds of backfilling that differ, a number
        of generations or a deviation that is not above 0
    :raises ImportError: without ``cmaes``
    """
    try:
        from cmaes import SepCMA
    except ImportError as error:
        raise ImportError("evolution needs cmaes: pip install 'sb3-greendc[tune]'") from error
    kinds = {one.config.backfill for practice in practices for one in practice.simulators}
    require(len(kinds) == 1, "practices", f"with backfill {sorted(kinds)}", "one or more, of one backfill")
    require(generations >= 1, "generations", generations, "1 or more")
    require(0 < sigma < float("inf"), "sigma", sigma, "above 0 and finite")
    rng = np.random.default_rng(seed)
    mean = _start(rng) if start is None else evolved_weights(start).copy()
    shares = np.array([practice.share for practice in practices])
    optimizer = SepCMA(mean=mean, sigma=sigma, population_size=POPULATION, seed=seed)
    for generation in range(1, generations + 1):
        drawn = [practice.draw(rng) for practice in practices]
        measures = [_slowdown(sequences, BASE) for sequences in drawn]
        tried = []
        for _ in range(POPULATION):
            step = optimizer.ask()
            slowdowns = [_slowdown(sequences, "evolved", step) for sequences in drawn]
            tried.append((step, float(shares @ np.log(np.divide(slowdowns, measures)))))
        optimizer.tell(tried)
        if on_generation is not None:
            on_generation(generation, float(np.mean([judged for _, judged in tried])))
    return evolved_weights(optimizer.mean)


def _start(rng: np.random.Generator) -> Floats:
    """Return WSPT as weights: hidden units look at something, and add nothing."""
    start = np.zeros(WEIGHTS)
    start[0], start[1] = 20.0, 5.0  # twice the seconds' logarithm and once the processors', as scaled
    units = start[SEEN_OF_JOB:].reshape(HIDDEN, SEEN + 2)
    units[:, :-1] = rng.normal(size=(HIDDEN, SEEN + 1))
    return start


def _slowdown(
    sequences: Sequence[tuple[ClusterSimulator, int]], rule: str, weights: Floats | None = None
) -> float:
    """Return the mean bounded slowdown of sequences that are played by a rule."""
    found = []
    for simulator, start in sequences:
        simulator.reset_env(0, np.random.default_rng(0), {"start": start})
        simulator.play(0, rule, weights=weights)
        found.append(simulator.episode_metrics(0)["mean_bounded_slowdown"])
    return float(np.mean(found))
