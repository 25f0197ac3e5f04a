"""Jobs on machines: starting, finishing and evicting them (compiled)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.vcc import kernel_queue
from greendc.vcc.kernel_lateness import bin_of, count_running, count_waiting, lose, row_of
from greendc.vcc.layout import (
    ALL_JOBS,
    CPU,
    DELAY,
    DELAYS,
    DURATION,
    END_PLACES,
    EVICTION_LOSS,
    EVICTIONS,
    FINISH,
    FIXED_JOBS,
    HOUR,
    ID,
    INFLEXIBLE_JOBS,
    LEAVING,
    LEFT,
    LOAD_FLEXIBLE,
    LOAD_INFLEXIBLE,
    LOST_WORK,
    MACHINE,
    MICRO,
    MIDNIGHT,
    ORIGIN,
    OUTSIDE,
    PLACE,
    RUNNING_DURATION,
    RUNNING_FIELDS,
    RUNNING_ID,
    STACK_TOP,
    WAITING_JOBS,
)

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]


@inlined
def take_place(group: int, keys: Ints32, counters: Ints) -> int:
    """Return the place of a job that arrives: the next of its group."""
    j = counters[END_PLACES + group]
    counters[END_PLACES + group] = j + 1
    kernel_queue.extend(keys, j)
    return int(j)


@inlined
def note_running(
    cpu: int,
    finish: int,
    delay: int,
    machine: int,
    place: int,
    job_id: int,
    duration: int,
    jobs: Ints32,
    group: int,
    index: int,
) -> None:
    """Fill in an entry of a list of running jobs."""
    jobs[group, index, CPU] = cpu
    jobs[group, index, FINISH] = finish
    jobs[group, index, DELAY] = delay
    jobs[group, index, MACHINE] = machine
    jobs[group, index, PLACE] = place
    jobs[group, index, RUNNING_ID] = job_id
    jobs[group, index, RUNNING_DURATION] = duration


@inlined
def note_fixed(cpu: int, finish: int, machine: int, fixed: Ints32, counters: Ints) -> None:
    """Add an inflexible job to the list."""
    index = counters[FIXED_JOBS]
    counters[FIXED_JOBS] = index + 1
    fixed[index, CPU] = cpu
    fixed[index, FINISH] = finish
    fixed[index, MACHINE] = machine


@inlined
def least_loaded(machines: Ints, row: int) -> int:
    """Return the machine of least load (a row of ``machines``), the first of equals."""
    best = 0
    least = machines[row, 0]
    for machine in range(1, machines.shape[1]):
        if machines[row, machine] < least:
            best, least = machine, machines[row, machine]
    return best


@inlined
def run_inflexible(
    cpu: int, machine: int, finish: int, machines: Ints, calendar: Ints, counters: Ints
) -> None:
    """Let an inflexible job run on a machine, or outside, until hour ``finish``."""
    counters[LOAD_INFLEXIBLE] += cpu
    if machine != OUTSIDE:
        machines[ALL_JOBS, machine] += cpu
        machines[INFLEXIBLE_JOBS, machine] += cpu
    size = machines.shape[1]
    calendar[row_of(finish, counters), inflexible_column(machine, size)] += cpu


@inlined
def inflexible_column(machine: int, size: int) -> int:
    """Return the column of the calendar for the load of inflexible jobs, of ``size`` machines or outside."""
    return LEAVING + size + (size if machine == OUTSIDE else machine)


@inlined
def run_flexible(cpu: int, machine: int, finish: int, machines: Ints, calendar: Ints, counters: Ints) -> None:
    """Put the load of a flexible job on a machine until hour ``finish``, or take it off if negative."""
    machines[ALL_JOBS, machine] += cpu
    calendar[row_of(finish, counters), LEAVING + machine] += cpu


@inlined
def leave(machines: Ints, calendar: Ints, counters: Ints) -> None:
    """Take the jobs whose work is done off their machines."""
    row, size = counters[HOUR] - counters[MIDNIGHT], machines.shape[1]
    flexible, inflexible = 0, calendar[row, LEAVING + 2 * size]
    for machine in range(size):
        of_flexible = calendar[row, LEAVING + machine]
        of_inflexible = calendar[row, LEAVING + size + machine]
        machines[ALL_JOBS, machine] -= of_flexible + of_inflexible
        machines[INFLEXIBLE_JOBS, machine] -= of_inflexible
        flexible += of_flexible
        inflexible += of_inflexible
    counters[LOAD_FLEXIBLE] -= flexible
    counters[LOAD_INFLEXIBLE] -= inflexible


@inlined
def wait(
    j: int,
    cpu: int,
    delay: int,
    left: int,
    job_id: int,
    duration: int,
    places: Ints32,
    keys: Ints32,
    waiting: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Let a job wait in its place."""
    places[j, LEFT] = left
    places[j, ORIGIN] = counters[HOUR] - delay
    places[j, ID] = job_id
    places[j, DURATION] = duration
    kernel_queue.insert(keys, j, cpu)
    counters[WAITING_JOBS] += 1
    count_waiting(cpu, delay, left, waiting, counters, lateness, switches)


@inlined
def evict_job(
    index: int,
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
    """Stop a flexible job; it keeps its work, less the hours that an eviction costs, and waits again."""
    cpu, finish = int(stack[index, CPU]), int(stack[index, FINISH])
    delay, duration = int(stack[index, DELAY]), int(stack[index, RUNNING_DURATION])
    left = finish - counters[HOUR]
    run_flexible(-cpu, stack[index, MACHINE], finish, machines, calendar, counters)
    counters[LOAD_FLEXIBLE] -= cpu
    counters[EVICTIONS] += 1
    lateness[DELAYS, delay] -= 1
    count_running(-cpu, delay, finish, calendar, counters, switches)
    lost = min(duration - left, switches[EVICTION_LOSS])
    if lost > 0:
        lose(cpu, delay, left, lost, counters, lateness, switches)
        counters[LOST_WORK] += lost * cpu
        delay += lost
        left += lost
    j, job_id = stack[index, PLACE], stack[index, RUNNING_ID]
    wait(j, cpu, delay, left, job_id, duration, places, keys, waiting, counters, lateness, switches)


@inlined
def push(group: int, index: int, started: Ints32, stack: Ints32, counters: Ints) -> None:
    """Put a flexible job that starts, an entry of ``started``, on the stack, whose top is evicted next."""
    if counters[STACK_TOP] == stack.shape[0]:
        counters[STACK_TOP] = drop_finished(stack, counters[STACK_TOP], counters[HOUR])
    top = counters[STACK_TOP]
    counters[STACK_TOP] = top + 1
    for field in range(RUNNING_FIELDS):
        stack[top, field] = started[group, index, field]


@compiled
def drop_finished(running: Ints32, count: int, now: int) -> int:
    """Take the jobs out of a list that run no more, and return how many are left."""
    kept = 0
    for index in range(count):
        if running[index, FINISH] > now:
            for field in range(RUNNING_FIELDS):
                running[kept, field] = running[index, field]
            kept += 1
    return kept


@compiled
def begin_day(stack: Ints32, fixed: Ints32, size: int, calendar: Ints, counters: Ints) -> None:
    """Write the calendar of the day that begins; ``size`` is the number of machines."""
    now = counters[HOUR]
    counters[MIDNIGHT] = now
    calendar[:] = 0
    counters[STACK_TOP] = drop_finished(stack, counters[STACK_TOP], now)
    for index in range(counters[STACK_TOP]):
        row, cpu = row_of(stack[index, FINISH], counters), stack[index, CPU]
        calendar[row, bin_of(stack[index, DELAY])] += cpu
        calendar[row, LEAVING + stack[index, MACHINE]] += cpu
    counters[FIXED_JOBS] = drop_finished(fixed, counters[FIXED_JOBS], now)
    for index in range(counters[FIXED_JOBS]):
        row = row_of(fixed[index, FINISH], counters)
        calendar[row, inflexible_column(fixed[index, MACHINE], size)] += fixed[index, CPU]


@compiled
def machine_with_room(
    cpu: int,
    stack: Ints32,
    places: Ints32,
    keys: Ints32,
    machines: Ints,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> int:
    """Evict flexible jobs, latest start first, from the machine of least inflexible load.

    Return the machine, or :data:`~greendc.vcc.layout.OUTSIDE` where inflexible jobs alone leave no room.
    """
    machine = least_loaded(machines, INFLEXIBLE_JOBS)
    if machines[INFLEXIBLE_JOBS, machine] + cpu > MICRO:
        return OUTSIDE
    for index in range(counters[STACK_TOP] - 1, -1, -1):
        if machines[ALL_JOBS, machine] + cpu <= MICRO:
            break
        if stack[index, FINISH] > counters[HOUR] and stack[index, MACHINE] == machine:
            evict_job(index, stack, places, keys, machines, waiting, calendar, counters, lateness, switches)
            stack[index, FINISH] = 0  # the entry is passed over from now on
    return machine
