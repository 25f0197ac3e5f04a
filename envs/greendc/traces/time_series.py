"""Reads regular time series from tables: the clock is checked, no gap is closed unasked or uncounted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.config import require_one_of
from greendc.lazy import LazyModule
from greendc.traces.carbon_feed import parse_feed
from greendc.traces.clocks import HOUR, read_stamps
from greendc.traces.defects import LONGEST_HOURS, most_made_up
from greendc.traces.limits import LIMITS
from greendc.traces.parquet_reader import read_parquet
from greendc.traces.table_reader import Table, read_table
from greendc.traces.trace_files import TraceError, UnclearTraceError, read_file

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


GAPS = ("error", "interpolate", "join", "mend", "bridge")
"""What :func:`read_columns` may do about missing values and steps."""


@dataclass(frozen=True, eq=False)
class Series:
    """Columns of a table on a regular clock.

    :param columns: ``(T,)`` float64 each, without NaN
    :param step_hours: length of a step in hours
    :param start: time stamp of the first row, aware of its time zone if the file is
    :param counts: values and steps that were filled or left out, by kind
    :param closed_up: where rows moved up: hours after the start, as rows now are, and hours left out there
    """

    columns: dict[str, NDArray[np.float64]]
    step_hours: float
    start: datetime
    counts: dict[str, int]
    closed_up: tuple[tuple[float, float], ...] = ()


def open_table(path: str | Path) -> Table:
    """Open a CSV or JSON (plain or ``.gz``) or Parquet table; JSON is a forecast of carbon intensity.

    :raises TraceError: if it cannot be read, has no rows, or two columns of one name; see
        :func:`~greendc.traces.table_reader.read_table`
    :raises ImportError: for Parquet, if pyarrow is missing; says how to install it
    """
    name = str(path)
    parquet = name.endswith((".parquet", ".pq"))
    if name.endswith((".json", ".json.gz")):
        return parse_feed(read_file(path), name)
    table = read_parquet(path) if parquet else read_table(read_file(path), name)
    if len(table) == 0:
        raise TraceError(f"{name}: the table has no rows")
    return table


def read_columns(
    table: Table,
    factors: Mapping[str, float],
    quantity: str,
    time: str | None = None,
    gaps: str = "error",
) -> Series:
    """Take columns of numbers from a table whose rows follow each other at one interval.

    :param table: the table
    :param factors: names of columns of numbers, and what turns each into the unit of ``quantity``
    :param quantity: what they are, a key of :data:`~greendc.traces.limits.LIMITS`
    :param time: the column of time stamps (default: the first whose name begins with time or date)
    :param gaps: what to do about empty cells and missing steps: ``"error"``, ``"interpolate"`` (straight
        lines, for at most as many steps as there are rows), ``"join"`` (the rows after whole missing days
        move up, as if the clock had stood still; for files without 29 February; other gaps and empty cells
        stay an error), ``"mend"`` (that, and gaps of up to a day are interpolated) or ``"bridge"`` (empty
        cells and missing steps are interpolated, up to a day in a row); with the last two, no more than a
        tenth of the rows is made up; counted in the result
    :raises TraceError: for values beyond the limits of their quantity, for times that cannot be read, do not
        rise, or are irregular, and for gaps unless they may be closed; names the line
    :raises ValueError: for another ``gaps``
    """
    require_one_of("gaps", gaps, GAPS)
    column = time_column(table, time)
    columns = list(factors)
    empties = gaps in ("interpolate", "bridge")
    frame = table.read(columns, [column], empty=columns if empties else ())
    stamps = read_stamps(table, column, frame[column])
    index, step_hours = _grid(table, stamps)
    missing = np.diff(index) - 1
    joins = gaps in ("join", "mend")
    joined = missing * (_whole_days(missing * step_hours) & joins)
    _refuse_gaps(table, gaps, missing, missing - joined, step_hours)
    index -= np.append(0, np.cumsum(joined))
    closed_up = tuple(
        (float(index[row + 1] * step_hours), float(joined[row] * step_hours))
        for row in np.flatnonzero(joined)
    )
    counts = {
        "missing_steps": int(missing.sum()),
        "gaps": int(np.count_nonzero(missing)),
        "missing_values": 0,
    }
    if gaps == "mend":
        counts["interpolated_steps"] = int((missing - joined).sum())
    result = {}
    for name, factor in factors.items():
        values = table.check(name, frame[name].to_numpy(np.float64), quantity, factor)
        empty = np.isnan(values)
        if empty[0] or empty[-1]:
            raise table.error(0 if empty[0] else len(empty) - 1, f"{name} is missing")
        counts["missing_values"] += int(np.count_nonzero(empty))
        if gaps == "bridge":
            _refuse_made_up(table, name, index, empty, step_hours)
        if empties or gaps == "mend":
            values = np.interp(np.arange(index[-1] + 1), index[~empty], values[~empty])
        result[name] = values
    start = pd.Timestamp(frame[column].iloc[0]).to_pydatetime()
    return Series(result, step_hours, start, counts, closed_up)


def _whole_days(hours: NDArray[np.float64]) -> NDArray[np.bool_]:
    days: NDArray[np.bool_] = np.abs(hours / 24.0 - np.round(hours / 24.0)) < 1e-9
    return days


def _refuse_gaps(
    table: Table, gaps: str, missing: NDArray[np.int64], left: NDArray[np.int64], step_hours: float
) -> None:
    """Raise an error for a gap that is not to be closed, or if more would be made up than is there.

    :param gaps: as in :func:`read_columns`
    :param missing: ``(T - 1,)`` steps between a row and the next
    :param left: of these, those that are not closed up
    :param step_hours: length of a step
    """

    def refuse(row: np.intp, why: str) -> None:
        raise table.error(int(row) + 1, f"a gap of {missing[row]} missing step(s) of {step_hours:g} h{why}")

    if gaps == "error" and missing.any():
        refuse(np.argmax(missing > 0), ' (gaps="interpolate" fills it, gaps="join" closes up whole days)')
    if gaps == "join" and left.any():
        refuse(
            np.argmax(left > 0), ' is not of whole days, as gaps="join" needs (gaps="interpolate" fills it)'
        )
    if gaps == "mend" and (left * step_hours > LONGEST_HOURS).any():
        refuse(
            np.argmax(left * step_hours > LONGEST_HOURS),
            " is neither of whole days nor shorter than one",
        )
    rows = len(missing) + 1
    if gaps == "mend" and left.sum() > most_made_up(rows):
        refuse(np.argmax(left > 0), ": more than a tenth of the steps would be made up")
    if gaps != "bridge" and left.sum() > rows:
        refuse(np.argmax(left), f": more steps would be made up than the {rows} that are there")


def _refuse_made_up(
    table: Table, name: str, index: NDArray[np.int64], empty: NDArray[np.bool_], step_hours: float
) -> None:
    """Raise an error if more than a day in a row, or a tenth of a column's steps, would be made up.

    :param table: for the error
    :param name: of the column
    :param index: ``(T,)`` which step each row is
    :param empty: ``(T,)`` rows without a value
    :param step_hours: length of a step
    """
    known = np.flatnonzero(~empty)
    made_up = np.diff(index[known]) - 1
    long = made_up * step_hours > LONGEST_HOURS
    if long.any():
        first = int(np.argmax(long))
        hours = made_up[first] * step_hours
        raise table.error(
            int(known[first]) + 1,
            f"{name}: no values for {hours:g} h; more than a day in a row is not made up",
        )
    if made_up.sum() > most_made_up(int(index[-1]) + 1):
        raise table.error(
            int(known[np.argmax(made_up > 0)]) + 1,
            f"{name}: no values for {made_up.sum():,} steps; more than a tenth is not made up",
        )


def time_column(table: Table, time: str | None = None) -> str:
    """Return the column of time stamps: ``time``, or the first whose name begins with time or date.

    :raises TraceError: if there is none
    """
    if time is not None:
        return table.require_column(time)
    for column in table.columns:
        if column.lower().startswith(("time", "date")):
            return column
    raise UnclearTraceError(
        f"{table.name}: no column of time stamps (none of {', '.join(map(repr, table.columns))} "
        "begins with time or date)",
        "time",
    )


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
        found, usual = f"{steps[row] / HOUR:g} h", f"{step / HOUR:g} h"
        raise table.error(
            row + 1, f"irregular: {found} after the row before, but most rows are {usual} apart"
        )
    limit = LIMITS["step"]
    if limit.outside(np.array([step / HOUR]))[0]:
        raise TraceError(f"{table.name}: rows are {step / HOUR:g} h apart; must be {limit}")
    return (stamps - stamps[0]) // step, step / HOUR
