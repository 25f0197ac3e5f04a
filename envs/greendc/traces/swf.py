"""Reads job logs in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

A log is a header of ``; Key: value`` comments and one line of 18 numbers a job, in which -1 means that the
value is missing (Chapin et al., JSSPP 1999; https://www.cs.huji.ac.il/labs/parallel/workload/swf.html).
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.config import require_one_of
from greendc.lazy import LazyModule
from greendc.traces.limits import LIMITS
from greendc.traces.table_reader import NUMBER, clean_text
from greendc.traces.trace_files import TraceError, read_file

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


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

_JOB, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _STATUS = 0, 1, 3, 4, 7, 10
_PARTS = (2, 3, 4)  # the status of a line that is a part of a job, which has a line of its own, too
_UNUSED = len(SWF_FIELDS)  # the column in which fields beyond the last would be

_MOST = np.array([LIMITS[field].high for field in SWF_FIELDS])
# 1024 or 1,024, but neither 1.024 nor 10,24
_SIZE = re.compile(r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?![\d.,]*\w)")

_SIZES = ("MaxProcs", "MaxNodes", "MaxRecords", "MaxJobs")
_DIGITS = 15

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
        size = _header_int(self.header, self.size_entry, f"{self.source}, header")
        return size or int(np.nanmax(self.processors, initial=1))

    @property
    def size_entry(self) -> str:
        """Which of the header's entries tells the size of the machine; an empty text if none does."""
        place, entries = f"{self.source}, header", ("MaxProcs", "MaxNodes")
        return next((key for key in entries if _header_int(self.header, key, place)), "")

    @property
    def peak_processors(self) -> int:
        """The greatest number of processors in use at one time, by submit, wait and run times; at least 1.

        A wait that is missing is taken for none. It is what there is to go by where no header tells the
        machine's size.
        """
        start = self.column("submit_time") + np.nan_to_num(self.column("wait_time"))
        end, size = start + self.column("run_time"), self.processors
        known = ~(np.isnan(end) | np.isnan(size))
        times = np.concatenate([end[known], start[known]])  # at one instant, ends come before starts
        changes = np.concatenate([-size[known], size[known]])
        in_use = np.cumsum(changes[np.argsort(times, kind="stable")])
        return int(in_use.max(initial=1))

    @property
    def qos(self) -> NDArray[np.float64] | None:
        """QoS value of each job in (0, 1], ``None`` where the log has none, as logs of others have not.

        A header line ``; QosField: think_time`` says which field holds it (:func:`format_swf` writes it).

        :raises TraceError: if there is no such field, or a job's value is missing or out of range
        """
        field = self.header.get("QosField")
        if field is None:
            return None
        if field not in SWF_FIELDS:
            raise TraceError(
                f"{self.source}: header QosField={field!r}: must be one of {', '.join(SWF_FIELDS)}"
            )
        values = self.column(field)
        bad = ~((values > 0.0) & (values <= 1.0))
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(f"{self.source}: job {row + 1}: {field}={values[row]:g}: must be in (0, 1]")
        return values


def format_swf(log: JobLog, qos: NDArray[np.float64] | None = None) -> bytes:
    """Return a log as text that :func:`read_swf` reads.

    :param log: the log
    :param qos: ``(J,)`` QoS value of each job in (0, 1], which then stands in the last field
        (:attr:`JobLog.qos`)
    """
    table, header = np.where(np.isnan(log.table), -1.0, log.table), dict(log.header)
    if qos is not None:
        table[:, -1] = qos
        header["QosField"] = SWF_FIELDS[-1]
    lines = [f"; {key}: {line}" for key, value in header.items() for line in str(value).split("\n")]
    lines += [" ".join(_number(value) for value in row) for row in table.tolist()]
    return ("\n".join(lines) + "\n").encode()


def _number(value: float) -> str:
    """Write a number so that reading it gives it back; whole ones without a point."""
    return str(int(value)) if value == int(value) else repr(value)


def read_swf(path: str | Path) -> JobLog:
    """Read a job log, plain or gzipped (by the name's ending), of any length.

    Odd lines are kept and counted:

    - ``unsorted``: submitted earlier than the line before (the log is then sorted)
    - ``no_submit_time``, ``no_run_time``: missing, negative or (run time) zero: such jobs never ran
    - ``no_processors``: neither allocated nor requested ones are known
    - ``above_machine``: more processors than the header's ``MaxProcs`` (or ``MaxNodes``)
    - ``negative``: lines with a negative value other than -1, which becomes missing
    - ``partial``: parts of a job (status 2, 3 or 4), which has a line of its own besides
    - ``missing_lines``: jobs that the header's ``MaxRecords`` (or ``MaxJobs``) promises but the file lacks

    Everything smaller than damage that no job should have (a run time of zero, more processors than the
    machine) is kept and counted in this way. Only a header tells of a log that was cut between two lines.

    :param path: the file
    :raises TraceError: if the file cannot be read, is cut within a line or holds no job; if a line has not
        18 fields, is not made of numbers, holds a number beyond
        :data:`~greendc.traces.limits.LIMITS`, or the number of an earlier job; and for a size in the header
        that is no whole number; the message names the file and the line
    """
    return parse_swf(read_file(path), str(path))


def parse_swf(data: bytes, name: str) -> JobLog:
    """Return the job log in the text ``data``, which errors call ``name``; see :func:`read_swf`."""
    data = clean_text(data, name, any_encoding=True)
    header = _read_header(data)
    for key in _SIZES:
        if key in header:  # its line: looking for a missing one takes a second in a million lines
            _header_int(header, key, f"{name}, line {_header_line(data, key)}")
    table = _parse(data)
    if table is None:
        raise _first_bad_line(data, name)
    if len(table) == 0:
        raise TraceError(f"{name}: the log is empty (no line of it is a job)")
    _refuse_doubled_jobs(table, data, name)
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
            # The 19th column shows lines that are too long, without making pandas guess at an index. Only a
            # field that is not there is NaN.
            frame = pd.read_csv(
                io.BytesIO(data),
                sep=r"\s+",
                comment=";",
                header=None,
                names=range(_UNUSED + 1),
                index_col=False,
                dtype=np.float64,
                na_values=[""],
                keep_default_na=False,
                quoting=csv.QUOTE_NONE,
            )
    except pd.errors.EmptyDataError:
        return np.empty((0, len(SWF_FIELDS)))
    except (ValueError, pd.errors.ParserWarning):
        return None
    table: NDArray[np.float64] = frame.to_numpy(np.float64)[:, :_UNUSED]
    too_long = frame[_UNUSED].notna().any()
    # NaN compares false, so short lines fail here too. pandas takes a column of nothing but "true" for ones.
    sound = bool((np.abs(table) <= _MOST).all()) and not _may_hold_words(data, table)
    return np.ascontiguousarray(table) if sound and not too_long else None


def _may_hold_words(data: bytes, table: NDArray[np.float64]) -> bool:
    """Tell whether a column of 0 and 1 can be one of false and true: job lines have no letters but e."""
    if not bool(((table == 0.0) | (table == 1.0)).all(axis=0).any()):
        return False
    lines = re.sub(rb";[^\n]*", b"", data).lower()
    return b"true" in lines or b"false" in lines


def _refuse_doubled_jobs(table: NDArray[np.float64], data: bytes, name: str) -> None:
    """Refuse the number of an earlier job, but for parts of a job and for jobs without a number."""
    jobs = table[~np.isin(table[:, _STATUS], _PARTS) & (table[:, _JOB] >= 0), _JOB]
    if bool((np.diff(jobs) > 0).all()) or len(np.unique(jobs)) == len(jobs):
        return
    seen: dict[float, int] = {}
    for number, words in _job_lines(data):
        job = float(words[_JOB])
        if job < 0 or float(words[_STATUS]) in _PARTS:
            continue
        if job in seen:
            raise TraceError(f"{name}, line {number}: job={words[_JOB]} is that of line {seen[job]}, too")
        seen[job] = number


def _job_lines(data: bytes, first: int = 1) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line that is no comment."""
    for number, raw in enumerate(io.BytesIO(data), start=first):
        words = raw.decode("utf-8", "replace").split(";", 1)[0].split()
        if words:
            yield number, words


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
    for number, words in _job_lines(data, first):
        place = f"{name}, line {number}"
        if len(words) != _UNUSED:
            line = " ".join(words)
            return TraceError(
                f"{place}: a job has {_UNUSED} fields, but this line has {len(words)}: {line[:60]!r}"
            )
        for field, word in zip(SWF_FIELDS, words, strict=True):
            if not NUMBER.fullmatch(word):
                return TraceError(f"{place}: {field}={word[:40]!r}: must be a number (-1 if it is missing)")
            if abs(float(word)) > LIMITS[field].high:
                return TraceError(f"{place}: {field}={word[:40]}: must be at most {LIMITS[field].high:g}")
    return TraceError(f"{name}: not a job log in Standard Workload Format")


def _count_odd_lines(table: NDArray[np.float64], header: Mapping[str, str]) -> dict[str, int]:
    submit, processors = np.where(table[:, _SUBMIT] < 0, np.nan, table[:, _SUBMIT]), _processors(table)
    sizes = {key: _header_int(header, key, "header") for key in _SIZES}
    machine = sizes["MaxProcs"] or sizes["MaxNodes"] or np.inf
    promised = sizes["MaxRecords"] or sizes["MaxJobs"] or 0
    odd = {
        "unsorted": submit[1:] < submit[:-1],
        "no_submit_time": np.isnan(submit),
        "no_run_time": table[:, _RUN] <= 0,
        "no_processors": np.isnan(processors),
        "above_machine": processors > machine,
        "negative": ((table < 0) & (table != -1)).any(axis=1),
        "partial": np.isin(table[:, _STATUS], _PARTS),
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


def _header_line(data: bytes, key: str) -> int:
    """Return the line of the first header entry of a name; 0 if there is none."""
    entry = re.search(rb"^[; \t]*" + key.encode() + rb"\s*:", data, re.MULTILINE)
    return data.count(b"\n", 0, entry.start()) + 1 if entry else 0


def _header_int(header: Mapping[str, str], key: str, place: str) -> int | None:
    """Return the number with which a header entry begins; some logs add a remark to it.

    ``None`` stands for an entry that is missing, -1, or only words.

    :raises TraceError: for a number that is not a whole one, as 1.024 or 1,02
    """
    text = header.get(key, "").split("\n", 1)[0].strip()
    if not text or text.split()[0] == "-1" or not re.match(r"[-+.,]?[0-9]", text):
        return None
    size = _SIZE.match(text)
    if size is None or len(size[1]) > _DIGITS:
        raise TraceError(f"{place}: {key}={text[:40]!r}: must begin with a whole number")
    return int(size[1].replace(",", ""))
