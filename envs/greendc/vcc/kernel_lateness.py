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
sums are exact integers. Whatever comes after the episode's end is clipped to a column that is never read.
Unsigned numbers (``np.uint64``) spare indices the test for negative ones.
"""

from __future__ import annotations

import numpy as np

from greendc.compiled import inlined
from greendc.vcc.columns import LATE
from greendc.vcc.layout import CHUNK, DAY, Cluster, Datacenter, Job


@inlined
def bin_of(delay: int) -> np.uint64:
    """Return the bin of a delay, see :data:`greendc.vcc.columns.N_DELAY_BINS`."""
    return min(np.uint64(delay) // np.uint64(6) + np.uint64(delay > 0), np.uint64(LATE))


@inlined
def row_of(finish: int, cluster: Cluster) -> np.uint64:
    """Return the row of the calendars for jobs that will be done at hour ``finish``."""
    return np.uint64(min(finish - cluster.midnight, DAY + 1))


@inlined
def count_waiting(dc: Datacenter, cpu: int, delay: int, left: int) -> None:
    """Count a job among the waiting, or take it out again (``cpu`` negative)."""
    cluster, hours = dc.cluster, dc.settings.hours
    now = cluster.now
    column = np.uint64(min(left, hours))
    dc.left[column].waiting += cpu
    cluster.waiting_past_end += cpu * (now + left >= hours)
    if delay >= DAY:
        cluster.late_cpu += cpu
        dc.left[column].late += cpu
        dc.day_ends[np.uint64(min(now + left, hours)) // np.uint64(DAY)].late_waiting += cpu
    else:
        origin = now % DAY - delay
        row = np.uint64(origin + DAY * (origin < 0))
        chunk, longer = column // np.uint64(CHUNK), np.uint64(left > 1)
        cluster.waiting_by_origin[row] += cpu
        cluster.chunks_used[row] |= 1 << np.int64(chunk)
        dc.waiting[chunk * longer, row * longer, column % np.uint64(CHUNK) * longer] += cpu


@inlined
def clear_waiting(dc: Datacenter) -> None:
    """Forget all that wait; only chunks that have been in use hold anything."""
    dc.waiting[0, 0, 0] = 0
    for row in range(DAY):
        used, chunk = dc.cluster.chunks_used[row], 0
        while used != 0:
            if used & 1:
                dc.waiting[chunk, row] = 0
            used >>= 1
            chunk += 1


@inlined
def count_running(dc: Datacenter, cpu: int, delay: int, finish: int) -> None:
    """Count a flexible job among the running, or take it out before it is done (``cpu`` negative)."""
    cluster, which = dc.cluster, bin_of(delay)
    cluster.running_by_delay[which] += cpu
    dc.leaving_bins[row_of(finish, cluster), which] += cpu
    cluster.overdue_slope -= cpu * (delay >= DAY)
    cluster.running_past_end += cpu * (finish >= dc.settings.hours)


@inlined
def lose(dc: Datacenter, job: Job, lost: int) -> None:
    """Count that a job which is about to wait has lost so many hours of work.

    :param job: as it was before the loss
    """
    cluster, hours, cpu = dc.cluster, dc.settings.hours, job.cpu
    now, left, delay = cluster.now, job.left + lost, job.delay + lost
    owe(dc, -cpu, job.delay, job.left)
    owe(dc, cpu, delay, left)
    if job.delay >= DAY:
        cluster.overdue_work += cpu * lost
        dc.day_ends[min(now + job.left, hours) // DAY].late_jobs -= cpu
    elif delay >= DAY:
        overdue = delay - DAY
        cluster.overdue_work += cpu * min(left, overdue)
        if overdue < left:
            cluster.overdue_slope += cpu
            dc.kinks[min(now + left - overdue, hours + 1)] += cpu
    if delay >= DAY:
        dc.day_ends[min(now + left, hours) // DAY].late_jobs += cpu
    cluster.lost_work += lost * cpu


@inlined
def owe(dc: Datacenter, cpu: int, delay: int, left: int) -> None:
    """Add what a job of this delay and work left owes, if not delayed any more (``cpu`` may be negative)."""
    now, hours = dc.cluster.now, dc.settings.hours
    if delay > DAY:
        for k in range(now // DAY + 1, min(now + left, hours) // DAY + 1):
            dc.day_ends[k].owed += cpu * min(now + left - DAY * k, delay - DAY)
    if now + left > hours:
        dc.cluster.unfinished += cpu * min(now + left - hours, delay)


@inlined
def pass_hour(dc: Datacenter) -> None:
    """Delay what waits by an hour; ``cluster.now`` goes on by one."""
    cluster, hours = dc.cluster, dc.settings.hours
    now = cluster.now + 1
    row = now - cluster.midnight
    cluster.now = now
    cluster.unfinished += cluster.waiting_past_end
    cluster.waiting_past_end += dc.left[hours - now].waiting
    cluster.overdue_work += cluster.overdue_slope
    cluster.overdue_slope += dc.leaving_bins[row, LATE] - dc.kinks[now]
    for which in range(LATE + 1):
        cluster.running_by_delay[which] -= dc.leaving_bins[row, which]
    if cluster.late_cpu != 0:
        delay_late(dc)
    if cluster.waiting_by_origin[now % DAY] != 0:
        turn_late(dc)


@inlined
def delay_late(dc: Datacenter) -> None:
    """Count what an hour of waiting adds to what late jobs owe, and move on the last of their day ends."""
    now, late = dc.cluster.now, 0
    for k in range(dc.settings.hours // DAY, now // DAY, -1):
        end, before = dc.day_ends[k], dc.day_ends[k - 1]
        late += end.late_waiting
        end.owed += late
        moved = dc.left[DAY * k - now].late
        end.late_waiting += moved
        before.late_waiting -= moved
        end.late_jobs += moved
        before.late_jobs -= moved
        late += moved  # was still counted at k - 1 in the hour that has passed


@inlined
def turn_late(dc: Datacenter) -> None:
    """Count the waiting jobs that have reached a delay of 24 h as late."""
    cluster = dc.cluster
    row = cluster.now % DAY
    cpu = cluster.waiting_by_origin[row]
    cluster.waiting_by_origin[row] = 0
    cluster.late_cpu += cpu
    cluster.overdue_slope += cpu
    used, chunk = cluster.chunks_used[row], 0
    cluster.chunks_used[row] = 0
    while used != 0:
        if used & 1:
            for k in range(2 * (chunk == 0), CHUNK):
                longer = dc.waiting[chunk, row, k]
                if longer != 0:
                    dc.waiting[chunk, row, k] = 0
                    cpu -= longer
                    note_late(dc, longer, CHUNK * chunk + k)
        used >>= 1
        chunk += 1
    note_late(dc, cpu, 1)


@inlined
def note_late(dc: Datacenter, cpu: int, left: int) -> None:
    """Count waiting jobs that turn late, of so many hours of work left."""
    hours = dc.settings.hours
    done = dc.cluster.now + left
    end = dc.day_ends[min(done, hours) // DAY]
    dc.left[left].late += cpu
    end.late_waiting += cpu
    end.late_jobs += cpu
    dc.kinks[min(done, hours + 1)] += cpu


@inlined
def pending_overdue(dc: Datacenter) -> int:
    """Update Psi, the overdue work yet to be charged if nothing is delayed from now on.

    Return what delaying all flexible work for an hour would add to the SLO charge. Both are in
    millionths of a machine-unit-hour.
    """
    cluster, settings = dc.cluster, dc.settings
    if cluster.now == settings.hours:
        cluster.pending_overdue = 0
        return 0
    pending = cluster.unfinished
    paused = pending + cluster.waiting_past_end + cluster.running_past_end
    if settings.slo_overdue:
        late = 0
        for k in range(settings.hours // DAY, cluster.now // DAY, -1):
            late += dc.day_ends[k].late_jobs
            owed = dc.day_ends[k].owed - settings.tolerance
            pending += max(0, owed)
            paused += max(0, owed + late)
    cluster.pending_overdue = pending
    return int(paused - pending)
