# mypy: warn-return-any=False
"""Compiled heuristics: a decision from each observation of a batch, or all placements of a step at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.resource_pool.kernel_choose import choose
from greendc.baselines.resource_pool.kernel_order import OUT, Rules, Scratch, rank_of
from greendc.compiled import compiled, internal
from greendc.resource_pool import layout as at
from greendc.resource_pool import observation as seen
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
from greendc.resource_pool.layout import Pool, PoolState, Record, pool_at
from greendc.resource_pool.orders import sort_key

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Cells = NDArray[Any]


@compiled
def choose_ready(
    actions: Ints,
    rules: Rules,
    configs: NDArray[np.void],
    scale: float,
    image: Cells,
    jobs: Singles,
    draws: Floats,
    scratch: Scratch,
) -> None:
    """Write the action for each observation of a batch.

    :param actions: ``(B,)``
    :param configs: ``(1,)`` the configuration
    :param scale: what a cell of the image is multiplied with, 1 or 1/255
    :param image: ``(B, H, R * M)``, used by EASY alone
    :param jobs: ``(B, n, columns)``
    :param draws: ``(B, n)`` random numbers, for ``RANDOM`` alone
    """
    config = configs[0]
    slots = config.ready_pool_size
    for b in range(actions.shape[0]):
        for slot in range(slots):
            draw = draws[b, slot] if rules.order == orders.RANDOM else 0.0
            read_slot(rules, config, jobs[b, slot], slot, draw, scratch)
        job = choose(rules.dispatch, config, scale, image[b], 0, slots, scratch)
        actions[b] = job if job >= 0 else slots + 1


@internal
def read_slot(rules: Rules, config: Record, job: Singles, slot: int, draw: float, scratch: Scratch) -> None:
    """Write the row of the table for a ready slot, from its row of the observation."""
    row = scratch.table[slot]
    hopeless = job[seen.HOPELESS] > 0.0
    if job[seen.PRESENT] == 0.0 or (hopeless and config.mask_rule == at.MASK_NOW_ON_TIME):
        row.rank = OUT
        return
    width = 0.0
    for k in range(config.types):
        share = job[seen.UNITS + k]
        width = max(width, share)
        scratch.needs[slot, k] = round(share * config.units)
    # A reservation may be late though a start now would not be.
    late = job[seen.ON_TIME] == 0.0 if rules.dispatch == orders.RESERVE else hopeless
    valid, now = job[seen.VALID] > 0.0, job[seen.STARTS_NOW] > 0.0
    remaining = round(job[seen.REMAINING] * config.horizon)
    row.rank = rank_of(rules.late_rule, late)
    row.may_start = valid and (now or rules.dispatch == orders.RESERVE)
    row.length = config.start_delay + remaining + config.end_delay
    row.brown = job[seen.QOS] > np.float32(config.brown_above)
    row.key = sort_key(
        rules.order,
        job[seen.AGE],
        job[seen.DURATION],
        remaining,
        job[seen.LATEST_FINISH],
        job[seen.VALUE] / (1.0 - job[seen.VALUE]),  # v / mean value
        job[seen.QOS],
        width,
        draw,
    )


@compiled
def dispatch_queue(state: PoolState, rules: Rules, draws: Floats, scratch: Scratch) -> None:
    """Place, in every environment, all that the heuristic places of the whole queue in this step.

    :param draws: ``(B, jobs)`` random numbers, for ``RANDOM`` alone
    """
    for b in range(state.env.shape[0]):
        pool = pool_at(state, b)
        if pool.env.now >= pool.config.episode_steps:
            continue
        count = pool.env.n_queue + pool.env.n_late
        for i in range(count):
            scratch.ids[i] = waiting_job(pool, i)
            draw = draws[b, i] if rules.order == orders.RANDOM else 0.0
            read_job(pool, rules, scratch.ids[i], i, draw, scratch)
        place_all(pool, rules, count, scratch)


@internal
def place_all(pool: Pool, rules: Rules, count: int, scratch: Scratch) -> None:
    """Place all that the heuristic places of ``count`` waiting jobs, which are in the table."""
    reserves = rules.dispatch == orders.RESERVE and pool.config.mask_rule == at.MASK_VALID
    now_only = not reserves or pool.config.place_now != 0
    searched = False
    if now_only:
        keep_fitting(pool, count, scratch)
    while True:
        i = choose(
            rules.dispatch, pool.config, pool.config.cell_scale, pool.image, pool.env.head, count, scratch
        )
        if i < 0:
            break
        job, row = scratch.ids[i], scratch.table[i]
        rank = row.rank
        if not now_only:
            searched = True
            offset = search(pool, job, row.length, row.brown == 1)
            if offset < 0:
                row.may_start = 0
                continue
            finish = pool.env.now + offset + row.length
            rank = rank_of(rules.late_rule, finish > pool.jobs[job].latest)
        if rank == row.rank:
            place_waiting(pool, job, now_only)
            rank = OUT
            if now_only:
                keep_fitting(pool, count, scratch)
        row.rank = rank
    if searched:  # and so overwrote places that had been found for ready jobs
        refresh_choices(pool, -1)


@internal
def read_job(pool: Pool, rules: Rules, job: int, i: int, draw: float, scratch: Scratch) -> None:
    """Write row ``i`` of the table for a waiting job, from the simulator's state."""
    now, width, row = pool.env.now, 0, scratch.table[i]
    for k in range(pool.config.types):
        scratch.needs[i, k] = pool.needs[job, k]
        width = max(width, pool.needs[job, k])
    hopeless = is_hopeless(pool, job)
    row.rank = rank_of(rules.late_rule, hopeless)
    if hopeless and pool.config.mask_rule == at.MASK_NOW_ON_TIME:
        row.rank = OUT
    row.may_start = pool.jobs[job].barred != now
    row.length = occupied_steps(pool, job)
    row.brown = may_use_brown(pool, job)
    row.key = sort_key(
        rules.order,
        now - pool.jobs[job].arrival,
        pool.jobs[job].duration,
        pool.jobs[job].remaining,
        pool.jobs[job].latest - now,
        pool.jobs[job].value,
        pool.jobs[job].qos,
        width,
        draw,
    )


@internal
def keep_fitting(pool: Pool, count: int, scratch: Scratch) -> None:
    """Clear ``may_start`` of the jobs that do not fit from now on."""
    measure_blocks(pool, scratch.widest)
    for i in range(count):
        row = scratch.table[i]
        for k in range(pool.config.types):
            if scratch.needs[i, k] > scratch.widest[row.brown, k, row.length - 1]:
                row.may_start = 0


@internal
def measure_blocks(pool: Pool, widest: Ints) -> None:
    """Write the longest block of each type that is free from now to each row of the image.

    :param widest: ``[0]`` on green power, ``[1]`` for jobs that may use brown energy
    """
    horizon, words, head = pool.config.horizon, pool.config.words, pool.env.head
    for k in range(pool.config.types):
        for brown in range(widest.shape[0]):
            column, longest = column_of(k, words, brown == 1), pool.config.units
            for w in range(words):
                pool.rows[horizon, at.BITS + w] = bits_below(at.WORD_BITS)
            for h in range(horizon):
                if keep_common(pool, horizon, ring(head, h, horizon), column, words):
                    longest = longest_run(pool.rows[horizon], at.BITS, words)
                widest[brown, k, h] = longest


@compiled
def search(pool: Pool, job: int, length: int, brown: bool) -> int:
    """Return the offset of the job's earliest start, or -1."""
    pool.jobs[job].found_epoch = -1  # what was cached is overwritten
    return find_start(pool, job, pool.env.head, length, brown, 0, pool.config.horizon - length)
