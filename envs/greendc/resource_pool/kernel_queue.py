# mypy: warn-return-any=False
"""Compiled queue of the resource pool: which jobs wait, in which order, and what each job needs.

The queue is two lists of job ids, and ids ascend with arrival: ``QUEUE``, in the order that ``queue_order``
says, and behind it ``LATE``, the jobs that ``late_jobs="demote"`` has sent there, in ascending order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, internal
from greendc.resource_pool import layout as at
from greendc.resource_pool.layout import Pool

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled
def insert(ids: Ints, size: int, job: int) -> None:
    """Insert ``job`` into a list of ``size`` ids, which stays in ascending order."""
    place = size
    while place > 0 and ids[place - 1] > job:
        ids[place] = ids[place - 1]
        place -= 1
    ids[place] = job


@compiled
def remove(ids: Ints, size: int, job: int) -> bool:
    """Remove ``job`` from a list of ``size`` ids, and return whether it was there."""
    place = 0
    while place < size and ids[place] != job:
        place += 1
    for i in range(place, size - 1):
        ids[i] = ids[i + 1]
    return place < size


@internal
def occupied_steps(pool: Pool, job: int) -> int:
    """Return for how many steps a placement of the job would occupy the pool."""
    return pool.config.start_delay + pool.jobs[job].remaining + pool.config.end_delay


@internal
def latest_start(pool: Pool, job: int) -> int:
    """Return the last step at which the job can start and be on time; it stays while the job waits."""
    return pool.jobs[job].latest - occupied_steps(pool, job)


@internal
def is_hopeless(pool: Pool, job: int) -> bool:
    """Return whether the job could not finish on time even if it started now."""
    return pool.env.now > latest_start(pool, job)


@compiled
def insert_by_latest_start(pool: Pool, job: int) -> None:
    """Insert ``job`` into the queue before those that can start later; of equals the oldest comes first."""
    latest, place = latest_start(pool, job), pool.env.n_queue
    while place > 0:
        other = pool.queue[place - 1]
        ahead = latest_start(pool, other) - latest
        if ahead < 0 or (ahead == 0 and other < job):
            break
        pool.queue[place] = other
        place -= 1
    pool.queue[place] = job


@internal
def may_use_brown(pool: Pool, job: int) -> bool:
    """Return whether the job may use units that green power does not carry (``grid="qos_above"``)."""
    return pool.jobs[job].qos > pool.config.brown_above


@internal
def enqueue(pool: Pool, job: int) -> None:
    """Give a job its place among the waiting ones, or let it leave, by the rule for late jobs."""
    pool.jobs[job].status = at.WAITING
    rule = pool.config.late_rule
    if rule == at.STAY or not is_hopeless(pool, job):
        if pool.config.by_latest_start:
            insert_by_latest_start(pool, job)
        else:
            insert(pool.queue, pool.env.n_queue, job)
        pool.env.n_queue += 1
    elif rule == at.DEMOTE:
        insert(pool.late, pool.env.n_late, job)
        pool.env.n_late += 1
    else:
        leave(pool, job)


@compiled
def leave(pool: Pool, job: int) -> None:
    """Take a hopeless job out for good."""
    pool.jobs[job].status = at.LEFT
    pool.env.left += 1
    if pool.jobs[job].first_start < 0:
        pool.env.n_not_started -= 1
    if pool.jobs[job].delayed:
        pool.env.n_delayed -= 1


@internal
def rebuild(pool: Pool) -> None:
    """Apply the rule for late jobs to all that wait."""
    if pool.config.late_rule == at.STAY:
        return
    kept = 0
    for i in range(pool.env.n_queue):
        job = pool.queue[i]
        if not is_hopeless(pool, job):
            pool.queue[kept] = job
            kept += 1
        elif pool.config.late_rule == at.DEMOTE:
            insert(pool.late, pool.env.n_late, job)
            pool.env.n_late += 1
        else:
            leave(pool, job)
    pool.env.n_queue = kept


@internal
def waiting_job(pool: Pool, place: int) -> int:
    """Return the id of the job at ``place`` in the queue."""
    if place < pool.env.n_queue:
        return pool.queue[place]
    return pool.late[place - pool.env.n_queue]


@internal
def ready_count(pool: Pool) -> int:
    """Return how many jobs are in the ready pool."""
    return min(pool.config.ready_pool_size, pool.env.n_queue + pool.env.n_late)


@internal
def dequeue(pool: Pool, job: int) -> None:
    """Take a waiting job out of the queue."""
    if remove(pool.queue, pool.env.n_queue, job):
        pool.env.n_queue -= 1
    else:
        remove(pool.late, pool.env.n_late, job)
        pool.env.n_late -= 1
