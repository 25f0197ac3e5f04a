"""Lateness of flexible jobs, kept up to date as jobs start, stop and wait (compiled).

A job submitted at s with ``done`` of its work has waited ``delay = now - s - done`` hours; after 24 it
is late. At day end D it owes ``cpu * max(0, min(duration, D - s - 24) - done)``. If it is not delayed
any more, this is ``cpu * min(now + left - D, delay - 24)`` where both are positive, so that

- an hour of running changes nothing that is owed at any day end;
- an hour of waiting adds the job's CPU at each day end D for which ``delay >= 24`` and
  ``left >= D - now``.

So ``OWED`` changes once an hour, by ``LATE_WAITING``: the CPU of the waiting jobs that meet both
conditions, kept by day end. The work overdue now grows with waiting and shrinks when late jobs end;
it is a piecewise linear function of time for each job, and is kept as a value, a slope and a calendar
of changes of slope (``events``). Every job costs a few additions when it starts or stops, whatever the
length of the queue. All sums are exact integers.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.vcc.layout import (
    ALL_ROW,
    BY_DELAY,
    CPU,
    DAY,
    DELAY,
    DURATION,
    FINISH,
    HOUR,
    HOURS,
    LATE_ROW,
    LATE_RUNNING,
    LATE_WAITING,
    LATE_WAITING_CPU,
    LEFT,
    LONGEST,
    OVERDUE_RUNNING,
    OVERDUE_RUNNING_SLOPE,
    OVERDUE_WAITING,
    OVERDUE_WAITING_SLOPE,
    OWED,
    PENDING_OVERDUE,
    RUNNING_DELAYS,
    RUNNING_PAST_END,
    SLO_OVERDUE,
    SLOPES_RUNNING,
    SLOPES_WAITING,
    SUBMIT,
    TOLERANCE,
    UNFINISHED,
    WAITING_PAST_END,
)

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]


@njit(cache=True, forceinline=True)
def delay_of_waiting(s: int, now: int, slots: Slots) -> int:
    """Return the hours that a waiting job has waited since its submission."""
    return int(now - slots[s, SUBMIT] - slots[s, DURATION] + slots[s, LEFT])


@njit(cache=True, forceinline=True)
def count_waiting(s: int, sign: int, slots: Slots, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Count a job among the waiting (``sign`` 1), or take it out again (-1)."""
    now, hours = counters[HOUR], switches[HOURS]
    delay = delay_of_waiting(s, now, slots)
    origin = now - delay
    left = slots[s, LEFT]
    column = min(left, hours)
    cpu = sign * np.int64(slots[s, CPU])
    lateness[ALL_ROW, column] += cpu
    if left >= hours - now:
        counters[WAITING_PAST_END] += cpu
    if delay < DAY:
        lateness[origin % DAY, column] += cpu
        lateness[BY_DELAY, origin % DAY] += cpu
        lateness[LONGEST, origin % DAY] = max(lateness[LONGEST, origin % DAY], column)
    else:
        lateness[LATE_ROW, column] += cpu
        counters[LATE_WAITING_CPU] += cpu
        for k in range(now // DAY + 1, min(now + left, hours) // DAY + 1):
            lateness[LATE_WAITING, k] += cpu
    # Overdue: grows from the hour in which it turns late until all that is left is overdue.
    late_from, late_until = origin + DAY, origin + DAY + left
    if now < late_from:
        schedule(SLOPES_WAITING, late_from, cpu, lateness, switches)
        schedule(SLOPES_WAITING, late_until, -cpu, lateness, switches)
    elif now < late_until:
        counters[OVERDUE_WAITING] += cpu * (now - late_from)
        counters[OVERDUE_WAITING_SLOPE] += cpu
        schedule(SLOPES_WAITING, late_until, -cpu, lateness, switches)
    else:
        counters[OVERDUE_WAITING] += cpu * left


@njit(cache=True, forceinline=True)
def count_running(s: int, sign: int, slots: Slots, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Count a flexible job among the running (``sign`` 1), or take it out before it is done (-1)."""
    now, hours = counters[HOUR], switches[HOURS]
    delay, finish = slots[s, DELAY], slots[s, FINISH]
    cpu = sign * np.int64(slots[s, CPU])
    lateness[BY_DELAY, RUNNING_DELAYS + min(delay, DAY)] += cpu
    if finish >= hours:
        counters[RUNNING_PAST_END] += cpu
    if delay < DAY:
        return
    for k in range(now // DAY + 1, min(finish, hours) // DAY + 1):
        lateness[LATE_RUNNING, k] += cpu
    # Overdue: stays, then shrinks when less is left than is overdue.
    overdue = delay - DAY
    shrinks_from = finish - overdue
    schedule(SLOPES_RUNNING, finish, cpu, lateness, switches)
    if now < shrinks_from:
        counters[OVERDUE_RUNNING] += cpu * overdue
        schedule(SLOPES_RUNNING, shrinks_from, -cpu, lateness, switches)
    else:
        counters[OVERDUE_RUNNING] += cpu * (finish - now)
        counters[OVERDUE_RUNNING_SLOPE] -= cpu


@njit(cache=True, forceinline=True)
def schedule(calendar: int, hour: int, change: int, lateness: Ints, switches: Ints) -> None:
    """Note a change of slope, unless it comes after the episode."""
    if hour <= switches[HOURS]:
        lateness[calendar, hour] += change


@njit(cache=True, forceinline=True)
def owe(cpu: int, delay: int, left: int, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Add what a job of this delay and work left owes, if not delayed any more (``cpu`` may be negative)."""
    now, hours = counters[HOUR], switches[HOURS]
    if delay > DAY:
        for k in range(now // DAY + 1, min(now + left, hours) // DAY + 1):
            lateness[OWED, k] += cpu * min(now + left - DAY * k, delay - DAY)
    if now + left > hours:
        counters[UNFINISHED] += cpu * min(now + left - hours, delay)


@njit(cache=True, forceinline=True)
def pass_hour(counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Delay what waits by an hour; ``counters[HOUR]`` goes on by one."""
    hours = switches[HOURS]
    now = counters[HOUR] + 1
    counters[HOUR] = now
    counters[UNFINISHED] += counters[WAITING_PAST_END]
    counters[OVERDUE_WAITING] += counters[OVERDUE_WAITING_SLOPE]
    counters[OVERDUE_WAITING_SLOPE] += lateness[SLOPES_WAITING, now]
    counters[OVERDUE_RUNNING] += counters[OVERDUE_RUNNING_SLOPE]
    counters[OVERDUE_RUNNING_SLOPE] += lateness[SLOPES_RUNNING, now]
    last = hours // DAY
    for k in range((now + DAY - 1) // DAY, last + 1):
        lateness[OWED, k] += lateness[LATE_WAITING, k]
        lateness[LATE_WAITING, k] += lateness[LATE_ROW, DAY * k - now]
    counters[WAITING_PAST_END] += lateness[ALL_ROW, hours - now]
    turn_late(now % DAY, now, last, counters, lateness, switches)


@njit(cache=True, forceinline=True)
def turn_late(origin: int, now: int, last: int, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Count the waiting jobs that have reached a delay of 24 h as late."""
    if lateness[BY_DELAY, origin] == 0:
        return
    counters[LATE_WAITING_CPU] += lateness[BY_DELAY, origin]
    lateness[BY_DELAY, origin] = 0
    suffix = 0
    longest = lateness[LONGEST, origin]
    lateness[LONGEST, origin] = 0
    k = min(last, (now + longest) // DAY)
    for left in range(longest, 0, -1):
        cpu = lateness[origin, left]
        if cpu != 0:
            lateness[LATE_ROW, left] += cpu
            lateness[origin, left] = 0
            suffix += cpu
        while k > 0 and DAY * k - now == left:
            lateness[LATE_WAITING, k] += suffix
            k -= 1


@njit(cache=True, forceinline=True)
def pending_overdue(counters: Ints, lateness: Ints, switches: Ints) -> int:
    """Update Psi, the overdue work yet to be charged if nothing is delayed from now on.

    Return what delaying all flexible work for an hour would add to the SLO charge. Both are in
    millionths of a machine-unit-hour.
    """
    now, hours = counters[HOUR], switches[HOURS]
    if now == hours:
        counters[PENDING_OVERDUE] = 0
        return 0
    pending = counters[UNFINISHED]
    paused = pending + counters[WAITING_PAST_END] + counters[RUNNING_PAST_END]
    days = hours // DAY if switches[SLO_OVERDUE] else 0
    for k in range(now // DAY + 1, days + 1):
        owed = lateness[OWED, k] - switches[TOLERANCE]
        pending += max(0, owed)
        paused += max(0, owed + lateness[LATE_WAITING, k] + lateness[LATE_RUNNING, k])
    counters[PENDING_OVERDUE] = pending
    return int(paused - pending)
