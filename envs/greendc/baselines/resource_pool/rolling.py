"""A plan by linear programming, made every few steps, for jobs that are there and jobs that may come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import BaselinePolicy
from greendc.baselines.resource_pool.futures import FutureBank
from greendc.baselines.resource_pool.instance import Floats, Instance, Ints
from greendc.baselines.resource_pool.lp_bound import starts_programme
from greendc.baselines.resource_pool.policy import require_no_commands
from greendc.config import require
from greendc.resource_pool import ResourcePoolSimulator, orders
from greendc.resource_pool import kernel_rollout as kr
from greendc.resource_pool.view import DARK, FREE
from greendc.simulator import Observation

BANK = 256
TIME_LIMIT = 60.0
IMPATIENCE = 1e-3
"""Share of its value that a job loses in the plan for each step of waiting: it should not wait in vain."""


@dataclass(frozen=True)
class _Plan:
    """What was planned in step ``now``: ``shares[i, h]``, to what share job ``job[i]`` should start at ``h``.

    ``seen`` has the latest finishes of all jobs that had arrived by then: another episode has others.
    """

    now: int
    seen: Ints
    job: Ints
    shares: Floats


class RollingPlan(BaselinePolicy[ResourcePoolSimulator]):
    """``plan``: a rolling horizon. Plan with a linear programme, start what the plan starts, plan again.

    The programme is that of the bound (:mod:`~greendc.baselines.resource_pool.lp_bound`) over the next
    ``depth`` steps: the waiting jobs and those of a sampled future on the units that are free and will be
    powered as forecast. It is solved once for each of ``futures`` futures. A waiting job starts if the
    solutions start it now to a share of at least ``threshold`` on average (Bent and Van Hentenryck's
    consensus, 2004), the greatest share first, and if it then fits. Of a job that would go on beyond the
    horizon the part within it counts.

    Like the bound, the programme lets jobs be split; and each solution knows its future, so it is more
    willing to wait than one who does not. So ``threshold`` is far below a majority: at 0.5 the pool stands
    idle too often, at 0.1 nearly everything starts that fits. It knows what :class:`Rollout` knows, and
    reserves nothing.

    :param simulator: the simulator to act on
    :param futures: sampled futures of each plan
    :param depth: steps that a plan looks ahead; at most the horizon, beyond which power is not forecast
    :param every: steps from one plan to the next; jobs that arrive in between wait for the next one
    :param threshold: share from which on a job is started
    :param seed: fixes the futures
    :raises ValueError: for a value out of range
    """

    reads_state = True

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        futures: int = 4,
        depth: int = 30,
        every: int = 1,
        threshold: float = 0.25,
        seed: int = 0,
    ) -> None:
        super().__init__(require_no_commands(simulator))
        horizon = simulator.config.horizon
        require(futures >= 1, "futures", futures, "at least 1")
        require(depth >= 1, "depth", depth, "at least 1 step")
        require(1 <= every <= depth, "every", every, f"from 1 to depth={depth} steps")
        require(0.0 < threshold <= 1.0, "threshold", threshold, "in (0, 1]")
        require(seed >= 0, "seed", seed, "at least 0")
        self.futures, self.depth, self.every = futures, min(depth, horizon), every
        self.threshold, self.seed = threshold, seed
        rng = np.random.default_rng(seed)
        self._bank = FutureBank(simulator, max(BANK, 4 * futures), self.depth, orders.QOS, rng)
        self._plans: dict[int, _Plan] = {}

    def act(self, observations: Observation) -> NDArray[Any]:
        """Plan where it is time to, and return the next start of each plan, or ``no_op``."""
        self.simulator.require_begun()
        return np.array([self._choose(i) for i in range(self.simulator.num_envs)])

    def _choose(self, index: int) -> int:
        ready, now = self.simulator.config.ready_pool_size, self.simulator.view(index).now
        startable = self._startable(index)
        if not startable.any():
            return ready + 1
        plan = self._plans.get(index)
        if plan is None or not self._is_current(plan, index):
            plan = self._plans[index] = self._make_plan(index)
        table = self.simulator.view(index).ready_jobs()
        column = dict(zip(plan.job.tolist(), plan.shares[:, now - plan.now].tolist(), strict=True))
        shares = np.zeros(ready)
        for slot in np.flatnonzero(startable):
            shares[slot] = column.get(int(table[slot, 0]), 0.0)
        best = int(np.argmax(shares))
        return best if shares[best] >= self.threshold else ready + 1

    def _is_current(self, plan: _Plan, index: int) -> bool:
        env, jobs = self.simulator.state.env[index], self.simulator.state.jobs[index]
        seen = jobs["latest"][: min(len(plan.seen), env["next_arrival"])]
        current = plan.now <= env["now"] < plan.now + self.every
        return bool(current) and np.array_equal(seen, plan.seen)

    def _startable(self, index: int) -> NDArray[np.bool_]:
        """Return which ready jobs can start now and be on time."""
        masks = self.simulator.action_masks()[index : index + 1]
        kr.keep_candidates(masks, self.simulator.state, index)
        starts: NDArray[np.bool_] = masks[0, : self.simulator.config.ready_pool_size]
        return starts

    def _make_plan(self, index: int) -> _Plan:
        view, bank, config = self.simulator.view(index), self._bank, self.simulator.config
        env, jobs = self.simulator.state.env[index], self.simulator.state.jobs[index]
        now, arrived = int(env["now"]), int(env["next_arrival"])
        table, waiting = view.job_table(), view.queue
        length = table["remaining"][waiting] + config.start_delay + config.end_delay
        hopeful = now + length <= table["latest_finish"][waiting]
        waiting, length = waiting[hopeful].astype(np.int64), length[hopeful].astype(np.int64)
        brown_above = self.simulator.state.config["brown_above"]
        known = Instance(
            units=config.units,
            steps=self.depth,
            job=waiting,
            release=np.zeros(len(waiting), np.int64),
            due=np.minimum(table["latest_finish"][waiting] - now, self.depth - 1 + length).astype(np.int64),
            length=length,
            need=table["units"][waiting].astype(np.int64),
            value=table["value"][waiting].astype(np.float64),
            brown=table["qos"][waiting] > brown_above,
            level=np.full(self.depth, config.units),
            site=None,
            may_suspend=False,
        )
        cells = view.cell_jobs()[: self.depth].reshape(self.depth, config.resource_types, config.units)
        powered, unoccupied = (cells == FREE).sum(axis=2), ((cells == FREE) | (cells == DARK)).sum(axis=2)
        step = int(bank.next_step(np.array(now)))
        shares = np.zeros((len(waiting), self.every))
        first = (7919 * now + 104_729 * arrived) % (len(bank.first) - 1)
        for k in range(self.futures):
            future = (first + k) % (len(bank.first) - 1)
            both = with_future(known, bank, future, step)
            shares += self._solve(both, len(waiting), powered, unoccupied)
        return _Plan(now, jobs["latest"][:arrived].copy(), waiting, shares / self.futures)

    def _solve(self, instance: Instance, waiting: int, powered: Ints, unoccupied: Ints) -> Floats:
        """Return to what share each waiting job starts in each step until the next plan."""
        programme = starts_programme(instance)
        limit = programme.limit.copy()
        capacity = powered.T.ravel()
        if instance.brown.any():
            capacity = np.append(capacity, unoccupied.T.ravel())
        limit[len(limit) - len(capacity) :] = capacity
        counts = instance.due - instance.release - instance.length + 1
        first = np.cumsum(counts) - counts
        waited = np.arange(counts.sum()) - np.repeat(first, counts)
        profit = programme.profit * (1.0 - IMPATIENCE * waited)
        solution = replace(programme, profit=profit, limit=limit).solve(TIME_LIMIT).x
        shares = np.zeros((waiting, self.every))
        for i in range(waiting):
            taken = min(self.every, int(counts[i]))
            shares[i, :taken] = solution[first[i] : first[i] + taken]
        return shares


def with_future(known: Instance, bank: FutureBank, future: int, step: int) -> Instance:
    """Return a problem of the next ``known.steps`` steps with the jobs of a sampled future as well.

    Of a job that may go on beyond these steps the part within them counts.

    :param known: the jobs that are there, on a clock that begins now
    :param bank: the futures
    :param future: which of them
    :param step: the step of the future that comes next
    """
    depth, part = known.steps, slice(bank.first[future], bank.first[future + 1])
    rows, length = bank.table[part], bank.table["length"][part]
    release = rows["arrival"] - step + 1
    due = np.minimum(rows["latest"] - step + 1, depth - 1 + length)
    kept = (release >= 1) & (release < depth) & (release + length <= due)
    return replace(
        known,
        job=np.append(known.job, np.full(np.count_nonzero(kept), -1)),
        release=np.append(known.release, release[kept]),
        due=np.append(known.due, due[kept]),
        length=np.append(known.length, length[kept]),
        need=np.concatenate([known.need, bank.needs[part][kept]]),
        value=np.append(known.value, rows["value"][kept]),
        brown=np.append(known.brown, rows["is_brown"][kept] == 1),
    )
