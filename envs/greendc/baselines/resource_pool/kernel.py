# mypy: warn-return-any=False
"""Compiled heuristics: a decision from each observation of a batch, or all placements of a step at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.resource_pool.kernel_choose import choose
from greendc.baselines.resource_pool.kernel_order import (
    BROWN,
    LENGTH,
    MAY_START,
    NEEDS,
    OUT,
    RANK,
    rank_of,
)
from greendc.compiled import compiled
from greendc.resource_pool import layout as at
from greendc.resource_pool import orders
from greendc.resource_pool.kernel import place_waiting
from greendc.resource_pool.kernel_observe import refresh_choices
from greendc.resource_pool.kernel_queue import is_hopeless, may_use_brown, occupied_steps, waiting_job
from greendc.resource_pool.kernel_rows import (
    bits_below,
    column_of,
    find_start,
    keep_common,
    longest_run,
    ring,
)
from greendc.resource_pool.observation import JOB_FEATURES
from greendc.resource_pool.orders import sort_key

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Cells = NDArray[Any]

PRESENT = JOB_FEATURES.index("present")
VALUE = JOB_FEATURES.index("value")
QOS = JOB_FEATURES.index("qos")
LATEST_FINISH = JOB_FEATURES.index("latest_finish")
AGE = JOB_FEATURES.index("age")
DURATION = JOB_FEATURES.index("duration")
REMAINING = JOB_FEATURES.index("remaining")
STARTS_NOW = JOB_FEATURES.index("starts_now")
ON_TIME = JOB_FEATURES.index("on_time")
HOPELESS = JOB_FEATURES.index("hopeless")
VALID = JOB_FEATURES.index("valid")
UNITS = len(JOB_FEATURES)


@compiled
def choose_ready(
    actions: Ints,
    order: int,
    late_rule: int,
    dispatch: int,
    config: Ints,
    config_f: Floats,
    scale: float,
    image: Cells,
    jobs: Singles,
    draws: Floats,
    keys: Floats,
    table: Ints,
    runs: Ints,
) -> None:
    """Write the action for each observation of a batch.

    :param actions: ``(B,)``
    :param scale: what a cell of the image is multiplied with, 1 or 1/255
    :param image: ``(B, H, R * M)``, used by EASY alone
    :param jobs: ``(B, n, 13 + R)``
    :param draws: ``(B, n)`` random numbers, for ``RANDOM`` alone
    :param keys: scratch, as are ``table`` and ``runs``; see ``kernel_order`` and ``kernel_choose``
    """
    slots = config[at.READY]
    for b in range(actions.shape[0]):
        for slot in range(slots):
            read_slot(order, late_rule, dispatch, config, config_f, jobs, b, slot, draws, keys, table)
        job = choose(dispatch, keys, table, slots, config, scale, image, b, 0, runs)
        actions[b] = job if job >= 0 else slots + 1


@compiled
def read_slot(
    order: int,
    late_rule: int,
    dispatch: int,
    config: Ints,
    config_f: Floats,
    jobs: Singles,
    b: int,
    slot: int,
    draws: Floats,
    keys: Floats,
    table: Ints,
) -> None:
    """Write the row of the table for a ready slot, from its row of the observation."""
    hopeless = jobs[b, slot, HOPELESS] > 0.0
    if jobs[b, slot, PRESENT] == 0.0 or (hopeless and config[at.MASK_RULE] == at.MASK_NOW_ON_TIME):
        table[slot, RANK] = OUT
        return
    width = 0.0
    for k in range(config[at.TYPES]):
        share = jobs[b, slot, UNITS + k]
        width = max(width, share)
        table[slot, NEEDS + k] = round(share * config[at.UNITS])
    # A reservation may be late though a start now would not be.
    late = jobs[b, slot, ON_TIME] == 0.0 if dispatch == orders.RESERVE else hopeless
    valid, now = jobs[b, slot, VALID] > 0.0, jobs[b, slot, STARTS_NOW] > 0.0
    remaining = round(jobs[b, slot, REMAINING] * config[at.HORIZON])
    table[slot, RANK] = rank_of(late_rule, late)
    table[slot, MAY_START] = valid and (now or dispatch == orders.RESERVE)
    table[slot, LENGTH] = config[at.START_DELAY] + remaining + config[at.END_DELAY]
    table[slot, BROWN] = jobs[b, slot, QOS] > np.float32(config_f[at.BROWN_ABOVE])
    keys[slot] = sort_key(
        order,
        jobs[b, slot, AGE],
        jobs[b, slot, DURATION],
        remaining,
        jobs[b, slot, LATEST_FINISH],
        jobs[b, slot, VALUE] / (1.0 - jobs[b, slot, VALUE]),  # v / mean value
        jobs[b, slot, QOS],
        width,
        draws[b, slot] if order == orders.RANDOM else 0.0,
    )


@compiled
def dispatch_queue(
    order: int,
    late_rule: int,
    dispatch: int,
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
    image: Cells,
    draws: Floats,
    ids: Ints,
    widest: Ints,
    keys: Floats,
    table: Ints,
    runs: Ints,
) -> None:
    """Place, in every environment, all that the heuristic places of the whole queue in this step.

    :param draws: ``(B, jobs)`` random numbers, for ``RANDOM`` alone
    :param ids: ``(jobs,)`` scratch, as are ``widest`` ``(2, R, H)``, ``keys``, ``table`` and ``runs``; the
        first axis of ``widest`` and ``runs`` has length 1 where no job may use brown energy
    """
    reserves = dispatch == orders.RESERVE and config[at.MASK_RULE] == at.MASK_VALID
    now_only = not reserves or config[at.PLACE_NOW] != 0
    for b in range(env.shape[0]):
        if env[b, at.NOW] >= config[at.EPISODE_STEPS]:
            continue
        head = env[b, at.NOW] % config[at.HORIZON]
        count = env[b, at.N_QUEUE] + env[b, at.N_LATE]
        searched = False
        for i in range(count):
            ids[i] = waiting_job(env, lists, b, i)
            read_job(order, late_rule, config, config_f, env, jobs, jobs_f, b, ids[i], i, draws, keys, table)
        if now_only:
            keep_fitting(config, rows, b, head, table, count, widest)
        while True:
            i = choose(dispatch, keys, table, count, config, config_f[at.CELL_SCALE], image, b, head, runs)
            if i < 0:
                break
            rank = table[i, RANK]
            if not now_only:
                searched = True
                offset = search(config, jobs, rows, b, ids[i], head, table, i)
                if offset < 0:
                    table[i, MAY_START] = 0
                    continue
                finish = env[b, at.NOW] + offset + table[i, LENGTH]
                rank = rank_of(late_rule, finish > jobs[b, ids[i], at.LATEST])
            if rank == table[i, RANK]:
                place_waiting(
                    config, config_f, env, env_f, jobs, jobs_f, lists, rows, image, b, ids[i], now_only
                )
                rank = OUT
                if now_only:
                    keep_fitting(config, rows, b, head, table, count, widest)
            table[i, RANK] = rank
        if searched:  # and so overwrote places that had been found for ready jobs
            refresh_choices(config, config_f, env, jobs, jobs_f, lists, rows, b, -1)


@compiled
def read_job(
    order: int,
    late_rule: int,
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    b: int,
    job: int,
    i: int,
    draws: Floats,
    keys: Floats,
    table: Ints,
) -> None:
    """Write row ``i`` of the table for a waiting job, from the simulator's arrays."""
    now, width = env[b, at.NOW], 0
    for k in range(config[at.TYPES]):
        table[i, NEEDS + k] = jobs[b, job, at.JOB_I + k]
        width = max(width, jobs[b, job, at.JOB_I + k])
    hopeless = is_hopeless(config, env, jobs, b, job)
    table[i, RANK] = rank_of(late_rule, hopeless)
    if hopeless and config[at.MASK_RULE] == at.MASK_NOW_ON_TIME:
        table[i, RANK] = OUT
    table[i, MAY_START] = jobs[b, job, at.BARRED] != now
    table[i, LENGTH] = occupied_steps(config, jobs, b, job)
    table[i, BROWN] = may_use_brown(config_f, jobs_f, b, job)
    keys[i] = sort_key(
        order,
        now - jobs[b, job, at.ARRIVAL],
        jobs[b, job, at.DURATION],
        jobs[b, job, at.REMAINING],
        jobs[b, job, at.LATEST] - now,
        jobs_f[b, job, at.VALUE],
        jobs_f[b, job, at.QOS],
        width,
        draws[b, i] if order == orders.RANDOM else 0.0,
    )


@compiled
def keep_fitting(config: Ints, rows: Ints, b: int, head: int, table: Ints, count: int, widest: Ints) -> None:
    """Clear ``MAY_START`` of the jobs that do not fit from now on."""
    measure_blocks(config, rows, b, head, widest)
    for i in range(count):
        for k in range(config[at.TYPES]):
            if table[i, NEEDS + k] > widest[table[i, BROWN], k, table[i, LENGTH] - 1]:
                table[i, MAY_START] = 0


@compiled
def measure_blocks(config: Ints, rows: Ints, b: int, head: int, widest: Ints) -> None:
    """Write the longest block of each type that is free from now to each row of the image.

    :param widest: ``[0]`` on green power, ``[1]`` for jobs that may use brown energy
    """
    horizon, words = config[at.HORIZON], config[at.WORDS]
    for k in range(config[at.TYPES]):
        for brown in range(widest.shape[0]):
            column, longest = column_of(k, words, brown == 1), config[at.UNITS]
            for w in range(words):
                rows[b, horizon, at.BITS + w] = bits_below(at.WORD_BITS)
            for h in range(horizon):
                if keep_common(rows, b, horizon, ring(head, h, horizon), column, words):
                    longest = longest_run(rows, b, horizon, at.BITS, words)
                widest[brown, k, h] = longest


@compiled
def search(config: Ints, jobs: Ints, rows: Ints, b: int, job: int, head: int, table: Ints, i: int) -> int:
    """Return the offset of the job's earliest start, or -1."""
    length = table[i, LENGTH]
    jobs[b, job, at.FOUND_EPOCH] = -1  # what was cached is overwritten
    last = config[at.HORIZON] - length
    return find_start(config, jobs, rows, b, job, head, length, table[i, BROWN] == 1, 0, last)
