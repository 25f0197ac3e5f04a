"""One hour of one datacenter (compiled): jobs leave, arrive, are evicted, start and work.

Jobs on machines are in :mod:`~greendc.vcc.kernel_cluster`, waiting jobs in
:mod:`~greendc.vcc.kernel_queue`, lateness in :mod:`~greendc.vcc.kernel_lateness`.
"""

from __future__ import annotations

import math

from greendc.bits import lowest_bit
from greendc.compiled import inlined
from greendc.records import wide
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
    BATCH,
    BLOCK,
    DAY,
    FIRST_FLEXIBLE_CLASS,
    FLEXIBLE_GROUPS,
    FREE,
    MICRO,
    MID,
    NO_JOB,
    NOTHING,
    OUTSIDE,
    Datacenter,
    Job,
    RunningJob,
)


@inlined
def advance(dc: Datacenter, vcc: float, demand: int, first_hour: int) -> None:
    """Run an hour under the virtual capacity ``vcc`` (a fraction of C).

    :param demand: load of the no-delay schedule in this hour
    :param first_hour: the trace's hour that is today's midnight
    """
    cluster = dc.cluster
    hour = first_hour + cluster.now % DAY
    first, end = dc.hour_offsets[hour], dc.hour_offsets[hour + 1]
    budget = math.floor(vcc * dc.settings.capacity)
    leave(dc)
    if cluster.now % DAY == 0:
        begin_day(dc)
    first = start_inflexible(dc, first, end)
    if dc.settings.evict:
        evict(dc, budget)
    start_flexible(dc, first, end, budget)
    stack_started(dc)
    cluster.executed_work += cluster.load_inflexible + cluster.load_flexible
    cluster.executed_flexible_work += cluster.load_flexible
    cluster.demand_today += demand
    cluster.last_vcc = vcc
    cluster.vcc_today += vcc
    pass_hour(dc)
    if cluster.now % DAY == 0:
        cluster.id_base += dc.hour_offsets[first_hour + DAY] - dc.hour_offsets[first_hour]


@inlined
def start_inflexible(dc: Datacenter, first: int, end: int) -> int:
    """Start this hour's inflexible jobs, monitoring before production; return the first flexible one.

    Where the least-loaded machine has no room, flexible jobs are evicted; failing that, the job runs
    outside the machines.
    """
    cluster, work = dc.cluster, 0
    while first < end and dc.trace[first].job_class < FIRST_FLEXIBLE_CLASS:
        cpu, duration = wide(dc.trace[first].cpu), wide(dc.trace[first].duration)
        machine = least_loaded(dc.loads)
        if dc.loads[machine] + cpu > MICRO:
            machine = OUTSIDE
            if dc.settings.evict:
                machine = machine_with_room(dc, cpu)
            if machine == OUTSIDE:
                cluster.outside_jobs += 1
        finish = cluster.now + duration
        run_inflexible(dc, cpu, machine, finish)
        if duration > 1:
            note_fixed(dc, cpu, machine, finish)
        work += cpu * duration
        first += 1
    cluster.submitted_work += work
    return first


@inlined
def evict(dc: Datacenter, budget: int) -> None:
    """Evict flexible jobs, latest start first, then higher id, until the running load fits the VCC."""
    cluster = dc.cluster
    while cluster.load_inflexible + cluster.load_flexible > budget and cluster.stack_top > 0:
        cluster.stack_top -= 1
        if dc.stack[cluster.stack_top].finish > cluster.now:
            evict_job(dc, cluster.stack_top)


@inlined
def start_flexible(dc: Datacenter, first: int, end: int, budget: int) -> None:
    """Start flexible jobs by class, then id, wherever they fit; one that does not fit is passed over.

    ``started[group]`` gets the jobs of each group that run for more than this hour, by id, and a last
    entry of id ``NO_JOB``.
    """
    cluster = dc.cluster
    now, load = cluster.now, cluster.load_inflexible + cluster.load_flexible
    room = budget - load
    work, undelayed = 0, 0
    for group in range(FLEXIBLE_GROUPS):
        count, room = start_waiting(dc, group, room)
        while first < end and dc.trace[first].job_class == group + FIRST_FLEXIBLE_CLASS:
            cpu, duration = wide(dc.trace[first].cpu), wide(dc.trace[first].duration)
            job = Job(cpu, duration, 0, cluster.id_base + dc.trace[first].order, duration)
            work += cpu * duration
            first += 1
            machine = NOTHING
            if cpu <= room:
                machine = least_loaded(dc.loads)
                if dc.loads[machine] + cpu > MICRO:
                    machine = NOTHING
            if machine == NOTHING:
                wait(dc, take_place(dc, group), job)
                continue
            room -= cpu
            undelayed += 1
            finish = now + duration
            run_flexible(dc, cpu, machine, finish)
            if duration > 1:
                count_running(dc, cpu, 0, finish)
                note_running(dc.started[group, count], job, finish, machine, take_place(dc, group))
                count += 1
        dc.started[group, count].id = NO_JOB
    dc.delays[0] += undelayed
    cluster.submitted_work += work
    cluster.submitted_flexible_work += work
    cluster.load_flexible += budget - load - room


@inlined
def start_waiting(dc: Datacenter, group: int, room: int) -> tuple[int, int]:
    """Start the waiting jobs of a group that fit.

    Return how many will run for more than this hour, and the room that is left under the VCC.
    """
    keys, end = dc.keys, dc.cluster.ends[group]
    first_block, first_unit = kernel_queue.offsets(keys)
    machine = least_loaded(dc.loads)
    fit = min(room, MICRO - dc.loads[machine])  # CPU of the largest job that can start
    taken = 0
    for u in range(dc.settings.first_places[group] // UNIT, (end + UNIT - 1) // UNIT):
        before = taken
        for b in range(u * BLOCK, (u + 1) * BLOCK) if keys[first_unit + u] <= fit else range(0):
            if keys[first_block + b] > fit:
                continue
            bits = kernel_queue.fitting(keys, b, fit)
            while bits != 0:
                j = b * BLOCK + lowest_bit(bits)
                bits &= bits - 1
                cpu = wide(keys[j])
                if cpu <= fit:
                    take_out(dc, j, machine, dc.started[group, taken])
                    taken += 1
                    room -= cpu
                    dc.loads[machine] += cpu
                    machine = least_loaded(dc.loads)
                    fit = min(room, MICRO - dc.loads[machine])
            kernel_queue.renew(keys, b * BLOCK, first_block + b)
        if taken > before:
            kernel_queue.renew(keys, first_block + u * BLOCK, first_unit + u)
    return count_started(dc, group, taken), room


@inlined
def take_out(dc: Datacenter, j: int, machine: int, entry: RunningJob) -> None:
    """Take the job of place ``j`` that starts out of it, into an entry of its group's list."""
    now, place = dc.cluster.now, dc.places[j]
    cpu, left, delay = wide(dc.keys[j]), wide(place.left), now - place.origin
    dc.keys[j] = NO_JOB
    note_running(entry, Job(cpu, left, delay, wide(place.id), wide(place.duration)), now + left, machine, j)


@inlined
def count_started(dc: Datacenter, group: int, taken: int) -> int:
    """Count the jobs of a group's list as running, and keep those that will run for more than this hour.

    Apart from :func:`take_out`, whose slow look at a place far away the processor can thus do ahead.

    :param taken: number of jobs in the list
    :return: number of jobs kept
    """
    cluster, kept = dc.cluster, 0
    now = cluster.now
    cluster.waiting_jobs -= taken
    for index in range(taken):
        job = dc.started[group, index]
        cpu, finish, delay = wide(job.cpu), wide(job.finish), wide(job.delay)
        count_waiting(dc, -cpu, delay, finish - now)
        count_running(dc, cpu, delay, finish)
        dc.leaving[row_of(finish, cluster), job.machine] += cpu
        dc.delays[delay] += 1
        dc.started[group, kept] = job
        kept += finish - now > 1
    return kept


@inlined
def stack_started(dc: Datacenter) -> None:
    """Put the jobs that started in this hour on the stack by id, merging the groups' lists."""
    mid, batch, free = 0, 0, 0
    while True:
        mid_job, batch_job, free_job = dc.started[MID, mid], dc.started[BATCH, batch], dc.started[FREE, free]
        if batch_job.id < min(mid_job.id, free_job.id):
            push(dc.stack, dc.cluster, batch_job)
            batch += 1
        elif mid_job.id < free_job.id:
            push(dc.stack, dc.cluster, mid_job)
            mid += 1
        elif free_job.id < NO_JOB:
            push(dc.stack, dc.cluster, free_job)
            free += 1
        else:
            break
