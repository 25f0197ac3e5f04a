"""The outlook: what each action is worth if no more jobs came, as a part of the observation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled
from greendc.resource_pool import kernel_plan as kp
from greendc.resource_pool import kernel_rollout, orders
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.kernel_queue import occupied_steps, waiting_job
from greendc.resource_pool.observation import SWAP_FEATURES
from greendc.resource_pool.plans import empty_plans, plan_shape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

NO_FUTURE: tuple[Ints, Ints] = np.array([[[0, 1]]]), np.zeros(2, np.int64)
"""One future in which no job comes, and its place in a bank without any."""


class Outlook:
    """What each action is worth if no more jobs came, for the observations of one simulator.

    After each action the waiting jobs start in the order of their QoS values, as they fit, if they will be on
    time, and those behind a job without a place only where they do not delay it (``deadline_never``,
    backfilling): the heuristic that rollouts go on with, in a future that nobody has to guess. How an action
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
        self._shape = plan_shape(config, config.outlook, backfill=True)
        self._plans = empty_plans(self._shape)
        self._make_room(64)

    def _make_room(self, waiting: int) -> None:
        self._table = np.zeros((waiting, kp.NEEDS + self.config.resource_types), np.int64)
        self._worth = np.zeros((waiting, 2))
        self._queue = np.zeros(waiting, np.int64)

    def write(self, state: tuple[NDArray[Any], ...], first: int, last: int, jobs: Any, context: Any) -> None:
        """Write the outlook of environments ``first .. last - 1`` into a batch of observations.

        :param state: of the simulator
        :param jobs: ``(B, ready_pool_size, columns)``
        :param context: ``(B, numbers)``
        """
        config_i, config_f, env, _, table, table_f, lists, rows, _ = state
        some = slice(first, last)
        env = env[some]
        waiting = int((env[:, at.N_QUEUE] + env[:, at.N_LATE]).max()) + 1
        if waiting > len(self._queue):
            self._make_room(2 * waiting)
        choices = at.ENV_I + self.config.resource_types
        candidates = env[:, choices:] != 0
        kernel_rollout.keep_candidates(candidates, config_i, env, table[some], lists[some])
        values = np.empty(candidates.shape)
        futures, bank = NO_FUTURE
        kernel_rollout.value_actions(
            values,
            candidates,
            self._shape,
            orders.QOS,
            0.0,
            np.broadcast_to(futures, (len(env), 1, 2)),
            bank,
            config_i,
            config_f,
            env,
            table[some],
            table_f[some],
            lists[some],
            rows[some],
            self._plans,
            self._table,
            self._worth,
            self._queue,
        )
        write_differences(values, config_f[at.MEAN_VALUE], self.config.suspend, jobs[some], context[some])
        if self.config.suspend:
            write_swaps(config_i, config_f, env, table[some], table_f[some], lists[some], context[some])


@compiled
def write_differences(
    values: NDArray[np.float64], mean_value: float, suspend: bool, jobs: Singles, context: Singles
) -> None:
    """Write by how much each action is worth more than ``no_op``."""
    ready, column, place = jobs.shape[1], jobs.shape[2] - 1, context.shape[1] - 1
    for b in range(values.shape[0]):
        idle = values[b, ready + 1]
        for slot in range(ready):
            jobs[b, slot, column] = squashed(values[b, slot], idle, mean_value)
        if suspend:
            context[b, place] = squashed(values[b, ready], idle, mean_value)


@compiled
def write_swaps(
    config: Ints, config_f: Floats, env: Ints, jobs: Ints, jobs_f: Floats, lists: Ints, context: Singles
) -> None:
    """Write who gives way and who starts, 0 where ``suspend`` is invalid."""
    types, suspend = config[at.TYPES], config[at.READY]
    width = len(SWAP_FEATURES) + types
    place = context.shape[1] - 1 - 2 * width
    for b in range(env.shape[0]):
        if not env[b, at.ENV_I + types + suspend]:
            context[b, place : place + 2 * width] = 0.0
            continue
        victim, job = env[b, at.SWAP_VICTIM], waiting_job(env, lists, b, env[b, at.SWAP_SLOT])
        left = jobs[b, victim, at.END] - env[b, at.NOW]
        tell_job(config, config_f, env, jobs, jobs_f, b, victim, left, context, place)
        length = occupied_steps(config, jobs, b, job)
        tell_job(config, config_f, env, jobs, jobs_f, b, job, length, context, place + width)


@compiled
def tell_job(
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    b: int,
    job: int,
    left: int,
    context: Singles,
    place: int,
) -> None:
    """Write a job that ends in ``left`` steps; see ``SWAP_FEATURES``."""
    value, horizon = jobs_f[b, job, at.VALUE], config[at.HORIZON]
    slack = jobs[b, job, at.LATEST] - env[b, at.NOW] - left
    context[b, place] = value / (value + config_f[at.MEAN_VALUE])
    context[b, place + 1] = min(left / horizon, 1.0)
    context[b, place + 2] = min(max(slack / horizon, -1.0), 1.0)
    for k in range(config[at.TYPES]):
        context[b, place + 3 + k] = jobs[b, job, at.JOB_I + k] / config[at.UNITS]


@compiled
def squashed(value: float, idle: float, mean_value: float) -> float:
    """Return ``x / (1 + |x|)`` of a difference in mean job values, 0 for an action that is not valued."""
    if np.isnan(value):
        return 0.0
    x = (value - idle) / mean_value
    return x / (1.0 + abs(x))
