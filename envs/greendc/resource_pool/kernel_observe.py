# mypy: warn-return-any=False
"""Compiled choices and observations of the resource pool.

What the numbers of an observation mean is stated in
:mod:`greendc.resource_pool.observation`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import internal
from greendc.memory import copy_run
from greendc.resource_pool import layout as at
from greendc.resource_pool import observation as seen
from greendc.resource_pool.kernel_command import allow_commands, write_outlook
from greendc.resource_pool.kernel_place import density, least_valuable
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
from greendc.resource_pool.layout import Pool

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bytes = NDArray[np.int8]
Cells = NDArray[Any]


@internal
def refresh_choices(pool: Pool, placed: int) -> bool:
    """Find the earliest start of each ready job, what `suspend` would do, and the action mask.

    A place that was found before is kept while it is certain still to be the first: nothing has been freed
    since (``EPOCH``), time has not passed it, and the job placed last does not overlap it. Otherwise the
    search goes on from where it stood.

    :param placed: the job that was placed since the last call, or -1
    :return: whether any action is valid that lets no time pass
    """
    ready = ready_count(pool)
    epoch = pool.env.epoch
    pool.env.epoch += 1
    any_choice = False
    for slot in range(pool.config.ready_pool_size):
        valid = False
        if slot < ready:
            job = waiting_job(pool, slot)
            refresh_start(pool, job, placed, epoch)
            valid = is_valid(pool, job)
        pool.mask[slot] = valid
        any_choice = any_choice or valid
    pool.env.successor = -1
    if pool.config.may_suspend:
        find_suspension(pool)
    can_suspend = pool.env.successor >= 0 or (pool.config.pausing != 0 and pool.env.victim >= 0)
    pool.mask[pool.config.ready_pool_size] = can_suspend
    allow_commands(pool)
    return any_choice or can_suspend


@internal
def refresh_start(pool: Pool, job: int, placed: int, epoch: int) -> None:
    """Bring one job's cached start up to date; cached starts are points in time, -1 for none."""
    now = pool.env.now
    length = occupied_steps(pool, job)
    last = now + pool.config.horizon - length
    first = now
    if pool.jobs[job].found_epoch == epoch:
        found = pool.jobs[job].found_start
        if found < 0:
            first = max(pool.jobs[job].searched_to + 1, now)
        elif found >= now and not (placed >= 0 and overlaps(pool, job, placed, length)):
            first = last + 1
        else:
            first = max(found, now)
    if first <= last:
        brown = may_use_brown(pool, job)
        head = pool.env.head
        offset = find_start(pool, job, head, length, brown, first - now, last - now)
        pool.jobs[job].found_start = now + offset if offset >= 0 else -1
        pool.jobs[job].searched_to = last
    pool.jobs[job].found_epoch = epoch + 1


@internal
def overlaps(pool: Pool, job: int, placed: int, length: int) -> bool:
    """Return whether the cached place of a job overlaps the place of another that has just been placed."""
    types, start = pool.config.types, pool.jobs[job].found_start
    if start >= pool.jobs[placed].end or pool.jobs[placed].start >= start + length:
        return False
    for k in range(types):
        need, block = pool.needs[job, k], pool.found_blocks[job, k]
        taken, place = pool.needs[placed, k], pool.blocks[placed, k]
        if need > 0 and taken > 0 and block < place + taken and place < block + need:
            return True
    return False


@internal
def is_valid(pool: Pool, job: int) -> bool:
    """Return whether scheduling the job is a valid action."""
    now, start = pool.env.now, pool.jobs[job].found_start
    if start < 0 or pool.jobs[job].barred == now:
        return False
    rule = pool.config.mask_rule
    if start > now and (pool.config.place_now or rule != at.MASK_VALID):
        return False
    return rule != at.MASK_NOW_ON_TIME or not is_hopeless(pool, job)


@internal
def find_suspension(pool: Pool) -> None:
    """Find what ``suspend`` would do: the running job that gives way, and the ready job that starts."""
    now = pool.env.now
    head = pool.env.head
    victim = least_valuable(pool)
    pool.env.victim = victim
    if victim < 0:
        return
    last = pool.jobs[victim].end - now
    mark(pool, victim, head, 0, last, False)
    best, greatest = -1, -np.inf
    on_time_only = pool.config.mask_rule == at.MASK_NOW_ON_TIME
    for slot in range(ready_count(pool)):
        job = waiting_job(pool, slot)
        if on_time_only and is_hopeless(pool, job):
            continue
        length = occupied_steps(pool, job)
        worth = density(pool, job, length)
        if pool.jobs[job].barred != now and worth > greatest:
            brown = may_use_brown(pool, job)
            if fits_at_once(pool, job, head, length, brown):
                best, greatest = slot, worth
    mark(pool, victim, head, 0, last, True)
    pool.env.successor = best


@internal
def observe(pool: Pool, out_image: Cells, out_jobs: Singles, out_context: Singles, out_mask: Bytes) -> None:
    """Write the observation of a pool."""
    write_image(pool, out_image)
    write_jobs(pool, out_jobs)
    write_context(pool, out_context)
    for a in range(pool.config.ready_pool_size + 1 + pool.config.commands):
        out_mask[a] = pool.mask[a]


@internal
def write_image(pool: Pool, out: Cells) -> None:
    """Copy the ring into the picture that starts now."""
    width = pool.image.shape[1]
    cells, head = pool.image.shape[0] * width, pool.env.head * width
    copy_run(out, 0, pool.image, head, cells - head)
    copy_run(out, cells - head, pool.image, 0, head)


@internal
def write_jobs(pool: Pool, out: Singles) -> None:
    """Write the table of ready jobs; slots without a job are zero."""
    types, now = pool.config.types, pool.env.now
    step = 1.0 / pool.config.horizon
    long_step = 0.1 * step
    unit = 1.0 / pool.config.units
    mean_value = pool.config.mean_value
    ready = ready_count(pool)
    empty = out.reshape(-1)[ready * out.shape[1] :]
    for k in range(empty.shape[0]):  # all at once: a loop for each slot takes longer to begin than to run
        empty[k] = 0.0
    for slot in range(ready):
        job = waiting_job(pool, slot)
        value, left = pool.jobs[job].value, pool.jobs[job].latest - now
        length = occupied_steps(pool, job)
        slack = left - length
        found = pool.jobs[job].found_start - now
        can_start = pool.jobs[job].found_start >= 0
        out[slot, seen.PRESENT] = 1.0
        out[slot, seen.VALUE] = value / (value + mean_value)
        out[slot, seen.QOS] = pool.jobs[job].qos
        out[slot, seen.LATEST_FINISH] = max(-1.0, min(1.0, left * long_step))
        out[slot, seen.AGE] = min(1.0, (now - pool.jobs[job].arrival) * long_step)
        out[slot, seen.DURATION] = pool.jobs[job].duration * step
        out[slot, seen.REMAINING] = pool.jobs[job].remaining * step
        out[slot, seen.SLACK] = max(-1.0, min(1.0, slack * step))
        out[slot, seen.START_OFFSET] = found * step if can_start else 1.0
        out[slot, seen.STARTS_NOW] = 1.0 if can_start and found == 0 else 0.0
        out[slot, seen.ON_TIME] = 1.0 if can_start and found <= slack else 0.0
        out[slot, seen.HOPELESS] = 1.0 if slack < 0 else 0.0
        out[slot, seen.VALID] = pool.mask[slot]
        for k in range(types):
            out[slot, seen.UNITS + k] = pool.needs[job, k] * unit


@internal
def write_context(pool: Pool, out: Singles) -> None:
    """Write queue lengths, the hour, the battery and the summary of free units in the next rows."""
    horizon, types, words = pool.config.horizon, pool.config.types, pool.config.words
    now, ready = pool.env.now, pool.config.ready_pool_size
    beyond = pool.env.n_queue + pool.env.n_late - ready_count(pool)
    hopeful = max(pool.env.n_queue - ready, 0)
    if pool.config.late_rule == at.STAY:
        hopeful = 0
        for i in range(ready, pool.env.n_queue):
            if not is_hopeless(pool, pool.queue[i]):
                hopeful += 1
    hour = pool.env.start_hour + now * pool.config.step_hours
    out[seen.WAITING_BEYOND] = beyond / (beyond + ready)
    out[seen.WAITING_BEYOND_HOPEFUL] = hopeful / (hopeful + ready)
    out[seen.SIN_HOUR] = math.sin(hour * (math.pi / 12.0))
    out[seen.COS_HOUR] = math.cos(hour * (math.pi / 12.0))
    place = seen.MORE_CONTEXT
    if pool.config.battery_kwh > 0.0:
        out[place] = pool.env.stored_kwh / pool.config.battery_kwh
        place += 1
    head = pool.env.head
    unit = 1.0 / pool.config.units
    for k in range(types):
        summary = summary_of(k, types, words)
        for h in range(pool.config.context_rows):
            row = ring(head, h, horizon)
            if pool.rows[row, summary] < 0:
                summarize(pool, row, k)
            out[place] = pool.rows[row, summary] * unit
            out[place + 1] = pool.rows[row, summary + 1] * unit
            place += 2
    if pool.config.commands > 1:
        write_outlook(pool, out, place)
