"""Jobs on machines: starting, finishing and evicting them (compiled)."""

from __future__ import annotations

from greendc.compiled import inlined, internal
from greendc.records import Ints, Table, wide
from greendc.vcc import kernel_queue
from greendc.vcc.kernel_lateness import bin_of, count_running, count_waiting, lose, row_of
from greendc.vcc.layout import MICRO, OUTSIDE, Cluster, Datacenter, Job, RunningJob


@inlined
def take_place(dc: Datacenter, group: int) -> int:
    """Return the place of a job that arrives: the next of its group."""
    j = dc.cluster.ends[group]
    dc.cluster.ends[group] = j + 1
    kernel_queue.extend(dc.keys, j)
    return int(j)


@inlined
def least_loaded(loads: Ints) -> int:
    """Return the machine of least load, the first of equals."""
    best = 0
    least = loads[0]
    for machine in range(1, loads.shape[0]):
        if loads[machine] < least:
            best, least = machine, loads[machine]
    return best


@inlined
def run_inflexible(dc: Datacenter, cpu: int, machine: int, finish: int) -> None:
    """Let an inflexible job run on a machine, or outside, until hour ``finish``."""
    cluster, size = dc.cluster, dc.loads.shape[0]
    cluster.load_inflexible += cpu
    if machine != OUTSIDE:
        dc.loads[machine] += cpu
        dc.inflexible_loads[machine] += cpu
    dc.leaving[row_of(finish, cluster), inflexible_column(machine, size)] += cpu


@inlined
def inflexible_column(machine: int, size: int) -> int:
    """Return the column of the calendar for the load of inflexible jobs, of ``size`` machines or outside."""
    return size + (size if machine == OUTSIDE else machine)


@inlined
def note_fixed(dc: Datacenter, cpu: int, machine: int, finish: int) -> None:
    """Add an inflexible job to the list."""
    index = dc.cluster.fixed_jobs
    dc.cluster.fixed_jobs = index + 1
    job = dc.fixed[index]
    job.cpu = cpu
    job.finish = finish
    job.machine = machine


@inlined
def run_flexible(dc: Datacenter, cpu: int, machine: int, finish: int) -> None:
    """Put the load of a flexible job on a machine until hour ``finish``, or take it off if negative."""
    dc.loads[machine] += cpu
    dc.leaving[row_of(finish, dc.cluster), machine] += cpu


@inlined
def leave(dc: Datacenter) -> None:
    """Take the jobs whose work is done off their machines."""
    cluster, size = dc.cluster, dc.loads.shape[0]
    row = cluster.now - cluster.midnight
    flexible, inflexible = 0, dc.leaving[row, 2 * size]
    for machine in range(size):
        of_flexible = dc.leaving[row, machine]
        of_inflexible = dc.leaving[row, size + machine]
        dc.loads[machine] -= of_flexible + of_inflexible
        dc.inflexible_loads[machine] -= of_inflexible
        flexible += of_flexible
        inflexible += of_inflexible
    cluster.load_flexible -= flexible
    cluster.load_inflexible -= inflexible


@inlined
def wait(dc: Datacenter, j: int, job: Job) -> None:
    """Let a job wait in place ``j``."""
    place = dc.places[j]
    place.left = job.left
    place.origin = dc.cluster.now - job.delay
    place.id = job.id
    place.duration = job.duration
    kernel_queue.insert(dc.keys, j, job.cpu)
    dc.cluster.waiting_jobs += 1
    count_waiting(dc, job.cpu, job.delay, job.left)


@inlined
def note_running(entry: RunningJob, job: Job, finish: int, machine: int, place: int) -> None:
    """Fill in an entry of a list of running jobs."""
    entry.cpu = job.cpu
    entry.finish = finish
    entry.delay = job.delay
    entry.machine = machine
    entry.place = place
    entry.id = job.id
    entry.duration = job.duration


@inlined
def evict_job(dc: Datacenter, index: int) -> None:
    """Stop a flexible job; it keeps its work, less the hours that an eviction costs, and waits again."""
    cluster, running = dc.cluster, dc.stack[index]
    cpu, finish, delay = wide(running.cpu), wide(running.finish), wide(running.delay)
    job = Job(cpu, finish - cluster.now, delay, wide(running.id), wide(running.duration))
    run_flexible(dc, -cpu, wide(running.machine), finish)
    cluster.load_flexible -= cpu
    cluster.evictions += 1
    dc.delays[delay] -= 1
    count_running(dc, -cpu, delay, finish)
    lost = min(job.duration - job.left, dc.settings.eviction_loss)
    if lost > 0:
        lose(dc, job, lost)
    wait(dc, wide(running.place), Job(cpu, job.left + lost, delay + lost, job.id, job.duration))


@inlined
def push(stack: Table[RunningJob], cluster: Cluster, job: RunningJob) -> None:
    """Put a flexible job that starts on the stack, whose top is evicted next."""
    top = cluster.stack_top
    if top == stack.shape[0]:
        top = drop_finished(stack, top, cluster.now)
    cluster.stack_top = top + 1
    stack[top] = job


@internal
def drop_finished(running: Table[RunningJob], count: int, now: int) -> int:
    """Take the jobs out of a list that run no more, and return how many are left."""
    kept = 0
    for index in range(count):
        if running[index].finish > now:
            running[kept] = running[index]
            kept += 1
    return kept


@inlined
def begin_day(dc: Datacenter) -> None:
    """Write the calendars of the day that begins."""
    cluster, size = dc.cluster, dc.loads.shape[0]
    now = cluster.now
    cluster.midnight = now
    dc.leaving[:] = 0
    dc.leaving_bins[:] = 0
    cluster.stack_top = drop_finished(dc.stack, cluster.stack_top, now)
    for index in range(cluster.stack_top):
        job = dc.stack[index]
        row = row_of(wide(job.finish), cluster)
        dc.leaving_bins[row, bin_of(wide(job.delay))] += job.cpu
        dc.leaving[row, job.machine] += job.cpu
    cluster.fixed_jobs = drop_finished(dc.fixed, cluster.fixed_jobs, now)
    for index in range(cluster.fixed_jobs):
        job = dc.fixed[index]
        dc.leaving[row_of(wide(job.finish), cluster), inflexible_column(wide(job.machine), size)] += job.cpu


@internal
def machine_with_room(dc: Datacenter, cpu: int) -> int:
    """Evict flexible jobs, latest start first, from the machine of least inflexible load.

    Return the machine, or :data:`~greendc.vcc.layout.OUTSIDE` where inflexible jobs alone leave no room.
    """
    machine = least_loaded(dc.inflexible_loads)
    if dc.inflexible_loads[machine] + cpu > MICRO:
        return OUTSIDE
    for index in range(dc.cluster.stack_top - 1, -1, -1):
        if dc.loads[machine] + cpu <= MICRO:
            break
        job = dc.stack[index]
        if job.finish > dc.cluster.now and job.machine == machine:
            evict_job(dc, index)
            job.finish = 0  # the entry is passed over from now on
    return machine
