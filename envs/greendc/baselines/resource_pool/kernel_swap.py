"""Compiled heuristics: whether to suspend a running job for a ready one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_place import density
from greendc.resource_pool.kernel_queue import is_hopeless, occupied_steps, waiting_job

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled
def choose_swaps(actions: Ints, config: Ints, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints) -> None:
    """Write ``suspend`` over ``no_op`` where that is worth it.

    The job that would start must be on time, and be worth more per remaining unit-step than the one that
    gives way.

    :param actions: ``(B,)``
    """
    suspend = config[at.READY]
    valid = at.ENV_I + config[at.TYPES] + suspend
    for b in range(actions.shape[0]):
        if actions[b] != suspend + 1 or not env[b, valid]:
            continue
        victim, job = env[b, at.SWAP_VICTIM], waiting_job(env, lists, b, env[b, at.SWAP_SLOT])
        if is_hopeless(config, env, jobs, b, job):
            continue
        left = jobs[b, victim, at.END] - env[b, at.NOW]
        length = occupied_steps(config, jobs, b, job)
        if density(config, jobs, jobs_f, b, job, length) > density(config, jobs, jobs_f, b, victim, left):
            actions[b] = suspend
