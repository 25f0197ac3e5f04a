# mypy: warn-return-any=False
"""Compiled passage of time in the resource pool.

Everything here works on environment ``b``; the arrays are described in :mod:`greendc.resource_pool.layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_place import begin, highest_unit, release, suspend
from greendc.resource_pool.kernel_power import account_energy, dark_units_in_use, refresh_levels
from greendc.resource_pool.kernel_queue import enqueue, insert, may_use_brown, rebuild
from greendc.resource_pool.kernel_rows import ring

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]


@inlined
def advance(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    series: Floats,
    b: int,
) -> None:
    """Let time go on by one step, in the order that the environment's docstring states."""
    account_step(config, config_f, env, env_f, jobs, jobs_f, lists, rows, series, b)
    env[b, at.NOW] += 1
    env[b, at.HEAD] = ring(env[b, at.HEAD], 1, config[at.HORIZON])
    env[b, at.TIME_ADVANCED] += 1
    charge_lateness(config_f, env, env_f, jobs, jobs_f, lists, b)
    finish_jobs(config, config_f, env, env_f, jobs, jobs_f, lists, b)
    fell = refresh_levels(config, config_f, env, env_f, rows, image, series, b)
    if not config[at.EXACT_LEVELS]:
        obey_levels(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b, fell)
    for i in range(env[b, at.N_PLACED]):
        job = lists[b, at.PLACED, i]
        if jobs[b, job, at.START] == env[b, at.NOW]:
            begin(config, config_f, env, env_f, jobs, jobs_f, b, job)
    admit(config, env, jobs, lists, b)
    rebuild(config, env, jobs, lists, b)
    delayed, waiting = env[b, at.N_DELAYED], env[b, at.N_NOT_STARTED]
    cost = config_f[at.COST_DELAYED] * delayed + config_f[at.COST_WAITING] * waiting
    env_f[b, at.COST] += cost
    env_f[b, at.ACCRUED_COST] += cost


@inlined
def account_step(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    series: Floats,
    b: int,
) -> None:
    """Account for the step that ends: work executed, units in use, energy."""
    types, now = config[at.TYPES], env[b, at.NOW]
    level = rows[b, env[b, at.HEAD], at.LEVEL]
    used = 0
    for k in range(types):
        used += env[b, at.ENV_I + k]
    used_dark = 0
    if config_f[at.BROWN_ABOVE] < np.inf:
        used_dark = dark_units_in_use(config, env, jobs, lists, b, level)
    env[b, at.USED_UNIT_STEPS] += used
    env[b, at.POWERED_UNIT_STEPS] += level * types + used_dark
    if config_f[at.PAY_EXECUTED] > 0.0:
        for i in range(env[b, at.N_PLACED]):
            job = lists[b, at.PLACED, i]
            worked = now - jobs[b, job, at.START] - config[at.START_DELAY]
            if jobs[b, job, at.STATUS] == at.RUNNING and 0 <= worked < jobs[b, job, at.REMAINING]:
                share = jobs_f[b, job, at.VALUE] / jobs[b, job, at.DURATION]
                env_f[b, at.REWARD] += config_f[at.PAY_EXECUTED] * share
    if config[at.HAS_SITE]:
        idle = level * types - (used - used_dark)
        account_energy(config, config_f, env, env_f, series, b, used, idle)


@inlined
def charge_lateness(
    config_f: Floats, env: Ints, env_f: Floats, jobs: Ints, jobs_f: Floats, lists: Ints, b: int
) -> None:
    """Notice the jobs that are past their latest finish now, and charge all such jobs for the step."""
    rate = config_f[at.CHARGE_LATENESS]
    while env[b, at.NEXT_OVERDUE] < env[b, at.N_JOBS]:
        job = lists[b, at.BY_LATEST, env[b, at.NEXT_OVERDUE]]
        if jobs[b, job, at.LATEST] >= env[b, at.NOW]:
            break
        env[b, at.NEXT_OVERDUE] += 1
        if jobs[b, job, at.STATUS] < at.FINISHED:
            jobs[b, job, at.DELAYED] = 1
            env[b, at.N_DELAYED] += 1
            if rate > 0.0:
                insert(lists, b, at.OVERDUE, env[b, at.N_OVERDUE], job)
                env[b, at.N_OVERDUE] += 1
    kept = 0
    for i in range(env[b, at.N_OVERDUE]):
        job = lists[b, at.OVERDUE, i]
        if jobs[b, job, at.STATUS] >= at.FINISHED:
            continue
        value = jobs_f[b, job, at.VALUE]
        cap = config_f[at.LATENESS_CAP] * value
        charge = min(rate * value, cap - jobs_f[b, job, at.LATE_PAID])
        jobs_f[b, job, at.LATE_PAID] += charge
        env_f[b, at.REWARD] -= charge
        if jobs_f[b, job, at.LATE_PAID] < cap:
            lists[b, at.OVERDUE, kept] = job
            kept += 1
    env[b, at.N_OVERDUE] = kept


@inlined
def finish_jobs(
    config: Ints, config_f: Floats, env: Ints, env_f: Floats, jobs: Ints, jobs_f: Floats, lists: Ints, b: int
) -> None:
    """Let the jobs leave whose placement ends now, and pay those that are on time."""
    kept = 0
    for i in range(env[b, at.N_PLACED]):
        job = lists[b, at.PLACED, i]
        if jobs[b, job, at.END] > env[b, at.NOW]:
            lists[b, at.PLACED, kept] = job
            kept += 1
            continue
        jobs[b, job, at.STATUS] = at.FINISHED
        jobs[b, job, at.FINISH] = env[b, at.NOW]
        jobs[b, job, at.REMAINING] = 0
        for k in range(config[at.TYPES]):
            env[b, at.ENV_I + k] -= jobs[b, job, at.JOB_I + k]
        if jobs[b, job, at.DELAYED]:
            env[b, at.N_DELAYED] -= 1
        else:
            env_f[b, at.REWARD] += config_f[at.PAY_ON_TIME] * jobs_f[b, job, at.VALUE]
    env[b, at.N_PLACED] = kept


@compiled
def obey_levels(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    b: int,
    fell: bool,
) -> None:
    """Suspend running jobs that row 0 does not carry; break reservations that some row does not carry.

    Reservations are looked at only when a level fell: they were carried when they were made.
    """
    horizon = config[at.HORIZON]
    i = 0
    while i < env[b, at.N_PLACED]:
        job = lists[b, at.PLACED, i]
        highest = highest_unit(config, jobs, b, job)
        running = jobs[b, job, at.STATUS] == at.RUNNING
        carried = True
        if not may_use_brown(config_f, jobs_f, b, job):
            if running:
                carried = highest <= rows[b, env[b, at.HEAD], at.LEVEL]
            elif fell:
                for t in range(jobs[b, job, at.START], jobs[b, job, at.END]):
                    carried = carried and highest <= rows[b, t % horizon, at.LEVEL]
        if carried:
            i += 1
            continue
        if running:
            suspend(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b, job)
            env[b, at.POWER_SUSPENSIONS] += 1
        else:
            release(config, config_f, env, jobs, lists, rows, image, b, job)
            env[b, at.BROKEN] += 1
        enqueue(config, env, jobs, lists, b, job)


@inlined
def admit(config: Ints, env: Ints, jobs: Ints, lists: Ints, b: int) -> None:
    """Let the jobs enter that arrive now or earlier."""
    while env[b, at.NEXT_ARRIVAL] < env[b, at.N_JOBS]:
        job = env[b, at.NEXT_ARRIVAL]
        if jobs[b, job, at.ARRIVAL] > env[b, at.NOW]:
            return
        env[b, at.NEXT_ARRIVAL] += 1
        env[b, at.N_NOT_STARTED] += 1
        enqueue(config, env, jobs, lists, b, job)
