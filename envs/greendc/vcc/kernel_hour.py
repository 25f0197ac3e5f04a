"""One hour of one datacenter (compiled): jobs leave, arrive, are evicted, start and work.

Jobs on machines are in :mod:`~greendc.vcc.kernel_cluster`, waiting jobs in
:mod:`~greendc.vcc.kernel_queue`, lateness in :mod:`~greendc.vcc.kernel_lateness`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from greendc.bits import lowest_bit
from greendc.compiled import inlined
from greendc.vcc import kernel_queue
from greendc.vcc.kernel_cluster import (
    begin_day,
    evict_job,
    least_loaded,
    leave,
    machine_with_room,
    note_fixed,
    note_running,
    push,
    run_flexible,
    run_inflexible,
    take_place,
    wait,
)
from greendc.vcc.kernel_lateness import count_running, count_waiting, pass_hour, row_of
from greendc.vcc.kernel_queue import UNIT
from greendc.vcc.layout import (
    ALL_JOBS,
    BATCH,
    BLOCK,
    CAPACITY,
    CPU,
    DAY,
    DELAY,
    DELAYS,
    DEMAND_TODAY,
    DURATION,
    END_PLACES,
    EVICT,
    EXECUTED_FLEXIBLE_WORK,
    EXECUTED_WORK,
    FINISH,
    FIRST_FLEXIBLE_CLASS,
    FIRST_PLACES,
    FLEXIBLE_GROUPS,
    FREE,
    HOUR,
    ID,
    ID_BASE,
    LAST_VCC,
    LEAVING,
    LEFT,
    LOAD_FLEXIBLE,
    LOAD_INFLEXIBLE,
    MACHINE,
    MICRO,
    MID,
    NO_JOB,
    NOTHING,
    ORIGIN,
    OUTSIDE,
    OUTSIDE_JOBS,
    RUNNING_FIELDS,
    RUNNING_ID,
    STACK_TOP,
    SUBMITTED_FLEXIBLE_WORK,
    SUBMITTED_WORK,
    TRACE_CLASS,
    TRACE_CPU,
    TRACE_DURATION,
    TRACE_ORDER,
    VCC_TODAY,
    WAITING_JOBS,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]


@inlined
def advance(
    vcc: float,
    demand: int,
    first_hour: int,
    trace: Ints32,
    hour_offsets: Ints,
    places: Ints32,
    keys: Ints32,
    stack: Ints32,
    fixed: Ints32,
    started: Ints32,
    machines: Ints,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
    sums: Floats,
) -> None:
    """Run an hour under the virtual capacity ``vcc`` (a fraction of C).

    :param demand: load of the no-delay schedule in this hour
    :param first_hour: the trace's hour that is today's midnight
    """
    hour = first_hour + counters[HOUR] % DAY
    first, end = hour_offsets[hour], hour_offsets[hour + 1]
    budget = math.floor(vcc * switches[CAPACITY])
    leave(machines, calendar, counters)
    if counters[HOUR] % DAY == 0:
        begin_day(stack, fixed, machines.shape[1], calendar, counters)
    first = start_inflexible(
        trace,
        first,
        end,
        places,
        keys,
        stack,
        fixed,
        machines,
        waiting,
        calendar,
        counters,
        lateness,
        switches,
    )
    if switches[EVICT]:
        evict(budget, stack, places, keys, machines, waiting, calendar, counters, lateness, switches)
    start_flexible(
        trace,
        first,
        end,
        budget,
        places,
        keys,
        started,
        machines,
        waiting,
        calendar,
        counters,
        lateness,
        switches,
    )
    stack_started(started, stack, counters)
    counters[EXECUTED_WORK] += counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]
    counters[EXECUTED_FLEXIBLE_WORK] += counters[LOAD_FLEXIBLE]
    counters[DEMAND_TODAY] += demand
    sums[LAST_VCC] = vcc
    sums[VCC_TODAY] += vcc
    pass_hour(waiting, calendar, counters, lateness, switches)
    if counters[HOUR] % DAY == 0:
        counters[ID_BASE] += hour_offsets[first_hour + DAY] - hour_offsets[first_hour]


@inlined
def start_inflexible(
    trace: Ints32,
    first: int,
    end: int,
    places: Ints32,
    keys: Ints32,
    stack: Ints32,
    fixed: Ints32,
    machines: Ints,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> int:
    """Start this hour's inflexible jobs, monitoring before production; return the first flexible one.

    Where the least-loaded machine has no room, flexible jobs are evicted; failing that, the job runs
    outside the machines.
    """
    now = counters[HOUR]
    work = 0
    while first < end and trace[first, TRACE_CLASS] < FIRST_FLEXIBLE_CLASS:
        cpu, duration = int(trace[first, TRACE_CPU]), int(trace[first, TRACE_DURATION])
        machine = least_loaded(machines, ALL_JOBS)
        if machines[ALL_JOBS, machine] + cpu > MICRO:
            machine = OUTSIDE
            if switches[EVICT]:
                machine = machine_with_room(
                    cpu, stack, places, keys, machines, waiting, calendar, counters, lateness, switches
                )
            if machine == OUTSIDE:
                counters[OUTSIDE_JOBS] += 1
        run_inflexible(cpu, machine, now + duration, machines, calendar, counters)
        if duration > 1:
            note_fixed(cpu, now + duration, machine, fixed, counters)
        work += cpu * duration
        first += 1
    counters[SUBMITTED_WORK] += work
    return first


@inlined
def evict(
    budget: int,
    stack: Ints32,
    places: Ints32,
    keys: Ints32,
    machines: Ints,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Evict flexible jobs, latest start first, then higher id, until the running load fits the VCC."""
    while counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE] > budget and counters[STACK_TOP] > 0:
        top = counters[STACK_TOP] - 1
        counters[STACK_TOP] = top
        if stack[top, FINISH] > counters[HOUR]:
            evict_job(top, stack, places, keys, machines, waiting, calendar, counters, lateness, switches)


@inlined
def start_flexible(
    trace: Ints32,
    first: int,
    end: int,
    budget: int,
    places: Ints32,
    keys: Ints32,
    started: Ints32,
    machines: Ints,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Start flexible jobs by class, then id, wherever they fit; one that does not fit is passed over.

    ``started[group]`` gets the jobs of each group that run for more than this hour, by id, and a last
    entry of id ``NO_JOB``.
    """
    now = counters[HOUR]
    load = counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]
    room = budget - load
    work, undelayed = 0, 0
    for group in range(FLEXIBLE_GROUPS):
        count, room = start_waiting(
            group, room, places, keys, started, machines, waiting, calendar, counters, lateness, switches
        )
        while first < end and trace[first, TRACE_CLASS] == group + FIRST_FLEXIBLE_CLASS:
            cpu, duration = int(trace[first, TRACE_CPU]), int(trace[first, TRACE_DURATION])
            job_id = counters[ID_BASE] + trace[first, TRACE_ORDER]
            work += cpu * duration
            first += 1
            machine = NOTHING
            if cpu <= room:
                machine = least_loaded(machines, ALL_JOBS)
                if machines[ALL_JOBS, machine] + cpu > MICRO:
                    machine = NOTHING
            if machine == NOTHING:
                j = take_place(group, keys, counters)
                wait(
                    j, cpu, 0, duration, job_id, duration, places, keys, waiting, counters, lateness, switches
                )
                continue
            room -= cpu
            undelayed += 1
            finish = now + duration
            run_flexible(cpu, machine, finish, machines, calendar, counters)
            if duration > 1:
                count_running(cpu, 0, finish, calendar, counters, switches)
                j = take_place(group, keys, counters)
                note_running(cpu, finish, 0, machine, j, job_id, duration, started, group, count)
                count += 1
        started[group, count, RUNNING_ID] = NO_JOB
    lateness[DELAYS, 0] += undelayed
    counters[SUBMITTED_WORK] += work
    counters[SUBMITTED_FLEXIBLE_WORK] += work
    counters[LOAD_FLEXIBLE] += budget - load - room


@inlined
def start_waiting(
    group: int,
    room: int,
    places: Ints32,
    keys: Ints32,
    started: Ints32,
    machines: Ints,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> tuple[int, int]:
    """Start the waiting jobs of a group that fit.

    Return how many will run for more than this hour, and the room that is left under the VCC.
    """
    end = counters[END_PLACES + group]
    first_block, first_unit = kernel_queue.offsets(keys)
    machine = least_loaded(machines, ALL_JOBS)
    fit = min(room, MICRO - machines[ALL_JOBS, machine])  # CPU of the largest job that can start
    taken = 0
    for u in range(switches[FIRST_PLACES + group] // UNIT, (end + UNIT - 1) // UNIT):
        before = taken
        for b in range(u * BLOCK, (u + 1) * BLOCK) if keys[first_unit + u] <= fit else range(0):
            if keys[first_block + b] > fit:
                continue
            bits = kernel_queue.fitting(keys, b, fit)
            while bits != 0:
                j = b * BLOCK + lowest_bit(bits)
                bits &= bits - 1
                cpu = int(keys[j])
                if cpu <= fit:
                    take_out(j, cpu, machine, group, taken, places, keys, started, counters)
                    taken += 1
                    room -= cpu
                    machines[ALL_JOBS, machine] += cpu
                    machine = least_loaded(machines, ALL_JOBS)
                    fit = min(room, MICRO - machines[ALL_JOBS, machine])
            kernel_queue.renew(keys, b * BLOCK, first_block + b)
        if taken > before:
            kernel_queue.renew(keys, first_block + u * BLOCK, first_unit + u)
    count = count_started(group, taken, started, waiting, calendar, counters, lateness, switches)
    return count, room


@inlined
def take_out(
    j: int,
    cpu: int,
    machine: int,
    group: int,
    index: int,
    places: Ints32,
    keys: Ints32,
    started: Ints32,
    counters: Ints,
) -> None:
    """Take a job that starts out of its place, into entry ``index`` of its group's list."""
    now = counters[HOUR]
    keys[j] = NO_JOB
    finish, delay = now + places[j, LEFT], now - places[j, ORIGIN]
    note_running(cpu, finish, delay, machine, j, places[j, ID], places[j, DURATION], started, group, index)


@inlined
def count_started(
    group: int,
    taken: int,
    started: Ints32,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> int:
    """Count the jobs of a group's list as running, and keep those that will run for more than this hour.

    Apart from :func:`take_out`, whose slow look at a place far away the processor can thus do ahead.

    :param taken: number of jobs in the list
    :return: number of jobs kept
    """
    now, kept = counters[HOUR], 0
    counters[WAITING_JOBS] -= taken
    for index in range(taken):
        cpu, finish = int(started[group, index, CPU]), int(started[group, index, FINISH])
        delay, machine = int(started[group, index, DELAY]), started[group, index, MACHINE]
        count_waiting(-cpu, delay, finish - now, waiting, counters, lateness, switches)
        count_running(cpu, delay, finish, calendar, counters, switches)
        calendar[row_of(finish, counters), LEAVING + machine] += cpu
        lateness[DELAYS, delay] += 1
        for field in range(RUNNING_FIELDS):
            started[group, kept, field] = started[group, index, field]
        kept += finish - now > 1
    return kept


@inlined
def stack_started(started: Ints32, stack: Ints32, counters: Ints) -> None:
    """Put the jobs that started in this hour on the stack by id, merging the groups' lists."""
    mid, batch, free = 0, 0, 0
    while True:
        mid_id = started[MID, mid, RUNNING_ID]
        batch_id = started[BATCH, batch, RUNNING_ID]
        free_id = started[FREE, free, RUNNING_ID]
        if batch_id < min(mid_id, free_id):
            push(BATCH, batch, started, stack, counters)
            batch += 1
        elif mid_id < free_id:
            push(MID, mid, started, stack, counters)
            mid += 1
        elif free_id < NO_JOB:
            push(FREE, free, started, stack, counters)
            free += 1
        else:
            break
