# mypy: warn-return-any=False
"""Compiled entry points of the resource pool: reset, step and observe over a batch of environments.

The parts are in ``kernel_rows`` (the image and the first-fit search), ``kernel_queue`` (who waits),
``kernel_place`` (placing and suspending), ``kernel_power``, ``kernel_step`` (time going on) and
``kernel_observe``; :mod:`greendc.resource_pool.layout` says where the arrays keep what.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_observe import observe, refresh_choices
from greendc.resource_pool.kernel_place import place, planned_value, suspend
from greendc.resource_pool.kernel_power import forecast_levels
from greendc.resource_pool.kernel_queue import enqueue, may_use_brown, occupied_steps, waiting_job
from greendc.resource_pool.kernel_rows import clear_row, find_start, powered_units
from greendc.resource_pool.kernel_step import admit, advance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bytes = NDArray[np.int8]
Cells = NDArray[Any]


@compiled
def step_batch(
    actions: Ints,
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
    truncated: NDArray[np.bool_],
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> int:
    """Step every environment and write its observation.

    :return: 0; or, with nothing changed, ``b + 1`` if environment ``b`` is the first that cannot be stepped
        because its action is not in the action space, ``-(b + 1)`` if because its episode is over
    """
    n_actions = config[at.READY] + 2
    for b in range(actions.shape[0]):
        if actions[b] < 0 or actions[b] >= n_actions:
            return b + 1
        if env[b, at.NOW] >= config[at.EPISODE_STEPS]:
            return -(b + 1)
    for b in range(actions.shape[0]):
        decide(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, series, b, actions[b])
        truncated[b] = env[b, at.NOW] >= config[at.EPISODE_STEPS]
        observe(
            config,
            config_f,
            env,
            env_f,
            jobs,
            jobs_f,
            lists,
            rows,
            image,
            b,
            out_image,
            out_jobs,
            out_context,
            out_mask,
        )
    return 0


@compiled
def step_single(
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
    truncated: NDArray[np.bool_],
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> int:
    """Step the first environment alone and write its observation, which has no axis for the batch.

    :return: as :func:`step_batch`
    """
    if action < 0 or action >= config[at.READY] + 2:
        return 1
    if env[0, at.NOW] >= config[at.EPISODE_STEPS]:
        return -1
    decide(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, series, 0, action)
    truncated[0] = env[0, at.NOW] >= config[at.EPISODE_STEPS]
    observe(
        config,
        config_f,
        env,
        env_f,
        jobs,
        jobs_f,
        lists,
        rows,
        image,
        0,
        out_image.reshape((1, out_image.shape[0], out_image.shape[1])),
        out_jobs.reshape((1, out_jobs.shape[0], out_jobs.shape[1])),
        out_context.reshape((1, out_context.shape[0])),
        out_mask.reshape((1, out_mask.shape[0])),
    )
    return 0


@inlined
def decide(
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
    action: int,
) -> None:
    """Take one decision, and with ``skip_forced`` pass over the forced ones that follow."""
    env_f[b, at.REWARD] = 0.0
    env_f[b, at.COST] = 0.0
    env[b, at.TIME_ADVANCED] = 0
    env[b, at.DECISIONS] += 1
    ready = config[at.READY]
    valid = env[b, at.ENV_I + config[at.TYPES] + action] != 0
    placed, time_goes_on = -1, False
    if valid and action < ready:
        placed = waiting_job(env, lists, b, action)
        offset = jobs[b, placed, at.FOUND_START] - env[b, at.NOW]
        place(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b, placed, offset)
    elif valid and action == ready:
        swap(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b)
    else:
        env[b, at.INVALID] += not valid
        time_goes_on = True
    undecided = True
    while undecided:
        if time_goes_on:
            advance(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, series, b)
        any_choice = refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, b, placed)
        over = env[b, at.NOW] >= config[at.EPISODE_STEPS]
        undecided = config[at.SKIP_FORCED] != 0 and not any_choice and not over
        placed, time_goes_on = -1, True
    if config_f[at.PAY_POTENTIAL] > 0.0:
        phi = planned_value(env, jobs, jobs_f, lists, b)
        env_f[b, at.REWARD] += config_f[at.PAY_POTENTIAL] * (config_f[at.GAMMA] * phi - env_f[b, at.PHI])
        env_f[b, at.PHI] = phi
    env_f[b, at.REWARD] /= config_f[at.MEAN_VALUE]
    env_f[b, at.ACCRUED_REWARD] += env_f[b, at.REWARD]


@compiled
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
    b: int,
) -> None:
    """Suspend the running job of least value density and start the ready job of greatest that then fits."""
    now = env[b, at.NOW]
    victim, job = env[b, at.SWAP_VICTIM], waiting_job(env, lists, b, env[b, at.SWAP_SLOT])
    suspend(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b, victim)
    env[b, at.SWAPS] += 1
    jobs[b, victim, at.BARRED] = now
    length = occupied_steps(config, jobs, b, job)
    brown = may_use_brown(config_f, jobs_f, b, job)
    find_start(config, jobs, rows, b, job, env[b, at.HEAD], length, brown, 0, 0)
    place(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b, job, 0)
    enqueue(config, env, jobs, lists, b, victim)


@compiled
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
    b: int,
    job: int,
    now_only: bool,
) -> int:
    """Place any waiting job at its earliest start, and return that start's offset, or -1 if there is none."""
    now, length = env[b, at.NOW], occupied_steps(config, jobs, b, job)
    if jobs[b, job, at.BARRED] == now:
        return -1
    last = 0 if now_only or config[at.PLACE_NOW] else config[at.HORIZON] - length
    brown = may_use_brown(config_f, jobs_f, b, job)
    jobs[b, job, at.FOUND_EPOCH] = -1
    offset = find_start(config, jobs, rows, b, job, env[b, at.HEAD], length, brown, 0, last)
    if offset >= 0:
        place(config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b, job, offset)
    # Looking for a start overwrites what is kept of the last search for this job: also where it fails.
    refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, b, job if offset >= 0 else -1)
    return offset


@compiled
def observe_batch(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    first: int,
    last: int,
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> None:
    """Write the observations of environments ``first .. last - 1`` into their rows of the batch."""
    for b in range(first, last):
        observe(
            config,
            config_f,
            env,
            env_f,
            jobs,
            jobs_f,
            lists,
            rows,
            image,
            b,
            out_image,
            out_jobs,
            out_context,
            out_mask,
        )


@compiled
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
    b: int,
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
    env[b, :] = 0
    env_f[b, :] = 0.0
    env[b, at.N_JOBS] = arrival.shape[0]
    env_f[b, at.STORED_KWH] = stored_kwh
    env_f[b, at.START_HOUR] = start_hour
    for j in range(arrival.shape[0]):
        jobs[b, j, :] = 0
        jobs[b, j, at.ARRIVAL] = arrival[j]
        jobs[b, j, at.DURATION] = duration[j]
        jobs[b, j, at.REMAINING] = duration[j]
        jobs[b, j, at.LATEST] = latest[j]
        for column in (at.FINISH, at.FIRST_START, at.BARRED, at.FOUND_EPOCH, at.FOUND_START):
            jobs[b, j, column] = -1
        for k in range(config[at.TYPES]):
            jobs[b, j, at.JOB_I + k] = units[j, k]
        jobs_f[b, j, at.VALUE] = value[j]
        jobs_f[b, j, at.QOS] = qos[j]
        jobs_f[b, j, at.LATE_PAID] = 0.0
        lists[b, at.BY_LATEST, j] = by_latest[j]
    forecast_levels(config, config_f, env, env_f, series, b)
    for h in range(config[at.HORIZON]):
        level = powered_units(env_f[b, at.ENV_F + h], config[at.UNITS])
        clear_row(config, rows, image, b, config_f[at.CELL_SCALE], h, level)
    admit(config, env, jobs, lists, b)
    refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, b, -1)
