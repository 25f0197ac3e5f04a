"""What can be earned without knowing the arrivals if fractions of jobs may start."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from greendc.baselines.linear import NoBoundError, Programme
from greendc.baselines.resource_pool.futures import FutureBank
from greendc.baselines.resource_pool.instance import Floats, Instance, Ints, recorded_instance
from greendc.baselines.resource_pool.lp_bound import starts_programme
from greendc.baselines.resource_pool.policy import require_pool
from greendc.baselines.resource_pool.rolling import BANK, IMPATIENCE, TIME_LIMIT, with_future
from greendc.config import require
from greendc.resource_pool import ResourcePoolSimulator, orders

LEAST = 1e-9
"""A smaller share of a job is none."""
TOLERANCE = 1e-6
"""By how many units, or by what share of a job, a schedule may go beyond what is allowed: the solver's."""


@dataclass(frozen=True, eq=False)
class DivisibleSchedule:
    """Which shares of jobs start when.

    :param job: ``(n,)`` rows of the instance
    :param start: ``(n,)`` steps
    :param share: ``(n,)`` in (0, 1]
    """

    job: Ints
    start: Ints
    share: Floats

    def value(self, instance: Instance) -> float:
        """Return what it earns: each share its part of the job's value."""
        return float(self.share @ instance.value[self.job])

    def require_feasible(self, instance: Instance) -> None:
        """Check it against the jobs and the units that there are.

        :raises ValueError: names the first job or step that breaks a rule
        """
        started = np.bincount(self.job, self.share, len(instance))
        too_much = np.flatnonzero(started > 1.0 + TOLERANCE)
        if len(too_much):
            raise ValueError(
                f"job {too_much[0]}: a share of {started[too_much[0]]:.6f} starts, must be at most 1"
            )
        release, due = instance.release[self.job], instance.due[self.job]
        outside = (self.start < release) | (self.start + instance.length[self.job] > due)
        if outside.any():
            k = int(np.argmax(outside))
            raise ValueError(
                f"job {self.job[k]}: starts in step {self.start[k]}, must be within its time "
                f"{release[k]} .. {due[k]}"
            )
        used = np.zeros((instance.steps, instance.need.shape[1]))
        for j, start, share in zip(self.job.tolist(), self.start.tolist(), self.share.tolist(), strict=True):
            used[start : start + instance.length[j]] += share * instance.need[j]
        over = (used - instance.level[:, None]).max(axis=1)
        if over.max() > TOLERANCE:
            step = int(np.argmax(over))
            raise ValueError(
                f"step {step}: {used[step].max():.6f} units in use, must be at most {instance.level[step]}"
            )


def divisible_schedule(
    simulator: ResourcePoolSimulator, index: int = 0, futures: int = 12, depth: int = 30, seed: int = 0
) -> DivisibleSchedule:
    """Schedule an episode where fractions of jobs may be started and arrivals are not known.

    In each step a two-stage linear programme is solved over the next ``depth`` steps, and what it starts now
    starts. First stage: the share of each waiting job that starts now, which is the same in all sampled
    futures. Second stage: what starts later, in each future by itself, of the waiting jobs and of those that
    come there. Its optimum is the mean over the futures. A share of a job needs that share of its units, any
    units instead of a block, for the job's whole run time, and earns that share of its value.

    So what it earns lies above what policies of whole jobs earn if dividing jobs is worth more than the
    programme's few futures and steps cost. It is no bound: a better policy of divisible jobs may exist.

    It sees the jobs that have arrived, the power of the next ``depth`` steps, and when the episode ends.

    :param simulator: whose environment ``index`` is in the episode; it is left as it is
    :param index: the environment
    :param futures: sampled futures of each programme
    :param depth: steps that it looks ahead; at most the horizon, unless power is constant
    :param seed: fixes the futures
    :raises NoBoundError: where jobs can be suspended, a battery makes power depend on what was done before,
        or some jobs may use grid power
    :raises ValueError: for a number below 1
    """
    require_pool(simulator)
    require(futures >= 1, "futures", futures, "at least 1")
    require(depth >= 1, "depth", depth, "at least 1 step")
    config = simulator.config
    if config.power != "constant":
        depth = min(depth, config.horizon)
    instance = recorded_instance(simulator, index)
    for reason, holds in (
        ("jobs can be suspended", instance.may_suspend),
        ("a battery stands between", instance.site is not None),
        ("some jobs may use grid power", bool(instance.brown.any())),
    ):
        if holds:
            raise NoBoundError(f"divisible jobs are planned with power that is known, but {reason}")
    bank = FutureBank(simulator, max(BANK, 4 * futures), depth, orders.QOS, np.random.default_rng(seed))
    left = np.ones(len(instance))
    free = np.concatenate([instance.level, np.repeat(instance.level[-1:], depth)])[:, None]
    free = np.repeat(free, config.resource_types, axis=1).astype(np.float64)
    found: list[tuple[int, int, float]] = []
    for now in range(instance.steps):
        can_start = (instance.release <= now) & (now + instance.length <= instance.due) & (left > LEAST)
        waiting = np.flatnonzero(can_start)
        if not len(waiting):
            continue
        first = futures * now % len(bank.first)
        chosen = [(first + k) % (len(bank.first) - 1) for k in range(futures)]
        known = _from_now(instance, waiting, now, depth)
        step = int(bank.next_step(np.array(now)))
        scenarios = [
            _until(with_future(known, bank, future, step), instance.steps - now, len(waiting))
            for future in chosen
        ]
        shares = _first_stage(scenarios, left[waiting], free[now : now + depth])
        for j, share in zip(waiting.tolist(), np.minimum(shares, left[waiting]).tolist(), strict=True):
            if share > LEAST:
                found.append((j, now, share))
                left[j] -= share
                free[now : now + instance.length[j]] -= share * instance.need[j]
        np.maximum(free, 0.0, out=free)  # the solver's tolerance
    jobs, starts, started = zip(*found, strict=True) if found else ((), (), ())
    schedule = DivisibleSchedule(
        np.array(jobs, np.int64), np.array(starts, np.int64), np.array(started, np.float64)
    )
    schedule.require_feasible(instance)
    return schedule


def _from_now(instance: Instance, waiting: Ints, now: int, depth: int) -> Instance:
    """Return the waiting jobs, on a clock that begins now."""
    length = instance.length[waiting]
    return replace(
        instance,
        steps=depth,
        job=waiting,
        release=np.zeros(len(waiting), np.int64),
        due=np.minimum(instance.due[waiting] - now, depth - 1 + length),
        length=length,
        need=instance.need[waiting],
        value=instance.value[waiting],
        brown=instance.brown[waiting],
        level=np.full(depth, instance.units),
    )


def _until(instance: Instance, steps: int, waiting: int) -> Instance:
    """Leave out the sampled jobs that cannot be done before the end of the episode."""
    due = np.minimum(instance.due, steps)
    kept = (instance.release + instance.length <= due) | (np.arange(len(instance)) < waiting)
    columns = ("job", "release", "length", "need", "value", "brown")
    return replace(instance, due=due[kept], **{name: getattr(instance, name)[kept] for name in columns})


def _first_stage(scenarios: list[Instance], left: Floats, free: Floats) -> Floats:
    """Return the share of each waiting job that starts now in the optimum over all scenarios.

    :param scenarios: the waiting jobs, in this order, then those of one future
    :param left: ``(waiting,)`` the share of each that has not started
    :param free: ``(depth, R)`` units
    """
    waiting, capacity = len(left), free.T.ravel()
    now_parts, later_parts, profits, limits = [], [], [], []
    profit_now = np.zeros(waiting)
    for scenario in scenarios:
        programme = starts_programme(scenario)
        counts = scenario.due - scenario.release - scenario.length + 1
        starts = np.cumsum(counts) - counts
        waited = np.arange(counts.sum()) - np.repeat(starts, counts)
        profit = programme.profit * (1.0 - IMPATIENCE * waited)
        is_now = np.zeros(len(profit), np.bool_)
        is_now[starts[:waiting]] = True
        rows = programme.rows.tocsc()
        now_parts.append(rows[:, is_now])
        later_parts.append(rows[:, ~is_now])
        profit_now = profit[is_now]
        profits.append(profit[~is_now] / len(scenarios))
        limit = programme.limit.copy()
        limit[:waiting] = left
        limit[len(limit) - len(capacity) :] = capacity
        limits.append(limit)
    rows = sparse.hstack([sparse.vstack(now_parts), sparse.block_diag(later_parts)], format="csr")
    profit = np.concatenate([profit_now, *profits])
    whole = Programme(profit, np.ones(len(profit)), rows, np.concatenate(limits))
    shares: Floats = np.clip(whole.solve(TIME_LIMIT).x[:waiting], 0.0, 1.0)
    return shares
