# mypy: warn-return-any=False
"""Compiled rollouts: what each action is worth if a heuristic goes on from there, in sampled futures.

On plans (:mod:`~greendc.resource_pool.kernel_plan`), first as the simulator's rows have them, then
without the units of each job that is placed. Time goes on by looking at the next row. The heuristic starts
jobs in the order of their keys, now or not at all, and never late, so whatever it places will pay its value.
With backfilling the first that has no place now holds the earliest one in which it is on time, while others
are looked at. Of a placement that goes on beyond the rollout, the share within it counts: without that,
whatever starts last looks cheap, since what it keeps out is not seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, internal, unlocked
from greendc.resource_pool.kernel_plan import (
    CHANGED,
    NOW,
    WORK,
    Memory,
    Planner,
    copy_plan,
    hold,
    more_free,
    planner_of,
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


@unlocked
def value_actions(
    values: Floats,
    candidates: NDArray[np.bool_],
    futures: Ints,
    memory: Memory,
    state: PoolState,
    first_env: int,
) -> None:
    """Write the mean value of each candidate over the futures, NaN elsewhere.

    What jobs that are placed already will pay is the same for all actions and is left out; ``suspend``
    loses what its victim would have paid. A single candidate is worth 0.

    :param values: ``(B, n + 2)``
    :param candidates: ``(B, n + 2)``, valid actions; ``no_op`` is always one
    :param futures: ``(B, F, 2)``: which future of the bank, and the step of it that comes next
    :param first_env: the environment that row 0 is of
    """
    planner = planner_of(memory)
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
        read_plan(planner, pool)
        waiting = read_waiting(planner, pool)
        for a in range(n_actions):
            if not candidates[b, a]:
                continue
            first, count, left_out, gained = begin(planner, pool, a, waiting)
            steady, total = steady_from(planner), 0.0
            for f in range(futures.shape[1]):
                copy_plan(planner, WORK, CHANGED)
                k, step = futures[b, f, 0], futures[b, f, 1]
                total += roll_out(planner, memory.bank, memory.queue, k, step, first, count, left_out, steady)
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


@internal
def read_plan(planner: Planner, pool: Pool) -> None:
    """Copy what the image's rows have free; beyond them nothing is placed, and power repeats by the day."""
    types, words, kinds, horizon = (
        planner.look.types,
        planner.look.words,
        planner.look.kinds,
        pool.config.horizon,
    )
    head = pool.env.head
    for h in range(planner.look.rows):
        inside = h < horizon
        source = h if inside else horizon - planner.look.day + (h - horizon) % planner.look.day
        row = ring(head, source, horizon)
        for k in range(types):
            for kind in range(kinds):
                column = column_of(k, words, kind == 1)
                for w in range(words):
                    units = pool.rows[row, column + w]
                    if not inside:
                        units = span(0, planner.look.units if kind == 1 else pool.levels[row], w)
                    planner.plans[NOW, h, (k * kinds + kind) * words + w] = units


@internal
def read_waiting(planner: Planner, pool: Pool) -> int:
    """Write the waiting jobs behind the sampled ones, in queue order, and return their number."""
    count = pool.env.n_queue + pool.env.n_late
    for i in range(count):
        write_job(planner, pool, waiting_job(pool, i), planner.look.sampled + i)
    return count


@internal
def write_job(planner: Planner, pool: Pool, job: int, i: int) -> None:
    """Write a job of the simulator into row ``i`` of the table."""
    now, width, row = pool.env.now, 0, planner.table[i]
    for k in range(planner.look.types):
        planner.needs[i, k] = pool.needs[job, k]
        width = max(width, pool.needs[job, k])
    row.arrival = 1 if pool.jobs[job].barred == now else 0
    row.latest = pool.jobs[job].latest - now
    row.length = occupied_steps(pool, job)
    row.is_brown = may_use_brown(pool, job)
    row.value = pool.jobs[job].value
    row.key = sort_key(
        planner.look.order,
        now - pool.jobs[job].arrival,
        pool.jobs[job].duration,
        pool.jobs[job].remaining,
        pool.jobs[job].latest - now,
        pool.jobs[job].value,
        pool.jobs[job].qos,
        width,
        0.0,
    )
    if pool.jobs[job].qos < planner.look.min_qos:
        row.key = np.inf


@compiled
def sort_jobs(order: int, min_qos: float, table: Any, needs: Ints, duration: Ints, qos: Floats) -> None:
    """Write the keys of sampled jobs, all else of which is there; now is step 0 of their future."""
    for i in range(table.shape[0]):
        job, width = table[i], 0
        for k in range(needs.shape[1]):
            width = max(width, needs[i, k])
        job.key = sort_key(
            order, -job.arrival, duration[i], duration[i], job.latest, job.value, qos[i], width, 0.0
        )
        if qos[i] < min_qos:
            job.key = np.inf


# --- the first action --------------------------------------------------------------------------------------


@internal
def begin(planner: Planner, pool: Pool, action: int, waiting: int) -> tuple[int, int, int, float]:
    """Write the plan after the action, and return how the heuristic goes on from there.

    :param waiting: number of waiting jobs in the table
    :return: ``first``, ``waiting`` and ``left_out`` of :func:`roll_out`, and the value gained at once
    """
    copy_plan(planner, CHANGED, NOW)
    slots = pool.config.ready_pool_size
    if action < slots:
        return 0, waiting, planner.look.sampled + action, place_slot(planner, pool, action)
    if action == slots:
        started = planner.look.sampled + pool.env.successor
        return 0, waiting + 1, started, suspend_and_start(planner, pool, waiting)
    return 1, waiting, -1, 0.0


@internal
def place_slot(planner: Planner, pool: Pool, slot: int) -> float:
    """Place a ready job where the simulator would, and return its value, or 0 if it will be late."""
    job, i = waiting_job(pool, slot), planner.look.sampled + slot
    row, offset = planner.table[i], pool.jobs[job].found_start - pool.env.now
    last = offset + row.length
    for k in range(planner.look.types):
        block = pool.found_blocks[job, k]
        take(planner, CHANGED, k, block, planner.needs[i, k], offset, last)
    if last > row.latest:
        return 0.0
    return row.value * share_inside(planner, offset, row.length)


@internal
def suspend_and_start(planner: Planner, pool: Pool, waiting: int) -> float:
    """Do what ``suspend`` does, write the victim behind the waiting jobs, and return the value gained."""
    victim = pool.env.victim
    gained = 0.0
    if pool.jobs[victim].end <= pool.jobs[victim].latest:
        gained -= pool.jobs[victim].value
    give_back(planner, pool, victim)
    i = planner.look.sampled + waiting
    write_job(planner, pool, victim, i)
    worked = max(pool.env.now - pool.jobs[victim].start - pool.config.start_delay, 0)
    planner.table[i].length -= min(worked, pool.jobs[victim].remaining)
    planner.table[i].arrival = 1
    i = planner.look.sampled + pool.env.successor
    started = try_start(planner, 0, planner.look.rows, CHANGED, i)
    if started and planner.table[i].length <= planner.table[i].latest:
        gained += planner.table[i].value
    return gained


@internal
def give_back(planner: Planner, pool: Pool, job: int) -> None:
    """Give a running job's blocks back."""
    types, words, kinds, horizon = (
        planner.look.types,
        planner.look.words,
        planner.look.kinds,
        pool.config.horizon,
    )
    head = pool.env.head
    for h in range(pool.jobs[job].end - pool.env.now):
        level = pool.levels[ring(head, h, horizon)]
        for k in range(types):
            block = pool.blocks[job, k]
            for w in range(words):
                units = span(block, block + pool.needs[job, k], w)
                column = k * kinds * words + w
                planner.plans[CHANGED, h, column] |= units & span(0, level, w)
                if kinds > 1:
                    planner.plans[CHANGED, h, column + words] |= units


# --- the heuristic goes on ---------------------------------------------------------------------------------


@internal
def roll_out(
    planner: Planner,
    bank: Ints,
    queue: Ints,
    future: int,
    step: int,
    first: int,
    waiting: int,
    left_out: int,
    steady: int,
) -> float:
    """Let the heuristic go on in one future and return the value of what it places.

    :param step: the step of the future that comes next
    :param first: the row in which the heuristic begins: 0 now, 1 after time has gone on
    :param waiting: number of waiting jobs in the table
    :param left_out: row of the table of a job that waits no longer, or -1
    :param steady: as :func:`steady_from` says of the plan
    """
    sampled, count = planner.look.sampled, 0
    for i in range(sampled, sampled + waiting):
        if i != left_out and planner.table[i].length <= planner.table[i].latest:
            count = queue_up(planner, queue, count, i)
    shift = step - 1
    arriving, last = bank[future], bank[future + 1]
    while arriving < last and planner.table[arriving].arrival <= shift:
        arriving += 1
    total = 0.0
    for t in range(first, planner.look.depth):
        # Where nothing came and nothing is free that was not before, no job can start.
        look = t <= max(steady, 1) or more_free(planner, WORK, t, t - 1)
        while arriving < last and planner.table[arriving].arrival <= t + shift:
            count = queue_up(planner, queue, count, arriving)
            arriving += 1
            look = True
        if not look:
            continue
        kept, holder, held = 0, -1, -1
        for q in range(count):
            i = queue[q]
            clock = t + shift if i < sampled else t
            slack = planner.table[i].latest - planner.table[i].length - clock
            if slack < 0:
                continue
            # Behind the row that is held nothing becomes taken that is not yet, as behind the steady one.
            may_start = t >= planner.table[i].no_place_before and clock >= planner.table[i].arrival
            if may_start and try_start(planner, t, max(steady, held), WORK, i):
                total += planner.table[i].value * share_inside(planner, t, planner.table[i].length)
                continue
            if planner.look.backfill and held < 0 and not planner.table[i].is_brown:
                holder, held = i, hold(planner, t, t + slack, steady, i)
                if clock >= planner.table[i].arrival:
                    planner.table[i].no_place_before = held if held >= 0 else planner.look.depth
            queue[kept] = i
            kept += 1
        count = kept
        if held >= 0:
            release(planner, held, holder)
    return total


@internal
def queue_up(planner: Planner, queue: Ints, count: int, i: int) -> int:
    """Insert a job behind all whose key is not greater, and return the new number of jobs.

    The heuristic starts no job of an infinite key.
    """
    if planner.table[i].key == np.inf:
        return count
    planner.table[i].no_place_before = 0
    place = count
    while place > 0 and planner.table[queue[place - 1]].key > planner.table[i].key:
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = i
    return count + 1
