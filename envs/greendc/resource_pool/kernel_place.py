# mypy: warn-return-any=False
"""Compiled changes to what is placed in the pool: place, begin, release, suspend."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, internal
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_queue import dequeue, insert, occupied_steps, remove
from greendc.resource_pool.kernel_reward import RESUMED, SUSPENDED, pay
from greendc.resource_pool.kernel_rows import job_code, mark, paint
from greendc.resource_pool.layout import Pool

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]


@internal
def place(pool: Pool, job: int, offset: int) -> None:
    """Reserve the cached block of a waiting job from row ``offset`` on; it runs at once if that is row 0."""
    types, now = pool.config.types, pool.env.now
    last = offset + occupied_steps(pool, job)
    dequeue(pool, job)
    for k in range(types):
        pool.blocks[job, k] = pool.found_blocks[job, k]
    pool.jobs[job].start = now + offset
    pool.jobs[job].end = now + last
    pool.jobs[job].status = at.RESERVED
    head, scale = pool.env.head, pool.config.cell_scale
    mark(pool, job, head, offset, last, True)
    paint(pool, job, scale, head, offset, last, job_code(job))
    insert(pool.placed, pool.env.n_placed, job)
    pool.env.n_placed += 1
    if offset == 0:
        begin(pool, job)


@internal
def begin(pool: Pool, job: int) -> None:
    """Let a reserved job run from now on."""
    pool.jobs[job].status = at.RUNNING
    if pool.jobs[job].first_start < 0:
        pool.jobs[job].first_start = pool.env.now
        pool.env.n_not_started -= 1
    else:
        pay(pool, RESUMED, job)
    for k in range(pool.config.types):
        pool.in_use[k] += pool.needs[job, k]


@compiled
def release(pool: Pool, job: int) -> None:
    """Free what a placed job occupies from row 0 on, and keep the work that it has done."""
    now = pool.env.now
    head, scale = pool.env.head, pool.config.cell_scale
    first, last = max(pool.jobs[job].start - now, 0), pool.jobs[job].end - now
    mark(pool, job, head, first, last, False)
    paint(pool, job, scale, head, first, last, at.CELL_FREE)
    worked = now - pool.jobs[job].start - pool.config.start_delay
    pool.jobs[job].remaining -= min(max(worked, 0), pool.jobs[job].remaining)
    if pool.jobs[job].status == at.RUNNING:
        for k in range(pool.config.types):
            pool.in_use[k] -= pool.needs[job, k]
    pool.jobs[job].status = at.WAITING
    remove(pool.placed, pool.env.n_placed, job)
    pool.env.n_placed -= 1
    pool.env.epoch += 1  # cells are free again: no cached place holds any longer


@compiled
def suspend(pool: Pool, job: int) -> None:
    """Suspend a running job; the caller puts it back into the queue."""
    release(pool, job)
    pool.jobs[job].suspensions += 1
    pay(pool, SUSPENDED, job)


@compiled
def density(pool: Pool, job: int, steps: int) -> float:
    """Return a job's value per unit and step, if it still needs ``steps`` steps."""
    units = 0
    for k in range(pool.config.types):
        units += pool.needs[job, k]
    return pool.jobs[job].value / (steps * units)


@internal
def least_valuable(pool: Pool) -> int:
    """Return the running job of least value per remaining unit-step (ties: lowest id), or -1."""
    victim, least = -1, np.inf
    for i in range(pool.env.n_placed):
        job = pool.placed[i]
        if pool.jobs[job].status == at.RUNNING:
            steps = pool.jobs[job].end - pool.env.now
            worth = density(pool, job, steps)
            if worth < least:
                victim, least = job, worth
    return victim


@internal
def highest_unit(pool: Pool, job: int) -> int:
    """Return one more than the highest unit that a placed job occupies."""
    types, highest = pool.config.types, 0
    for k in range(types):
        highest = max(highest, pool.blocks[job, k] + pool.needs[job, k])
    return highest
