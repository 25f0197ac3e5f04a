# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Compiled dynamics of the resource pool: placing, suspending, and time going on.

Everything here works on one environment; the arrays are described in :mod:`greendc.resource_pool.layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.energy import kernel as energy
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_queue import (
    dequeue,
    enqueue,
    insert,
    may_use_brown,
    occupied_steps,
    rebuild,
    remove,
    total_units,
)
from greendc.resource_pool.kernel_rows import (
    clear_row,
    job_code,
    mark,
    paint,
    powered_units,
    set_level,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]


@njit(cache=True)
def place(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    job: int,
    offset: int,
) -> None:
    """Reserve the cached block of a waiting job from row ``offset`` on; it runs at once if that is row 0."""
    types, now = config[at.TYPES], env[at.NOW]
    row = jobs[job]
    length = occupied_steps(config, row)
    dequeue(env, lists, job)
    for k in range(types):
        row[at.JOB_I + types + k] = row[at.JOB_I + 2 * types + k]
    row[at.START] = now + offset
    row[at.END] = now + offset + length
    row[at.STATUS] = at.RESERVED
    head = now % config[at.HORIZON]
    mark(rows, config, head, row, offset, offset + length, True)
    paint(image, rows, config, config_f[at.CELL_SCALE], head, row, offset, offset + length, job_code(job))
    insert(lists, at.PLACED, env[at.N_PLACED], job)
    env[at.N_PLACED] += 1
    if offset == 0:
        begin(config, config_f, env, env_f, jobs, jobs_f, job)


@njit(cache=True)
def begin(
    config: Ints, config_f: Floats, env: Ints, env_f: Floats, jobs: Ints, jobs_f: Floats, job: int
) -> None:
    """Let a reserved job run from now on."""
    row = jobs[job]
    row[at.STATUS] = at.RUNNING
    if row[at.FIRST_START] < 0:
        row[at.FIRST_START] = env[at.NOW]
        env[at.N_NOT_STARTED] -= 1
    else:
        env_f[at.REWARD] += config_f[at.PAY_RESUMPTION] * jobs_f[job, at.VALUE]
    for k in range(config[at.TYPES]):
        env[at.ENV_I + k] += row[at.JOB_I + k]


@njit(cache=True)
def release(
    config: Ints, config_f: Floats, env: Ints, jobs: Ints, lists: Ints, rows: Ints, image: Cells, job: int
) -> None:
    """Free what a placed job occupies from row 0 on, and keep the work that it has done."""
    now, row = env[at.NOW], jobs[job]
    head = now % config[at.HORIZON]
    first, last = max(row[at.START] - now, 0), row[at.END] - now
    mark(rows, config, head, row, first, last, False)
    paint(image, rows, config, config_f[at.CELL_SCALE], head, row, first, last, at.CELL_FREE)
    worked = now - row[at.START] - config[at.START_DELAY]
    row[at.REMAINING] -= min(max(worked, 0), row[at.REMAINING])
    if row[at.STATUS] == at.RUNNING:
        for k in range(config[at.TYPES]):
            env[at.ENV_I + k] -= row[at.JOB_I + k]
    row[at.STATUS] = at.WAITING
    remove(lists, at.PLACED, env[at.N_PLACED], job)
    env[at.N_PLACED] -= 1
    env[at.EPOCH] += 1  # cells are free again: no cached place holds any longer


@njit(cache=True)
def suspend(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    job: int,
) -> None:
    """Suspend a running job; the caller puts it back into the queue."""
    release(config, config_f, env, jobs, lists, rows, image, job)
    jobs[job, at.SUSPENSIONS] += 1
    env_f[at.REWARD] -= config_f[at.CHARGE_SUSPENSION] * jobs_f[job, at.VALUE]


@njit(cache=True)
def density(config: Ints, row: Ints, value: float, steps: int) -> float:
    """Return a job's value per unit and step that it still needs."""
    return value / (steps * total_units(config, row))


@njit(cache=True)
def swap_victim(config: Ints, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints) -> int:
    """Return the running job of least value per remaining unit-step (ties: lowest id), or -1."""
    victim, least = -1, np.inf
    for i in range(env[at.N_PLACED]):
        job = lists[at.PLACED, i]
        if jobs[job, at.STATUS] == at.RUNNING:
            steps = jobs[job, at.END] - env[at.NOW]
            worth = density(config, jobs[job], jobs_f[job, at.VALUE], steps)
            if worth < least:
                victim, least = job, worth
    return victim


@njit(cache=True)
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
    scratch: Floats,
) -> None:
    """Let time go on by one step, in the order that the class docstring of the environment states."""
    account_step(config, config_f, env, env_f, jobs, jobs_f, lists, rows, series, scratch)
    env[at.NOW] += 1
    env[at.TIME_ADVANCED] += 1
    charge_lateness(config_f, env, env_f, jobs, jobs_f, lists)
    finish_jobs(config, config_f, env, env_f, jobs, jobs_f, lists)
    fell = refresh_levels(config, config_f, env, env_f, rows, image, series, scratch)
    obey_levels(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, fell)
    for i in range(env[at.N_PLACED]):
        job = lists[at.PLACED, i]
        if jobs[job, at.START] == env[at.NOW]:
            begin(config, config_f, env, env_f, jobs, jobs_f, job)
    admit(config, env, jobs, lists)
    rebuild(config, env, jobs, lists)
    cost = config_f[at.COST_DELAYED] * env[at.N_DELAYED] + config_f[at.COST_WAITING] * env[at.N_NOT_STARTED]
    env_f[at.COST] += cost
    env_f[at.ACCRUED_COST] += cost


@njit(cache=True)
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
    scratch: Floats,
) -> None:
    """Account for the step that ends: work executed, units in use, energy."""
    types, now = config[at.TYPES], env[at.NOW]
    level = rows[now % config[at.HORIZON], at.LEVEL]
    used = 0
    for k in range(types):
        used += env[at.ENV_I + k]
    used_dark = 0
    if config_f[at.BROWN_ABOVE] < np.inf:
        used_dark = dark_units_in_use(config, env, jobs, lists, level)
    env[at.USED_UNIT_STEPS] += used
    env[at.POWERED_UNIT_STEPS] += level * types + used_dark
    if config_f[at.PAY_EXECUTED] > 0.0:
        for i in range(env[at.N_PLACED]):
            job = lists[at.PLACED, i]
            worked = now - jobs[job, at.START] - config[at.START_DELAY]
            if jobs[job, at.STATUS] == at.RUNNING and 0 <= worked < jobs[job, at.REMAINING]:
                share = jobs_f[job, at.VALUE] / jobs[job, at.DURATION]
                env_f[at.REWARD] += config_f[at.PAY_EXECUTED] * share
    if config[at.HAS_SITE]:
        idle = level * types - (used - used_dark)
        account_energy(config, config_f, env, env_f, series, used, idle, scratch)


@njit(cache=True)
def dark_units_in_use(config: Ints, env: Ints, jobs: Ints, lists: Ints, level: int) -> int:
    """Return how many units above the powered ones are running jobs on brown energy."""
    types, dark = config[at.TYPES], 0
    for i in range(env[at.N_PLACED]):
        row = jobs[lists[at.PLACED, i]]
        if row[at.STATUS] == at.RUNNING:
            for k in range(types):
                block, need = row[at.JOB_I + types + k], row[at.JOB_I + k]
                dark += min(max(block + need - level, 0), need)
    return dark


@njit(cache=True)
def account_energy(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    series: Floats,
    used: int,
    idle: int,
    scratch: Floats,
) -> None:
    """Dispatch the step that ends and add its energies up."""
    site = config_f[at.SITE :]
    now, hours = env[at.NOW], config_f[at.STEP_HOURS]
    solar, wind = series[now, at.SOLAR], series[now, at.WIND]
    unit_kw = site[energy.POOL_KW] / (config[at.UNITS] * config[at.TYPES])
    draw = unit_kw * (used + site[energy.IDLE_FRACTION] * idle)
    demand = min(draw, env_f[at.AVAILABLE_KW])
    brown = draw - demand if config_f[at.BROWN_ABOVE] < np.inf else 0.0
    flows = scratch[: energy.FLOW_COLUMNS]
    energy.dispatch(flows, site, env_f[at.STORED_KWH], solar + wind, demand, brown, hours)
    env_f[at.STORED_KWH] = flows[energy.STORED]
    env_f[at.SOLAR_KWH] += solar * hours
    env_f[at.WIND_KWH] += wind * hours
    env_f[at.CRITICAL_KWH] += flows[energy.CRITICAL_SERVED] * hours
    env_f[at.POOL_KWH] += flows[energy.POOL_SERVED] * hours
    env_f[at.CHARGED_KWH] += flows[energy.CHARGE] * hours
    env_f[at.DISCHARGED_KWH] += flows[energy.DISCHARGE] * hours
    env_f[at.GRID_KWH] += flows[energy.GRID] * hours
    env_f[at.CURTAILED_KWH] += flows[energy.CURTAILED] * hours
    env_f[at.UNSERVED_KWH] += flows[energy.CRITICAL_UNSERVED] * hours
    env_f[at.CARBON_KG] += flows[energy.GRID] * hours * series[now, at.CARBON]


@njit(cache=True)
def charge_lateness(
    config_f: Floats, env: Ints, env_f: Floats, jobs: Ints, jobs_f: Floats, lists: Ints
) -> None:
    """Notice the jobs that are past their latest finish now, and charge all such jobs for the step."""
    rate = config_f[at.CHARGE_LATENESS]
    while env[at.NEXT_OVERDUE] < env[at.N_JOBS]:
        job = lists[at.BY_LATEST, env[at.NEXT_OVERDUE]]
        if jobs[job, at.LATEST] >= env[at.NOW]:
            break
        env[at.NEXT_OVERDUE] += 1
        if jobs[job, at.STATUS] < at.FINISHED:
            jobs[job, at.DELAYED] = 1
            env[at.N_DELAYED] += 1
            if rate > 0.0:
                insert(lists, at.OVERDUE, env[at.N_OVERDUE], job)
                env[at.N_OVERDUE] += 1
    kept = 0
    for i in range(env[at.N_OVERDUE]):
        job = lists[at.OVERDUE, i]
        if jobs[job, at.STATUS] >= at.FINISHED:
            continue
        value = jobs_f[job, at.VALUE]
        cap = config_f[at.LATENESS_CAP] * value
        charge = min(rate * value, cap - jobs_f[job, at.LATE_PAID])
        jobs_f[job, at.LATE_PAID] += charge
        env_f[at.REWARD] -= charge
        if jobs_f[job, at.LATE_PAID] < cap:
            lists[at.OVERDUE, kept] = job
            kept += 1
    env[at.N_OVERDUE] = kept


@njit(cache=True)
def finish_jobs(
    config: Ints, config_f: Floats, env: Ints, env_f: Floats, jobs: Ints, jobs_f: Floats, lists: Ints
) -> None:
    """Let the jobs leave whose placement ends now, and pay those that are on time."""
    kept = 0
    for i in range(env[at.N_PLACED]):
        job = lists[at.PLACED, i]
        row = jobs[job]
        if row[at.END] > env[at.NOW]:
            lists[at.PLACED, kept] = job
            kept += 1
            continue
        row[at.STATUS] = at.FINISHED
        row[at.FINISH] = env[at.NOW]
        row[at.REMAINING] = 0
        for k in range(config[at.TYPES]):
            env[at.ENV_I + k] -= row[at.JOB_I + k]
        if row[at.DELAYED]:
            env[at.N_DELAYED] -= 1
        else:
            env_f[at.REWARD] += config_f[at.PAY_ON_TIME] * jobs_f[job, at.VALUE]
    env[at.N_PLACED] = kept


@njit(cache=True)
def forecast_factor(config_f: Floats, series: Floats, now: int, offset: int) -> float:
    """Return what the forecast of row ``offset`` is multiplied with: 1 for row 0 and exact forecasts."""
    drift = series[now + offset, at.WALK] - series[now, at.WALK]
    return max(0.0, 1.0 + config_f[at.FORECAST_ERROR] * drift)


@njit(cache=True)
def refresh_levels(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    rows: Ints,
    image: Cells,
    series: Floats,
    scratch: Floats,
) -> bool:
    """Move the image up to now: clear its new last row and give every row its newest level.

    :return: whether the level of any row fell
    """
    horizon, units, now = config[at.HORIZON], config[at.UNITS], env[at.NOW]
    scale = config_f[at.CELL_SCALE]
    head = now % horizon
    last = head - 1 if head > 0 else horizon - 1
    if config[at.EXACT_LEVELS]:
        level = powered_units(series[now + horizon - 1, at.SOLAR], units)
        clear_row(image, rows, config, scale, last, level)
        return False
    levels = scratch[energy.FLOW_COLUMNS : energy.FLOW_COLUMNS + horizon]
    forecast_levels(config, config_f, env, env_f, series, scratch, levels)
    clear_row(image, rows, config, scale, last, powered_units(levels[horizon - 1], units))
    changed, fell = False, False
    for h in range(horizon - 1):
        row = head + h if head + h < horizon else head + h - horizon
        level = powered_units(levels[h], units)
        if level != rows[row, at.LEVEL]:
            changed = True
            fell = fell or level < rows[row, at.LEVEL]
            set_level(image, rows, config, scale, row, level)
    if changed:
        env[at.EPOCH] += 1
    return fell


@njit(cache=True)
def forecast_levels(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    series: Floats,
    scratch: Floats,
    levels: Floats,
) -> None:
    """Write the share of the pool that each row can power, as it is foreseen now."""
    horizon, now = config[at.HORIZON], env[at.NOW]
    for h in range(horizon):
        factor = forecast_factor(config_f, series, now, h)
        if config[at.HAS_SITE]:
            generation = series[now + h, at.SOLAR] + series[now + h, at.WIND]
            scratch[energy.FLOW_COLUMNS + horizon + h] = generation * factor
        else:
            levels[h] = min(series[now + h, at.SOLAR] * factor, 1.0)
    if config[at.HAS_SITE]:
        site = config_f[at.SITE :]
        generation_kw = scratch[energy.FLOW_COLUMNS + horizon : energy.FLOW_COLUMNS + 2 * horizon]
        energy.project(
            levels,
            scratch[: energy.FLOW_COLUMNS],
            site,
            env_f[at.STORED_KWH],
            generation_kw,
            config_f[at.STEP_HOURS],
        )
        env_f[at.AVAILABLE_KW] = levels[0]
        for h in range(horizon):
            levels[h] = levels[h] / site[energy.POOL_KW]


@njit(cache=True)
def highest_unit(config: Ints, row: Ints) -> int:
    """Return one more than the highest unit that a placed job occupies."""
    types, highest = config[at.TYPES], 0
    for k in range(types):
        highest = max(highest, row[at.JOB_I + types + k] + row[at.JOB_I + k])
    return highest


@njit(cache=True)
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
    fell: bool,
) -> None:
    """Suspend running jobs that row 0 does not carry; break reservations that some row does not carry.

    Reservations are looked at only when a level fell: they were carried when they were made.
    """
    horizon, now = config[at.HORIZON], env[at.NOW]
    head = now % horizon
    i = 0
    while i < env[at.N_PLACED]:
        job = lists[at.PLACED, i]
        row = jobs[job]
        highest = highest_unit(config, row)
        if may_use_brown(config_f, jobs_f[job]):
            i += 1
        elif row[at.STATUS] == at.RUNNING:
            if highest > rows[head, at.LEVEL]:
                suspend(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, job)
                env[at.POWER_SUSPENSIONS] += 1
                enqueue(config, env, jobs, lists, job)
            else:
                i += 1
        else:
            carried = True
            if fell:
                for t in range(row[at.START], row[at.END]):
                    carried = carried and highest <= rows[t % horizon, at.LEVEL]
            if carried:
                i += 1
            else:
                release(config, config_f, env, jobs, lists, rows, image, job)
                env[at.BROKEN] += 1
                enqueue(config, env, jobs, lists, job)


@njit(cache=True)
def admit(config: Ints, env: Ints, jobs: Ints, lists: Ints) -> None:
    """Let the jobs enter that arrive now or earlier."""
    while env[at.NEXT_ARRIVAL] < env[at.N_JOBS]:
        job = env[at.NEXT_ARRIVAL]
        if jobs[job, at.ARRIVAL] > env[at.NOW]:
            return
        env[at.NEXT_ARRIVAL] += 1
        env[at.N_NOT_STARTED] += 1
        enqueue(config, env, jobs, lists, job)


@njit(cache=True)
def planned_value(env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints) -> float:
    """Return the value of the placed jobs whose planned finish is on time (the potential)."""
    total = 0.0
    for i in range(env[at.N_PLACED]):
        job = lists[at.PLACED, i]
        if jobs[job, at.END] <= jobs[job, at.LATEST]:
            total += jobs_f[job, at.VALUE]
    return total
