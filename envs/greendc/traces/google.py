"""Google's cluster trace of May 2019, as one CSV file a day.

``scripts/fetch_traces.py google`` prints the query that makes such files of the public data set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from greendc.traces.jobs import JobTrace
from greendc.traces.tables import TraceError, read_table, read_text, refuse

COLUMNS = ("time", "duration", "cpu", "priority")
"""The columns that are read; ``task_id`` and others may be there."""
OFFSET_US = 600_000_000
"""The trace's clock shows 600 s at its start (midnight, Pacific time)."""

_LONGEST_US = 366 * 86_400_000_000
_INTEGERS = ("time", "duration", "priority")


def read_google_jobs(source: str | Path | Iterable[str | Path], days: int | None = None) -> JobTrace:
    """Read jobs from per-day CSV(.gz) files ``time,task_id,duration,cpu,priority``.

    ``time`` is the first schedule event and ``duration`` the running time, both in microseconds of the
    trace's clock, from which 600 s are taken off; ``cpu`` is in machines. Rows need not be sorted. Jobs
    with no duration, no CPU or more CPU than a machine are dropped. So are those whose time is below
    600 s: the trace says of them only that they were running before it began, not since when.
    ``JobTrace.counts`` tells how many of each there were.

    :param source: a folder (all of its ``*.csv`` and ``*.csv.gz``), a file or several files
    :param days: length of the trace (default: up to the end of the last submission's day)
    :raises TraceError: naming file and line, for a missing or truncated file, missing columns, and values
        that are negative or not numbers
    """
    files = _files(source)
    table = pd.concat([_read(path) for path in files], ignore_index=True)
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


def _read(path: Path) -> pd.DataFrame:
    name = str(path)
    table = read_table(read_text(path), name, numbers=COLUMNS)
    for column in COLUMNS:
        refuse((table[column] < 0).to_numpy(), name, f"{column} must not be negative")
    for column in _INTEGERS:
        refuse((table[column] % 1 != 0).to_numpy(), name, f"{column} must be a whole number")
    for column in ("time", "duration"):
        refuse(
            (table[column] > _LONGEST_US).to_numpy(), name, f"{column} must be microseconds, at most 366 days"
        )
    refuse((table["priority"] > np.iinfo(np.int16).max).to_numpy(), name, "priority must be at most 32767")
    return table
