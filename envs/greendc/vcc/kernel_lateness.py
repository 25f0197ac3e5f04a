"""Lateness of flexible jobs, kept up to date as jobs start, stop and wait (compiled).

A job submitted at s with ``done`` of its work has waited ``delay = now - s - done`` hours; after 24 it
is late, and stays so. Its overdue work is then ``cpu * (min(duration, now - s - 24) - done)``. That
grows with time until the hour s + 24 + duration (a kink of the sum of all) and shrinks as the job runs,
so that the sum is kept as a value, a slope and a calendar of changes of slope.

At day end D a job owes ``cpu * max(0, min(duration, D - s - 24) - done)``. If it is not delayed any
more, this is ``cpu * min(now + left - D, delay - 24)`` where both are positive, so that

- an hour of running changes nothing that is owed at any day end;
- an hour of waiting adds the CPU of a late job at each day end from now to ``now + left``.

So what is owed changes once an hour, by the CPU of the late waiting jobs, which are counted at the last
of their day ends. When a job starts or stops, a few sums change, whatever the length of the queue. All
sums are exact integers. Whatever comes after the episode's end is clipped to a column that nobody reads.
Unsigned numbers (``np.uint64``) spare indices the test for negative ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import inlined
from greendc.vcc.layout import (
    BY_LEFT,
    BY_ROW,
    CHUNK,
    DAY,
    HOUR,
    HOURS,
    KINKS,
    LATE,
    LATE_BY_LEFT,
    LATE_JOBS,
    LATE_ROW,
    LATE_WAITING,
    MIDNIGHT,
    OVERDUE_SLOPE,
    OVERDUE_WORK,
    OWED,
    PENDING_OVERDUE,
    RUNNING_BINS,
    RUNNING_PAST_END,
    SLO_OVERDUE,
    TOLERANCE,
    UNFINISHED,
    USED,
    WAITING_PAST_END,
)

Ints = NDArray[np.int64]


@inlined
def bin_of(delay: int) -> np.uint64:
    """Return the bin of a delay, see :data:`greendc.vcc.layout.N_DELAY_BINS`."""
    return min(np.uint64(delay) // np.uint64(6) + np.uint64(delay > 0), np.uint64(LATE))


@inlined
def row_of(finish: int, counters: Ints) -> np.uint64:
    """Return the row of the calendar for jobs that will be done at hour ``finish``."""
    return np.uint64(min(finish - counters[MIDNIGHT], DAY + 1))


@inlined
def count_waiting(
    cpu: int, delay: int, left: int, waiting: Ints, counters: Ints, lateness: Ints, switches: Ints
) -> None:
    """Count a job among the waiting, or take it out again (``cpu`` negative)."""
    now, hours = counters[HOUR], switches[HOURS]
    column = np.uint64(min(left, hours))
    lateness[BY_LEFT, column] += cpu
    counters[WAITING_PAST_END] += cpu * (now + left >= hours)
    if delay >= DAY:
        lateness[BY_ROW, LATE_ROW] += cpu
        lateness[LATE_BY_LEFT, column] += cpu
        lateness[LATE_WAITING, np.uint64(min(now + left, hours)) // np.uint64(DAY)] += cpu
    else:
        row = now % DAY - delay
        row = np.uint64(row + DAY * (row < 0))
        chunk, longer = column // np.uint64(CHUNK), np.uint64(left > 1)
        lateness[BY_ROW, row] += cpu
        lateness[USED, row] |= 1 << np.int64(chunk)
        waiting[chunk * longer, row * longer, column % np.uint64(CHUNK) * longer] += cpu


@inlined
def clear_waiting(waiting: Ints, lateness: Ints) -> None:
    """Forget all that wait; only chunks that have been in use hold anything."""
    waiting[0, 0, 0] = 0
    for row in range(DAY):
        used, chunk = lateness[USED, row], 0
        while used != 0:
            if used & 1:
                waiting[chunk, row] = 0
            used >>= 1
            chunk += 1


@inlined
def count_running(cpu: int, delay: int, finish: int, calendar: Ints, counters: Ints, switches: Ints) -> None:
    """Count a flexible job among the running, or take it out before it is done (``cpu`` negative)."""
    hours = switches[HOURS]
    which = bin_of(delay)
    counters[RUNNING_BINS + which] += cpu
    calendar[row_of(finish, counters), which] += cpu
    counters[OVERDUE_SLOPE] -= cpu * (delay >= DAY)
    counters[RUNNING_PAST_END] += cpu * (finish >= hours)


@inlined
def lose(cpu: int, delay: int, left: int, lost: int, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Count that a job which is about to wait has lost so many hours of work.

    :param delay: before the loss, as ``left``
    """
    now, hours = counters[HOUR], switches[HOURS]
    owe(-cpu, delay, left, counters, lateness, switches)
    owe(cpu, delay + lost, left + lost, counters, lateness, switches)
    if delay >= DAY:
        counters[OVERDUE_WORK] += cpu * lost
        lateness[LATE_JOBS, min(now + left, hours) // DAY] -= cpu
    elif delay + lost >= DAY:
        overdue = delay + lost - DAY
        counters[OVERDUE_WORK] += cpu * min(left + lost, overdue)
        if overdue < left + lost:
            counters[OVERDUE_SLOPE] += cpu
            lateness[KINKS, min(now + left + lost - overdue, hours + 1)] += cpu
    if delay + lost >= DAY:
        lateness[LATE_JOBS, min(now + left + lost, hours) // DAY] += cpu


@inlined
def owe(cpu: int, delay: int, left: int, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Add what a job of this delay and work left owes, if not delayed any more (``cpu`` may be negative)."""
    now, hours = counters[HOUR], switches[HOURS]
    if delay > DAY:
        for k in range(now // DAY + 1, min(now + left, hours) // DAY + 1):
            lateness[OWED, k] += cpu * min(now + left - DAY * k, delay - DAY)
    if now + left > hours:
        counters[UNFINISHED] += cpu * min(now + left - hours, delay)


@inlined
def pass_hour(waiting: Ints, calendar: Ints, counters: Ints, lateness: Ints, switches: Ints) -> None:
    """Delay what waits by an hour; ``counters[HOUR]`` goes on by one."""
    hours = switches[HOURS]
    now = counters[HOUR] + 1
    row = now - counters[MIDNIGHT]
    counters[HOUR] = now
    counters[UNFINISHED] += counters[WAITING_PAST_END]
    counters[WAITING_PAST_END] += lateness[BY_LEFT, hours - now]
    counters[OVERDUE_WORK] += counters[OVERDUE_SLOPE]
    counters[OVERDUE_SLOPE] += calendar[row, LATE] - lateness[KINKS, now]
    for which in range(LATE + 1):
        counters[RUNNING_BINS + which] -= calendar[row, which]
    if lateness[BY_ROW, LATE_ROW] != 0:
        delay_late(now, hours // DAY, lateness)
    if lateness[BY_ROW, now % DAY] != 0:
        turn_late(now % DAY, now, hours, waiting, counters, lateness)


@inlined
def delay_late(now: int, last: int, lateness: Ints) -> None:
    """Count what an hour of waiting adds to what late jobs owe, and move on the last of their day ends."""
    late = 0
    for k in range(last, now // DAY, -1):
        late += lateness[LATE_WAITING, k]
        lateness[OWED, k] += late
        moved = lateness[LATE_BY_LEFT, DAY * k - now]
        lateness[LATE_WAITING, k] += moved
        lateness[LATE_WAITING, k - 1] -= moved
        lateness[LATE_JOBS, k] += moved
        lateness[LATE_JOBS, k - 1] -= moved
        late += moved  # was still counted at k - 1 in the hour that has passed


@inlined
def turn_late(row: int, now: int, hours: int, waiting: Ints, counters: Ints, lateness: Ints) -> None:
    """Count the waiting jobs that have reached a delay of 24 h as late."""
    cpu = lateness[BY_ROW, row]
    lateness[BY_ROW, row] = 0
    lateness[BY_ROW, LATE_ROW] += cpu
    counters[OVERDUE_SLOPE] += cpu
    used, chunk = lateness[USED, row], 0
    lateness[USED, row] = 0
    while used != 0:
        if used & 1:
            for k in range(2 * (chunk == 0), CHUNK):
                longer = waiting[chunk, row, k]
                if longer != 0:
                    waiting[chunk, row, k] = 0
                    cpu -= longer
                    note_late(longer, CHUNK * chunk + k, now, hours, lateness)
        used >>= 1
        chunk += 1
    note_late(cpu, 1, now, hours, lateness)


@inlined
def note_late(cpu: int, left: int, now: int, hours: int, lateness: Ints) -> None:
    """Count waiting jobs that turn late, of so many hours of work left."""
    done = now + left
    lateness[LATE_BY_LEFT, left] += cpu
    lateness[LATE_WAITING, min(done, hours) // DAY] += cpu
    lateness[LATE_JOBS, min(done, hours) // DAY] += cpu
    lateness[KINKS, min(done, hours + 1)] += cpu


@inlined
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
    if switches[SLO_OVERDUE]:
        late = 0
        for k in range(hours // DAY, now // DAY, -1):
            late += lateness[LATE_JOBS, k]
            owed = lateness[OWED, k] - switches[TOLERANCE]
            pending += max(0, owed)
            paused += max(0, owed + late)
    counters[PENDING_OVERDUE] = pending
    return int(paused - pending)
