# mypy: warn-return-any=False
"""Compiled queue of the resource pool: who waits, in which order, and what each job needs.

The queue is two lists of job ids in ascending order, and ids ascend with arrival: ``QUEUE``, and behind it
``LATE``, the jobs that ``late_jobs="demote"`` has sent there. Everything here works on environment ``b``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.resource_pool import layout as at

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled
def insert(lists: Ints, b: int, which: int, size: int, job: int) -> None:
    """Insert ``job`` into a list of ``size`` ids, which stays in ascending order."""
    place = size
    while place > 0 and lists[b, which, place - 1] > job:
        lists[b, which, place] = lists[b, which, place - 1]
        place -= 1
    lists[b, which, place] = job


@compiled
def remove(lists: Ints, b: int, which: int, size: int, job: int) -> bool:
    """Remove ``job`` from a list of ``size`` ids, and return whether it was there."""
    place = 0
    while place < size and lists[b, which, place] != job:
        place += 1
    for i in range(place, size - 1):
        lists[b, which, i] = lists[b, which, i + 1]
    return place < size


@inlined
def occupied_steps(config: Ints, jobs: Ints, b: int, job: int) -> int:
    """Return for how many steps a placement of the job would occupy the pool."""
    return config[at.START_DELAY] + jobs[b, job, at.REMAINING] + config[at.END_DELAY]


@inlined
def is_hopeless(config: Ints, env: Ints, jobs: Ints, b: int, job: int) -> bool:
    """Return whether the job could not finish on time even if it started now."""
    return env[b, at.NOW] + occupied_steps(config, jobs, b, job) > jobs[b, job, at.LATEST]


@inlined
def may_use_brown(config_f: Floats, jobs_f: Floats, b: int, job: int) -> bool:
    """Return whether the job may use units that green power does not carry (``grid="qos_above"``)."""
    return jobs_f[b, job, at.QOS] > config_f[at.BROWN_ABOVE]


@compiled
def enqueue(config: Ints, env: Ints, jobs: Ints, lists: Ints, b: int, job: int) -> None:
    """Give a job its place among the waiting ones, or let it leave, by the rule for late jobs."""
    jobs[b, job, at.STATUS] = at.WAITING
    rule = config[at.LATE_RULE]
    if rule == at.STAY or not is_hopeless(config, env, jobs, b, job):
        insert(lists, b, at.QUEUE, env[b, at.N_QUEUE], job)
        env[b, at.N_QUEUE] += 1
    elif rule == at.DEMOTE:
        insert(lists, b, at.LATE, env[b, at.N_LATE], job)
        env[b, at.N_LATE] += 1
    else:
        leave(env, jobs, b, job)


@compiled
def leave(env: Ints, jobs: Ints, b: int, job: int) -> None:
    """Take a hopeless job out for good."""
    jobs[b, job, at.STATUS] = at.LEFT
    env[b, at.LEFT_COUNT] += 1
    if jobs[b, job, at.FIRST_START] < 0:
        env[b, at.N_NOT_STARTED] -= 1
    if jobs[b, job, at.DELAYED]:
        env[b, at.N_DELAYED] -= 1


@inlined
def rebuild(config: Ints, env: Ints, jobs: Ints, lists: Ints, b: int) -> None:
    """Apply the rule for late jobs to all that wait."""
    if config[at.LATE_RULE] == at.STAY:
        return
    kept = 0
    for i in range(env[b, at.N_QUEUE]):
        job = lists[b, at.QUEUE, i]
        if not is_hopeless(config, env, jobs, b, job):
            lists[b, at.QUEUE, kept] = job
            kept += 1
        elif config[at.LATE_RULE] == at.DEMOTE:
            insert(lists, b, at.LATE, env[b, at.N_LATE], job)
            env[b, at.N_LATE] += 1
        else:
            leave(env, jobs, b, job)
    env[b, at.N_QUEUE] = kept


@inlined
def waiting_job(env: Ints, lists: Ints, b: int, place: int) -> int:
    """Return the id of the job at ``place`` in the queue."""
    if place < env[b, at.N_QUEUE]:
        return lists[b, at.QUEUE, place]
    return lists[b, at.LATE, place - env[b, at.N_QUEUE]]


@inlined
def ready_count(config: Ints, env: Ints, b: int) -> int:
    """Return how many jobs are in the ready pool."""
    return min(config[at.READY], env[b, at.N_QUEUE] + env[b, at.N_LATE])


@compiled
def dequeue(env: Ints, lists: Ints, b: int, job: int) -> None:
    """Take a waiting job out of the queue."""
    if remove(lists, b, at.QUEUE, env[b, at.N_QUEUE], job):
        env[b, at.N_QUEUE] -= 1
    else:
        remove(lists, b, at.LATE, env[b, at.N_LATE], job)
        env[b, at.N_LATE] -= 1
