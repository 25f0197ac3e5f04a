"""Time stamps of tables: read by one rule, and kept within two centuries before room is made for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.lazy import LazyModule
from greendc.traces.limits import LIMITS
from greendc.traces.table_reader import Table

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


HOUR = 3_600_000_000
"""Microseconds."""

_OFFSET = re.compile(r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$")
_DATE = 10  # characters of a date
_SHOWN = 40

TIME_OF_READING = ("now", "today")
"""Words that pandas takes for the time at which it reads them."""


def parse_times(cells: pd.Series) -> pd.Series:
    """Return times in UTC, NaT where a cell is no date and time in ISO 8601.

    :param cells: texts, or the dates and times of a Parquet file; without an offset they are UTC
    """
    if _are_texts(cells):
        cells = cells.mask(cells.isin(TIME_OF_READING))
    # UTC tells rows with different offsets (a clock that changes in summer) apart; it does not move others.
    parsed: pd.Series = pd.to_datetime(cells, utc=True, errors="coerce", format="ISO8601")
    return parsed


def _are_texts(cells: pd.Series) -> bool:
    return cells.dtype == object or isinstance(cells.dtype, pd.StringDtype)


def read_stamps(table: Table, column: str, cells: pd.Series) -> NDArray[np.int64]:
    """Return microseconds since 1970 (UTC) of each row.

    :param table: for errors
    :param column: the name of the column
    :param cells: ISO 8601 texts, or the dates and times of a Parquet file; without an offset they are UTC
    :raises TraceError: for a cell that is no date and time or beyond all reason, and for rows with and
        without an offset from UTC in one column
    """

    def refuse(bad: NDArray[np.bool_], must: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise table.error(row, f"{column}={str(cells.iloc[row])[:_SHOWN]!r}: must be {must}")

    parsed = parse_times(cells)
    refuse(parsed.isna().to_numpy(), "a date and time (ISO 8601, as in 2019-05-01 00:00:00+00:00)")
    years = parsed.dt.year.to_numpy().astype(np.float64)
    refuse(LIMITS["year"].outside(years), f"of the years {LIMITS['year']}")
    if _are_texts(cells):
        # A time has one sign or Z where it has an offset; counting them is ten times faster than looking.
        ends = "".join([str(cell)[_DATE:] for cell in cells])
        if ends.count("+") + ends.count("-") + ends.count("Z") not in (0, len(cells)):
            aware = np.array([_OFFSET.search(str(cell)) is not None for cell in cells])
            unlike = aware != aware[0]
            refuse(unlike, f"{'with' if aware[0] else 'without'} an offset from UTC, as in the first row")
    return parsed.to_numpy("datetime64[us]").astype(np.int64)


def regular_times(table: Table, column: str, cells: pd.Series, minutes: int) -> NDArray[np.datetime64]:
    """Return time stamps as UTC seconds, after checking that each follows the last in one step.

    :param table: for errors
    :param column: the name of the column
    :param cells: as for :func:`read_stamps`
    :param minutes: the step; the first stamp must be a multiple of it past midnight
    :raises TraceError: for a stamp that is no time, is doubled, goes back, or leaves a gap
    """
    stamps = read_stamps(table, column, cells)
    step = minutes * 60_000_000
    table.refuse(stamps % step != 0, f"{column} must be a multiple of {minutes} minutes")
    late = np.diff(stamps, prepend=stamps[:1] - step)
    table.refuse(late == 0, f"{column} is that of the line before")
    table.refuse(late < 0, f"{column} goes back")
    table.refuse(late != step, f"{column} must be {minutes} minutes after the line before: rows are missing")
    return (stamps // 1_000_000).astype("datetime64[s]")
