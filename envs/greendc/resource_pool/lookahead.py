"""The lookahead: what each action is worth if no more jobs came, as a part of the observation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import EntryPoint, compiled, internal
from greendc.resource_pool import kernel_rollout, orders
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.kernel_queue import occupied_steps, waiting_job
from greendc.resource_pool.layout import Pool, PoolState, pool_at
from greendc.resource_pool.observation import SUSPEND_REMAINING, SUSPEND_SLACK, SUSPEND_UNITS, SUSPEND_VALUE
from greendc.resource_pool.plans import make_memory, with_jobs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

NO_FUTURE: Ints = np.array([[[0, 1]]])
"""The one future of a bank without jobs."""


class Lookahead:
    """What each action is worth if no more jobs came, for the observations of one simulator.

    After each action the waiting jobs start in the order of their QoS values, as they fit, if they will be on
    time, and those behind a job without a place only where they do not delay it (``deadline_never``,
    backfilling): the heuristic that rollouts go on with, in a future without guesses. How an action
    changes what becomes of the other jobs is hard to read from an image, and this says it; what it says
    nothing of is the jobs to come.

    Written are, in mean job values and as ``x / (1 + |x|)``, the values of starting each ready job less that
    of ``no_op``, into the last column of ``jobs`` (0 for jobs that cannot start now and be on time), and,
    where jobs may be suspended, that of ``suspend`` into the last number of ``context``. The numbers before
    it tell of the job that would give way and of the one that would start: what ``suspend`` does cannot be
    seen otherwise.

    :param config: the simulator's
    """

    def __init__(self, config: ResourcePoolConfig) -> None:
        self.config = config
        self._memory = make_memory(config, config.lookahead, orders.QOS, 0.0, backfill=True)
        self._keep_candidates = EntryPoint(kernel_rollout.keep_candidates)
        self._value_actions = EntryPoint(kernel_rollout.value_actions)
        self._write_differences = EntryPoint(write_differences)
        self._make_room(64)

    def _make_room(self, waiting: int) -> None:
        empty = self._memory
        self._memory = with_jobs(empty, empty.bank, empty.table[:0], empty.needs[:0], waiting)

    def write(self, state: PoolState, first: int, last: int, jobs: Any, context: Any) -> None:
        """Write the lookahead of environments ``first .. last - 1`` into a batch of observations.

        :param state: of the simulator
        :param jobs: ``(B, ready_pool_size, columns)``
        :param context: ``(B, numbers)``
        """
        env = state.env[first:last]
        waiting = int((env["n_queue"] + env["n_late"]).max()) + 1
        if waiting > len(self._memory.queue):
            self._make_room(2 * waiting)
        candidates = state.counts[first:last, self.config.resource_types :] != 0
        self._keep_candidates(candidates, state, first)
        values = np.empty(candidates.shape)
        futures = np.tile(NO_FUTURE, (len(env), 1, 1))
        self._value_actions(values, candidates, futures, self._memory, state, first)
        self._write_differences(values, state, first, jobs, context)


@compiled
def write_differences(
    values: NDArray[np.float64], state: PoolState, first: int, jobs: Singles, context: Singles
) -> None:
    """Write by how much each action is worth more than ``no_op``, and what ``suspend`` would exchange."""
    ready, column = jobs.shape[1], jobs.shape[2] - 1
    for i in range(values.shape[0]):
        pool, idle = pool_at(state, first + i), values[i, ready + 1]
        for slot in range(ready):
            jobs[first + i, slot, column] = squashed(values[i, slot], idle, pool.config.mean_value)
        if pool.config.may_suspend:
            place = context.shape[1] - 1
            context[first + i, place] = squashed(values[i, ready], idle, pool.config.mean_value)
            write_suspension(pool, context[first + i])


@internal
def write_suspension(pool: Pool, context: Singles) -> None:
    """Write which job gives way and which one starts, 0 where ``suspend`` is invalid."""
    width = SUSPEND_UNITS + pool.config.types
    place = context.shape[0] - 1 - 2 * width
    if not pool.mask[pool.config.ready_pool_size]:
        context[place : place + 2 * width] = 0.0
        return
    victim, job = pool.env.victim, waiting_job(pool, pool.env.successor)
    tell_job(pool, victim, pool.jobs[victim].end - pool.env.now, context[place:])
    tell_job(pool, job, occupied_steps(pool, job), context[place + width :])


@internal
def tell_job(pool: Pool, job: int, left: int, out: Singles) -> None:
    """Write a job that ends in ``left`` steps; see ``SUSPEND_FEATURES``."""
    value, horizon = pool.jobs[job].value, pool.config.horizon
    slack = pool.jobs[job].latest - pool.env.now - left
    out[SUSPEND_VALUE] = value / (value + pool.config.mean_value)
    out[SUSPEND_REMAINING] = min(left / horizon, 1.0)
    out[SUSPEND_SLACK] = min(max(slack / horizon, -1.0), 1.0)
    for k in range(pool.config.types):
        out[SUSPEND_UNITS + k] = pool.needs[job, k] / pool.config.units


@internal
def squashed(value: float, idle: float, mean_value: float) -> float:
    """Return ``x / (1 + |x|)`` of a difference in mean job values, 0 for an action that is not valued."""
    if np.isnan(value):
        return 0.0
    x = (value - idle) / mean_value
    return x / (1.0 + abs(x))
