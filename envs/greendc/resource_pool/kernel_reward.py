# mypy: warn-return-any=False
"""Compiled reward: what each event of a step pays, and what the step is worth in the end."""

from __future__ import annotations

from greendc.compiled import internal
from greendc.resource_pool.layout import Pool

EXECUTED, ON_TIME, SUSPENDED, RESUMED, LATE = range(5)
"""Events: a step of work done, finished on time, suspended, running again, a step past the latest finish."""


@internal
def pay(pool: Pool, event: int, job: int) -> None:
    """Add what an event of a job pays to the reward of the step.

    The weights are shares of the job's value; see :class:`~greendc.resource_pool.rewards.RewardWeights`.
    """
    config, value = pool.config, pool.jobs[job].value
    if event == EXECUTED:
        pool.env.reward += config.pay_executed * (value / pool.jobs[job].duration)
    elif event == ON_TIME:
        pool.env.reward += config.pay_on_time * value
    elif event == SUSPENDED:
        pool.env.reward -= config.charge_suspension * value
    elif event == RESUMED:
        pool.env.reward += config.pay_resumption * value
    else:
        most = config.lateness_cap * value - pool.jobs[job].late_paid
        charge = min(config.charge_lateness * value, most)
        pool.jobs[job].late_paid += charge
        pool.env.reward -= charge


@internal
def settle(pool: Pool) -> None:
    """Add the potential's part, and divide the reward of the step by the mean job value."""
    if pool.config.pay_potential > 0.0:
        potential = planned_value(pool)
        shaping = pool.config.gamma * potential - pool.env.potential
        pool.env.reward += pool.config.pay_potential * shaping
        pool.env.potential = potential
    pool.env.reward /= pool.config.mean_value
    pool.env.accrued_reward += pool.env.reward


@internal
def planned_value(pool: Pool) -> float:
    """Return the value of the placed jobs whose planned finish is on time (the potential)."""
    total = 0.0
    for i in range(pool.env.n_placed):
        job = pool.jobs[pool.placed[i]]
        if job.end <= job.latest:
            total += job.value
    return total
