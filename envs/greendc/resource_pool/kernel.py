# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Compiled entry points of the resource pool: reset, step, observe and metrics over a batch of environments.

The parts are in ``kernel_rows`` (the image and the first-fit search), ``kernel_queue`` (who waits),
``kernel_step`` (placing, suspending, time) and ``kernel_observe``; :mod:`greendc.resource_pool.layout` says
where the arrays keep what.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.energy.kernel import FLOW_COLUMNS
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_observe import refresh_choices, write_context, write_image, write_jobs
from greendc.resource_pool.kernel_queue import enqueue, may_use_brown, occupied_steps, waiting_job
from greendc.resource_pool.kernel_rows import clear_row, find_start, powered_units
from greendc.resource_pool.kernel_step import admit, advance, forecast_levels, place, planned_value, suspend

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bytes = NDArray[np.int8]
Cells = NDArray[Any]

STEPPED, BAD_ACTION, EPISODE_OVER = 0, 1, 2


@njit(cache=True)
def step_batch(
    actions: Ints,
    config: Ints,
    config_f: Floats,
    env_i: Ints,
    env_f: Floats,
    jobs_i: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    series: Floats,
    truncated: NDArray[np.bool_],
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> tuple[int, int]:
    """Step every environment and write its observation.

    :return: ``(STEPPED, 0)``, or, with nothing changed, ``(BAD_ACTION, i)`` or ``(EPISODE_OVER, i)`` for
        the first environment ``i`` that cannot be stepped
    """
    n_actions = config[at.READY] + 2
    for b in range(actions.shape[0]):
        if actions[b] < 0 or actions[b] >= n_actions:
            return BAD_ACTION, b
        if env_i[b, at.NOW] >= config[at.EPISODE_STEPS]:
            return EPISODE_OVER, b
    for b in range(actions.shape[0]):
        step_one(
            actions[b],
            config,
            config_f,
            env_i[b],
            env_f[b],
            jobs_i[b],
            jobs_f[b],
            lists[b],
            rows[b],
            image[b],
            series[b],
        )
        truncated[b] = env_i[b, at.NOW] >= config[at.EPISODE_STEPS]
        write_image(config, env_i[b], image[b], out_image[b])
        write_jobs(config, config_f, env_i[b], jobs_i[b], jobs_f[b], lists[b], out_jobs[b])
        write_context(config, config_f, env_i[b], env_f[b], jobs_i[b], lists[b], rows[b], out_context[b])
        write_mask(config, env_i[b], out_mask[b])
    return STEPPED, 0


@njit(cache=True)
def step_one(
    action: int,
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
) -> None:
    """Take one decision, and with ``skip_forced`` pass over the forced ones that follow."""
    env_f[at.REWARD] = 0.0
    env_f[at.COST] = 0.0
    env[at.TIME_ADVANCED] = 0
    env[at.DECISIONS] += 1
    scratch = env_f[at.ENV_F :]
    ready = config[at.READY]
    valid = env[at.ENV_I + config[at.TYPES] + action] != 0
    placed = -1
    if valid and action < ready:
        placed = waiting_job(env, lists, action)
        offset = jobs[placed, at.FOUND_START] - env[at.NOW]
        place(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, placed, offset)
    elif valid and action == ready:
        swap(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image)
    else:
        env[at.INVALID] += not valid
        advance(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, series, scratch)
    any_choice = refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, placed)
    while config[at.SKIP_FORCED] and not any_choice and env[at.NOW] < config[at.EPISODE_STEPS]:
        advance(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, series, scratch)
        any_choice = refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, -1)
    if config_f[at.PAY_POTENTIAL] > 0.0:
        phi = planned_value(env, jobs, jobs_f, lists)
        env_f[at.REWARD] += config_f[at.PAY_POTENTIAL] * (config_f[at.GAMMA] * phi - env_f[at.PHI])
        env_f[at.PHI] = phi
    env_f[at.REWARD] /= config_f[at.MEAN_VALUE]
    env_f[at.ACCRUED_REWARD] += env_f[at.REWARD]


@njit(cache=True)
def swap(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
) -> None:
    """Suspend the running job of least value density and start the ready job of greatest that then fits."""
    victim, job = env[at.SWAP_VICTIM], waiting_job(env, lists, env[at.SWAP_SLOT])
    suspend(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, victim)
    env[at.SWAPS] += 1
    jobs[victim, at.BARRED] = env[at.NOW]
    brown = may_use_brown(config_f, jobs_f[job])
    head = env[at.NOW] % config[at.HORIZON]
    find_start(rows, config, head, jobs[job], occupied_steps(config, jobs[job]), brown, 0, 0)
    place(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, job, 0)
    enqueue(config, env, jobs, lists, victim)


@njit(cache=True)
def write_mask(config: Ints, env: Ints, out: Bytes) -> None:
    """Write the action mask."""
    first = at.ENV_I + config[at.TYPES]
    for a in range(config[at.READY] + 2):
        out[a] = env[first + a]


@njit(cache=True)
def observe_batch(
    first: int,
    last: int,
    config: Ints,
    config_f: Floats,
    env_i: Ints,
    env_f: Floats,
    jobs_i: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> None:
    """Write the observations of environments ``first .. last - 1`` into their rows of the batch."""
    for b in range(first, last):
        write_image(config, env_i[b], image[b], out_image[b])
        write_jobs(config, config_f, env_i[b], jobs_i[b], jobs_f[b], lists[b], out_jobs[b])
        write_context(config, config_f, env_i[b], env_f[b], jobs_i[b], lists[b], rows[b], out_context[b])
        write_mask(config, env_i[b], out_mask[b])


@njit(cache=True)
def reset_one(
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
    arrival: Ints,
    duration: Ints,
    units: Ints,
    qos: Floats,
    latest: Ints,
    value: Floats,
    by_latest: Ints,
    stored_kwh: float,
    start_hour: float,
) -> None:
    """Start an episode of one environment with these jobs; ``series`` has been filled already."""
    env[:] = 0
    env_f[:] = 0.0
    env[at.N_JOBS] = arrival.shape[0]
    env_f[at.STORED_KWH] = stored_kwh
    env_f[at.START_HOUR] = start_hour
    load_jobs(config, jobs, jobs_f, lists, arrival, duration, units, qos, latest, value, by_latest)
    horizon = config[at.HORIZON]
    scratch = env_f[at.ENV_F :]
    levels = scratch[FLOW_COLUMNS : FLOW_COLUMNS + horizon]
    if config[at.EXACT_LEVELS]:
        levels[:] = series[:horizon, at.SOLAR]
    else:
        forecast_levels(config, config_f, env, env_f, series, scratch, levels)
    for h in range(horizon):
        clear_row(image, rows, config, config_f[at.CELL_SCALE], h, powered_units(levels[h], config[at.UNITS]))
    admit(config, env, jobs, lists)
    refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, -1)


@njit(cache=True)
def load_jobs(
    config: Ints,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    arrival: Ints,
    duration: Ints,
    units: Ints,
    qos: Floats,
    latest: Ints,
    value: Floats,
    by_latest: Ints,
) -> None:
    """Write the jobs of an episode into their tables."""
    for j in range(arrival.shape[0]):
        row = jobs[j]
        row[:] = 0
        row[at.ARRIVAL] = arrival[j]
        row[at.DURATION] = duration[j]
        row[at.REMAINING] = duration[j]
        row[at.LATEST] = latest[j]
        row[at.FINISH] = -1
        row[at.FIRST_START] = -1
        row[at.BARRED] = -1
        row[at.FOUND_EPOCH] = -1
        row[at.FOUND_START] = -1
        for k in range(config[at.TYPES]):
            row[at.JOB_I + k] = units[j, k]
        jobs_f[j, at.VALUE] = value[j]
        jobs_f[j, at.QOS] = qos[j]
        jobs_f[j, at.LATE_PAID] = 0.0
        lists[at.BY_LATEST, j] = by_latest[j]


@njit(cache=True)
def place_waiting(
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
    now_only: bool,
) -> int:
    """Place any waiting job at its earliest start, and return that start's offset, or -1 if there is none."""
    row = jobs[job]
    now, length = env[at.NOW], occupied_steps(config, row)
    last = 0 if now_only or config[at.PLACE_NOW] else config[at.HORIZON] - length
    brown = may_use_brown(config_f, jobs_f[job])
    if row[at.BARRED] == now:
        return -1
    row[at.FOUND_EPOCH] = -1
    offset = find_start(rows, config, now % config[at.HORIZON], row, length, brown, 0, last)
    if offset >= 0:
        place(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, job, offset)
        refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, job)
    return offset
