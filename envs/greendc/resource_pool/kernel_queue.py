# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Compiled queue of the resource pool: who waits, in which order, and what each job needs.

The queue is two lists of job ids in ascending order, and ids ascend with arrival: ``QUEUE``, and behind it
``LATE``, the jobs that ``late_jobs="demote"`` has sent there. Everything here works on one environment.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.resource_pool import layout as at

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(cache=True)
def insert(lists: Ints, which: int, size: int, job: int) -> None:
    """Insert ``job`` into a list of ``size`` ids, which stays in ascending order."""
    place = size
    while place > 0 and lists[which, place - 1] > job:
        lists[which, place] = lists[which, place - 1]
        place -= 1
    lists[which, place] = job


@njit(cache=True)
def remove(lists: Ints, which: int, size: int, job: int) -> None:
    """Remove ``job`` from a list of ``size`` ids that holds it."""
    place = 0
    while lists[which, place] != job:
        place += 1
    for i in range(place, size - 1):
        lists[which, i] = lists[which, i + 1]


@njit(cache=True)
def occupied_steps(config: Ints, job: Ints) -> int:
    """Return for how many steps a placement of the job would occupy the pool."""
    return config[at.START_DELAY] + job[at.REMAINING] + config[at.END_DELAY]


@njit(cache=True)
def is_hopeless(config: Ints, env: Ints, job: Ints) -> bool:
    """Return whether the job could not finish on time even if it started now."""
    return env[at.NOW] + occupied_steps(config, job) > job[at.LATEST]


@njit(cache=True)
def may_use_brown(config_f: Floats, job_f: Floats) -> bool:
    """Return whether the job may use units that green power does not carry (``grid="qos_above"``)."""
    return job_f[at.QOS] > config_f[at.BROWN_ABOVE]


@njit(cache=True)
def total_units(config: Ints, job: Ints) -> int:
    """Return how many units the job needs, of all types together."""
    total = 0
    for k in range(config[at.TYPES]):
        total += job[at.JOB_I + k]
    return total


@njit(cache=True)
def enqueue(config: Ints, env: Ints, jobs: Ints, lists: Ints, job: int) -> None:
    """Give a job its place among the waiting ones, or let it leave, by the rule for late jobs."""
    jobs[job, at.STATUS] = at.WAITING
    rule = config[at.LATE_RULE]
    if rule == at.STAY or not is_hopeless(config, env, jobs[job]):
        insert(lists, at.QUEUE, env[at.N_QUEUE], job)
        env[at.N_QUEUE] += 1
    elif rule == at.DEMOTE:
        insert(lists, at.LATE, env[at.N_LATE], job)
        env[at.N_LATE] += 1
    else:
        leave(env, jobs, job)


@njit(cache=True)
def leave(env: Ints, jobs: Ints, job: int) -> None:
    """Take a hopeless job out for good."""
    jobs[job, at.STATUS] = at.LEFT
    env[at.LEFT_COUNT] += 1
    if jobs[job, at.FIRST_START] < 0:
        env[at.N_NOT_STARTED] -= 1
    if jobs[job, at.DELAYED]:
        env[at.N_DELAYED] -= 1


@njit(cache=True)
def rebuild(config: Ints, env: Ints, jobs: Ints, lists: Ints) -> None:
    """Apply the rule for late jobs to all that wait."""
    if config[at.LATE_RULE] == at.STAY:
        return
    kept = 0
    for i in range(env[at.N_QUEUE]):
        job = lists[at.QUEUE, i]
        if not is_hopeless(config, env, jobs[job]):
            lists[at.QUEUE, kept] = job
            kept += 1
        elif config[at.LATE_RULE] == at.DEMOTE:
            insert(lists, at.LATE, env[at.N_LATE], job)
            env[at.N_LATE] += 1
        else:
            leave(env, jobs, job)
    env[at.N_QUEUE] = kept


@njit(cache=True)
def waiting_job(env: Ints, lists: Ints, place: int) -> int:
    """Return the id of the job at ``place`` in the queue."""
    if place < env[at.N_QUEUE]:
        return lists[at.QUEUE, place]
    return lists[at.LATE, place - env[at.N_QUEUE]]


@njit(cache=True)
def ready_count(config: Ints, env: Ints) -> int:
    """Return how many jobs are in the ready pool."""
    return min(config[at.READY], env[at.N_QUEUE] + env[at.N_LATE])


@njit(cache=True)
def dequeue(env: Ints, lists: Ints, job: int) -> None:
    """Take a waiting job out of the queue."""
    size = env[at.N_QUEUE]
    for i in range(size):
        if lists[at.QUEUE, i] == job:
            remove(lists, at.QUEUE, size, job)
            env[at.N_QUEUE] -= 1
            return
    remove(lists, at.LATE, env[at.N_LATE], job)
    env[at.N_LATE] -= 1
