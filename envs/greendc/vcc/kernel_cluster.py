"""Jobs on machines: starting, finishing and evicting them (compiled)."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.vcc import kernel_queue
from greendc.vcc.kernel_lateness import count_running, count_waiting, delay_of_waiting, owe
from greendc.vcc.layout import (
    ALL_JOBS,
    BY_DELAY,
    CLASS,
    CPU,
    DAY,
    DELAY,
    DELAYS,
    DURATION,
    EVICTION_LOSS,
    EVICTIONS,
    FINISH,
    FINISHING,
    FIRST_FLEXIBLE_CLASS,
    HIGH_WATER,
    HOUR,
    HOURS,
    ID,
    INFLEXIBLE_JOBS,
    LEAVING_FLEXIBLE,
    LEAVING_INFLEXIBLE,
    LEAVING_INFLEXIBLE_JOBS,
    LEAVING_JOBS,
    LEFT,
    LOAD_FLEXIBLE,
    LOAD_INFLEXIBLE,
    LOST_WORK,
    MACHINE,
    MICRO,
    NEXT,
    NOTHING,
    OUTSIDE,
    POSITION,
    POSITIONS,
    PREVIOUS,
    RUNNING,
    RUNNING_DELAYS,
    RUNNING_STACK,
    STACK_TOP,
    STACKED,
    STATE,
    SUBMIT,
    SUBMITTED_FLEXIBLE_WORK,
    SUBMITTED_WORK,
    TRACE_CLASS,
    TRACE_CPU,
    TRACE_DURATION,
    VACANT,
    VACATED,
    VACATED_TOP,
    WAITING,
    WAITING_JOBS,
)

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]


@njit(cache=True, forceinline=True)
def submit(
    job_id: int, job: Slots, hour: int, done: int, slots: Slots, lists: Slots, queues: Slots, counters: Ints
) -> int:
    """Give a job of the trace a slot, and return it; flexible jobs get their place in their queue."""
    if counters[VACATED_TOP] > 0:
        counters[VACATED_TOP] -= 1
        s = lists[VACATED, counters[VACATED_TOP]]
    else:
        s = counters[HIGH_WATER]
        counters[HIGH_WATER] += 1
    slots[s, ID] = job_id
    slots[s, CPU] = job[TRACE_CPU]
    slots[s, CLASS] = job[TRACE_CLASS]
    slots[s, DURATION] = job[TRACE_DURATION]
    slots[s, SUBMIT] = hour
    slots[s, LEFT] = job[TRACE_DURATION] - done
    slots[s, STACKED] = NOTHING
    if slots[s, CLASS] >= FIRST_FLEXIBLE_CLASS:
        which = slots[s, CLASS] - FIRST_FLEXIBLE_CLASS
        slots[s, POSITION] = counters[POSITIONS + which]
        kernel_queue.extend(queues[which], slots[s, POSITION])
        counters[POSITIONS + which] += 1
    count_submitted(job, done, counters)
    return int(s)


@njit(cache=True, forceinline=True)
def vacate(s: int, slots: Slots, lists: Slots, counters: Ints) -> None:
    """Take back the slot of a job that needs it no more."""
    slots[s, STATE] = VACANT
    lists[VACATED, counters[VACATED_TOP]] = s
    counters[VACATED_TOP] += 1


@njit(cache=True, forceinline=True)
def count_submitted(job: Slots, done: int, counters: Ints) -> None:
    """Count the work of a job that arrives."""
    work = np.int64(job[TRACE_CPU]) * (job[TRACE_DURATION] - done)
    counters[SUBMITTED_WORK] += work
    if job[TRACE_CLASS] >= FIRST_FLEXIBLE_CLASS:
        counters[SUBMITTED_FLEXIBLE_WORK] += work


@njit(cache=True, forceinline=True)
def least_loaded(machines: Ints, row: int) -> int:
    """Return the machine of least load (a row of ``machines``), the first of equals."""
    best = 0
    for machine in range(1, machines.shape[1]):
        if machines[row, machine] < machines[row, best]:
            best = machine
    return best


@njit(cache=True, forceinline=True)
def load(cpu: int, flexible: bool, machine: int, machines: Ints, counters: Ints) -> None:
    """Put load on a machine (or :data:`~greendc.vcc.layout.OUTSIDE`), or take it off (``cpu`` negative)."""
    counters[LOAD_FLEXIBLE if flexible else LOAD_INFLEXIBLE] += cpu
    if machine != OUTSIDE:
        machines[ALL_JOBS, machine] += cpu
        if not flexible:
            machines[INFLEXIBLE_JOBS, machine] += cpu


@njit(cache=True, forceinline=True)
def unload_next_hour(cpu: int, flexible: bool, machine: int, machines: Ints, counters: Ints) -> None:
    """Note that load leaves when the next hour begins."""
    counters[LEAVING_FLEXIBLE if flexible else LEAVING_INFLEXIBLE] += cpu
    if machine != OUTSIDE:
        machines[LEAVING_JOBS, machine] += cpu
        if not flexible:
            machines[LEAVING_INFLEXIBLE_JOBS, machine] += cpu


@njit(cache=True, forceinline=True)
def run_last_hour(cpu: int, flexible: bool, machine: int, machines: Ints, counters: Ints) -> None:
    """Run a job with one hour of work left: it will be gone before anything can evict it."""
    load(cpu, flexible, machine, machines, counters)
    unload_next_hour(cpu, flexible, machine, machines, counters)


@njit(cache=True, forceinline=True)
def run(
    s: int, machine: int, slots: Slots, lists: Slots, machines: Ints, counters: Ints, switches: Ints
) -> None:
    """Let the job in slot ``s``, with more than an hour of work left, run on a machine from now on."""
    now = counters[HOUR]
    slots[s, DELAY] = delay_of_waiting(s, now, slots)
    slots[s, STATE] = RUNNING
    slots[s, FINISH] = now + slots[s, LEFT]
    slots[s, MACHINE] = machine
    load(slots[s, CPU], slots[s, CLASS] >= FIRST_FLEXIBLE_CLASS, machine, machines, counters)
    if slots[s, FINISH] <= switches[HOURS]:
        head = lists[FINISHING, slots[s, FINISH]]
        slots[s, NEXT] = head
        slots[s, PREVIOUS] = NOTHING
        if head != NOTHING:
            slots[head, PREVIOUS] = s
        lists[FINISHING, slots[s, FINISH]] = s


@njit(cache=True, forceinline=True)
def complete(slots: Slots, lists: Slots, machines: Ints, counters: Ints, lateness: Ints) -> None:
    """Take note of the jobs whose work has just been done; they leave when the next hour begins."""
    s = lists[FINISHING, counters[HOUR]]
    while s != NOTHING:
        flexible = slots[s, CLASS] >= FIRST_FLEXIBLE_CLASS
        unload_next_hour(slots[s, CPU], flexible, slots[s, MACHINE], machines, counters)
        if flexible:
            lateness[BY_DELAY, RUNNING_DELAYS + min(slots[s, DELAY], DAY)] -= slots[s, CPU]
            lateness[DELAYS, slots[s, DELAY]] += 1
        vacate(s, slots, lists, counters)
        s = slots[s, NEXT]


@njit(cache=True, forceinline=True)
def leave(machines: Ints, counters: Ints) -> None:
    """Take the jobs whose work is done off their machines."""
    for machine in range(machines.shape[1]):
        machines[ALL_JOBS, machine] -= machines[LEAVING_JOBS, machine]
        machines[INFLEXIBLE_JOBS, machine] -= machines[LEAVING_INFLEXIBLE_JOBS, machine]
        machines[LEAVING_JOBS, machine] = 0
        machines[LEAVING_INFLEXIBLE_JOBS, machine] = 0
    counters[LOAD_INFLEXIBLE] -= counters[LEAVING_INFLEXIBLE]
    counters[LOAD_FLEXIBLE] -= counters[LEAVING_FLEXIBLE]
    counters[LEAVING_INFLEXIBLE] = 0
    counters[LEAVING_FLEXIBLE] = 0


@njit(cache=True, forceinline=True)
def wait(s: int, slots: Slots, queues: Slots, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Let the flexible job in slot ``s`` wait at its place in the queue."""
    slots[s, STATE] = WAITING
    which = slots[s, CLASS] - FIRST_FLEXIBLE_CLASS
    kernel_queue.insert(queues[which], slots[s, POSITION], s, slots[s, CPU])
    counters[WAITING_JOBS + which] += 1
    count_waiting(s, 1, slots, counters, lateness, switches)


@njit(cache=True, forceinline=True)
def evict_slot(
    s: int,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Stop a flexible job; it keeps its work, less the hours that an eviction costs, and waits again."""
    count_running(s, -1, slots, counters, lateness, switches)
    if slots[s, FINISH] <= switches[HOURS]:
        if slots[s, PREVIOUS] == NOTHING:
            lists[FINISHING, slots[s, FINISH]] = slots[s, NEXT]
        else:
            slots[slots[s, PREVIOUS], NEXT] = slots[s, NEXT]
        if slots[s, NEXT] != NOTHING:
            slots[slots[s, NEXT], PREVIOUS] = slots[s, PREVIOUS]
    load(-slots[s, CPU], True, slots[s, MACHINE], machines, counters)
    counters[EVICTIONS] += 1
    slots[s, LEFT] = slots[s, FINISH] - counters[HOUR]
    lost = min(slots[s, DURATION] - slots[s, LEFT], switches[EVICTION_LOSS])
    if lost > 0:
        owe(-slots[s, CPU], slots[s, DELAY], slots[s, LEFT], counters, lateness, switches)
        slots[s, LEFT] += lost
        owe(slots[s, CPU], slots[s, DELAY] + lost, slots[s, LEFT], counters, lateness, switches)
        counters[LOST_WORK] += lost * slots[s, CPU]
    wait(s, slots, queues, counters, lateness, switches)


@njit(cache=True, forceinline=True)
def is_running(s: int, index: int, slots: Slots) -> bool:
    """Tell whether entry ``index`` of the stack is alive: its job may be done, and its slot reused."""
    return bool(slots[s, STATE] == RUNNING and slots[s, STACKED] == index)


@njit(cache=True, forceinline=True)
def push(s: int, slots: Slots, lists: Slots, counters: Ints) -> None:
    """Put a flexible job that starts on the stack, whose top is the next to be evicted."""
    if counters[STACK_TOP] == slots.shape[0]:
        kept = 0
        for index in range(counters[STACK_TOP]):
            alive = lists[RUNNING_STACK, index]
            if is_running(alive, index, slots):
                lists[RUNNING_STACK, kept] = alive
                slots[alive, STACKED] = kept
                kept += 1
        counters[STACK_TOP] = kept
    slots[s, STACKED] = counters[STACK_TOP]
    lists[RUNNING_STACK, counters[STACK_TOP]] = s
    counters[STACK_TOP] += 1


@njit(cache=True, forceinline=True)
def machine_with_room(
    cpu: int,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
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
        s = lists[RUNNING_STACK, index]
        if is_running(s, index, slots) and slots[s, MACHINE] == machine:
            evict_slot(s, slots, lists, queues, machines, counters, lateness, switches)
    return machine
