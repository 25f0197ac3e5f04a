"""Slurm as a client: its queue as a snapshot, and a decision as commands.

Only jobs that their users hold (``sbatch --hold``) are ours to release. All others, also those that an
administrator holds, are left to Slurm, and listed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from greendc.config import require
from greendc.live.decision import Decision
from greendc.live.power_table import read_power_table
from greendc.live.reservations import Reservation, our_reservations, power_layers
from greendc.live.slurm_answers import (
    RUNNING,
    Row,
    Run,
    SlurmError,
    beyond_processors,
    count,
    cpus_of,
    hosts_of,
    is_usable,
    names,
    number,
    owner,
    read_jobs,
    read_nodes,
    run_command,
    states,
    tasks_of,
    text_of,
)
from greendc.live.snapshot import (
    MOST_PROCESSORS,
    MOST_SECONDS,
    CapacityChange,
    FinishedJob,
    RunningJob,
    Snapshot,
    WaitingJob,
)

HELD = "JobHeldUser"
"""Why jobs wait that are ours to release."""
READY = {"None", "Priority", "Resources", "PartitionDown", "PartitionInactive"}
"""Why jobs wait that Slurm may start at any moment, or once their partition is up."""
MOST_PRIORITY = 2**32 - 3
NO_TIME = {"Unknown", "None"}
SACCT = ("JobIDRaw", "User", "NCPUS", "TimelimitRaw", "ElapsedRaw", "Submit", "End", "Partition")


@dataclass(frozen=True)
class Queue:
    """What Slurm says of one partition.

    :param snapshot: the partition as a cluster; its waiting jobs are the held ones, among its running
        jobs are those that are about to start
    :param left: pending jobs that are left to Slurm, and why, by id
    :param notes: what else was not taken into account
    :param partition: its name
    :param ready: waiting jobs that are not held: Slurm may start them at any moment
    :param top: the priority below which that of a job must be that is to start behind those that start anyway
    :param wanted: CPUs that the forecast leaves without power, as reservations
    :param reserved: names of our reservations that there are
    :param starting: jobs that are about to start, which Slurm alone decides on
    :param priorities: of the jobs that are ``ready``
    """

    snapshot: Snapshot
    left: Mapping[str, str]
    notes: tuple[str, ...]
    partition: str = ""
    ready: frozenset[str] = frozenset()
    top: int = MOST_PRIORITY
    wanted: tuple[Reservation, ...] = ()
    reserved: tuple[str, ...] = ()
    starting: frozenset[str] = frozenset()
    priorities: Mapping[str, int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """Processors that run jobs now."""
        return sum(job.processors for job in self.snapshot.running if job.id not in self.starting)

    @property
    def excess(self) -> int:
        """Processors that run jobs now and have no power."""
        return max(self.used - self.snapshot.capacity, 0)


def read_queue(
    partition: str | None = None,
    forecast: str | Path | None = None,
    history_days: int = 0,
    run: Run = run_command,
    now: datetime | None = None,
    *,
    hold: bool = False,
    reserve: bool = False,
) -> Queue:
    """Read a partition by ``squeue``, ``sinfo`` (from 23.02 on ``scontrol``) and, for history, ``sacct``.

    A processor is a CPU of Slurm that jobs may have. Pending jobs that Slurm may start at any moment count as
    running, as many as have room on nodes that can be used, of arrays as many tasks. CPUs of others (down,
    drained, in maintenance, powering down) have no power, except those that still run jobs, for as long as
    these do (``drained_processors``); CPUs of nodes that Slurm wakes for a job have.

    :param partition: its name; ``None`` if there is one only
    :param forecast: a table of the ``processors`` that have power; see
        :func:`~greendc.live.power_table.read_power_table`
    :param history_days: days of finished jobs to read from accounting; 0: none
    :param run: runs commands
    :param now: the time, default the clock's, with the local offset from UTC
    :param hold: decide on pending jobs that Slurm may start at any moment, too: they count as waiting
    :param reserve: read ``scontrol show reservation``, and find what reservations the forecast asks for
    :raises SlurmError: see there; also for an unknown partition
    :raises ValueError: for ``history_days`` below 0
    :raises TraceError: for a wrong ``forecast``, and one that is over
    :raises SnapshotError: if Slurm's answers contradict each other
    """
    require(history_days >= 0, "history_days", history_days, "0 or more")
    now = now or datetime.now(timezone.utc).astimezone()  # networks learn from the local clock of a log
    clock = int(now.timestamp())
    nodes, jobs = read_nodes(run), read_jobs(run)
    name = _the_partition(partition, nodes)
    mine = [node for node in nodes if name in names(node, "partitions")]
    processors = sum(cpus_of(node) for node in mine)
    usable = sum(cpus_of(node) for node in mine if is_usable(node))
    running, waiting, left = _jobs(jobs, name, clock, hold)
    notes = []
    suspended = {str(count(job, "job_id")) for job in jobs if "SUSPENDED" in states(job)}
    # Nodes do not count the CPUs of suspended jobs as allocated.
    ours = sum(job.processors for job in running if job.id not in suspended)
    others = sum(count(node, "alloc_cpus") for node in mine) - ours
    if others > 0:
        known = _of_others(jobs, name, {str(node.get("name")) for node in mine}, clock, others)
        running += known
        lost = others - sum(job.processors for job in known)
        notes.append(f"{others} CPUs of {name} run jobs of other partitions")
        if lost > 0:
            running.append(RunningJob("other partitions", lost, MOST_SECONDS, 0))
            notes[-1] += f", {lost} of them also have other nodes, or none is told: taken to be busy for good"
    if kept := [job.id for job in running if job.id in suspended]:
        notes.append(f"suspended: {', '.join(kept)}; their CPUs are kept, for when they resume")
    running, drained = _drained(running, jobs, mine)
    if drained > 0:
        notes.append(f"{drained} CPUs of nodes that take no jobs are in use: they have no power after that")
    rows: list[CapacityChange] = []
    seconds = 0
    if forecast is not None:
        rows, seconds = read_power_table(forecast, now, processors)
        rows = _beside_drained(rows, seconds, running)
    wanted: tuple[Reservation, ...] = ()
    if reserve:
        threads = min((number(node, "threads") or 1 for node in mine), default=1)
        layers = power_layers(rows, seconds, usable, running)
        wanted = tuple(Reservation.of(name, clock, layer, threads) for layer in layers)
    # What is released and has not started takes its room already, else the next call would give it away.
    waits = {job.id for job in waiting}
    ready = {str(count(job, "job_id")): job for job in jobs if _is_ready(job, name)}
    # Priorities that we have set ourselves are none to go beyond, else they would rise at every call.
    theirs = [job for one, job in ready.items() if one not in waits]
    room = usable + drained - sum(job.processors for job in running)
    tasks = Counter(number(job, "array_job_id") or 0 for job in jobs if states(job) & RUNNING)
    ahead = _about_to_start(theirs, room, tasks)
    running += [started for started, _ in ahead]
    used = sum(job.processors for job in running)
    # What is broken now stays so in the plan, as it does without a forecast.
    rows = [CapacityChange(row.after_seconds, min(row.processors, usable) + drained) for row in rows]
    past = [row for row in rows if row.after_seconds <= 0]
    capacity = min([usable + drained, *(row.processors for row in past[-1:])])
    changes = rows[len(past) :]
    finished: list[FinishedJob] = []
    if history_days > 0:
        finished = read_history(name, history_days, run, now)
    return Queue(
        Snapshot(
            processors=max(processors, used),
            capacity=capacity,
            running=tuple(running),
            waiting=tuple(waiting),
            finished=tuple(finished),
            forecast=tuple(changes),
            forecast_seconds=seconds,
            time=now.isoformat(),
        ),
        left,
        tuple(notes),
        name,
        frozenset(waits & ready.keys()),
        _top_priority([priority for _, priority in ahead], theirs, len(waiting)),
        wanted,
        our_reservations(run(["scontrol", "show", "reservation", "-o"]), name) if reserve else (),
        frozenset(started.id for started, _ in ahead),
        {one: number(ready[one], "priority") or 0 for one in sorted(waits & ready.keys())},
    )


def commands(queue: Queue, decision: Decision, priorities: bool = False) -> list[list[str]]:
    """Return what makes a decision come true, in the order in which it is to be run.

    First what keeps power: jobs that should not start are held, so that their owners can release them (if the
    queue was read with ``hold``), and reservations are deleted and made (with ``reserve``). Then
    ``scontrol release`` for each job that should start, in order.

    :param priorities: give these jobs priorities in the same order, behind those that start anyway. Slurm
        sets none on a held job, so each gets its priority after it is released; one that has it gets none
    """
    lines = [["scontrol", "uhold", job.id] for job in decision.passed_over if job.id in queue.ready]
    kept = {reservation.name for reservation in queue.wanted}
    lines += [["scontrol", "delete", f"ReservationName={n}"] for n in queue.reserved if n not in kept]
    lines += [one.command(queue.partition) for one in queue.wanted if one.name not in queue.reserved]
    for k, job in enumerate(decision.start):
        if job not in queue.ready:
            lines.append(["scontrol", "release", job])
        priority = max(queue.top - 1 - k, 1)
        if priorities and queue.priorities.get(job) != priority:
            lines.append(["scontrol", "update", f"JobId={job}", f"Priority={priority}"])
    return lines


def read_history(partition: str, days: int, run: Run, now: datetime) -> list[FinishedJob]:
    """Return the jobs of a partition that ended in the last days, from Slurm's accounting.

    :raises SlurmError: if accounting is off, or prints other columns, or times in another format
    """
    since = f"now-{days}days"
    command = ["sacct", "-a", "-X", "-n", "-P", "-S", since, "-r", partition, "-o", ",".join(SACCT)]
    finished = []
    for place, line in enumerate(run(command).splitlines(), start=1):
        cells = dict(zip(SACCT, line.split("|"), strict=False))
        if len(line.split("|")) != len(SACCT):
            raise SlurmError(f"sacct, line {place}: {line.count('|') + 1} columns instead of {len(SACCT)}")
        ran, limit, size = cells["ElapsedRaw"], cells["TimelimitRaw"], cells["NCPUS"]
        submit, end = (_moment(f"sacct, line {place}: {name}", cells[name]) for name in ("Submit", "End"))
        # A job that runs has no end yet; one without a limit tells nothing of what limits mean.
        if (
            submit is None
            or end is None
            or not all(cell.isascii() and cell.isdigit() for cell in (ran, limit, size))
        ):
            continue
        for column, most in (
            ("NCPUS", MOST_PROCESSORS),
            ("ElapsedRaw", MOST_SECONDS),
            ("TimelimitRaw", 10**12),
        ):
            value = cells[column]
            if len(value) > 18 or int(value) > most:
                raise SlurmError(f"sacct, line {place}: {column}={value[:24]}: must be at most {most}")
        if min(int(ran), int(size), int(limit)) < 1 or end > now or submit > end:
            continue
        finished.append(
            FinishedJob(
                processors=int(size),
                limit_seconds=min(60 * int(limit), MOST_SECONDS),
                run_seconds=int(ran),
                submitted_seconds_ago=int((now - submit).total_seconds()),
                ended_seconds_ago=int((now - end).total_seconds()),
                user=cells["User"] or None,
            )
        )
    return finished


def _moment(where: str, text: str) -> datetime | None:
    """Return a time of sacct, in seconds since 1970 or, in what was recorded, local; ``None``: none yet."""
    if text in NO_TIME:
        return None
    try:
        if text.isascii() and text.isdigit():
            return datetime.fromtimestamp(int(text), timezone.utc)
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").astimezone()
    except (OSError, OverflowError, ValueError):
        allowed = "seconds since 1970, a time such as 2026-03-01T12:00:00, or Unknown"
        raise SlurmError(f"{where}={text!r}: must be {allowed}") from None


def _the_partition(asked: str | None, nodes: Sequence[Row]) -> str:
    known = sorted({name for node in nodes for name in names(node, "partitions")})
    if asked is None and len(known) == 1:
        return known[0]
    if asked not in known:
        if not known:
            raise SlurmError("partition: Slurm told of none: no node has one")
        given = "partition: must be given, one" if asked is None else f"partition={asked!r}: must be one"
        raise SlurmError(f"{given} of {', '.join(known)}")
    return asked


def _jobs(
    jobs: Sequence[Row], partition: str, clock: int, hold: bool
) -> tuple[list[RunningJob], list[WaitingJob], dict[str, str]]:
    """Return the jobs that run, the held ones, and the pending ones that are left to Slurm."""
    running, waiting, left = [], [], {}
    for job in jobs:
        if partition not in str(job.get("partition")).split(","):
            continue
        name, words, limit = str(count(job, "job_id")), states(job), _limit(job)
        if not words:
            raise SlurmError(f"job_state of {owner(job)}: missing: another version of Slurm?")
        if words & RUNNING:
            running.append(_running(job, clock))
        elif "PENDING" in words:
            why = _why_left(job, limit, clock, hold)
            if why is not None:
                left[name] = why
                continue
            waited = max(clock - (number(job, "submit_time") or clock), 0)
            waiting.append(WaitingJob(name, _cpus(job), limit, waited, _user(job)))
    return running, waiting, left


def _running(job: Row, clock: int) -> RunningJob:
    limit, elapsed = _limit(job), max(clock - (number(job, "start_time") or clock), 0)
    # A job beyond its limit is about to be killed; one without a limit never ends by itself.
    known = max(limit, elapsed, 1) if limit else MOST_SECONDS
    return RunningJob(str(count(job, "job_id")), _cpus(job), known, elapsed, _user(job))


def _of_others(
    jobs: Sequence[Row], partition: str, nodes: set[str], clock: int, most: int
) -> list[RunningJob]:
    """Return the jobs of other partitions that run on nodes of this one alone, and end by their limits.

    :param nodes: names of the nodes of the partition
    :param most: CPUs that such jobs use
    """
    found = []
    for job in jobs:
        on, cpus = hosts_of(job), number(job, "cpus") or 0
        theirs = partition not in str(job.get("partition")).split(",") and states(job) & RUNNING
        if theirs and on and on <= nodes and 0 < cpus <= most:
            found.append(_running(job, clock))
            most -= found[-1].processors
    return found


def _cpus(job: Row) -> int:
    """Return the CPUs of a job, at least one.

    :raises SlurmError: if it has none; names the job
    """
    cpus = count(job, "cpus")
    if not 1 <= cpus <= MOST_PROCESSORS:
        raise SlurmError(f"cpus={cpus} of {owner(job)}: must be from 1 to {MOST_PROCESSORS}")
    return cpus


def _user(job: Row) -> str | None:
    """Return whose a job is; ``None`` if that is not told.

    :raises SlurmError: if it is no name; names the job
    """
    user = job.get("user_name") or None
    if user is not None and not isinstance(user, str):
        raise SlurmError(f"user_name={user!r} of {owner(job)}: must be a name: another version of Slurm?")
    return user


def _limit(job: Row) -> int:
    """Return the time limit in seconds, at most the longest that snapshots hold; 0 if there is none."""
    minutes = number(job, "time_limit") or 0
    if minutes < 0:
        raise SlurmError(f"time_limit={minutes} of {owner(job)}: must be 0 or more minutes")
    return min(60 * minutes, MOST_SECONDS)


def _is_ready(job: Row, partition: str) -> bool:
    """Return whether Slurm may start a pending job at any moment, here or in another of its partitions."""
    mine = "PENDING" in states(job) and partition in str(job.get("partition")).split(",")
    return mine and str(job.get("state_reason")) in READY


def _about_to_start(
    ready: Sequence[Row], room: int, tasks: Mapping[int, int]
) -> list[tuple[RunningJob, int]]:
    """Return the ready jobs, by priority, as many as have room, and their priorities.

    Of an array as many tasks start as have room and may run at once. The first is called by the number of the
    array, the next ``NUMBER#2`` and so on.

    :param tasks: how many run of each array, by its number
    """
    starting = []
    for job in sorted(ready, key=lambda job: -(number(job, "priority") or 0)):
        cpus, most = _cpus(job), tasks_of(job, tasks.get(number(job, "array_job_id") or -1, 0))
        fit = max(room, 0) // cpus
        if most is not None:
            fit = min(fit, most)
        limit, user = _limit(job) or MOST_SECONDS, _user(job)
        name = str(count(job, "job_id"))
        for k in range(fit):
            running = RunningJob(f"{name}#{k + 1}" if k else name, cpus, limit, 0, user)
            starting.append((running, number(job, "priority") or 1))
            room -= cpus
    return starting


def _drained(
    running: Sequence[RunningJob], jobs: Sequence[Row], nodes: Sequence[Row]
) -> tuple[list[RunningJob], int]:
    """Return what runs, with the processors that take no job any more, and how many these are.

    First come jobs all of whose nodes are such, then those with some of them, then those whose nodes are not
    told; among these those that end last.

    :param nodes: of the partition
    """
    busy = {str(node.get("name")): min(count(node, "alloc_cpus"), cpus_of(node)) for node in nodes}
    lost = {name: cpus for name, cpus in busy.items() if cpus > 0}
    for node in nodes:
        if is_usable(node):
            lost.pop(str(node.get("name")), None)
    hosts = {str(count(job, "job_id")): hosts_of(job) for job in jobs if lost and states(job) & RUNNING}

    def order(job: RunningJob) -> tuple[int, int]:
        on = hosts.get(job.id, set())
        kind = 2 if not on else 0 if on <= lost.keys() else 1 if on & lost.keys() else 3
        return kind, job.elapsed_seconds - job.limit_seconds

    left, found = sum(lost.values()), Counter[str]()
    for by_nodes in (True, False):  # whatever nodes are told, these CPUs are in use
        for job in sorted(running, key=order) if left > 0 else ():
            on = hosts.get(job.id, set())
            most = sum(lost.get(name, 0) for name in on) if on and by_nodes else left
            more = min(job.processors - found[job.id], most, left)
            found[job.id] += more
            left -= more
    return [replace(job, drained_processors=found[job.id]) for job in running], found.total()


def _beside_drained(
    rows: Sequence[CapacityChange], seconds: int, running: Sequence[RunningJob]
) -> list[CapacityChange]:
    """Return how many of the processors with power those leave that are drained and run jobs.

    These have power until the limits of their jobs, those of jobs beyond their limits for good.

    :param rows: of the capacity, in order of time
    :param seconds: how far the forecast reaches
    """
    drained, ended = sum(job.drained_processors for job in running), Counter[int]()
    for job in running:
        end = job.limit_seconds - job.elapsed_seconds
        if job.drained_processors > 0 and 0 < end < seconds:
            ended[end] += job.drained_processors
    begins, found = [row.after_seconds for row in rows], []
    for time in sorted({*begins, *ended}):
        drained -= ended[time]
        powered = rows[bisect_right(begins, time) - 1].processors
        found.append(CapacityChange(time, powered - drained))
    return found


def _top_priority(ahead: Sequence[int], others: Sequence[Row], waiting: int) -> int:
    """Return the least priority of the jobs that start anyway, or one above all others with room for ours."""
    most = max((number(job, "priority") or 0 for job in others), default=0)
    return min(ahead, default=min(most + waiting + 1, MOST_PRIORITY))


def _why_left(job: Row, limit: int, clock: int, hold: bool) -> str | None:
    """Return why a pending job is left to Slurm, or ``None``."""
    reason = str(job.get("state_reason"))
    if reason == "JobHeldAdmin":
        return "held by an administrator"
    if reason in READY and not hold:
        return "not held: Slurm starts it"
    if reason != HELD and reason not in READY:
        return f"held by Slurm ({reason})" if re.search("hold|held", reason, re.I) else f"not held ({reason})"
    if number(job, "het_job_id"):
        return "is part of a heterogeneous job"
    if text_of(job.get("dependency")):
        return "depends on another job"
    if text_of(job.get("array_task_string")) or number(job, "array_job_id"):
        return "an array of jobs"  # or a task of one: releasing what is called by its number releases all
    if "," in str(job.get("partition")):
        return "may run in several partitions"
    if not limit:
        return "has no time limit"
    if (number(job, "eligible_time") or 0) > clock:
        return "may not begin yet"
    asked = beyond_processors(job)
    return f"asks for what is not modelled ({asked})" if asked else None
