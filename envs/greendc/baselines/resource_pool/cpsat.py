"""The clairvoyant optimum: the best schedule of a recorded episode, found with OR-Tools CP-SAT."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from greendc.baselines.linear import NoBoundError
from greendc.baselines.resource_pool.instance import Instance, Ints, recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.baselines.resource_pool.rules import DeadlineNever
from greendc.config import require, require_one_of
from greendc.resource_pool import ResourcePoolSimulator

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

PLACEMENTS = ("contiguous", "capacity")
SCALE = 1_000_000
"""CP-SAT counts in whole numbers; values are rounded up, so that its bound stays one."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best schedule found, what it earns in the environment, and how much more there could be.

    :param schedule: earns ``value`` when it is replayed
    :param bound: no policy earns more
    :param solver_value: what the schedule behind the bound is worth
    :param proved: whether that schedule is proved optimal, so that ``solver_value`` is the bound. It may put
        jobs on blocks that the environment, which takes the lowest one, would not: then ``value`` is less
    :param seconds: time taken
    """

    schedule: Schedule
    bound: float
    solver_value: float
    proved: bool
    seconds: float

    @property
    def value(self) -> float:
        """What the schedule earns."""
        return self.schedule.value

    @property
    def gap(self) -> float:
        """How far ``value`` may be from the optimum, as a share of ``bound``."""
        return (self.bound - self.value) / self.bound if self.bound > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Schedule:
    """Which jobs start when, as played in the environment.

    :param job: ``(n,)`` ids, in the order in which they are placed
    :param start: ``(n,)`` steps
    :param block: ``(n, R)`` lowest units
    :param value: of those that finish on time
    """

    job: Ints
    start: Ints
    block: Ints
    value: float


def clairvoyant_optimum(
    simulator: ResourcePoolSimulator,
    index: int = 0,
    placement: str = "contiguous",
    time_limit: float = 60.0,
    workers: int = 2,
) -> Optimum:
    """Maximize the value of jobs finished on time in an episode whose jobs and power are all known.

    Each job gets a fixed allocation from its start to its end and is not suspended; the power of each step
    limits the units. The search begins with what ``deadline_never`` does. The programme may put a job on any
    free block, so its bound holds for every policy; if the environment, which takes the lowest free block,
    cannot play the schedule, a second search is made among those that it can. On long episodes, where time
    ends before the proof, CP-SAT's bound is a poor one; it is then that of the linear programme, if less.

    :param simulator: its environment ``index`` must be at the beginning of an episode; it is left as it is
    :param index: the environment
    :param placement: what the bound is of. ``"contiguous"``: a job needs a block of contiguous units of each
        type, the same ones for its whole time; ``"capacity"``: any units, which is quicker and bounds less
    :param time_limit: seconds for CP-SAT, in all; without a proof the linear programme may take as many
    :param workers: threads of the solver
    :raises NoBoundError: if OR-Tools is not installed, where jobs can be suspended or a battery makes power
        depend on the policy (use the linear programme there), or if time ends without any schedule
    :raises ValueError: for another placement, or an episode that is under way
    """
    require_one_of("placement", placement, PLACEMENTS)
    require(time_limit > 0.0, "time_limit", time_limit, "above 0 seconds")
    require(workers >= 1, "workers", workers, "at least 1")
    began = time.perf_counter()
    now = simulator.view(index).now
    require(now == 0, "index", index, f"an environment at the beginning of an episode, not in step {now}")
    instance = recorded_instance(simulator, index)
    for reason, holds in (
        ("jobs can be suspended", instance.may_suspend),
        ("a battery stands between", instance.site is not None),
    ):
        if holds:
            raise NoBoundError(f"CP-SAT plans with known power and without suspension, but {reason}")
    best = _heuristic_schedule(simulator, index, instance)
    model = ScheduleModel(instance, placement, best)
    found = model.solve(time_limit, workers)
    best = max(best, replay(simulator, index, found.job, found.start), key=attrgetter("value"))
    left = began + time_limit - time.perf_counter()
    if best.value < found.value * (1.0 - 1e-9) and left > 0.0:
        lowest = ScheduleModel(instance, "lowest", best)
        try:
            playable = lowest.solve(left, workers)
        except NoBoundError:  # no time for a second schedule: the first stands
            playable = found
        best = max(best, replay(simulator, index, playable.job, playable.start), key=attrgetter("value"))
    bound = model.bound
    if not model.proved:
        with contextlib.suppress(NoBoundError):
            bound = min(bound, lp_bound(instance, time_limit).value)
    return Optimum(best, bound, found.value, model.proved, time.perf_counter() - began)


def replay(simulator: ResourcePoolSimulator, index: int, job: Ints, start: Ints) -> Schedule:
    """Play a schedule from the beginning of an episode, and return what came of it.

    Jobs of one step are placed in the order given. A job whose block is not free when it should start is
    tried again in the steps that follow, as long as it can be on time.

    :param simulator: a copy of it plays
    :param index: the environment, at the beginning of an episode
    :param job: ids of the jobs to start
    :param start: the step in which each should start
    :raises ValueError: for a job that there is not, or if not every job has a start
    """
    simulator.view(index)  # raises where there is no episode
    jobs_there = int(simulator.state.env["n_jobs"][index])
    require(job.shape == start.shape, "start", start.shape, f"of shape {job.shape}, as job")
    known = not len(job) or (job.min() >= 0 and job.max() < jobs_there)
    require(bool(known), "job", job, f"ids in 0 .. {jobs_there - 1}")
    pool = _alone(simulator, index)
    config, table = pool.config, pool.state.jobs[0]
    out, idle = pool.empty_observations(), np.array([config.no_op])
    length = table["duration"][job] + config.start_delay + config.end_delay
    last_start = np.minimum(table["latest"][job], config.episode_steps) - length
    order = np.argsort(start, kind="stable")
    pending = list(zip(*(column[order].tolist() for column in (start, job, last_start)), strict=True))
    placed: list[tuple[int, int]] = []
    for now in range(config.episode_steps):
        waiting = []
        for when, j, last in pending:
            if when > now:
                waiting.append((when, j, last))
            elif now <= last:
                if pool.place(0, j, now_only=True) == 0:
                    placed.append((j, now))
                else:
                    waiting.append((when, j, last))
        pending = waiting
        pool.step(idle, out)
    jobs = np.array(placed, np.int64).reshape(-1, 2)
    block = pool.view().job_table()["block"][jobs[:, 0]].astype(np.int64)
    return Schedule(jobs[:, 0], jobs[:, 1], block, pool.episode_metrics(0)["total_job_value"])


def _alone(simulator: ResourcePoolSimulator, index: int) -> ResourcePoolSimulator:
    """Return a copy of one environment in which each ``no_op`` passes one step, even with ``skip_forced``."""
    pool = simulator.alone(index)
    pool.state.config["skip_forced"] = 0
    return pool


def _heuristic_schedule(simulator: ResourcePoolSimulator, index: int, instance: Instance) -> Schedule:
    """Return what ``deadline_never`` starts and finishes on time."""
    pool = _alone(simulator, index)
    out = pool.empty_observations()
    heuristic = DeadlineNever(pool)
    while pool.view().now < instance.steps:
        pool.observe(out)
        pool.step(heuristic.predict(out)[0], out)
    table = pool.view().job_table()
    on_time = [j for j in instance.job.tolist() if j < len(table["finish"])]
    jobs = np.array(on_time, np.int64)
    finish = table["finish"][jobs]
    kept = jobs[(finish >= 0) & (finish <= table["latest_finish"][jobs])]
    # Of one step, the order in which it placed them: by falling QoS value.
    kept = kept[np.lexsort((-table["qos"][kept], table["start"][kept]))]
    value = pool.episode_metrics(0)["total_job_value"]
    start, block = (table[name][kept].astype(np.int64) for name in ("start", "block"))
    return Schedule(kept, start, block, value)


class ScheduleModel:
    """The schedule as optional intervals.

    :param instance: the episode
    :param placement: as in :func:`clairvoyant_optimum`; ``"lowest"``: each job on the lowest block that is
        free when it is placed, as the environment does it
    :param known: a schedule to begin the search with
    :raises NoBoundError: if OR-Tools is not installed
    """

    def __init__(self, instance: Instance, placement: str, known: Schedule) -> None:
        try:
            from ortools.sat.python import cp_model
        except ImportError as error:
            raise NoBoundError(
                "CP-SAT needs OR-Tools, which is not installed: pip install 'sb3-greendc[oracle]'"
            ) from error
        self._cp = cp_model
        self.instance, self._model = instance, cp_model.CpModel()
        self.bound, self.proved = math.inf, False
        n_jobs = len(instance)
        row_of = {job: j for j, job in enumerate(instance.job.tolist())}
        self._known = {row_of[job]: i for i, job in enumerate(known.job.tolist()) if job in row_of}
        self._hints = known
        self._present = [self._model.new_bool_var(f"p{j}") for j in range(n_jobs)]
        self._start, self._intervals = [], []
        rows = zip(instance.release.tolist(), instance.due.tolist(), instance.length.tolist(), strict=True)
        for j, (release, due, length) in enumerate(rows):
            start = self._model.new_int_var(release, due - length, f"s{j}")
            self._start.append(start)
            self._intervals.append(
                self._model.new_optional_fixed_size_interval_var(start, length, self._present[j], f"i{j}")
            )
            self._model.add_hint(self._present[j], int(j in self._known))
            self._model.add_hint(start, int(known.start[self._known[j]]) if j in self._known else release)
        self._blocks: dict[tuple[int, int], cp_model.IntVar] = {}
        self._order: list[cp_model.IntVar] = []
        for k in range(instance.need.shape[1]):
            self._limit_capacity(k)
            if placement != "capacity":
                self._limit_blocks(k)
        if placement == "lowest":
            self._take_lowest_blocks()
        worth = [math.ceil(value * SCALE) for value in instance.value.tolist()]
        self._model.maximize(sum(w * present for w, present in zip(worth, self._present, strict=True)))

    def solve(self, time_limit: float, workers: int) -> Schedule:
        """Return the best schedule found; its blocks and its value are the solver's.

        :raises NoBoundError: if there is none when time ends
        """
        cp, solver = self._cp, self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = time_limit
        solver.parameters.num_workers = workers
        solver.parameters.random_seed = 0
        status = solver.solve(self._model)
        if status not in (cp.OPTIMAL, cp.FEASIBLE):
            name = solver.status_name(status)
            raise NoBoundError(f"CP-SAT found no schedule in time_limit={time_limit:.3g} s ({name})")
        self.bound, self.proved = solver.best_objective_bound / SCALE, status == cp.OPTIMAL
        instance = self.instance
        kept = [j for j, present in enumerate(self._present) if solver.boolean_value(present)]
        start = np.array([solver.value(self._start[j]) for j in kept], np.int64)
        block = np.zeros((len(kept), instance.need.shape[1]), np.int64)
        for i, j in enumerate(kept):
            for k in range(block.shape[1]):
                if (j, k) in self._blocks:
                    block[i, k] = solver.value(self._blocks[j, k])
        rank = [solver.value(self._order[j]) if self._order else i for i, j in enumerate(kept)]
        order = np.lexsort((np.array(rank), start))
        value = float(instance.value[kept].sum())
        return Schedule(instance.job[kept][order], start[order], block[order], value)

    def _dark(self) -> list[tuple[int, int, int]]:
        """Return stretches of equal level below all units: first step, length, level."""
        level = self.instance.level
        edges = np.flatnonzero(np.diff(level, prepend=-1, append=-1))
        return [
            (int(first), int(last - first), int(level[first]))
            for first, last in pairwise(edges)
            if level[first] < self.instance.units
        ]

    def _limit_capacity(self, k: int) -> None:
        """Let the jobs of type ``k`` need no more units than there are, and green ones than are powered."""
        instance, model = self.instance, self._model
        for chosen, dark in self._groups(k):
            intervals = [self._intervals[j] for j in chosen]
            needs = [int(instance.need[j, k]) for j in chosen]
            for first, length, level in dark:
                intervals.append(model.new_fixed_size_interval_var(first, length, f"d{k}_{first}"))
                needs.append(instance.units - level)
            model.add_cumulative(intervals, needs, instance.units)

    def _limit_blocks(self, k: int) -> None:
        """Give each job of type ``k`` a block of its own."""
        instance, model = self.instance, self._model
        sides = {}
        for j in np.flatnonzero(instance.need[:, k]).tolist():
            need = int(instance.need[j, k])
            first = model.new_int_var(0, instance.units - need, f"b{k}_{j}")
            sides[j] = model.new_optional_fixed_size_interval_var(first, need, self._present[j], f"u{k}_{j}")
            model.add_hint(first, int(self._hints.block[self._known[j], k]) if j in self._known else 0)
            self._blocks[j, k] = first
        for chosen, dark in self._groups(k):
            times = [self._intervals[j] for j in chosen]
            units = [sides[j] for j in chosen]
            for first_step, length, level in dark:
                name = f"{k}_{first_step}"
                times.append(model.new_fixed_size_interval_var(first_step, length, f"t{name}"))
                units.append(model.new_fixed_size_interval_var(level, instance.units - level, f"l{name}"))
            model.add_no_overlap_2d(times, units)

    def _groups(self, k: int) -> list[tuple[list[int], list[tuple[int, int, int]]]]:
        """Return the jobs that share units of type ``k``: green ones with the dark, and all without it."""
        brown = self.instance.brown
        all_jobs = np.flatnonzero(self.instance.need[:, k]).tolist()
        green = [j for j in all_jobs if not brown[j]]
        dark = self._dark()
        if len(green) == len(all_jobs):
            return [(all_jobs, dark)]
        return [(green, dark), (all_jobs, [])] if dark else [(all_jobs, [])]

    def _take_lowest_blocks(self) -> None:
        """Let every lower place of a job be taken by a job that was placed before it and still runs.

        The dark units are the highest, so they never take a place below one that is powered.
        """
        instance, model = self.instance, self._model
        n_jobs = len(instance)
        self._order = [model.new_int_var(0, n_jobs, f"o{j}") for j in range(n_jobs)]
        last_start = instance.due - instance.length
        above: dict[tuple[int, int, int], cp_model.IntVar] = {}

        def at_least(j: int, k: int, unit: int) -> cp_model.IntVar:
            """Return whether job ``j``'s block begins at ``unit`` or above."""
            if (j, k, unit) not in above:
                literal = model.new_bool_var(f"a{j}_{k}_{unit}")
                model.add(self._blocks[j, k] >= unit).only_enforce_if(literal)
                model.add(self._blocks[j, k] < unit).only_enforce_if(~literal)
                above[j, k, unit] = literal
            return above[j, k, unit]

        for j in range(n_jobs):
            can_run = (instance.release <= last_start[j]) & (instance.due > instance.release[j])
            runs = {i: self._runs_when_placed(i, j) for i in np.flatnonzero(can_run).tolist() if i != j}
            for k in range(instance.need.shape[1]):
                need = int(instance.need[j, k])
                for unit in range(instance.units - need if need else 0):
                    takers = []
                    for i, running in runs.items():
                        width = int(instance.need[i, k])
                        if width == 0:
                            continue
                        takes = model.new_bool_var(f"w{i}_{j}_{k}_{unit}")
                        model.add_implication(takes, running)
                        model.add_implication(takes, at_least(i, k, unit - width + 1))
                        model.add_implication(takes, ~at_least(i, k, unit + need))
                        takers.append(takes)
                    model.add_bool_or([*takers, ~self._present[j], ~at_least(j, k, unit + 1)])

    def _runs_when_placed(self, i: int, j: int) -> cp_model.IntVar:
        """Return a literal that implies that job ``i`` is there, in its place, when ``j`` is placed."""
        model, n_jobs = self._model, len(self.instance)
        running = self._model.new_bool_var(f"r{i}_{j}")
        model.add_implication(running, self._present[i])
        clock = n_jobs + 1
        placed_i = self._start[i] * clock + self._order[i]
        placed_j = self._start[j] * clock + self._order[j]
        model.add(placed_i < placed_j).only_enforce_if(running)
        model.add(self._start[i] + int(self.instance.length[i]) > self._start[j]).only_enforce_if(running)
        return running
