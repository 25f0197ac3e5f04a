"""Google's cluster trace of May 2019, as one CSV file a day.

``scripts/fetch_traces.py google`` prints the query that makes such files of the public data set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from greendc.lazy import LazyModule
from greendc.traces.jobs import JobTrace
from greendc.traces.table_reader import Table, read_table
from greendc.traces.trace_files import TraceError, read_file

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


COLUMNS = ("time", "duration", "cpu", "priority")
"""The columns that are read; :data:`TASK_ID` and others may be there."""
TASK_ID = "task_id"
"""The column that names a task, if there is one: no task may be there twice."""
OFFSET_US = 600_000_000
"""The trace's clock shows 600 s at its start (midnight, Pacific time)."""

_QUANTITIES = {"time": "trace_time", "duration": "trace_time", "cpu": "cpu", "priority": "priority"}
_INTEGERS = ("time", "duration", "priority")


def read_google_jobs(source: str | Path | Iterable[str | Path], days: int | None = None) -> JobTrace:
    """Read jobs from per-day CSV(.gz) files ``time,task_id,duration,cpu,priority``.

    ``time`` is the first schedule event and ``duration`` the running time, both in microseconds of the
    trace's clock, from which 600 s are taken off; ``cpu`` is in machines. Rows need not be sorted. Jobs
    with no duration, no CPU or more CPU than a machine are dropped. So are those whose time is below
    600 s: the trace says of them only that they were running before it began, not since when.
    ``JobTrace.counts`` tells how many of each there were.

    :param source: a folder (all of its ``*.csv`` and ``*.csv.gz``), a file or several files
    :param days: length of the trace (default: up to the end of the day of the last job that is kept)
    :raises TraceError: naming file and line, for a missing or truncated file, missing columns, values that
        are no numbers or beyond their limits, and tasks that are there twice
    """
    files = _files(source)
    parts = [_read(path) for path in files]
    _refuse_doubled_tasks(parts)
    table = pd.concat([frame for _, frame in parts], ignore_index=True)
    time, duration, priority = (table[column].to_numpy(np.int64) for column in _INTEGERS)
    try:
        return JobTrace.from_events(time - OFFSET_US, duration, table["cpu"].to_numpy(), priority, days)
    except TraceError as error:
        raise TraceError(f"{files[0]}{' and the others' if len(files) > 1 else ''}: {error}") from None


def _files(source: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return the files to read, day 2 before day 10."""
    if not isinstance(source, str | Path):
        files = [Path(path) for path in source]
    elif Path(source).is_dir():
        found = [path for pattern in ("*.csv", "*.csv.gz") for path in Path(source).glob(pattern)]
        files = sorted(found, key=lambda path: [int(n) if n.isdigit() else n for n in _words(path)])
    else:
        files = [Path(source)]
    if not files:
        raise TraceError(f"{source}: holds no *.csv or *.csv.gz")
    return files


def _words(path: Path) -> list[str]:
    """Split a file's name into its texts and its numbers, in turn."""
    return re.split(r"(\d+)", path.name)


def _read(path: Path) -> tuple[Table, pd.DataFrame]:
    table = read_table(read_file(path), str(path))
    ids = [column for column in table.columns if column == TASK_ID]
    frame = table.read(COLUMNS, ids, empty=ids)
    for column, quantity in _QUANTITIES.items():
        values = table.check(column, frame[column].to_numpy(np.float64), quantity)
        if column in _INTEGERS:
            table.refuse(np.floor(values) != values, f"{column} must be a whole number")
    return table, frame


def _refuse_doubled_tasks(parts: Sequence[tuple[Table, pd.DataFrame]]) -> None:
    """Refuse a task that is there twice, in one file or in two; files without ids cannot tell."""
    ids = [task for _, frame in parts for task in frame.get(TASK_ID, ()) if isinstance(task, str)]
    if len(set(ids)) == len(ids):
        return
    seen: dict[str, str] = {}
    for table, frame in parts:
        for row, task in enumerate(frame.get(TASK_ID, ())):
            if task in seen:
                raise table.error(row, f"{TASK_ID}={task!r} is that of {seen[task]}, too")
            if isinstance(task, str):
                seen[task] = f"{table.name}, {table.place(row)}"
