"""Planners of job shops: what they would do, and how long the plan gets if another operation comes first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

OR_TOOLS, ROLLOUTS = "OR-Tools", "rollouts"

SEARCH = 5.0
"""How long OR-Tools searches for one plan, in its own unit: about seconds, but the same on every machine."""


@dataclass(frozen=True)
class Shop:
    """What is planned of an instance, in plain numbers that are quick to plan on.

    An operation is planned after what is planned on its machine, as the environment's actions do.

    :param machines: of each job's operations
    :param durations: of each job's operations
    :param following: of each job the number of its next operation
    :param job_free: when what is planned of each job ends
    :param machine_free: when what is planned on each machine ends
    """

    machines: list[list[int]]
    durations: list[list[int]]
    following: list[int]
    job_free: list[int]
    machine_free: list[int]

    @classmethod
    def of(cls, env: Any) -> Shop:
        """Return the present state of ``examples/job_shop.py``'s environment."""
        planned = env.shop
        return cls(
            env.order.tolist(),
            env.durations.tolist(),
            list(planned.job_next_operation_index),
            list(planned.job_next_available_time),
            list(planned.machine_next_available_time),
        )

    def copy(self) -> Shop:
        """Return a copy that can be planned on."""
        states = (self.following.copy(), self.job_free.copy(), self.machine_free.copy())
        return Shop(self.machines, self.durations, *states)

    @property
    def unfinished(self) -> list[int]:
        """Jobs with operations left."""
        return [job for job, k in enumerate(self.following) if k < len(self.durations[job])]

    @property
    def length(self) -> int:
        """When everything that is planned has ended."""
        return max(self.job_free)

    def start(self, job: int) -> int:
        """Return when a job's next operation can start."""
        return max(self.job_free[job], self.machine_free[self.machines[job][self.following[job]]])

    def plan(self, job: int) -> None:
        """Plan a job's next operation."""
        k = self.following[job]
        end = self.start(job) + self.durations[job][k]
        self.job_free[job] = self.machine_free[self.machines[job][k]] = end
        self.following[job] = k + 1


class Planner(Protocol):
    """How to finish a shop."""

    def length_after(self, shop: Shop, job: int) -> int:
        """Return how long the plan gets with a job's next operation first.

        :param shop: as it is now
        :param job: an unfinished one
        """

    def did(self, job: int) -> None:
        """Take note that a job's next operation was planned."""


class Rollouts:
    """Whatever comes first, the rule of the earliest start does the rest.

    :param shop: as it is at first
    """

    def __init__(self, shop: Shop) -> None:
        pass

    def length_after(self, shop: Shop, job: int) -> int:
        """See :class:`Planner`."""
        after = shop.copy()
        after.plan(job)
        left = after.unfinished
        while left:
            soonest = min(left, key=after.start)
            after.plan(soonest)
            if after.following[soonest] == len(after.durations[soonest]):
                left.remove(soonest)
        return after.length

    def did(self, job: int) -> None:
        """See :class:`Planner`; nothing is kept."""


class ShortestPlan:
    """Whatever comes first, the rest is done in the order of the shortest plan that OR-Tools has found.

    :param shop: as it is at first
    """

    def __init__(self, shop: Shop) -> None:
        self.order = shortest_order(shop)

    def length_after(self, shop: Shop, job: int) -> int:
        """See :class:`Planner`."""
        rest = self.order.copy()
        rest.remove(job)
        return in_order(shop, [job, *rest])

    def did(self, job: int) -> None:
        """See :class:`Planner`."""
        self.order.remove(job)


PLANNERS: dict[str, type[ShortestPlan] | type[Rollouts]] = {OR_TOOLS: ShortestPlan, ROLLOUTS: Rollouts}


def in_order(shop: Shop, order: Iterable[int]) -> int:
    """Return how long a plan gets.

    :param shop: as it is now
    :param order: jobs, each as often as it has operations left
    """
    after = shop.copy()
    for job in order:
        after.plan(job)
    return after.length


def shortest_order(shop: Shop, search: float = SEARCH) -> list[int]:
    """Return the jobs of all operations left, in the order in which the shortest plan starts them.

    :param shop: as it is now
    :param search: how long to search; plans of 10 jobs on 5 machines are proved the shortest long before
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    end = shop.length + sum(sum(row[k:]) for row, k in zip(shop.durations, shop.following, strict=True))
    length = model.new_int_var(0, end, "length")
    starts: dict[tuple[int, int], Any] = {}
    on_machine: dict[int, list[Any]] = {}
    for job in shop.unfinished:
        earliest: Any = shop.job_free[job]
        for k in range(shop.following[job], len(shop.durations[job])):
            machine, duration = shop.machines[job][k], shop.durations[job][k]
            start = model.new_int_var(shop.machine_free[machine], end, f"{job} {k}")
            model.add(start >= earliest)
            interval = model.new_fixed_size_interval_var(start, duration, f"{job} {k}")
            on_machine.setdefault(machine, []).append(interval)
            starts[job, k] = start
            earliest = start + duration
        model.add(length >= earliest)
    for intervals in on_machine.values():
        model.add_no_overlap(intervals)
    model.minimize(length)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # several would find another plan every time
    solver.parameters.max_deterministic_time = search
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RuntimeError(f"OR-Tools has found no plan within {search:g} of its units of time")
    return [job for job, k in sorted(starts, key=lambda of: (solver.value(starts[of]), of))]


@dataclass(frozen=True)
class Thought:
    """What a planner thinks of the jobs whose next operation may come first.

    :param lengths: of the plan, by job; NaN for finished jobs
    :param waits: how much later each could start than the first that could; NaN for finished jobs
    """

    lengths: tuple[float, ...]
    waits: tuple[float, ...]

    @property
    def best(self) -> int:
        """The job of the shortest plan; of equals the one that can start first."""
        valid = [job for job, length in enumerate(self.lengths) if not math.isnan(length)]
        return min(valid, key=lambda job: (self.lengths[job], self.waits[job]))

    def advantages(self, of_wait: float) -> list[float]:
        """Return what each job is worth, in the environment's rewards; NaN for finished jobs.

        :param of_wait: what a unit of waiting costs beside one of the plan's length. Operations of several
            jobs can come first in the shortest plan, and waiting tells which of them it starts first.
        """
        pairs = zip(self.lengths, self.waits, strict=True)
        return [-(length + of_wait * wait) / 100 for length, wait in pairs]


def think(planner: Planner, shop: Shop) -> Thought:
    """Return what a planner thinks in a state.

    :param planner: which knows what was done before
    :param shop: with unfinished jobs
    """
    unfinished = shop.unfinished
    first = min(map(shop.start, unfinished))
    lengths, waits = [math.nan] * len(shop.following), [math.nan] * len(shop.following)
    for job in unfinished:
        lengths[job] = planner.length_after(shop, job)
        waits[job] = shop.start(job) - first
    return Thought(tuple(lengths), tuple(waits))
