# mypy: warn-return-any=False
"""Compiled rollouts: what each action is worth if a heuristic goes on from there, in sampled futures.

On plans (:mod:`~greendc.resource_pool.kernel_plan`), first as the simulator's rows have them, then
without the units of each job that is placed. Time goes on by looking at the next row. The heuristic starts
jobs in the order of their keys, now or not at all, and never late, so whatever it places will pay its value.
With backfilling the first that has no place now holds the earliest one in which it is on time, while others
are looked at. Of a placement that goes on beyond the rollout, the share within it counts: without that,
whatever starts last looks cheap, since nobody sees what it keeps out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.resource_pool.kernel_plan import (
    ARRIVAL,
    BACKFILL,
    CHANGED,
    DAY,
    DEPTH,
    IS_BROWN,
    KEY,
    KINDS,
    LATEST,
    LENGTH,
    NEEDS,
    NO_PLACE_BEFORE,
    NOW,
    ROWS,
    SAMPLED,
    TYPES,
    UNITS,
    VALUE,
    WORDS,
    WORK,
    copy_plan,
    hold,
    more_free,
    release,
    share_inside,
    steady_from,
    take,
    try_start,
)
from greendc.resource_pool.kernel_queue import is_hopeless, may_use_brown, occupied_steps, waiting_job
from greendc.resource_pool.kernel_rows import column_of, ring, span
from greendc.resource_pool.layout import Pool, PoolState, pool_at
from greendc.resource_pool.orders import sort_key

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled
def value_actions(
    values: Floats,
    candidates: NDArray[np.bool_],
    shape: Ints,
    order: int,
    floor: float,
    futures: Ints,
    bank: Ints,
    state: PoolState,
    first_env: int,
    plans: Ints,
    table: Ints,
    worth: Floats,
    queue: Ints,
) -> None:
    """Write the mean value of each candidate over the futures, NaN elsewhere.

    What jobs that are placed already will pay is the same for all actions and is left out; ``suspend``
    loses what its victim would have paid. A single candidate is worth 0.

    :param values: ``(B, n + 2)``
    :param candidates: ``(B, n + 2)``, valid actions; ``no_op`` is always one
    :param floor: the heuristic starts no job of a lesser QoS value
    :param futures: ``(B, F, 2)``: which future of the bank, and the step of it that comes next
    :param bank: ``(K + 1,)``: future ``k``'s jobs are rows ``bank[k] .. bank[k + 1] - 1`` of ``table``
    :param first_env: the environment that row 0 is of
    :param plans: scratch, as are ``queue`` ``(jobs,)`` and the rows of ``table`` and ``worth`` behind the
        sampled jobs
    """
    n_actions = values.shape[1]
    for b in range(values.shape[0]):
        choices = 0
        for a in range(n_actions):
            values[b, a] = np.nan
            choices += candidates[b, a]
        if choices <= 1:
            values[b, n_actions - 1] = 0.0
            continue
        pool = pool_at(state, first_env + b)
        read_plan(shape, pool, plans)
        waiting = read_waiting(shape, order, floor, pool, table, worth)
        for a in range(n_actions):
            if not candidates[b, a]:
                continue
            copy_plan(plans, CHANGED, NOW)
            first, count, left_out, gained = 0, waiting, -1, 0.0
            if a < pool.config.ready_pool_size:
                left_out = shape[SAMPLED] + a
                gained = place_slot(shape, pool, a, plans, table, worth)
            elif a == pool.config.ready_pool_size:
                left_out = shape[SAMPLED] + pool.env.successor
                gained = swap(shape, order, floor, pool, waiting, plans, table, worth)
                count = waiting + 1
            else:
                first = 1
            steady, total = steady_from(shape, plans), 0.0
            for f in range(futures.shape[1]):
                copy_plan(plans, WORK, CHANGED)
                k, step = futures[b, f, 0], futures[b, f, 1]
                total += roll_out(
                    shape, k, step, bank, first, count, left_out, steady, plans, table, worth, queue
                )
            values[b, a] = gained + total / futures.shape[1]


@compiled
def keep_candidates(masks: NDArray[np.bool_], state: PoolState, first_env: int) -> None:
    """Clear, in the action masks, the jobs that would start later than now or finish late."""
    for b in range(masks.shape[0]):
        pool = pool_at(state, first_env + b)
        for slot in range(pool.config.ready_pool_size):
            if masks[b, slot]:
                job, now = waiting_job(pool, slot), pool.env.now
                starts_now = pool.jobs[job].found_start == now
                masks[b, slot] = starts_now and not is_hopeless(pool, job)


# --- reading the simulator ---------------------------------------------------------------------------------


@inlined
def read_plan(shape: Ints, pool: Pool, plans: Ints) -> None:
    """Copy what the image's rows have free; beyond them nothing is placed, and power repeats by the day."""
    types, words, kinds, horizon = shape[TYPES], shape[WORDS], shape[KINDS], pool.config.horizon
    head = pool.env.head
    for h in range(shape[ROWS]):
        inside = h < horizon
        source = h if inside else horizon - shape[DAY] + (h - horizon) % shape[DAY]
        row = ring(head, source, horizon)
        for k in range(types):
            for kind in range(kinds):
                column = column_of(k, words, kind == 1)
                for w in range(words):
                    units = pool.rows[row, column + w]
                    if not inside:
                        units = span(0, shape[UNITS] if kind == 1 else pool.levels[row], w)
                    plans[NOW, h, (k * kinds + kind) * words + w] = units


@inlined
def read_waiting(shape: Ints, order: int, floor: float, pool: Pool, table: Ints, worth: Floats) -> int:
    """Write the waiting jobs behind the sampled ones, in queue order, and return their number."""
    count = pool.env.n_queue + pool.env.n_late
    for i in range(count):
        write_job(shape, order, floor, pool, waiting_job(pool, i), shape[SAMPLED] + i, table, worth)
    return count


@compiled
def write_job(
    shape: Ints, order: int, floor: float, pool: Pool, job: int, i: int, table: Ints, worth: Floats
) -> None:
    """Write a job of the simulator into row ``i`` of the table."""
    now, width = pool.env.now, 0
    for k in range(shape[TYPES]):
        table[i, NEEDS + k] = pool.needs[job, k]
        width = max(width, pool.needs[job, k])
    table[i, ARRIVAL] = 1 if pool.jobs[job].barred == now else 0
    table[i, LATEST] = pool.jobs[job].latest - now
    table[i, LENGTH] = occupied_steps(pool, job)
    table[i, IS_BROWN] = may_use_brown(pool, job)
    worth[i, VALUE] = pool.jobs[job].value
    worth[i, KEY] = sort_key(
        order,
        now - pool.jobs[job].arrival,
        pool.jobs[job].duration,
        pool.jobs[job].remaining,
        pool.jobs[job].latest - now,
        pool.jobs[job].value,
        pool.jobs[job].qos,
        width,
        0.0,
    )
    if pool.jobs[job].qos < floor:
        worth[i, KEY] = np.inf


@compiled
def sort_jobs(order: int, floor: float, table: Ints, duration: Ints, qos: Floats, worth: Floats) -> None:
    """Write the keys of sampled jobs, whose table and values are there; now is step 0 of their future."""
    for i in range(table.shape[0]):
        width = 0
        for k in range(NEEDS, table.shape[1]):
            width = max(width, table[i, k])
        worth[i, KEY] = sort_key(
            order,
            -table[i, ARRIVAL],
            duration[i],
            duration[i],
            table[i, LATEST],
            worth[i, VALUE],
            qos[i],
            width,
            0.0,
        )
        if qos[i] < floor:
            worth[i, KEY] = np.inf


# --- the first action --------------------------------------------------------------------------------------


@inlined
def place_slot(shape: Ints, pool: Pool, slot: int, plans: Ints, table: Ints, worth: Floats) -> float:
    """Place a ready job where the simulator would, and return its value, or 0 if it will be late."""
    job, i = waiting_job(pool, slot), shape[SAMPLED] + slot
    offset = pool.jobs[job].found_start - pool.env.now
    last = offset + table[i, LENGTH]
    for k in range(shape[TYPES]):
        block = pool.found_blocks[job, k]
        take(shape, plans, CHANGED, k, block, table[i, NEEDS + k], offset, last)
    if last > table[i, LATEST]:
        return 0.0
    return worth[i, VALUE] * share_inside(shape, offset, table[i, LENGTH])


@inlined
def swap(
    shape: Ints, order: int, floor: float, pool: Pool, waiting: int, plans: Ints, table: Ints, worth: Floats
) -> float:
    """Do what ``suspend`` does, write the victim behind the waiting jobs, and return the value gained."""
    victim = pool.env.victim
    gained = 0.0
    if pool.jobs[victim].end <= pool.jobs[victim].latest:
        gained -= pool.jobs[victim].value
    give_back(shape, pool, victim, plans)
    i = shape[SAMPLED] + waiting
    write_job(shape, order, floor, pool, victim, i, table, worth)
    worked = max(pool.env.now - pool.jobs[victim].start - pool.config.start_delay, 0)
    table[i, LENGTH] -= min(worked, pool.jobs[victim].remaining)
    table[i, ARRIVAL] = 1
    i = shape[SAMPLED] + pool.env.successor
    started = try_start(shape, 0, shape[ROWS], plans, CHANGED, table, i)
    if started and table[i, LENGTH] <= table[i, LATEST]:
        gained += worth[i, VALUE]
    return gained


@inlined
def give_back(shape: Ints, pool: Pool, job: int, plans: Ints) -> None:
    """Give a running job's blocks back."""
    types, words, kinds, horizon = shape[TYPES], shape[WORDS], shape[KINDS], pool.config.horizon
    head = pool.env.head
    for h in range(pool.jobs[job].end - pool.env.now):
        level = pool.levels[ring(head, h, horizon)]
        for k in range(types):
            block = pool.blocks[job, k]
            for w in range(words):
                units = span(block, block + pool.needs[job, k], w)
                column = k * kinds * words + w
                plans[CHANGED, h, column] |= units & span(0, level, w)
                if kinds > 1:
                    plans[CHANGED, h, column + words] |= units


# --- the heuristic goes on ---------------------------------------------------------------------------------


@compiled
def roll_out(
    shape: Ints,
    future: int,
    step: int,
    bank: Ints,
    first: int,
    waiting: int,
    left_out: int,
    steady: int,
    plans: Ints,
    table: Ints,
    worth: Floats,
    queue: Ints,
) -> float:
    """Let the heuristic go on in one future and return the value of what it places.

    :param step: the step of the future that comes next
    :param first: the row in which the heuristic begins: 0 now, 1 after time has gone on
    :param waiting: number of waiting jobs in the table
    :param left_out: row of the table of a job that waits no longer, or -1
    :param steady: as :func:`steady_from` says of the plan
    """
    sampled, count = shape[SAMPLED], 0
    for i in range(sampled, sampled + waiting):
        if i != left_out and table[i, LENGTH] <= table[i, LATEST]:
            count = queue_up(queue, count, i, table, worth)
    shift = step - 1
    arriving, last = bank[future], bank[future + 1]
    while arriving < last and table[arriving, ARRIVAL] <= shift:
        arriving += 1
    total = 0.0
    for t in range(first, shape[DEPTH]):
        # Where nothing came and nothing is free that was not before, nobody can start.
        look = t <= max(steady, 1) or more_free(plans, WORK, t, t - 1)
        while arriving < last and table[arriving, ARRIVAL] <= t + shift:
            count = queue_up(queue, count, arriving, table, worth)
            arriving += 1
            look = True
        if not look:
            continue
        kept, holder, held = 0, -1, -1
        for q in range(count):
            i = queue[q]
            clock = t + shift if i < sampled else t
            slack = table[i, LATEST] - table[i, LENGTH] - clock
            if slack < 0:
                continue
            # Behind the row that is held nothing becomes taken that is not yet, as behind the steady one.
            may_start = t >= table[i, NO_PLACE_BEFORE] and clock >= table[i, ARRIVAL]
            if may_start and try_start(shape, t, max(steady, held), plans, WORK, table, i):
                total += worth[i, VALUE] * share_inside(shape, t, table[i, LENGTH])
                continue
            if shape[BACKFILL] and held < 0 and not table[i, IS_BROWN]:
                holder, held = i, hold(shape, t, t + slack, steady, plans, table, i)
                if clock >= table[i, ARRIVAL]:
                    table[i, NO_PLACE_BEFORE] = held if held >= 0 else shape[DEPTH]
            queue[kept] = i
            kept += 1
        count = kept
        if held >= 0:
            release(shape, held, plans, table, holder)
    return total


@inlined
def queue_up(queue: Ints, count: int, i: int, table: Ints, worth: Floats) -> int:
    """Insert a job behind all whose key is not greater, and return the new number of jobs.

    The heuristic starts no job of an infinite key.
    """
    if worth[i, KEY] == np.inf:
        return count
    table[i, NO_PLACE_BEFORE] = 0
    place = count
    while place > 0 and worth[queue[place - 1], KEY] > worth[i, KEY]:
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = i
    return count + 1
