"""Compiled heuristics: whether to suspend a running job for a ready one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled
from greendc.resource_pool.kernel_place import density
from greendc.resource_pool.kernel_queue import is_hopeless, occupied_steps, waiting_job
from greendc.resource_pool.layout import PoolState, pool_at

Ints = NDArray[np.int64]


@compiled
def choose_suspensions(actions: Ints, state: PoolState) -> None:
    """Write ``suspend`` over ``no_op`` where that is worth it.

    The job that would start must be on time, and be worth more per remaining unit-step than the one that
    gives way.

    :param actions: ``(B,)``
    """
    suspend = state.config[0].ready_pool_size
    for b in range(actions.shape[0]):
        pool = pool_at(state, b)
        if actions[b] != suspend + 1 or not pool.mask[suspend] or pool.env.successor < 0:
            continue
        victim, job = pool.env.victim, waiting_job(pool, pool.env.successor)
        if is_hopeless(pool, job):
            continue
        left = pool.jobs[victim].end - pool.env.now
        if density(pool, job, occupied_steps(pool, job)) > density(pool, victim, left):
            actions[b] = suspend
