# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Compiled choices and observations of the resource pool.

Everything here works on one environment. What the numbers of an observation mean is stated in
:mod:`greendc.resource_pool.observation`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_queue import (
    is_hopeless,
    may_use_brown,
    occupied_steps,
    ready_count,
    waiting_job,
)
from greendc.resource_pool.kernel_rows import (
    column_of,
    count_bits,
    find_start,
    fits_at_once,
    longest_run,
    mark,
    ring,
)
from greendc.resource_pool.kernel_step import density, swap_victim

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Cells = NDArray[Any]


@njit(cache=True)
def refresh_choices(
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    placed: int,
) -> bool:
    """Find the earliest start of each ready job, the swap, and the action mask.

    A place that was found before is kept while it is certain still to be the first: nothing has been freed
    since (``EPOCH``), time has not passed it, and the job placed last does not overlap it. Otherwise the
    search goes on from where it stood.

    :param placed: the job that was placed since the last call, or -1
    :return: whether any action but ``no_op`` is valid
    """
    ready = ready_count(config, env)
    mask = at.ENV_I + config[at.TYPES]
    epoch = env[at.EPOCH]
    env[at.EPOCH] += 1
    any_choice = False
    for slot in range(config[at.READY]):
        valid = False
        if slot < ready:
            job = waiting_job(env, lists, slot)
            refresh_start(config, config_f, env, jobs, jobs_f, rows, job, placed, epoch)
            valid = is_valid(config, env, jobs[job])
        env[mask + slot] = valid
        any_choice = any_choice or valid
    env[at.SWAP_SLOT] = -1
    if config[at.SUSPEND_ALLOWED]:
        find_swap(config, config_f, env, jobs, jobs_f, lists, rows)
    can_swap = env[at.SWAP_SLOT] >= 0
    env[mask + config[at.READY]] = can_swap
    env[mask + config[at.READY] + 1] = 1
    return any_choice or can_swap


@njit(cache=True)
def refresh_start(
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    rows: Ints,
    job: int,
    placed: int,
    epoch: int,
) -> None:
    """Bring one job's cached start up to date; cached starts are points in time, -1 for none."""
    row, now = jobs[job], env[at.NOW]
    length = occupied_steps(config, row)
    last = now + config[at.HORIZON] - length
    first = now
    if row[at.FOUND_EPOCH] == epoch:
        found = row[at.FOUND_START]
        if found < 0:
            first = max(row[at.SEARCHED_TO] + 1, now)
        elif found >= now and not (placed >= 0 and overlaps(config, row, jobs[placed], length)):
            first = last + 1
        else:
            first = max(found, now)
        if first > last:
            row[at.FOUND_EPOCH] = epoch + 1
            return
    brown = may_use_brown(config_f, jobs_f[job])
    head = now % config[at.HORIZON]
    offset = find_start(rows, config, head, row, length, brown, first - now, last - now)
    row[at.FOUND_START] = now + offset if offset >= 0 else -1
    row[at.SEARCHED_TO] = last
    row[at.FOUND_EPOCH] = epoch + 1


@njit(cache=True)
def overlaps(config: Ints, row: Ints, placed: Ints, length: int) -> bool:
    """Return whether the cached place of a job overlaps the place of another that has just been placed."""
    types, start = config[at.TYPES], row[at.FOUND_START]
    if start >= placed[at.END] or placed[at.START] >= start + length:
        return False
    for k in range(types):
        need, block = row[at.JOB_I + k], row[at.JOB_I + 2 * types + k]
        taken, place = placed[at.JOB_I + k], placed[at.JOB_I + types + k]
        if need > 0 and taken > 0 and block < place + taken and place < block + need:
            return True
    return False


@njit(cache=True)
def is_valid(config: Ints, env: Ints, row: Ints) -> bool:
    """Return whether scheduling the job is a valid action."""
    now, start = env[at.NOW], row[at.FOUND_START]
    if start < 0 or row[at.BARRED] == now:
        return False
    rule = config[at.MASK_RULE]
    if start > now and (config[at.PLACE_NOW] or rule != at.MASK_VALID):
        return False
    return rule != at.MASK_NOW_ON_TIME or not is_hopeless(config, env, row)


@njit(cache=True)
def find_swap(
    config: Ints, config_f: Floats, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints, rows: Ints
) -> None:
    """Find what ``suspend`` would do: the running job that gives way, and the ready job that starts."""
    now = env[at.NOW]
    head = now % config[at.HORIZON]
    victim = swap_victim(config, env, jobs, jobs_f, lists)
    env[at.SWAP_VICTIM] = victim
    if victim < 0:
        return
    last = jobs[victim, at.END] - now
    mark(rows, config, head, jobs[victim], 0, last, False)
    best, greatest = -1, -np.inf
    for slot in range(ready_count(config, env)):
        job = waiting_job(env, lists, slot)
        row = jobs[job]
        length = occupied_steps(config, row)
        worth = density(config, row, jobs_f[job, at.VALUE], length)
        if row[at.BARRED] != now and worth > greatest:
            brown = may_use_brown(config_f, jobs_f[job])
            if fits_at_once(rows, config, head, row, length, brown):
                best, greatest = slot, worth
    mark(rows, config, head, jobs[victim], 0, last, True)
    on_time_only = config[at.MASK_RULE] == at.MASK_NOW_ON_TIME
    if best >= 0 and on_time_only and is_hopeless(config, env, jobs[waiting_job(env, lists, best)]):
        best = -1
    env[at.SWAP_SLOT] = best


@njit(cache=True)
def write_image(config: Ints, env: Ints, image: Cells, out: Cells) -> None:
    """Copy the ring into the picture that starts now."""
    horizon, width = config[at.HORIZON], image.shape[1]
    head = env[at.NOW] % horizon
    for h in range(horizon - head):
        for c in range(width):
            out[h, c] = image[head + h, c]
    for h in range(head):
        for c in range(width):
            out[horizon - head + h, c] = image[h, c]


@njit(cache=True)
def write_jobs(
    config: Ints, config_f: Floats, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints, out: Singles
) -> None:
    """Write the table of ready jobs; slots without a job are zero."""
    types, now = config[at.TYPES], env[at.NOW]
    step = 1.0 / config[at.HORIZON]
    long_step = 0.1 * step
    unit = 1.0 / config[at.UNITS]
    mean_value = config_f[at.MEAN_VALUE]
    mask = at.ENV_I + types
    ready = ready_count(config, env)
    for slot in range(config[at.READY]):
        cells = out[slot]
        if slot >= ready:
            cells[:] = 0.0
            continue
        job = waiting_job(env, lists, slot)
        row = jobs[job]
        value, left = jobs_f[job, at.VALUE], row[at.LATEST] - now
        length = occupied_steps(config, row)
        slack = left - length
        found = row[at.FOUND_START] - now
        can_start = row[at.FOUND_START] >= 0
        cells[0] = 1.0
        cells[1] = value / (value + mean_value)
        cells[2] = jobs_f[job, at.QOS]
        cells[3] = max(-1.0, min(1.0, left * long_step))
        cells[4] = min(1.0, (now - row[at.ARRIVAL]) * long_step)
        cells[5] = row[at.DURATION] * step
        cells[6] = row[at.REMAINING] * step
        cells[7] = max(-1.0, min(1.0, slack * step))
        cells[8] = found * step if can_start else 1.0
        cells[9] = 1.0 if can_start and found == 0 else 0.0
        cells[10] = 1.0 if can_start and found <= slack else 0.0
        cells[11] = 1.0 if slack < 0 else 0.0
        cells[12] = env[mask + slot]
        for k in range(types):
            cells[13 + k] = row[at.JOB_I + k] * unit


@njit(cache=True)
def write_context(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    lists: Ints,
    rows: Ints,
    out: Singles,
) -> None:
    """Write queue lengths, the hour, the battery and the summary of free units in the next rows."""
    horizon, types, words = config[at.HORIZON], config[at.TYPES], config[at.WORDS]
    now, pool = env[at.NOW], config[at.READY]
    beyond = env[at.N_QUEUE] + env[at.N_LATE] - ready_count(config, env)
    hopeful = max(env[at.N_QUEUE] - pool, 0)
    if config[at.LATE_RULE] == at.STAY:
        hopeful = 0
        for i in range(pool, env[at.N_QUEUE]):
            if not is_hopeless(config, env, jobs[lists[at.QUEUE, i]]):
                hopeful += 1
    hour = env_f[at.START_HOUR] + now * config_f[at.STEP_HOURS]
    out[0] = beyond / (beyond + pool)
    out[1] = hopeful / (hopeful + pool)
    out[2] = math.sin(hour * (math.pi / 12.0))
    out[3] = math.cos(hour * (math.pi / 12.0))
    place = 4
    if config_f[at.HAS_BATTERY] > 0.0:
        out[place] = env_f[at.STORED_KWH] / config_f[at.HAS_BATTERY]
        place += 1
    head = now % horizon
    unit = 1.0 / config[at.UNITS]
    for k in range(types):
        column = column_of(k, words, False)
        share, block = np.float32(0.0), np.float32(0.0)
        for h in range(config[at.CONTEXT_ROWS]):
            row = ring(head, h, horizon)
            same = h > 0
            if same:
                before = ring(head, h - 1, horizon)
                for w in range(words):
                    same = same and rows[row, column + w] == rows[before, column + w]
            if not same:
                free = 0
                for w in range(words):
                    free += count_bits(rows[row, column + w])
                share = np.float32(free * unit)
                block = np.float32(longest_run(rows, row, column, words) * unit)
            out[place] = share
            out[place + 1] = block
            place += 2
