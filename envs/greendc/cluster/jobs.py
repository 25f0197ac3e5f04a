"""The jobs of a cluster: a table of whole seconds and processors, made from a job log or generated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from greendc.cluster.clocks import check_start
from greendc.cluster.layout import MOST_SECONDS, NEVER, NOBODY
from greendc.config import require, require_one_of
from greendc.records import Floats, Ints
from greendc.traces.job_logs import read_log
from greendc.traces.log_clock import log_start
from greendc.traces.lublin import FEWEST_NODES, LublinModel, generate_log
from greendc.traces.swf import SWF_FIELDS, JobLog

READINGS = ("strict", "rlscheduler")
"""How a log is read: see :meth:`ClusterJobs.from_log`."""
PARTS = (2, 3, 4)
"""The status of a line that is a part of a job, which has a line of its own."""


@dataclass(frozen=True, eq=False)
class ClusterJobs:
    """Jobs in order of submission. The arrays are ``(N,)`` and read-only.

    :param submit: when each was submitted, whole seconds from 0 up, never decreasing
    :param run: seconds that it runs, at least 1
    :param request: seconds that its user asked for, at least 1
    :param processors: at least 1 and at most ``machine``
    :param machine: processors of the cluster
    :param number: what the log calls each job, for messages
    :param user: whose it is, by any number of 0 or more; -1 where that is not known
    :param done: when it was done in the log; planners know the run times of jobs done before an episode
    :param deadline: when it must be done to be on time, if jobs have deadlines
    :param value: what it is worth if it is on time, if jobs have values
    :param counts: what was dropped or changed on the way here, by kind
    :param start: what the clock shows at second 0, with or without an offset from UTC; ``None`` where that is
        not known
    :raises ValueError: naming the field, for arrays that break these rules
    """

    submit: Ints = field(repr=False)
    run: Ints = field(repr=False)
    request: Ints = field(repr=False)
    processors: Ints = field(repr=False)
    machine: int
    number: Ints | None = field(default=None, repr=False)
    user: Ints | None = field(default=None, repr=False)
    done: Ints | None = field(default=None, repr=False)
    deadline: Ints | None = field(default=None, repr=False)
    value: Floats | None = field(default=None, repr=False)
    counts: Mapping[str, int] = field(default_factory=dict)
    start: datetime | None = None

    def __post_init__(self) -> None:
        """Check the arrays and make them read-only copies."""
        whole = isinstance(self.machine, int | np.integer) and not isinstance(self.machine, bool)
        require(whole and 1 <= self.machine <= 10**9, "machine", self.machine, "1 to a billion processors")
        size = np.shape(self.submit)[:1]
        require(size != () and size[0] >= 1, "submit", f"of shape {np.shape(self.submit)}", "one job or more")
        lows = {"submit": 0, "run": 1, "request": 1, "processors": 1, "deadline": 0, "done": 0}
        for name in ("submit", "run", "request", "processors", "number", "user", "done", "deadline"):
            given = getattr(self, name)
            if given is not None:
                values = _whole(name, given, size)
                low, high = lows.get(name, -(2**53)), MOST_SECONDS
                if name in ("number", "user"):
                    high = 2**53
                elif name in ("deadline", "done"):
                    high = NEVER
                elif name == "processors":
                    high = int(self.machine)
                _require_between(name, values, low, high)
                object.__setattr__(self, name, values)
        if self.value is not None:
            worth = np.array(self.value, np.float64)
            require(worth.shape == size, "value", f"of shape {worth.shape}", f"of shape {size}")
            bad = worth[~((worth >= 0) & (worth < 1e18))]
            require(not bad.size, "value", bad[:1].tolist(), "finite and 0 or more")
            worth.setflags(write=False)
            object.__setattr__(self, "value", worth)
        check_start("start", self.start)
        late = np.flatnonzero(np.diff(self.submit) < 0)
        if late.size:
            found = f"{self.submit[late[0] + 1]} after {self.submit[late[0]]}"
            require(False, f"submit[{late[0] + 1}]", found, "no earlier than the job before")

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit)

    @classmethod
    def from_log(
        cls, log: JobLog, reading: str = "strict", processors: int | None = None, most: int | None = None
    ) -> ClusterJobs:
        """Take the jobs of a log that ran, in order of submission.

        Read ``"strict"``, parts of jobs and jobs without a submit time, a run time or processors are left
        out, and so are those larger than the machine; a job without a request is taken to request its run
        time. Times become whole seconds, run times and requests rounded up. ``"rlscheduler"`` reads as that
        scheduler's code does: processors are the greater of allocated and requested ones, a run time that is
        missing is ten seconds, one of zero leaves the job out, and jobs stand in order of their numbers,
        which must be that of submission. The clock is that of the header
        (:func:`~greendc.traces.log_clock.log_start`).

        :param log: the log
        :param reading: one of :data:`READINGS`
        :param processors: of the cluster (default: the log's)
        :param most: keep so many of the first jobs
        :raises ValueError: for a log without any such job, one whose numbers are not in order of submission
            (``"rlscheduler"``), a start time in the header that cannot be read, or a wrong option
        """
        require_one_of("reading", reading, READINGS)
        require(most is None or most >= 1, "most", most, "1 or more jobs")
        machine = log.machine_processors if processors is None else processors
        table = log.table
        columns = {name: table[:, k] for k, name in enumerate(SWF_FIELDS)}
        run, size = columns["run_time"].copy(), log.processors
        if reading == "rlscheduler":
            run[np.isnan(run)] = 10.0
            size = np.fmax(columns["allocated_processors"], columns["requested_processors"])
            parts = too_large = np.zeros(len(table), np.bool_)
            ran = (run > 0) & (size > 0)
            order = np.argsort(columns["job"], kind="stable")
        else:
            parts = np.isin(columns["status"], PARTS)
            ran = (run > 0) & (size > 0) & (columns["submit_time"] >= 0)
            too_large = ran & ~parts & (size > machine)
            order = np.arange(len(table))
        kept = ran & ~parts & ~too_large
        rows = order[kept[order]][:most]
        require(len(rows) > 0, "log", log.source, f"one with a job that ran, on at most {machine} processors")
        request = np.where(columns["requested_time"] > 0, columns["requested_time"], run)
        wait = np.where(columns["wait_time"] >= 0, columns["wait_time"], 0.0)
        missing = ~(columns["requested_time"][rows] > 0)
        counts = {
            "read": len(table),
            "partial_executions": int(np.count_nonzero(parts)),
            "never_ran": int(np.count_nonzero(~ran & ~parts)),
            "above_machine": int(np.count_nonzero(too_large)),
            "beyond_most": int(np.count_nonzero(kept)) - len(rows),
            "no_request": int(np.count_nonzero(missing)),
            "beyond_request": int(np.count_nonzero(run[rows] > request[rows])),
        }
        submit = np.floor(columns["submit_time"][rows])
        _require_rising(log.source, columns["job"][rows], submit)
        return cls(
            submit=submit.astype(np.int64),
            run=np.ceil(run[rows]).astype(np.int64),
            request=np.ceil(request[rows]).astype(np.int64),
            processors=np.ceil(size[rows]).astype(np.int64),
            machine=machine,
            number=np.where(np.isnan(columns["job"]), -1, columns["job"])[rows].astype(np.int64),
            user=np.where(columns["user"] >= 0, columns["user"], NOBODY)[rows].astype(np.int64),
            done=(submit + np.ceil(wait[rows] + run[rows])).astype(np.int64),
            counts=counts,
            start=log_start(log),
        )

    def with_qos(self, min_qos: float, seed: int) -> ClusterJobs:
        """Give every job a deadline and a value, by QoS values drawn uniformly from ``min_qos`` to 1.

        As in the resource pool, a job of QoS value q must be done within ``request / q`` of its submission,
        and is then worth its requested processor-hours times q.
        """
        require(0 < min_qos <= 1, "min_qos", min_qos, "above 0 and at most 1")
        qos = np.random.default_rng(seed).uniform(min_qos, 1.0, len(self))
        allowed = np.floor(self.request / qos + 1e-9).astype(np.int64)
        value = self.request * self.processors / 3600.0 * qos
        return dataclasses.replace(self, deadline=self.submit + allowed, value=value)


def lublin_jobs(
    seed: int, jobs: int = 10_000, processors: int = 256, overestimate: float = 1.0
) -> ClusterJobs:
    """Generate jobs by the Lublin-Feitelson model; the same arguments give the same jobs.

    :param seed: of the random generator
    :param jobs: how many
    :param processors: of the cluster, at least 16
    :param overestimate: jobs request their run time times a factor drawn uniformly from 1 to this
    :raises ValueError: for too few processors, or an overestimate below 1
    """
    allowed = f"at least {FEWEST_NODES} for generated jobs"
    require(processors >= FEWEST_NODES, "processors", processors, allowed)
    require(overestimate >= 1, "overestimate", overestimate, "1 or more")
    table = ClusterJobs.from_log(
        generate_log(seed, jobs, LublinModel(nodes=processors)), processors=processors
    )
    if overestimate == 1:
        return table
    factors = np.random.default_rng([seed, 1]).uniform(1.0, overestimate, len(table))
    return dataclasses.replace(table, request=np.ceil(table.run * factors).astype(np.int64))


def read_jobs(path: str | Path, reading: str = "strict", processors: int | None = None) -> ClusterJobs:
    """Read the jobs of a log in Standard Workload Format or of an export of ``sacct``.

    See :meth:`ClusterJobs.from_log`, and of exports :func:`~greendc.traces.sacct.read_sacct`. The ``counts``
    say what either left out.

    :raises TraceError: for a file that cannot be read; names the line
    """
    log = read_log(path)
    jobs = ClusterJobs.from_log(log, reading, processors)
    return dataclasses.replace(jobs, counts={**log.counts, **jobs.counts})


def _require_rising(source: str, number: NDArray[np.float64], submit: NDArray[np.float64]) -> None:
    late = np.flatnonzero(np.diff(submit) < 0)
    if late.size:
        first, second = late[0], late[0] + 1
        raise ValueError(
            f"{source}: job {number[second]:g} was submitted at {submit[second]:g}, after job "
            f"{number[first]:g} at {submit[first]:g}: reading='rlscheduler' needs numbers in order of "
            "submission; reading='strict' does not"
        )


def _whole(name: str, given: object, size: tuple[int, ...]) -> NDArray[np.int64]:
    values = np.array(given)
    require(values.dtype.kind in "iu", name, f"of dtype {values.dtype}", "whole numbers")
    require(values.shape == size, name, f"of shape {values.shape}", f"of shape {size}")
    whole: NDArray[np.int64] = values.astype(np.int64)
    whole.setflags(write=False)
    return whole


def _require_between(name: str, values: NDArray[np.int64], low: int, high: int) -> None:
    wrong = np.flatnonzero((values < low) | (values > high))
    if wrong.size:
        require(False, f"{name}[{wrong[0]}]", int(values[wrong[0]]), f"from {low} to {high}")
