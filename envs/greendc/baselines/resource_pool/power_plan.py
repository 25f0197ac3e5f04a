"""The rolling plan of jobs, units and battery: a linear programme each hour, whose beginning is done."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import draws_of
from greendc.baselines.resource_pool.energy_programme import energy_programme, no_jobs, running_shares
from greendc.baselines.resource_pool.instance import Instance
from greendc.baselines.resource_pool.outlooks import OUTLOOKS, foresee
from greendc.baselines.resource_pool.power_rules import PowerRule, Seen, look
from greendc.config import require, require_one_of
from greendc.energy.kernel import AUTO, CHARGE, HOLD
from greendc.resource_pool import ResourcePoolSimulator
from greendc.resource_pool.config import MODES
from greendc.resource_pool.kernel_command import SETTLED_SHARE
from greendc.simulator import Observation

Ints = NDArray[np.int64]

RUNS = 0.5
"""Share of a job in a step from which on it is taken to run."""
TIME_LIMIT = 60.0


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is to be done from a step on.

    :param episode: number of the episode
    :param now: the step
    :param shares: by job id, what of it runs in each row
    :param mode: of the battery
    """

    episode: int
    now: int
    shares: dict[int, NDArray[np.float64]]
    mode: int

    def runs(self, job: int, row: int) -> bool:
        """Return whether a job is to run in a row."""
        shares = self.shares.get(job)
        return shares is not None and row < len(shares) and bool(shares[row] >= RUNS)


class PowerPlan(PowerRule):
    """``power_plan``: plans jobs, units and battery in each step by a linear programme; does its beginning.

    The programme knows the jobs that have arrived, their run times, and forecasts of sun, wind and emissions.
    Jobs run to shares, and units are fractions; in the pool a job runs of which at least half should. Of a
    job that may end beyond the rows that are planned, the part inside them counts.

    :param simulator: the simulator to act on
    :param kg_price: value of a kg of CO2
    :param rows: steps that are planned
    :param spares: units beyond those that are planned, for jobs that are still to come
    :param haste: share of a job's value that a step of waiting costs in the plan: others may come, and a plan
        that does not care puts off what it could do now
    :param forecast: ``"oracle"``, ``"noisy"``, ``"persistence"`` or ``"climatology"``
    :param seed: of the noise
    :raises ValueError: for a value out of range, or a pool whose power is not commanded
    :raises NoBoundError: at a decision, if the solver does not finish
    """

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        kg_price: float = 0.15,
        rows: int = 36,
        spares: int = 2,
        haste: float = 0.005,
        forecast: str = "oracle",
        seed: int = 0,
    ) -> None:
        super().__init__(simulator, spares, kg_price=kg_price)
        require(rows >= 2, "rows", rows, "at least 2 steps")
        require(seed >= 0, "seed", seed, "at least 0")
        require(haste >= 0.0, "haste", haste, "at least 0")
        require_one_of("forecast", forecast, OUTLOOKS)
        self.rows, self.haste, self.forecast = min(rows, simulator.config.horizon), haste, forecast
        self.seed = seed
        self._plans: dict[int, _Plan] = {}
        self.begin_at(0)

    def begin_at(self, episode: int) -> None:
        """See :class:`~greendc.baselines.policy.BaselinePolicy`."""
        self._rng = draws_of(self.seed, episode)

    def choose(self, index: int, mask: NDArray[np.bool_]) -> int:
        """Return the action in environment ``index``."""
        return self._choices(index, mask)[0]

    def advantages(self, observations: Observation) -> NDArray[np.float32]:
        """Return 0 for each action that the plan may take next, and -1 for the other valid ones.

        Several jobs that are to start now may start in any order: all of them count as the plan's. These are
        labels to learn from, in other units than a planner's advantages: the plan values no single action.

        :param observations: a batch, one row for each environment of the simulator; the state itself is read
        :return: ``(n, n_actions)``, NaN for invalid actions
        :raises RuntimeError: if an episode has not begun
        """
        self.simulator.require_begun()
        masks = self.simulator.action_masks()
        found = np.where(masks, -1.0, np.nan).astype(np.float32)
        for i, mask in enumerate(masks):
            found[i, self._choices(i, mask)] = 0.0
        return found

    def _choices(self, index: int, mask: NDArray[np.bool_]) -> list[int]:
        """Return the actions that the plan may take next, any of them, the first one first."""
        seen, ready = look(self.simulator, index), self.simulator.config.ready_pool_size
        plan = self._plan(index, seen)
        starts = [
            slot for slot in np.flatnonzero(mask[:ready]).tolist() if plan.runs(int(seen.queue[slot]), 0)
        ]
        if starts:
            return starts
        if mask[ready] and not plan.runs(int(seen.env["victim"]), 0):
            successor = int(seen.env["successor"])
            if successor < 0 or plan.runs(int(seen.queue[successor]), 0):
                return [ready]
        return [self.command(index, mask)]

    def _plan(self, index: int, seen: Seen) -> _Plan:
        plan, episode = self._plans.get(index), int(self.simulator.episodes[index])
        if plan is None or (plan.episode, plan.now) != (episode, seen.now):
            plan = self._plans[index] = self._make_plan(seen, episode)
        return plan

    def _make_plan(self, seen: Seen, episode: int) -> _Plan:
        config, battery, now = self.simulator.config, self._site.battery, seen.now
        day = max(round(24.0 / config.step_hours), 1)
        generation, kg = foresee(self.forecast, seen.series, now, self.rows, day, self._rng)
        instance = self._instance(seen)
        stored = max(float(seen.env["stored_kwh"]) - battery.min_charge * battery.energy_kwh, 0.0)
        programme = energy_programme(
            config,
            instance,
            generation,
            kg,
            self.kg_price,
            stored,
            int(seen.env["units_on"]),
            SETTLED_SHARE * float(kg.mean()),
        )
        profit = programme.profit.copy()
        profit[len(instance) : programme.columns.grid.start] -= self.haste * _waiting(instance)
        solution = replace(programme, profit=profit).solve(TIME_LIMIT).x
        shares = running_shares(solution, instance)
        columns = programme.columns
        bought = solution[columns.charge][0] - max(generation[0] - self._site.critical_kw, 0.0)
        mode = AUTO
        if bought > 0.25 * battery.charge_kw:
            mode = CHARGE
        elif solution[columns.discharge][0] < 1e-6 and solution[columns.grid][0] > 1e-6:
            mode = HOLD
        return _Plan(episode, now, dict(zip(instance.job.tolist(), shares, strict=True)), mode)

    def _instance(self, seen: Seen) -> Instance:
        """Return the jobs that have arrived and can still be on time, seen from now."""
        config, jobs = self.simulator.config, seen.jobs
        ids = np.concatenate([seen.placed, seen.queue]).astype(np.int64)
        running = np.arange(len(ids)) < len(seen.placed)
        left = np.where(
            running,
            jobs["end"][ids] - seen.now,
            jobs["remaining"][ids] + config.start_delay + config.end_delay,
        )
        due = jobs["latest"][ids] - seen.now
        kept = left <= due
        ids, left, due = ids[kept], left[kept], np.minimum(due[kept], self.rows)
        inside = np.minimum(left, due)
        if not len(ids):
            return no_jobs(config, self.rows)
        return Instance(
            units=config.units,
            steps=self.rows,
            job=ids,
            release=np.zeros(len(ids), np.int64),
            due=due,
            length=inside,
            need=seen.needs[ids],
            value=jobs["value"][ids] * (inside / left),
            brown=np.zeros(len(ids), np.bool_),
            level=np.full(self.rows, self._levels[-1]),
            site=None,
            may_suspend=True,
        )

    def command(self, index: int, mask: NDArray[np.bool_]) -> int:
        """Return the action that lets time go on: units for the next steps, and the battery's mode."""
        seen, config = look(self.simulator, index), self.simulator.config
        plan, units = self._plan(index, seen), 0
        running = self._running(seen)
        running = running[seen.jobs["end"][running] > seen.now + 1]
        for row in {1, 1 + config.switch_delay}:
            jobs = [job for job in plan.shares if plan.runs(job, row)]
            going = running[np.isin(running, jobs)]
            highest = int((seen.blocks[going] + seen.needs[going]).max(initial=0))
            needed = int(seen.needs[jobs].sum(axis=0).max(initial=0)) if jobs else 0
            units = max(units, highest, needed)
        level = int(np.searchsorted(self._levels, min(units + self.spares, int(self._levels[-1]))))
        action = config.ready_pool_size + 1 + MODES * level
        return action + (plan.mode if mask[action + plan.mode] else AUTO)


def _waiting(instance: Instance) -> NDArray[np.float64]:
    """Return, for each job and step in which it may run, value per step times the steps that it waited."""
    counts = instance.due - instance.release
    ends = np.cumsum(counts)
    waited = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    weighed: NDArray[np.float64] = np.repeat(instance.value / instance.length, counts) * waited
    return weighed
