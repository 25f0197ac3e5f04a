# mypy: warn-return-any=False
"""Compiled changes to what is placed in the pool: place, begin, release, suspend.

Everything here works on environment ``b``; the arrays are described in :mod:`greendc.resource_pool.layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_queue import dequeue, insert, occupied_steps, remove
from greendc.resource_pool.kernel_rows import job_code, mark, paint

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]


@inlined
def place(
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
    offset: int,
) -> None:
    """Reserve the cached block of a waiting job from row ``offset`` on; it runs at once if that is row 0."""
    types, now = config[at.TYPES], env[b, at.NOW]
    last = offset + occupied_steps(config, jobs, b, job)
    dequeue(env, lists, b, job)
    for k in range(types):
        jobs[b, job, at.JOB_I + types + k] = jobs[b, job, at.JOB_I + 2 * types + k]
    jobs[b, job, at.START] = now + offset
    jobs[b, job, at.END] = now + last
    jobs[b, job, at.STATUS] = at.RESERVED
    head, scale = env[b, at.HEAD], config_f[at.CELL_SCALE]
    mark(config, jobs, rows, b, job, head, offset, last, True)
    paint(config, jobs, rows, image, b, job, scale, head, offset, last, job_code(job))
    insert(lists, b, at.PLACED, env[b, at.N_PLACED], job)
    env[b, at.N_PLACED] += 1
    if offset == 0:
        begin(config, config_f, env, env_f, jobs, jobs_f, b, job)


@inlined
def begin(
    config: Ints, config_f: Floats, env: Ints, env_f: Floats, jobs: Ints, jobs_f: Floats, b: int, job: int
) -> None:
    """Let a reserved job run from now on."""
    jobs[b, job, at.STATUS] = at.RUNNING
    if jobs[b, job, at.FIRST_START] < 0:
        jobs[b, job, at.FIRST_START] = env[b, at.NOW]
        env[b, at.N_NOT_STARTED] -= 1
    else:
        env_f[b, at.REWARD] += config_f[at.PAY_RESUMPTION] * jobs_f[b, job, at.VALUE]
    for k in range(config[at.TYPES]):
        env[b, at.ENV_I + k] += jobs[b, job, at.JOB_I + k]


@compiled
def release(
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    lists: Ints,
    rows: Ints,
    image: Cells,
    b: int,
    job: int,
) -> None:
    """Free what a placed job occupies from row 0 on, and keep the work that it has done."""
    now = env[b, at.NOW]
    head, scale = env[b, at.HEAD], config_f[at.CELL_SCALE]
    first, last = max(jobs[b, job, at.START] - now, 0), jobs[b, job, at.END] - now
    mark(config, jobs, rows, b, job, head, first, last, False)
    paint(config, jobs, rows, image, b, job, scale, head, first, last, at.CELL_FREE)
    worked = now - jobs[b, job, at.START] - config[at.START_DELAY]
    jobs[b, job, at.REMAINING] -= min(max(worked, 0), jobs[b, job, at.REMAINING])
    if jobs[b, job, at.STATUS] == at.RUNNING:
        for k in range(config[at.TYPES]):
            env[b, at.ENV_I + k] -= jobs[b, job, at.JOB_I + k]
    jobs[b, job, at.STATUS] = at.WAITING
    remove(lists, b, at.PLACED, env[b, at.N_PLACED], job)
    env[b, at.N_PLACED] -= 1
    env[b, at.EPOCH] += 1  # cells are free again: no cached place holds any longer


@compiled
def suspend(
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
) -> None:
    """Suspend a running job; the caller puts it back into the queue."""
    release(config, config_f, env, jobs, lists, rows, image, b, job)
    jobs[b, job, at.SUSPENSIONS] += 1
    env_f[b, at.REWARD] -= config_f[at.CHARGE_SUSPENSION] * jobs_f[b, job, at.VALUE]


@compiled
def density(config: Ints, jobs: Ints, jobs_f: Floats, b: int, job: int, steps: int) -> float:
    """Return a job's value per unit and step, if it still needs ``steps`` steps."""
    units = 0
    for k in range(config[at.TYPES]):
        units += jobs[b, job, at.JOB_I + k]
    return jobs_f[b, job, at.VALUE] / (steps * units)


@compiled
def swap_victim(config: Ints, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints, b: int) -> int:
    """Return the running job of least value per remaining unit-step (ties: lowest id), or -1."""
    victim, least = -1, np.inf
    for i in range(env[b, at.N_PLACED]):
        job = lists[b, at.PLACED, i]
        if jobs[b, job, at.STATUS] == at.RUNNING:
            steps = jobs[b, job, at.END] - env[b, at.NOW]
            worth = density(config, jobs, jobs_f, b, job, steps)
            if worth < least:
                victim, least = job, worth
    return victim


@inlined
def planned_value(env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints, b: int) -> float:
    """Return the value of the placed jobs whose planned finish is on time (the potential)."""
    total = 0.0
    for i in range(env[b, at.N_PLACED]):
        job = lists[b, at.PLACED, i]
        if jobs[b, job, at.END] <= jobs[b, job, at.LATEST]:
            total += jobs_f[b, job, at.VALUE]
    return total


@compiled
def highest_unit(config: Ints, jobs: Ints, b: int, job: int) -> int:
    """Return one more than the highest unit that a placed job occupies."""
    types, highest = config[at.TYPES], 0
    for k in range(types):
        highest = max(highest, jobs[b, job, at.JOB_I + types + k] + jobs[b, job, at.JOB_I + k])
    return highest
