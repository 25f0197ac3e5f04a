# mypy: warn-return-any=False
"""Compiled entry points of the resource pool: reset, step and observe over a batch of environments.

The parts are in ``kernel_rows`` (the image and the first-fit search), ``kernel_queue`` (which jobs wait),
``kernel_place`` (placing and suspending), ``kernel_power``, ``kernel_step`` (time going on) and
``kernel_observe``; :mod:`greendc.resource_pool.layout` says where the arrays keep what.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, internal, unlocked
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_command import command
from greendc.resource_pool.kernel_observe import observe, refresh_choices
from greendc.resource_pool.kernel_place import place, suspend
from greendc.resource_pool.kernel_power import forecast_levels
from greendc.resource_pool.kernel_queue import enqueue, may_use_brown, occupied_steps, waiting_job
from greendc.resource_pool.kernel_reward import settle
from greendc.resource_pool.kernel_rows import (
    clear_row,
    find_start,
    is_free,
    job_code,
    mark,
    paint,
    powered_units,
    ring,
)
from greendc.resource_pool.kernel_step import admit, advance
from greendc.resource_pool.layout import NewJobs, Pool, PoolState, pool_at

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bytes = NDArray[np.int8]
Cells = NDArray[Any]


@unlocked
def step_batch(
    actions: Ints,
    state: PoolState,
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
    config = state.config[0]
    for b in range(actions.shape[0]):
        if actions[b] < 0 or actions[b] > config.ready_pool_size + config.commands:
            return b + 1
        if state.env[b].now >= config.episode_steps:
            return -(b + 1)
    for b in range(actions.shape[0]):
        pool = pool_at(state, b)
        decide(pool, actions[b])
        truncated[b] = pool.env.now >= config.episode_steps
        observe(pool, out_image[b], out_jobs[b], out_context[b], out_mask[b])
    return 0


@compiled
def step_single(
    action: int,
    state: PoolState,
    truncated: NDArray[np.bool_],
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> int:
    """Step the first environment alone and write its observation, which has no axis for the batch.

    :return: as :func:`step_batch`
    """
    pool = pool_at(state, 0)
    if action < 0 or action > pool.config.ready_pool_size + pool.config.commands:
        return 1
    if pool.env.now >= pool.config.episode_steps:
        return -1
    decide(pool, action)
    truncated[0] = pool.env.now >= pool.config.episode_steps
    observe(pool, out_image, out_jobs, out_context, out_mask)
    return 0


@internal
def decide(pool: Pool, action: int) -> None:
    """Take one decision, and with ``skip_forced`` pass over the forced ones that follow."""
    pool.env.reward = 0.0
    pool.env.cost = 0.0
    pool.env.time_advanced = 0
    pool.env.decisions += 1
    ready = pool.config.ready_pool_size
    valid = pool.mask[action] != 0
    placed, time_goes_on = -1, False
    if valid and action < ready:
        placed = waiting_job(pool, action)
        offset = pool.jobs[placed].found_start - pool.env.now
        place(pool, placed, offset)
    elif valid and action == ready:
        suspend_and_start(pool)
    else:
        pool.env.invalid += not valid
        if pool.config.commands > 1:
            command(pool, action - ready - 1, valid)
        time_goes_on = True
    undecided = True
    while undecided:
        if time_goes_on:
            advance(pool)
        any_choice = refresh_choices(pool, placed)
        over = pool.env.now >= pool.config.episode_steps
        undecided = pool.config.skip_forced != 0 and not any_choice and not over
        placed, time_goes_on = -1, True
    settle(pool)


@internal
def suspend_and_start(pool: Pool) -> None:
    """Suspend the running job of least value density and start the ready job of greatest that then fits.

    With ``pausing`` there may be none to start.
    """
    now = pool.env.now
    victim, successor = pool.env.victim, pool.env.successor
    job = waiting_job(pool, successor) if successor >= 0 else -1
    suspend(pool, victim)
    pool.env.agent_suspensions += 1
    pool.jobs[victim].barred = now
    if job < 0:
        enqueue(pool, victim)
        return
    length = occupied_steps(pool, job)
    brown = may_use_brown(pool, job)
    find_start(pool, job, pool.env.head, length, brown, 0, 0)
    place(pool, job, 0)
    enqueue(pool, victim)


@compiled
def place_one(state: PoolState, b: int, job: int, now_only: bool) -> int:
    """Place a waiting job of environment ``b``; see :func:`place_waiting`."""
    return place_waiting(pool_at(state, b), job, now_only)


@internal
def place_waiting(pool: Pool, job: int, now_only: bool) -> int:
    """Place any waiting job at its earliest start, and return that start's offset, or -1 if there is none."""
    now, length = pool.env.now, occupied_steps(pool, job)
    if pool.jobs[job].barred == now:
        return -1
    last = 0 if now_only or pool.config.place_now else pool.config.horizon - length
    brown = may_use_brown(pool, job)
    pool.jobs[job].found_epoch = -1
    offset = find_start(pool, job, pool.env.head, length, brown, 0, last)
    if offset >= 0:
        place(pool, job, offset)
    # Looking for a start overwrites what is kept of the last search for this job: also where it fails.
    refresh_choices(pool, job if offset >= 0 else -1)
    return offset


@compiled
def observe_batch(
    state: PoolState,
    first: int,
    last: int,
    out_image: Cells,
    out_jobs: Singles,
    out_context: Singles,
    out_mask: Bytes,
) -> None:
    """Write the observations of environments ``first .. last - 1`` into their rows of the batch."""
    for b in range(first, last):
        observe(pool_at(state, b), out_image[b], out_jobs[b], out_context[b], out_mask[b])


@compiled
def reset_one(state: PoolState, b: int, jobs: NewJobs) -> None:
    """Start the episode of one environment; its record and its series have been filled already."""
    pool = pool_at(state, b)
    enter_jobs(pool, jobs)
    forecast_levels(pool)
    for h in range(pool.config.horizon):
        level = powered_units(pool.forecast[h], pool.config.units)
        clear_row(pool, pool.config.cell_scale, h, level)
    admit(pool)
    refresh_choices(pool, -1)


@compiled
def lay_out(state: PoolState, b: int) -> int:
    """Make all else of a pool whose clock, jobs, placements, power and battery have been filled in.

    :return: 0, or ``j + 1`` if job ``j`` is the first whose block is taken, or dark
    """
    pool = pool_at(state, b)
    now, head, scale = pool.env.now, pool.env.head, pool.config.cell_scale
    forecast_levels(pool)
    for h in range(pool.config.horizon):
        level = powered_units(pool.forecast[h], pool.config.units)
        clear_row(pool, scale, ring(head, h, pool.config.horizon), level)
    for j in range(pool.env.next_arrival):
        status = pool.jobs[j].status
        if status == at.WAITING:
            enqueue(pool, j)
        if status != at.RESERVED and status != at.RUNNING:
            continue
        first, last = max(pool.jobs[j].start - now, 0), pool.jobs[j].end - now
        # What runs is suspended when its power fails, not when that is foreseen; a reservation is broken.
        powered = 0 if may_use_brown(pool, j) else 1 if status == at.RUNNING else last
        if not is_free(pool, j, head, first, last, True) or not is_free(pool, j, head, first, powered, False):
            return j + 1
        mark(pool, j, head, first, last, True)
        paint(pool, j, scale, head, first, last, job_code(j))
        pool.placed[pool.env.n_placed] = j
        pool.env.n_placed += 1
        if status == at.RUNNING:
            for k in range(pool.config.types):
                pool.in_use[k] += pool.needs[j, k]
    refresh_choices(pool, -1)
    return 0


@internal
def enter_jobs(pool: Pool, jobs: NewJobs) -> None:
    """Write the jobs of an episode into the table; nothing has happened to them yet."""
    types = pool.config.types
    pool.env.n_jobs = jobs.arrival.shape[0]
    for j in range(pool.env.n_jobs):
        pool.by_latest[j] = jobs.by_latest[j]
        pool.jobs[j].arrival = jobs.arrival[j]
        pool.jobs[j].duration = jobs.duration[j]
        pool.jobs[j].latest = jobs.latest[j]
        pool.jobs[j].remaining = jobs.duration[j]
        pool.jobs[j].value = jobs.value[j]
        pool.jobs[j].qos = jobs.qos[j]
        for k in range(types):
            pool.needs[j, k] = jobs.units[j, k]
        pool.jobs[j].status = at.FUTURE
        pool.jobs[j].start = 0
        pool.jobs[j].end = 0
        pool.jobs[j].finish = -1
        pool.jobs[j].first_start = -1
        pool.jobs[j].suspensions = 0
        pool.jobs[j].barred = -1
        pool.jobs[j].delayed = 0
        pool.jobs[j].late_paid = 0.0
        pool.jobs[j].found_epoch = -1
        pool.jobs[j].found_start = -1
        pool.jobs[j].searched_to = 0
