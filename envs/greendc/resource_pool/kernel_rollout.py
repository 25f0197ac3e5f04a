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
from greendc.resource_pool import layout as at
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
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    rows: Ints,
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
        read_plan(shape, config, env, rows, b, plans)
        waiting = read_waiting(
            shape, order, floor, config, config_f, env, jobs, jobs_f, lists, b, table, worth
        )
        for a in range(n_actions):
            if not candidates[b, a]:
                continue
            copy_plan(plans, CHANGED, NOW)
            first, count, left_out, gained = 0, waiting, -1, 0.0
            if a < config[at.READY]:
                left_out = shape[SAMPLED] + a
                gained = place_slot(shape, env, jobs, lists, b, a, plans, table, worth)
            elif a == config[at.READY]:
                left_out = shape[SAMPLED] + env[b, at.SWAP_SLOT]
                gained = swap(
                    shape,
                    order,
                    floor,
                    config,
                    config_f,
                    env,
                    jobs,
                    jobs_f,
                    rows,
                    b,
                    waiting,
                    plans,
                    table,
                    worth,
                )
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
def keep_candidates(masks: NDArray[np.bool_], config: Ints, env: Ints, jobs: Ints, lists: Ints) -> None:
    """Clear, in the action masks, the jobs that would start later than now or finish late."""
    for b in range(masks.shape[0]):
        for slot in range(config[at.READY]):
            if masks[b, slot]:
                job, now = waiting_job(env, lists, b, slot), env[b, at.NOW]
                starts_now = jobs[b, job, at.FOUND_START] == now
                masks[b, slot] = starts_now and not is_hopeless(config, env, jobs, b, job)


# --- reading the simulator ---------------------------------------------------------------------------------


@inlined
def read_plan(shape: Ints, config: Ints, env: Ints, rows: Ints, b: int, plans: Ints) -> None:
    """Copy what the image's rows have free; beyond them nothing is placed, and power repeats by the day."""
    types, words, kinds, horizon = shape[TYPES], shape[WORDS], shape[KINDS], config[at.HORIZON]
    head = env[b, at.NOW] % horizon
    for h in range(shape[ROWS]):
        inside = h < horizon
        source = h if inside else horizon - shape[DAY] + (h - horizon) % shape[DAY]
        row = ring(head, source, horizon)
        for k in range(types):
            for kind in range(kinds):
                column = column_of(k, words, kind == 1)
                for w in range(words):
                    units = rows[b, row, column + w]
                    if not inside:
                        units = span(0, shape[UNITS] if kind == 1 else rows[b, row, at.LEVEL], w)
                    plans[NOW, h, (k * kinds + kind) * words + w] = units


@inlined
def read_waiting(
    shape: Ints,
    order: int,
    floor: float,
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    lists: Ints,
    b: int,
    table: Ints,
    worth: Floats,
) -> int:
    """Write the waiting jobs behind the sampled ones, in queue order, and return their number."""
    count = env[b, at.N_QUEUE] + env[b, at.N_LATE]
    for i in range(count):
        write_job(
            shape,
            order,
            floor,
            config,
            config_f,
            env,
            jobs,
            jobs_f,
            b,
            waiting_job(env, lists, b, i),
            shape[SAMPLED] + i,
            table,
            worth,
        )
    return count


@compiled
def write_job(
    shape: Ints,
    order: int,
    floor: float,
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    b: int,
    job: int,
    i: int,
    table: Ints,
    worth: Floats,
) -> None:
    """Write a job of the simulator into row ``i`` of the table."""
    now, width = env[b, at.NOW], 0
    for k in range(shape[TYPES]):
        table[i, NEEDS + k] = jobs[b, job, at.JOB_I + k]
        width = max(width, jobs[b, job, at.JOB_I + k])
    table[i, ARRIVAL] = 1 if jobs[b, job, at.BARRED] == now else 0
    table[i, LATEST] = jobs[b, job, at.LATEST] - now
    table[i, LENGTH] = occupied_steps(config, jobs, b, job)
    table[i, IS_BROWN] = may_use_brown(config_f, jobs_f, b, job)
    worth[i, VALUE] = jobs_f[b, job, at.VALUE]
    worth[i, KEY] = sort_key(
        order,
        now - jobs[b, job, at.ARRIVAL],
        jobs[b, job, at.DURATION],
        jobs[b, job, at.REMAINING],
        jobs[b, job, at.LATEST] - now,
        jobs_f[b, job, at.VALUE],
        jobs_f[b, job, at.QOS],
        width,
        0.0,
    )
    if jobs_f[b, job, at.QOS] < floor:
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
def place_slot(
    shape: Ints,
    env: Ints,
    jobs: Ints,
    lists: Ints,
    b: int,
    slot: int,
    plans: Ints,
    table: Ints,
    worth: Floats,
) -> float:
    """Place a ready job where the simulator would, and return its value, or 0 if it will be late."""
    job, i = waiting_job(env, lists, b, slot), shape[SAMPLED] + slot
    offset = jobs[b, job, at.FOUND_START] - env[b, at.NOW]
    last = offset + table[i, LENGTH]
    for k in range(shape[TYPES]):
        block = jobs[b, job, at.JOB_I + 2 * shape[TYPES] + k]
        take(shape, plans, CHANGED, k, block, table[i, NEEDS + k], offset, last)
    if last > table[i, LATEST]:
        return 0.0
    return worth[i, VALUE] * share_inside(shape, offset, table[i, LENGTH])


@inlined
def swap(
    shape: Ints,
    order: int,
    floor: float,
    config: Ints,
    config_f: Floats,
    env: Ints,
    jobs: Ints,
    jobs_f: Floats,
    rows: Ints,
    b: int,
    waiting: int,
    plans: Ints,
    table: Ints,
    worth: Floats,
) -> float:
    """Do what ``suspend`` does, write the victim behind the waiting jobs, and return the value gained."""
    victim = env[b, at.SWAP_VICTIM]
    gained = 0.0
    if jobs[b, victim, at.END] <= jobs[b, victim, at.LATEST]:
        gained -= jobs_f[b, victim, at.VALUE]
    give_back(shape, config, env, jobs, rows, b, victim, plans)
    i = shape[SAMPLED] + waiting
    write_job(shape, order, floor, config, config_f, env, jobs, jobs_f, b, victim, i, table, worth)
    worked = max(env[b, at.NOW] - jobs[b, victim, at.START] - config[at.START_DELAY], 0)
    table[i, LENGTH] -= min(worked, jobs[b, victim, at.REMAINING])
    table[i, ARRIVAL] = 1
    i = shape[SAMPLED] + env[b, at.SWAP_SLOT]
    started = try_start(shape, 0, shape[ROWS], plans, CHANGED, table, i)
    if started and table[i, LENGTH] <= table[i, LATEST]:
        gained += worth[i, VALUE]
    return gained


@inlined
def give_back(
    shape: Ints, config: Ints, env: Ints, jobs: Ints, rows: Ints, b: int, job: int, plans: Ints
) -> None:
    """Give a running job's blocks back."""
    types, words, kinds, horizon = shape[TYPES], shape[WORDS], shape[KINDS], config[at.HORIZON]
    head = env[b, at.NOW] % horizon
    for h in range(jobs[b, job, at.END] - env[b, at.NOW]):
        level = rows[b, ring(head, h, horizon), at.LEVEL]
        for k in range(types):
            block = jobs[b, job, at.JOB_I + types + k]
            for w in range(words):
                units = span(block, block + jobs[b, job, at.JOB_I + k], w)
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
