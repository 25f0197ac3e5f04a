"""Reads job logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

A log is a header of ``; Key: value`` comments and one line of 18 numbers a job, in which -1 means that the
value is missing (Chapin et al., JSSPP 1999; https://www.cs.huji.ac.il/labs/parallel/workload/swf.html).
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from greendc.config import require_one_of
from greendc.traces.tables import TraceError, read_text

SWF_FIELDS = (
    "job",
    "submit_time",
    "wait_time",
    "run_time",
    "allocated_processors",
    "average_cpu_time",
    "used_memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)
"""Names of the 18 fields in their order; times are in seconds, memory in kilobytes."""

_SUBMIT, _RUN, _ALLOCATED, _REQUESTED = 1, 3, 4, 7

# Larger values than these are damage, not data: the error names the line. Everything smaller that no job
# should have (a run time of zero, more processors than the machine) is kept and counted instead.
_TEN_YEARS = 3.2e8
_LIMITS = dict.fromkeys(SWF_FIELDS, 1e15) | {
    "submit_time": 1e11,
    "wait_time": _TEN_YEARS,
    "run_time": _TEN_YEARS,
    "requested_time": 1e11,
    "allocated_processors": 1e9,
    "requested_processors": 1e9,
}

_SCAN_BYTES = 100_000


@dataclass(frozen=True, eq=False)
class JobLog:
    """A job log: one row a job, sorted by submit time.

    Jobs submitted together keep their order; those without a submit time stand last.

    :param table: ``(J, 18)`` float64, columns as in :data:`SWF_FIELDS`, NaN where the log has -1
    :param header: comments of the header by key; lines that repeat or continue a key are joined by newlines
    :param counts: odd lines, by kind, as :func:`read_swf` explains; none of them was left out
    :param source: where the log is from, for messages
    """

    table: NDArray[np.float64]
    header: Mapping[str, str]
    counts: Mapping[str, int]
    source: str

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.table)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one field of all jobs, NaN where it is missing.

        :param name: one of :data:`SWF_FIELDS`
        :raises ValueError: for any other name
        """
        require_one_of("name", name, SWF_FIELDS)
        return self.table[:, SWF_FIELDS.index(name)]

    @property
    def processors(self) -> NDArray[np.float64]:
        """Processors that each job got, or else asked for; NaN where neither is known."""
        return _processors(self.table)

    @property
    def machine_processors(self) -> int:
        """Size of the logged machine: the header's ``MaxProcs``, else ``MaxNodes``, else the largest job."""
        for key in ("MaxProcs", "MaxNodes"):
            size = _header_int(self.header, key)
            if size is not None and size > 0:
                return size
        return int(np.nanmax(self.processors, initial=1))


def read_swf(path: str | Path) -> JobLog:
    """Read a job log, plain or gzipped (by the name's ending), of any length.

    Odd lines are kept and counted:

    - ``unsorted``: submitted earlier than the line before (the log is then sorted)
    - ``no_submit_time``, ``no_run_time``: missing, negative or (run time) zero: such jobs never ran
    - ``no_processors``: neither allocated nor requested ones are known
    - ``above_machine``: more processors than the header's ``MaxProcs`` (or ``MaxNodes``)
    - ``negative``: lines with a negative value other than -1, which becomes missing
    - ``missing_lines``: jobs that the header's ``MaxRecords`` (or ``MaxJobs``) promises but the file lacks

    :param path: the file
    :raises TraceError: if the file cannot be read, holds no job, or a line has not 18 fields, is not made
        of numbers, or holds a number beyond all reason; the message names the file and the line
    """
    return parse_swf(read_text(path), str(path))


def parse_swf(data: bytes, name: str) -> JobLog:
    """Return the job log in the text ``data``, which errors call ``name``; see :func:`read_swf`."""
    header = _read_header(data)
    table = _parse(data)
    if table is None:
        raise _first_bad_line(data, name)
    if len(table) == 0:
        raise TraceError(f"{name}: the log is empty (no line of it is a job)")
    counts = _count_odd_lines(table, header)
    table[table < 0.0] = np.nan
    if counts["unsorted"] or counts["no_submit_time"]:
        table = table[np.argsort(table[:, _SUBMIT], kind="stable")]  # NaN sorts last
    return JobLog(table, header, counts, name)


def _parse(data: bytes) -> NDArray[np.float64] | None:
    """Parse all jobs at once, or return ``None`` if any line is bad."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # The 19th column shows lines that are too long, without making pandas guess at an index.
            frame = pd.read_csv(
                io.BytesIO(data),
                sep=r"\s+",
                comment=";",
                header=None,
                names=range(len(SWF_FIELDS) + 1),
                index_col=False,
                dtype=np.float64,
                quoting=csv.QUOTE_NONE,
            )
    except pd.errors.EmptyDataError:
        return np.empty((0, len(SWF_FIELDS)))
    except (ValueError, pd.errors.ParserWarning):
        return None
    table: NDArray[np.float64] = frame.to_numpy(np.float64)[:, : len(SWF_FIELDS)]
    too_long = frame[len(SWF_FIELDS)].notna().any()
    # NaN compares false, so short lines and the text "nan" fail here too.
    sound = bool((np.abs(table) <= np.array([_LIMITS[field] for field in SWF_FIELDS])).all())
    return np.ascontiguousarray(table) if sound and not too_long else None


def _first_bad_line(data: bytes, name: str) -> TraceError:
    """Return the error of the first bad line, which the fast parser cannot name."""
    first = 1
    while len(data) > _SCAN_BYTES:  # halve with the fast parser what must be looked at line by line
        middle = data.find(b"\n", len(data) // 2) + 1
        if middle in (0, len(data)):
            break
        half = data[:middle]
        if _parse(half) is None:
            data = half
        else:
            first += half.count(b"\n")
            data = data[middle:]
    for number, raw in enumerate(io.BytesIO(data), start=first):
        line = raw.decode("utf-8", "replace").strip()
        words = line.split(";", 1)[0].split()
        if not words:
            continue
        place = f"{name}, line {number}"
        if len(words) != len(SWF_FIELDS):
            return TraceError(
                f"{place}: a job has {len(SWF_FIELDS)} fields, but this line has {len(words)}: {line[:60]!r}"
            )
        for field, word in zip(SWF_FIELDS, words, strict=True):
            try:
                value = float(word)
            except ValueError:
                return TraceError(f"{place}: {field}={word[:40]!r}: must be a number")
            if np.isnan(value):
                return TraceError(f"{place}: {field}={word[:40]}: must be a number (-1 if it is missing)")
            if abs(value) > _LIMITS[field]:
                return TraceError(f"{place}: {field}={word[:40]}: must be at most {_LIMITS[field]:g}")
    return TraceError(f"{name}: not a job log in Standard Workload Format")


def _count_odd_lines(table: NDArray[np.float64], header: Mapping[str, str]) -> dict[str, int]:
    submit, processors = np.where(table[:, _SUBMIT] < 0, np.nan, table[:, _SUBMIT]), _processors(table)
    machine = _header_int(header, "MaxProcs") or _header_int(header, "MaxNodes") or np.inf
    promised = _header_int(header, "MaxRecords") or _header_int(header, "MaxJobs") or 0
    odd = {
        "unsorted": submit[1:] < submit[:-1],
        "no_submit_time": np.isnan(submit),
        "no_run_time": table[:, _RUN] <= 0,
        "no_processors": np.isnan(processors),
        "above_machine": processors > machine,
        "negative": ((table < 0) & (table != -1)).any(axis=1),
    }
    counts = {kind: int(np.count_nonzero(flags)) for kind, flags in odd.items()}
    return counts | {"missing_lines": max(0, promised - len(table))}


def _processors(table: NDArray[np.float64]) -> NDArray[np.float64]:
    allocated, requested = table[:, _ALLOCATED], table[:, _REQUESTED]
    known = np.where(allocated > 0, allocated, requested)
    return np.where(known > 0, known, np.nan)


def _read_header(data: bytes) -> dict[str, str]:
    header: dict[str, str] = {}
    key = ""
    for raw in io.BytesIO(data):
        line = raw.decode("utf-8", "replace").strip()
        if line and not line.startswith(";"):
            break
        text = line.lstrip("; \t")
        word, colon, value = text.partition(":")
        # A continued line is indented and has no key of its own; an address is not a key.
        if colon and word.strip().isidentifier() and not value.startswith("//"):
            key = word.strip()
            header[key] = f"{header[key]}\n{value.strip()}" if key in header else value.strip()
        elif text and key:
            header[key] = f"{header[key]}\n{text}"
    return header


def _header_int(header: Mapping[str, str], key: str) -> int | None:
    """Return the first number of a header entry; some logs add a remark to it."""
    words = header.get(key, "").split()
    return int(words[0]) if words and words[0].isdecimal() else None
