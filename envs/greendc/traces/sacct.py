r"""Reads job lists that Slurm exports: ``sacct -P`` with its columns between bars.

An export that has all that is read here::

    sacct -a -P -S 2024-01-01 -E 2024-07-01 \
        -o JobID,User,Submit,Start,End,Elapsed,Timelimit,NCPUS,NNodes,State > jobs.txt

Columns may stand in any order, and others may stand among them. Needed are ``JobID``, ``Submit``, one of
``NCPUS``, ``AllocCPUS``, ``ReqCPUS``, ``NNodes``, ``Elapsed`` or both ``Start`` and ``End``, and ``State`` or
``End``, which tell the jobs that still run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from greendc.traces.defects import Defect, DefectsError, Inspection, without_cut_line
from greendc.traces.limits import LIMITS
from greendc.traces.swf import SWF_FIELDS, JobLog
from greendc.traces.table_reader import clean_text
from greendc.traces.trace_files import TraceError, read_file

SIZES = ("ncpus", "alloccpus", "reqcpus", "nnodes", "allocnodes", "reqnodes")
"""Columns that say how large a job is, the best first; the first that is there is read."""

NOT_KNOWN = frozenset({"", "unknown", "none", "n/a", "invalid"})
"""What stands in place of a time that is not known, in lower case."""

UNLIMITED = frozenset({*NOT_KNOWN, "unlimited", "partition_limit"})

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9})(?::(\d{1,9}))?(?:\.\d+)?)?", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,15}")
_LEFT_OUT = ("cancelled_before_start", "not_started", "still_running", "no_run_time", "requeued", "steps")
_BACKWARDS = "start_before_submission"
_UNDER_WAY = frozenset(
    ("RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "STOPPED", "SIGNALING", "STAGE_OUT")
)
_SWF_STATUS = {"COMPLETED": 1.0, "CANCELLED": 5.0}
_CLOCK_CHANGES = frozenset((23, 0, 1, 2, 3))  # hours of the day that clocks show twice in autumn somewhere
_MONTHS_OF_CHANGES = frozenset((3, 4, 5, 9, 10, 11))
_SHOWN = 40
_FEWEST = 3  # bars in a line of an export
_FEW = 8  # clusters that an error names


@dataclass(frozen=True, eq=False)
class SacctExport:
    """Jobs of an export, and its columns.

    :param log: jobs that ran, as any job log; ``counts`` says what else there was
    :param columns: cells of every column for these jobs, by the column's name in lower case
    """

    log: JobLog
    columns: Mapping[str, Sequence[str]]


def is_sacct(data: bytes) -> bool:
    """Tell whether a text begins like an export: a first line with bars and a job's number in it.

    Blank lines before it are passed over.
    """
    first = data.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].lower()
    return b"|" in first and b"jobid" in first


def nearly_sacct(data: bytes) -> str:
    """Return what is amiss with a text that looks like an export in another form; else an empty text."""
    lines = [line for line in data.decode("utf-8", "replace").lower().split("\n") if line.strip()]
    first = lines[0] if lines else ""
    if not is_sacct(data) and re.match(r"\s*jobid", first):
        for separator, called in ((";", "semicolons"), (",", "commas"), ("\t", "tabs")):
            if separator in first:
                return f"it looks like a table of sacct between {called}; needed are bars, as sacct -P prints"
        return "it looks like a table of sacct without -P (--parsable2), which puts bars between columns"
    if first.count("|") >= _FEWEST and re.match(r"\s*\d[\w.+\[\]-]*\|", first):
        return (
            "it looks like a table of sacct -P without its header (-n, --noheader), which names the columns"
        )
    return ""


def read_sacct(path: str | Path) -> JobLog:
    """Read the jobs that ran from an export (plain or ``.gz``), sorted by submit time.

    Left out and counted: ``steps`` (lines such as ``123.batch``), ``cancelled_before_start``,
    ``not_started`` (pending jobs), ``still_running`` (their run time is not known yet), ``no_run_time`` and
    ``requeued`` (earlier runs of a job number that comes again). Where a job has no ``State``, its ``End``
    says whether it is over, and its status in the log is missing. With a column ``Eligible``, jobs that were
    held, or waited for others, are submitted when they became eligible. A time limit that is ``UNLIMITED``
    or not known is missing. Times have no zone: they are the cluster's clock, and so is the log's.

    Without ``Elapsed``, a job runs from ``Start`` to ``End``. One that ends less than an hour before it
    starts, between 23:00 and 4:00, ran while the clock was put back from summer time, and gets that hour. So
    does the wait of one that starts less than an hour before it was submitted, at that time of day. Of others
    that ran or waited through a change of clocks nothing tells so: they are an hour too short or too long.
    The wait of any other job that starts before it was submitted is missing, and ``start_before_submission``
    counts these jobs.

    Clusters have job numbers and machines of their own: an export of several, which has a column
    ``Cluster``, is refused.

    Slurm does not export the size of the machine: the header's ``MaxProcs`` is the greatest number in use at
    one time.

    :param path: the file
    :raises DefectsError: naming file and line of everything that cannot be read
    :raises TraceError: for a file that cannot be read, lacks a column, holds jobs of several clusters, or no
        job that ran
    """
    try:
        export, inspection = parse_sacct(read_file(path), str(path))
    except DefectsError as error:
        raise DefectsError(error.inspections, error.others, repair=False) from None
    if inspection.defects:
        raise DefectsError([inspection], repair=False)
    return export.log


def parse_sacct(data: bytes, name: str) -> tuple[SacctExport, Inspection]:
    """Return the export in the text ``data``, and its defects; lines that have one are left out.

    :param data: the content of the file
    :param name: what errors call it
    :raises DefectsError: for defects of single lines, if no job of the other lines ran
    :raises TraceError: otherwise as :func:`read_sacct`
    """
    whole, defects = without_cut_line(data)
    if not whole.strip():
        whole, defects = data, []  # a header alone, which is refused as it is
    lines = clean_text(whole, name, any_encoding=True).decode().split("\n")[:-1]
    top = next(k for k, line in enumerate(lines) if line.strip())  # clean_text() refuses blank texts
    header = [column.strip().lower() for column in lines[top].split("|")]
    place = _find_columns(header, name, top + 1)
    _refuse_clusters(lines[top + 1 :], header, name)
    jobs: dict[str, _Job] = {}
    counts = dict.fromkeys((*_LEFT_OUT, _BACKWARDS), 0)
    for number, line in enumerate(lines[top + 1 :], start=top + 2):
        cells = line.split("|")
        problem, job = None, None
        if len(cells) != len(header):
            problem = f"{len(cells)} field(s) instead of {len(header)}: {line[:_SHOWN]!r}"
        elif "." in cells[place["jobid"]]:
            counts["steps"] += 1
            continue
        else:
            try:
                job = _read_job(cells, place)
            except ValueError as error:
                problem = str(error)
        if problem is not None:
            defects.append(Defect(number, problem, "left out", kind="lines_left_out"))
        if job is None:
            continue
        if job.left_out:
            counts[job.left_out] += 1
            continue
        counts["requeued"] += job.number in jobs
        jobs[job.number] = job
    defects.sort(key=lambda one: one.line)
    if not jobs:
        seen = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)
        if defects:
            hopeless = tuple(replace(defect, mend="") for defect in defects)  # nothing would be left
            others = [f"{name}: no job of its other lines ran ({seen})"] if seen else []
            raise DefectsError([Inspection(name, hopeless, data)], others)
        raise TraceError(f"{name}: no job of it ran ({seen or 'it has none'})")
    found = sorted(jobs.values(), key=lambda job: job.submit)
    counts[_BACKWARDS] = sum(job.backwards for job in found)
    columns = {column: [job.cells[k].strip() for job in found] for k, column in enumerate(header) if column}
    owners = columns.get("user", columns.get("uid", []))
    return SacctExport(_log(found, owners, counts, name), columns), Inspection(name, tuple(defects), data)


@dataclass(frozen=True)
class _Job:
    number: str
    submit: float
    wait: float
    run: float
    size: float
    request: float
    status: float
    cells: Sequence[str]
    left_out: str
    backwards: bool
    """Whether it starts before it was submitted, so that its wait is not known."""


def _refuse_clusters(lines: Sequence[str], header: Sequence[str], name: str) -> None:
    """Refuse an export of several clusters: two jobs of one number would be one that was requeued."""
    if "cluster" not in header:
        return
    rows = [line.split("|") for line in lines]
    cells = [row[header.index("cluster")].strip() for row in rows if len(row) == len(header)]
    clusters = [one for one in dict.fromkeys(cells) if one and one.lower() != "cluster"]  # the header again
    if len(clusters) > 1:
        more = ["..."] if len(clusters) > _FEW else []
        shown = ", ".join([cluster[:_SHOWN] for cluster in clusters[:_FEW]] + more)
        raise TraceError(
            f"{name}: has jobs of {len(clusters)} clusters ({shown}), which "
            f"have job numbers and machines of their own; export one: sacct --clusters={clusters[0][:_SHOWN]}"
        )


def _find_columns(header: Sequence[str], name: str, line: int) -> dict[str, int]:
    """Return where the columns are that are read; the header is on this line."""
    place = {column: k for k, column in enumerate(header)}
    twice = sorted(column for column in place if column and header.count(column) > 1)
    if twice:
        raise TraceError(f"{name}, line {line}: column {twice[0]} is there {header.count(twice[0])} times")
    size = next((column for column in SIZES if column in place), None)
    missing = [column for column in ("jobid", "submit") if column not in place]
    if size is None:
        missing.append(f"one of {', '.join(SIZES)}")
    if not {"elapsed", "elapsedraw"} & set(place) and not {"start", "end"} <= set(place):
        missing.append("elapsed, or start and end")
    if not {"state", "end"} & set(place):
        missing.append("state, or end")
    if missing or size is None:
        raise TraceError(
            f"{name}, line {line}: no column {'; no column '.join(missing)} (has {', '.join(header)})"
        )
    return {**place, "size": place[size]}


def _read_job(cells: Sequence[str], place: Mapping[str, int]) -> _Job:
    """Read one line.

    :raises ValueError: for a cell that cannot be read
    """

    def cell(column: str) -> str:
        return cells[place[column]].strip() if column in place else ""

    words = cell("state").upper().split()
    state = words[0].rstrip("+") if words else ""
    submit, start, end = (_stamp(cell(column), column) for column in ("submit", "start", "end"))
    if submit is None:
        raise ValueError(f"submit={cell('submit')!r}: must be a time such as 2024-01-31T13:45:00")
    if not state and "end" not in place:
        raise ValueError(f"state={cell('state')!r}: must be there, for there is no column end")
    if "elapsedraw" in place and cell("elapsedraw"):
        run = _number(cell("elapsedraw"), "elapsedraw")
    elif cell("elapsed").lower() not in NOT_KNOWN:
        run = duration(cell("elapsed"), "elapsed")
    else:
        run = _between(start, end)
        if state == "CANCELLED" and start is not None and end is not None:
            run = end - start  # it may have been cancelled before it started
    left_out = ""
    if state in ("PENDING", "CONFIGURING", "REVOKED"):
        left_out = "not_started"
    elif state in _UNDER_WAY:
        left_out = "still_running"
    elif not state and end is None:
        began = start is not None if "start" in place else run > 0
        left_out = "still_running" if began else "not_started"
    elif (start is None and "start" in place) or not run > 0:
        left_out = "cancelled_before_start" if state == "CANCELLED" else "no_run_time"
    limit = cell("timelimit")
    request = np.nan if limit.lower() in UNLIMITED else duration(limit, "timelimit")
    if np.isnan(request) and cell("timelimitraw").lower() not in UNLIMITED:
        request = 60.0 * _number(cell("timelimitraw"), "timelimitraw")
    if request > LIMITS["requested_time"].high:
        raise ValueError(f"timelimit={request:g} s: must be at most {LIMITS['requested_time'].high:g} s")
    size = 1.0 if left_out else _number(cells[place["size"]].strip(), "processors")
    if not left_out and not (
        1 <= size <= LIMITS["allocated_processors"].high and run <= LIMITS["run_time"].high
    ):
        raise ValueError(f"processors={size:g}, run time {run:g} s: no job that ran")
    eligible = _stamp(cell("eligible"), "eligible")
    submit = submit if eligible is None else max(submit, eligible)
    wait = _between(submit, start)
    status = _SWF_STATUS.get(state, 0.0) if state else np.nan
    known = wait if wait >= 0.0 else np.nan
    return _Job(cell("jobid"), submit, known, run, size, request, status, cells, left_out, wait < 0.0)


def _between(begin: float | None, end: float | None) -> float:
    """Return the seconds between two times, with the hour by which the clock was put back meanwhile.

    It was if the second is less than an hour before the first, at a time of day and in a month when clocks
    are put back somewhere.
    Below 0 for other times in the wrong order, NaN where one is not known.
    """
    if begin is None or end is None:
        return np.nan
    seconds = end - begin
    at_night = end // 3600 % 24 in _CLOCK_CHANGES
    month = datetime.fromtimestamp(end, timezone.utc).month
    put_back = -3600.0 < seconds < 0.0 and at_night and month in _MONTHS_OF_CHANGES
    return seconds + 3600.0 if put_back else seconds


def _stamp(cell: str, column: str) -> float | None:
    """Return the seconds of a time of the cluster's clock, ``None`` where it is not known."""
    if cell.lower() in NOT_KNOWN:
        return None
    try:
        if _TIME.fullmatch(cell) is None:
            raise ValueError
        time = datetime.fromisoformat(cell)
    except ValueError:
        raise ValueError(f"{column}={cell[:_SHOWN]!r}: must be a time such as 2024-01-31T13:45:00") from None
    if LIMITS["year"].outside(np.array(float(time.year))):
        raise ValueError(f"{column}={cell!r}: the year must be {LIMITS['year']}")
    return time.replace(tzinfo=timezone.utc).timestamp()


def duration(cell: str, column: str = "duration") -> float:
    """Return the seconds of ``[days-][hours:]minutes:seconds``; a number alone is minutes, as Slurm has it.

    :raises ValueError: for anything else
    """
    match = _DURATION.fullmatch(cell.strip())
    parts = [int(part) for part in match.groups()[1:] if part is not None] if match else []
    days = match[1] if match else None
    with_hours = days is not None or len(parts) == 3
    hours, minutes, seconds = ((*parts, 0, 0) if with_hours else (0, *parts, 0, 0))[:3]
    if not match or seconds > 59 or (with_hours and minutes > 59) or (days is not None and hours > 23):
        raise ValueError(f"{column}={cell[:_SHOWN]!r}: must be a duration such as 1-02:03:04")
    return 86_400.0 * int(days or 0) + 3600.0 * hours + 60.0 * minutes + seconds


def _number(cell: str, column: str) -> float:
    if _WHOLE.fullmatch(cell) is None:
        raise ValueError(f"{column}={cell[:_SHOWN]!r}: must be a whole number")
    return float(cell)


def _log(jobs: Sequence[_Job], owners: Sequence[str], counts: Mapping[str, int], name: str) -> JobLog:
    """Return jobs, sorted by submit time, as a log whose second 0 is the first submission."""
    first = jobs[0].submit
    code = {owner: number for number, owner in enumerate(dict.fromkeys(owners), start=1)}
    users = [code[owner] for owner in owners] if owners else np.nan
    table = np.full((len(jobs), len(SWF_FIELDS)), np.nan)
    numbers = [int(job.number) if _WHOLE.fullmatch(job.number) else -1 for job in jobs]
    if -1 in numbers:  # of arrays and the like
        numbers = list(range(1, len(jobs) + 1))
    values = {
        "job": numbers,
        "submit_time": [job.submit - first for job in jobs],
        "wait_time": [job.wait for job in jobs],
        "run_time": [job.run for job in jobs],
        "allocated_processors": [job.size for job in jobs],
        "requested_processors": [job.size for job in jobs],
        "requested_time": [job.request for job in jobs],
        "status": [job.status for job in jobs],
        "user": users,
    }
    for field, column in values.items():
        table[:, SWF_FIELDS.index(field)] = column
    header = {"UnixStartTime": f"{first:.0f}", "TimeZone": "0", "MaxJobs": str(len(jobs))}
    log = JobLog(table, header, dict(counts), name)
    return replace(log, header={**header, "MaxProcs": str(log.peak_processors)})
