"""What the readers of job logs should return; see :mod:`reader_oracles`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import numpy as np
from reader_oracles import Files, Refuse, Values, lines_of, microseconds, number, require


def swf(files: Files) -> Values:
    """Return the 18 fields of all jobs, and the size of the machine."""
    lines = lines_of(files["log.swf"], lenient=True)
    high = dict.fromkeys(range(18), 1e15) | {1: 1e11, 2: 3.2e8, 3: 3.2e8, 4: 1e9, 7: 1e9, 8: 1e11}
    jobs: list[list[float]] = []
    for line in lines:
        words = re.split(r"[ \t]+", line.split(";", 1)[0].strip(" \t"))
        if words == [""]:
            continue
        require(len(words) == 18, "number of fields")
        job = [number(word) for word in words]
        require(all(abs(value) <= high[i] for i, value in enumerate(job)), "limits")
        jobs.append(job)
    require(bool(jobs), "no jobs")
    whole = [job[0] for job in jobs if job[0] >= 0 and job[10] not in (2, 3, 4)]
    require(len(set(whole)) == len(whole), "doubled job")
    table = np.array(jobs)
    table[table < 0] = np.nan
    table = table[np.argsort(table[:, 1], kind="stable")]
    processors = np.where(table[:, 4] > 0, table[:, 4], np.where(table[:, 7] > 0, table[:, 7], np.nan))
    size = int(np.nanmax(processors, initial=1))
    for key in ("MaxNodes", "MaxProcs"):
        told = _header_size(lines, key)
        size = told or size
    for key in ("MaxRecords", "MaxJobs"):
        _header_size(lines, key)
    return {"table": table, "machine": size}


def _header_size(lines: Sequence[str], key: str) -> int | None:
    for line in lines:
        text = line.strip()
        if text and not text.startswith(";"):
            return None
        word, colon, value = text.lstrip("; \t").partition(":")
        if colon and word.strip() == key and not value.startswith("//"):
            first = value.strip().split()[:1]
            if not first or first[0] == "-1" or not re.match(r"[-+.,]?\d", first[0], re.ASCII):
                return None
            match = re.match(r"(\d{1,3}(,\d{3})+|\d+)(?![\d.,]*\w)", first[0])
            require(match is not None and len(match[1]) <= 15, f"{key} in two ways")
            assert match is not None
            return int(match[1].replace(",", "")) or None
    return None


_SACCT_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?", re.ASCII)
_SACCT_STATUS = {"COMPLETED": 1.0, "CANCELLED": 5.0}
_SACCT_NOT_OVER = {
    *("PENDING", "CONFIGURING", "REVOKED", "RUNNING", "SUSPENDED"),
    *("COMPLETING", "RESIZING", "STOPPED", "SIGNALING", "STAGE_OUT"),
}


def sacct(files: Files) -> Values:
    """Return times, processors and status of the jobs that ran, and the size of the machine."""
    lines = lines_of(files["jobs.txt"], lenient=True)
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    header = [name.strip().lower() for name in lines[0].split("|")]
    named = [name for name in header if name]
    require(len(set(named)) == len(named), "columns")
    require({"jobid", "submit"} <= set(named), "no columns")
    require("ncpus" in named or "nnodes" in named, "no size")
    require("elapsed" in named or {"start", "end"} <= set(named), "no run time")
    jobs: dict[str, list[float]] = {}
    for line in lines[1:]:
        cells = line.split("|")
        require(len(cells) == len(header), "number of fields")
        row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
        job = None if "." in row["jobid"] else _sacct_job(row)
        if job is not None:
            jobs[row["jobid"]] = job
    require(bool(jobs), "no job that ran")
    table = np.array(sorted(jobs.values(), key=lambda job: job[0]))
    table[:, 0] -= table[0, 0]
    start = table[:, 0] + np.nan_to_num(table[:, 1])
    changes = [
        change
        for begin, run, size in zip(start, table[:, 2], table[:, 4], strict=True)
        for change in ((begin, size), (begin + run, -size))
    ]
    peak = use = 0.0
    for _, change in sorted(changes):  # at one instant, ends come before starts
        use += change
        peak = max(peak, use)
    return {"table": table, "machine": max(int(peak), 1)}


def _may_be_put_back(second: float) -> bool:
    """Tell whether clocks are put back somewhere at such a time: at night, in spring and autumn."""
    time = np.datetime64(int(second), "s")
    month = int(time.astype("datetime64[M]").astype(int)) % 12 + 1
    return second // 3600 % 24 in (23, 0, 1, 2, 3) and month in (3, 4, 5, 9, 10, 11)


def _sacct_job(row: Mapping[str, str]) -> list[float] | None:
    """Return a line as seconds and numbers, ``None`` for one that did not run."""
    submit, start, end = (_sacct_time(row.get(name, "")) for name in ("submit", "start", "end"))
    require(not math.isnan(submit), "no submit time")
    run = end - start
    if row.get("elapsed", "").lower() not in _SACCT_UNKNOWN:
        run = _sacct_seconds(row["elapsed"])
    limit = row.get("timelimit", "").lower()
    request = math.nan
    if limit not in (*_SACCT_UNKNOWN, "unlimited", "partition_limit"):
        request = _sacct_seconds(limit)
    require(not request > 1e11, "time limit")
    state = (row.get("state", "").upper().split() or ["COMPLETED"])[0].rstrip("+")
    if state in _SACCT_NOT_OVER or not run > 0:
        return None
    if math.isnan(start) and "start" in row:
        return None
    size = row["ncpus"] if "ncpus" in row else row["nnodes"]
    require(re.fullmatch("[0-9]{1,15}", size) is not None and 1 <= int(size) <= 1e9, "processors")
    require(run <= 3.2e8, "run time")
    wait = start - submit
    if -3600 < wait < 0 and _may_be_put_back(start):
        wait += 3600  # the clock was put back meanwhile
    if wait < 0:
        wait = math.nan
    return [submit, wait, run, request, float(size), _SACCT_STATUS.get(state, 0.0)]


_SACCT_UNKNOWN = ("", "unknown", "none", "n/a", "invalid")


def _sacct_time(cell: str) -> float:
    if cell.lower() in _SACCT_UNKNOWN:
        return math.nan
    match = _SACCT_TIME.fullmatch(cell)
    if match is None:
        raise Refuse("time")
    *whole, fraction = match.groups()
    try:
        found = datetime(*(int(part or 0) for part in whole), tzinfo=timezone.utc)  # type: ignore[arg-type]
    except ValueError:
        raise Refuse("time") from None
    require(1900 <= found.year <= 2100, "year")
    return microseconds(found) / 1e6 + float(f"0{fraction or ''}")


def _sacct_seconds(cell: str) -> float:
    days, dash, clock_of = cell.rpartition("-")
    fields = clock_of.split(":")
    if len(fields) > 1:
        fields[-1], dot, fraction = fields[-1].partition(".")
        require(not dot or re.fullmatch("[0-9]+", fraction) is not None, "duration")
    require(
        all(re.fullmatch("[0-9]{1,9}", part) for part in (*fields, *([days] if dash else []))), "duration"
    )
    numbers = [int(field) for field in fields]
    require(len(numbers) <= 3, "duration")
    if dash:
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) < 3:
        require(len(numbers) == 1 or numbers[1] < 60, "duration")
        return 60.0 * numbers[0] + (numbers[1] if len(numbers) > 1 else 0)
    require(numbers[1] < 60 and numbers[2] < 60 and not (dash and numbers[0] > 23), "duration")
    return 86_400.0 * int(days or 0) + 3600.0 * numbers[0] + 60.0 * numbers[1] + numbers[2]
