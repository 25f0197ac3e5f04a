"""Rollouts that are told what comes: what knowing the arrivals of the next steps is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.resource_pool.futures import FutureBank, Futures
from greendc.baselines.resource_pool.rollout import Rollout
from greendc.config import require
from greendc.resource_pool import ResourcePoolSimulator, kernel_rollout
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_plan import JOB


class Foresight(Rollout):
    """``foresight``: :class:`~greendc.baselines.resource_pool.Rollout` that is told the next arrivals.

    The jobs of the next ``known_arrivals`` steps are the true ones in each of its futures, those of later
    steps are sampled. So it is no policy to compare with: it shows what a perfect forecast of the arrivals of so many
    steps is worth, and how far ahead one has to know them to earn more than those who do not. With 0 it is
    ``rollout``.

    :param simulator: the simulator to act on
    :param known_arrivals: steps whose arrivals it knows; it looks no farther than ``depth``
    :param futures: as of ``rollout``, like all that follow
    :raises ValueError: for a number out of range, or another base
    """

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        known_arrivals: int = 12,
        futures: int = 100,
        depth: int = 40,
        base: str = "qos",
        seed: int = 0,
        dispatch: str = "skip",
        min_qos: float = 0.0,
    ) -> None:
        require(known_arrivals >= 0, "known_arrivals", known_arrivals, "at least 0 steps")
        super().__init__(simulator, futures, depth, base, seed, dispatch, min_qos)
        self.known_arrivals = known_arrivals

    def _chosen_futures(self, candidates: NDArray[np.bool_], waiting: int) -> NDArray[np.int64]:
        """Return the futures of each decision, ``(B, F, 2)``, made for it; now is step 0 of each."""
        chosen = super()._chosen_futures(candidates, waiting)
        if self.known_arrivals >= self.depth - 1:
            chosen = chosen[:, :1].copy()  # nothing is left to sample
        parts = [JobRows.of_bank(self._bank, slice(0, 0), 0)]  # of those who have no choice
        sizes = [0]
        for b, some in enumerate(candidates.sum(axis=1) > 1):
            if not some:
                chosen[b] = 0, 1
                continue
            true = JobRows.true_jobs(self.simulator, b, min(self.known_arrivals, self.depth - 1))
            for future in chosen[b]:
                sampled = self._sampled_jobs(*future)
                parts += true, sampled
                future[:] = len(sizes), 1
                sizes.append(len(true) + len(sampled))
        made = MadeFutures(parts, sizes, self._order, self.min_qos)
        self._imagine(made, waiting)
        return chosen

    def _sampled_jobs(self, future: int, step: int) -> JobRows:
        """Return what comes in a sampled future behind the steps that are known."""
        first, last = self._bank.first[future : future + 2]
        arrival = self._bank.table["arrival"][first:last]
        now = step - 1
        ends = np.searchsorted(arrival, [now + self.known_arrivals, now + self.depth - 1], side="right")
        return JobRows.of_bank(self._bank, slice(first + ends[0], first + max(ends)), now)


@dataclass(frozen=True)
class JobRows:
    """Jobs that arrive, ``n`` of them, in steps from now.

    :param table: ``(n,)`` of :data:`~greendc.resource_pool.kernel_plan.JOB`
    :param needs: ``(n, R)`` units of each type
    :param duration: ``(n,)`` steps of work
    :param qos: ``(n,)``
    """

    table: NDArray[np.void]
    needs: NDArray[np.int64]
    duration: NDArray[np.int64]
    qos: NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.table)

    @classmethod
    def of_bank(cls, bank: FutureBank, rows: slice, now: int) -> JobRows:
        """Return sampled jobs, with now in this step of their future."""
        table = bank.table[rows].copy()
        table["arrival"] -= now
        table["latest"] -= now
        return cls(table, bank.needs[rows], bank.duration[rows], bank.qos[rows])

    @classmethod
    def true_jobs(cls, simulator: ResourcePoolSimulator, b: int, steps: int) -> JobRows:
        """Return the jobs that will arrive within so many steps in environment ``b``."""
        config, state = simulator.config, simulator.state
        env, jobs = state.env[b], state.jobs[b]
        now, coming = env["now"], jobs[env["next_arrival"] : env["n_jobs"]]
        first = int(env["next_arrival"])
        rows = slice(first, first + int((coming["arrival"] <= now + steps).sum()))
        found = jobs[rows]
        table = np.zeros(len(found), JOB)
        table["arrival"], table["latest"] = found["arrival"] - now, found["latest"] - now
        table["length"] = found["duration"] + config.start_delay + config.end_delay
        table["is_brown"] = found["qos"] > state.config["brown_above"]
        table["value"] = found["value"]
        needs = state.units[b, at.NEEDS, rows].copy()
        return cls(table, needs, found["duration"].copy(), found["qos"].copy())


class MadeFutures(Futures):
    """Futures put together from parts.

    :param parts: jobs, future after future
    :param sizes: number of jobs of each future
    :param order: code of the order that sorts the jobs (:mod:`greendc.resource_pool.orders`)
    :param min_qos: jobs of a lesser QoS value get an infinite key
    """

    def __init__(self, parts: Sequence[JobRows], sizes: Sequence[int], order: int, min_qos: float) -> None:
        self.first = np.cumsum([0, *sizes])
        self.table, self.needs, duration, qos = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("table", "needs", "duration", "qos")
        )
        kernel_rollout.sort_jobs(order, min_qos, self.table, self.needs, duration, qos)
