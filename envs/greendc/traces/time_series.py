"""Reads regular time series from tables: the clock is checked, no gap is closed unasked or uncounted."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from greendc.config import nearest, require_one_of
from greendc.traces.tables import TraceError, UnclearTraceError, read_text

GAPS = ("error", "interpolate", "join")
"""What :func:`read_columns` may do about missing values and steps."""

_HOUR = np.timedelta64(1, "h") / np.timedelta64(1, "ns")


@dataclass(frozen=True, eq=False)
class Table:
    """A table as text or numbers, with the means to say where in its file something is.

    :param frame: the rows
    :param name: of the file
    :param first_row: what the file calls row 0, such as ``"line 2"``
    """

    frame: pd.DataFrame
    name: str
    first_row: str

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [str(column) for column in self.frame.columns]

    def error(self, row: int, what: str) -> TraceError:
        """Return the error that row ``row`` is ``what``."""
        word, first = self.first_row.split()
        return TraceError(f"{self.name}, {word} {int(first) + row}: {what}")

    def require_column(self, column: str) -> str:
        """Return ``column``, or raise a :class:`TraceError` that names the nearest one there is."""
        if column not in self.columns:
            known = ", ".join(map(repr, self.columns))
            raise TraceError(
                f"{self.name}: no column {column!r}{nearest(column, self.columns)} (known: {known})"
            )
        return column

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column as float64, NaN where a cell is empty.

        :raises TraceError: for a cell that is neither a finite number nor empty
        """
        cells = self.frame[column]
        values = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        bad = (cells.notna().to_numpy() & np.isnan(values)) | np.isinf(values)
        if bad.any():
            row = int(np.argmax(bad))
            raise self.error(row, f"{column}={str(cells.iloc[row])[:40]!r}: must be a finite number")
        return values


@dataclass(frozen=True, eq=False)
class Series:
    """Columns of a table on a regular clock.

    :param columns: ``(T,)`` float64 each, without NaN
    :param step_hours: length of a step in hours
    :param start: time stamp of the first row, aware of its time zone if the file is
    :param counts: values and steps that were filled or left out, by kind
    """

    columns: dict[str, NDArray[np.float64]]
    step_hours: float
    start: datetime
    counts: dict[str, int]


def read_table(path: str | Path) -> Table:
    """Read a whole CSV (plain or ``.gz``) or Parquet table.

    :raises TraceError: if it cannot be read, has no rows, or two columns of one name
    :raises ImportError: for Parquet, if pyarrow is missing; says how to install it
    """
    name = str(path)
    if name.endswith((".parquet", ".pq")):
        if importlib.util.find_spec("pyarrow") is None:
            raise ImportError(f"{name}: reading Parquet needs pyarrow: pip install pyarrow")
        try:
            table = Table(pd.read_parquet(path, engine="pyarrow").reset_index(), name, "row 1")
        except (OSError, ValueError) as error:
            raise TraceError(f"{name}: not a Parquet table ({error})") from None
    else:
        data = read_text(path).rstrip() + b"\n"
        try:
            frame = pd.read_csv(io.BytesIO(data), dtype=str, index_col=False, skip_blank_lines=False)
        except ValueError as error:
            detail = str(error).removeprefix("Error tokenizing data. C error: ").strip()
            raise TraceError(f"{name}: not a CSV table ({detail})") from None
        table = Table(frame, name, "line 2")
    if table.frame.empty:
        raise TraceError(f"{name}: the table has no rows")
    return table


def read_columns(
    table: Table, columns: Sequence[str], time: str | None = None, gaps: str = "error"
) -> Series:
    """Take columns of numbers from a table whose rows follow each other at one interval.

    :param table: the table
    :param columns: names of columns of numbers
    :param time: the column of time stamps (default: the first whose name begins with time or date)
    :param gaps: what to do about empty cells and missing steps: ``"error"``, ``"interpolate"`` (straight
        lines) or ``"join"`` (the rows after missing steps move up, as if the clock had stood still; for
        files without 29 February; empty cells stay an error); counted in the result
    :raises TraceError: for times that cannot be read, do not rise, or are irregular, and for gaps unless
        they may be closed; names the line
    """
    require_one_of("gaps", gaps, GAPS)
    stamps, start = _read_times(table, _time_column(table, time))
    index, step_hours = _grid(table, stamps)
    missing = np.diff(index) - 1
    if gaps == "error" and missing.any():
        row = int(np.argmax(missing > 0))
        raise table.error(
            row + 1,
            f"a gap of {missing[row]} missing step(s) of {step_hours:g} h "
            f'(gaps="interpolate" fills it, gaps="join" closes it up)',
        )
    counts = {
        "missing_steps": int(missing.sum()),
        "gaps": int(np.count_nonzero(missing)),
        "missing_values": 0,
    }
    result = {}
    for column in columns:
        values = table.numbers(table.require_column(column))
        empty = np.isnan(values)
        if empty.any() and (gaps != "interpolate" or empty[0] or empty[-1]):
            row = 0 if empty[0] else int(np.argmax(empty)) if gaps != "interpolate" else len(empty) - 1
            raise table.error(row, f"{column} is missing")
        counts["missing_values"] += int(np.count_nonzero(empty))
        if gaps == "interpolate":
            values = np.interp(np.arange(index[-1] + 1), index[~empty], values[~empty])
        result[column] = values
    return Series(result, step_hours, start, counts)


def _time_column(table: Table, time: str | None) -> str:
    if time is not None:
        return table.require_column(time)
    for column in table.columns:
        if column.strip().lower().startswith(("time", "date")):
            return column
    raise UnclearTraceError(
        f"{table.name}: no column of time stamps (none of {', '.join(map(repr, table.columns))} "
        "begins with time or date)",
        "time",
    )


def _read_times(table: Table, column: str) -> tuple[NDArray[np.int64], datetime]:
    """Return nanoseconds since 1970 of each row, and the first row's time stamp."""
    cells = table.frame[column]
    if pd.api.types.is_numeric_dtype(cells):
        raise TraceError(f"{table.name}: {column} holds numbers: must be dates and times")
    # UTC tells rows with different offsets (a clock that changes in summer) apart; it does not move others.
    stamps = pd.to_datetime(cells, utc=True, errors="coerce", format="ISO8601")
    bad = stamps.isna().to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        raise table.error(row, f"{column}={str(cells.iloc[row])[:40]!r}: must be a date and time (ISO 8601)")
    start = pd.Timestamp(cells.iloc[0]).to_pydatetime()
    return stamps.to_numpy("datetime64[ns]").astype(np.int64), start


def _grid(table: Table, stamps: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """Return which step of a regular clock each row is, and the clock's step in hours."""
    if len(stamps) < 2:
        raise TraceError(f"{table.name}: has one row; at least two are needed to know the step")
    steps = np.diff(stamps)
    falling = steps <= 0
    if falling.any():
        raise table.error(int(np.argmax(falling)) + 1, "the time does not come after that of the row before")
    lengths, frequency = np.unique(steps, return_counts=True)
    step = int(lengths[np.argmax(frequency)])
    odd = steps % step != 0
    if odd.any():
        row = int(np.argmax(odd))
        found, usual = f"{steps[row] / _HOUR:g} h", f"{step / _HOUR:g} h"
        raise table.error(
            row + 1, f"irregular: {found} after the row before, but most rows are {usual} apart"
        )
    return (stamps - stamps[0]) // step, float(step / _HOUR)
