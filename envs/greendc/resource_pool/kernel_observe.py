# mypy: warn-return-any=False
"""Compiled choices and observations of the resource pool.

Everything here works on environment ``b``. What the numbers of an observation mean is stated in
:mod:`greendc.resource_pool.observation`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_place import density, swap_victim
from greendc.resource_pool.kernel_queue import (
    is_hopeless,
    may_use_brown,
    occupied_steps,
    ready_count,
    waiting_job,
)
from greendc.resource_pool.kernel_rows import (
    find_start,
    fits_at_once,
    mark,
    ring,
    summarize,
    summary_of,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bytes = NDArray[np.int8]
Cells = NDArray[Any]


@inlined
def refresh_choices(
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    b: int,
    placed: int,
) -> bool:
    """Find the earliest start of each ready job, the swap, and the action mask.

    A place that was found before is kept while it is certain still to be the first: nothing has been freed
    since (``EPOCH``), time has not passed it, and the job placed last does not overlap it. Otherwise the
    search goes on from where it stood.

    :param placed: the job that was placed since the last call, or -1
    :return: whether any action but ``no_op`` is valid
    """
    ready = ready_count(config, env, b)
    mask = at.ENV_I + config[at.TYPES]
    epoch = env[b, at.EPOCH]
    env[b, at.EPOCH] += 1
    any_choice = False
    for slot in range(config[at.READY]):
        valid = False
        if slot < ready:
            job = waiting_job(env, lists, b, slot)
            refresh_start(config, config_f, env, jobs, jobs_f, rows, b, job, placed, epoch)
            valid = is_valid(config, env, jobs, b, job)
        env[b, mask + slot] = valid
        any_choice = any_choice or valid
    env[b, at.SWAP_SLOT] = -1
    if config[at.SUSPEND_ALLOWED]:
        find_swap(config, config_f, env, jobs, jobs_f, lists, rows, b)
    can_swap = env[b, at.SWAP_SLOT] >= 0
    env[b, mask + config[at.READY]] = can_swap
    env[b, mask + config[at.READY] + 1] = 1
    return any_choice or can_swap


@inlined
def refresh_start(
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    rows: Ints,
    b: int,
    job: int,
    placed: int,
    epoch: int,
) -> None:
    """Bring one job's cached start up to date; cached starts are points in time, -1 for none."""
    now = env[b, at.NOW]
    length = occupied_steps(config, jobs, b, job)
    last = now + config[at.HORIZON] - length
    first = now
    if jobs[b, job, at.FOUND_EPOCH] == epoch:
        found = jobs[b, job, at.FOUND_START]
        if found < 0:
            first = max(jobs[b, job, at.SEARCHED_TO] + 1, now)
        elif found >= now and not (placed >= 0 and overlaps(config, jobs, b, job, placed, length)):
            first = last + 1
        else:
            first = max(found, now)
    if first <= last:
        brown = may_use_brown(config_f, jobs_f, b, job)
        head = env[b, at.HEAD]
        offset = find_start(config, jobs, rows, b, job, head, length, brown, first - now, last - now)
        jobs[b, job, at.FOUND_START] = now + offset if offset >= 0 else -1
        jobs[b, job, at.SEARCHED_TO] = last
    jobs[b, job, at.FOUND_EPOCH] = epoch + 1


@inlined
def overlaps(config: Ints, jobs: Ints, b: int, job: int, placed: int, length: int) -> bool:
    """Return whether the cached place of a job overlaps the place of another that has just been placed."""
    types, start = config[at.TYPES], jobs[b, job, at.FOUND_START]
    if start >= jobs[b, placed, at.END] or jobs[b, placed, at.START] >= start + length:
        return False
    for k in range(types):
        need, block = jobs[b, job, at.JOB_I + k], jobs[b, job, at.JOB_I + 2 * types + k]
        taken, place = jobs[b, placed, at.JOB_I + k], jobs[b, placed, at.JOB_I + types + k]
        if need > 0 and taken > 0 and block < place + taken and place < block + need:
            return True
    return False


@inlined
def is_valid(config: Ints, env: Ints, jobs: Ints, b: int, job: int) -> bool:
    """Return whether scheduling the job is a valid action."""
    now, start = env[b, at.NOW], jobs[b, job, at.FOUND_START]
    if start < 0 or jobs[b, job, at.BARRED] == now:
        return False
    rule = config[at.MASK_RULE]
    if start > now and (config[at.PLACE_NOW] or rule != at.MASK_VALID):
        return False
    return rule != at.MASK_NOW_ON_TIME or not is_hopeless(config, env, jobs, b, job)


@compiled
def find_swap(
    config: Ints, config_f: Floats, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints, rows: Ints, b: int
) -> None:
    """Find what ``suspend`` would do: the running job that gives way, and the ready job that starts."""
    now = env[b, at.NOW]
    head = env[b, at.HEAD]
    victim = swap_victim(config, env, jobs, jobs_f, lists, b)
    env[b, at.SWAP_VICTIM] = victim
    if victim < 0:
        return
    last = jobs[b, victim, at.END] - now
    mark(config, jobs, rows, b, victim, head, 0, last, False)
    best, greatest = -1, -np.inf
    on_time_only = config[at.MASK_RULE] == at.MASK_NOW_ON_TIME
    for slot in range(ready_count(config, env, b)):
        job = waiting_job(env, lists, b, slot)
        if on_time_only and is_hopeless(config, env, jobs, b, job):
            continue
        length = occupied_steps(config, jobs, b, job)
        worth = density(config, jobs, jobs_f, b, job, length)
        if jobs[b, job, at.BARRED] != now and worth > greatest:
            brown = may_use_brown(config_f, jobs_f, b, job)
            if fits_at_once(config, jobs, rows, b, job, head, length, brown):
                best, greatest = slot, worth
    mark(config, jobs, rows, b, victim, head, 0, last, True)
    env[b, at.SWAP_SLOT] = best


@inlined
def observe(
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
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> None:
    """Write one environment's observation into its row of the batch."""
    write_image(config, env, image, b, out_image)
    write_jobs(config, config_f, env, jobs, jobs_f, lists, b, out_jobs)
    write_context(config, config_f, env, env_f, jobs, lists, rows, b, out_context)
    for a in range(config[at.READY] + 2):
        out_mask[b, a] = env[b, at.ENV_I + config[at.TYPES] + a]


@inlined
def write_image(config: Ints, env: Ints, image: Cells, b: int, out: Cells) -> None:
    """Copy the ring into the picture that starts now."""
    row = image.shape[1] * image.shape[2]
    head = env[b, at.HEAD] * image.shape[2]
    copy_cells(out, image, b * row, b * row + head, row - head)
    copy_cells(out, image, b * row + row - head, b * row, head)


@compiled
def copy_cells(target: Cells, source: Cells, to: int, start: int, count: int) -> None:
    """Copy a run of ``count`` cells between two arrays, both seen as flat."""
    flat_target, flat_source = target.reshape(-1)[to : to + count], source.reshape(-1)[start : start + count]
    for i in range(count):
        flat_target[i] = flat_source[i]


@inlined
def write_jobs(
    config: Ints, config_f: Floats, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints, b: int, out: Singles
) -> None:
    """Write the table of ready jobs; slots without a job are zero."""
    types, now = config[at.TYPES], env[b, at.NOW]
    step = 1.0 / config[at.HORIZON]
    long_step = 0.1 * step
    unit = 1.0 / config[at.UNITS]
    mean_value = config_f[at.MEAN_VALUE]
    mask = at.ENV_I + types
    ready = ready_count(config, env, b)
    for slot in range(config[at.READY]):
        if slot >= ready:
            for f in range(at.JOB_FEATURES + types):
                out[b, slot, f] = 0.0
            continue
        job = waiting_job(env, lists, b, slot)
        value, left = jobs_f[b, job, at.VALUE], jobs[b, job, at.LATEST] - now
        length = occupied_steps(config, jobs, b, job)
        slack = left - length
        found = jobs[b, job, at.FOUND_START] - now
        can_start = jobs[b, job, at.FOUND_START] >= 0
        out[b, slot, 0] = 1.0
        out[b, slot, 1] = value / (value + mean_value)
        out[b, slot, 2] = jobs_f[b, job, at.QOS]
        out[b, slot, 3] = max(-1.0, min(1.0, left * long_step))
        out[b, slot, 4] = min(1.0, (now - jobs[b, job, at.ARRIVAL]) * long_step)
        out[b, slot, 5] = jobs[b, job, at.DURATION] * step
        out[b, slot, 6] = jobs[b, job, at.REMAINING] * step
        out[b, slot, 7] = max(-1.0, min(1.0, slack * step))
        out[b, slot, 8] = found * step if can_start else 1.0
        out[b, slot, 9] = 1.0 if can_start and found == 0 else 0.0
        out[b, slot, 10] = 1.0 if can_start and found <= slack else 0.0
        out[b, slot, 11] = 1.0 if slack < 0 else 0.0
        out[b, slot, 12] = env[b, mask + slot]
        for k in range(types):
            out[b, slot, at.JOB_FEATURES + k] = jobs[b, job, at.JOB_I + k] * unit


@inlined
def write_context(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    lists: Ints,
    rows: Ints,
    b: int,
    out: Singles,
) -> None:
    """Write queue lengths, the hour, the battery and the summary of free units in the next rows."""
    horizon, types, words = config[at.HORIZON], config[at.TYPES], config[at.WORDS]
    now, pool = env[b, at.NOW], config[at.READY]
    beyond = env[b, at.N_QUEUE] + env[b, at.N_LATE] - ready_count(config, env, b)
    hopeful = max(env[b, at.N_QUEUE] - pool, 0)
    if config[at.LATE_RULE] == at.STAY:
        hopeful = 0
        for i in range(pool, env[b, at.N_QUEUE]):
            if not is_hopeless(config, env, jobs, b, lists[b, at.QUEUE, i]):
                hopeful += 1
    hour = env_f[b, at.START_HOUR] + now * config_f[at.STEP_HOURS]
    out[b, 0] = beyond / (beyond + pool)
    out[b, 1] = hopeful / (hopeful + pool)
    out[b, 2] = math.sin(hour * (math.pi / 12.0))
    out[b, 3] = math.cos(hour * (math.pi / 12.0))
    place = 4
    if config_f[at.BATTERY_KWH] > 0.0:
        out[b, place] = env_f[b, at.STORED_KWH] / config_f[at.BATTERY_KWH]
        place += 1
    head = env[b, at.HEAD]
    unit = 1.0 / config[at.UNITS]
    for k in range(types):
        summary = summary_of(k, types, words)
        for h in range(config[at.CONTEXT_ROWS]):
            row = ring(head, h, horizon)
            if rows[b, row, summary] < 0:
                summarize(config, rows, b, row, k)
            out[b, place] = rows[b, row, summary] * unit
            out[b, place + 1] = rows[b, row, summary + 1] * unit
            place += 2
