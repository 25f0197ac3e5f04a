"""Reads CSV tables of numbers strictly: whatever is wrong is one error that names the file and the line."""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class TraceError(ValueError):
    """A trace file that is missing, damaged or not what it should be."""


class UnclearTraceError(TraceError):
    """A trace file that can be read once its reader is told how.

    :param problem: what is not clear
    :param options: keyword arguments of the reader, any of which would tell it
    """

    def __init__(self, problem: str, *options: str) -> None:
        super().__init__(problem, *options)
        self.problem, self.options = problem, options

    def __str__(self) -> str:
        return self.told_with(f"{option}=..." for option in self.options)

    def told_with(self, options: Iterable[str]) -> str:
        """Return the message, with the options by the names that they have for the user."""
        return f"{self.problem}: say {' or '.join(options)}"


def read_text(path: str | Path) -> bytes:
    """Return what the file holds, unpacked if its name ends in ``.gz``.

    :raises TraceError: if the file is missing, unreadable, empty or cut short
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None
    return unpack(data, str(path))


def unpack(data: bytes, name: str) -> bytes:
    """Return ``data``, unpacked if ``name`` ends in ``.gz``; errors as for :func:`read_text`."""
    if name.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceError(f"{name}: truncated or damaged gzip file ({error})") from None
    if not data:
        raise TraceError(f"{name}: the file is empty")
    return data


def read_table(data: bytes, name: str, numbers: Sequence[str], texts: Sequence[str] = ()) -> pd.DataFrame:
    """Parse CSV with a header line; columns may stand in any order, and further ones are left out.

    :param data: the text of the file
    :param name: what errors call the file
    :param numbers: columns that must be finite numbers; float64 in the result
    :param texts: columns that may hold anything but nothing
    :return: one row for each line after the header, so row ``i`` is line ``i + 2`` of the file
    :raises TraceError: for missing columns, and for a cell that is empty or not a finite number
    """
    columns = [*texts, *numbers]
    header = data.split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip().split(",")
    missing = [column for column in columns if column not in header]
    if missing:
        raise TraceError(
            f"{name}, line 1: no column {missing[0]!r} (the columns must be {','.join(columns)})"
        )
    if not data.endswith(b"\n"):
        last = data.count(b"\n") + 1
        raise TraceError(f"{name}, line {last}: the file is truncated (its last line has no end)")
    _check_fields(data, name, len(header))
    try:
        table = _parse(data, columns, dict.fromkeys(numbers, "float64"))
    except (ValueError, pd.errors.ParserWarning):
        table = _parse_cells(data, name, columns)
    for column in texts:
        refuse(table[column].isna().to_numpy(), name, f"{column} is missing")
    for column in numbers:
        values = pd.to_numeric(table[column], errors="coerce").to_numpy(np.float64)
        refuse(~np.isfinite(values), name, f"{column} must be a finite number")
        table[column] = values
    return table[columns]


def refuse(bad: NDArray[np.bool_], name: str, what: str) -> None:
    """Raise a :class:`TraceError` that names the line of the first bad row, if there is one.

    :param bad: one flag a row of a table from :func:`read_table`
    :param name: what the error calls the file
    :param what: what is wrong
    """
    if bad.any():
        raise TraceError(f"{name}, line {int(np.argmax(bad)) + 2}: {what}")


def regular_times(column: pd.Series[str], name: str, minutes: int) -> NDArray[np.datetime64]:
    """Return ISO 8601 time stamps as UTC seconds, after checking that each follows the last in one step.

    :param column: the stamps; without an offset they are taken for UTC
    :param name: what errors call the file
    :param minutes: the step; the first stamp must be a multiple of it past midnight
    :raises TraceError: for a stamp that is no time, is doubled, goes back, or leaves a gap
    """
    parsed = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
    refuse(parsed.isna().to_numpy(), name, "time must be written as in 2019-05-01 00:00:00+00:00")
    times: NDArray[np.datetime64] = parsed.dt.tz_localize(None).to_numpy().astype("datetime64[s]")
    step = np.timedelta64(60 * minutes, "s")
    refuse(
        (times - times.astype("datetime64[D]")) % step != np.timedelta64(0, "s"),
        name,
        f"time must be a multiple of {minutes} minutes",
    )
    late = np.diff(times, prepend=times[:1] - step)
    zero = np.timedelta64(0, "s")
    refuse(late == zero, name, "time is that of the line before")
    refuse(late < zero, name, "time goes back")
    refuse(late != step, name, f"time must be {minutes} minutes after the line before: rows are missing")
    return times


def _check_fields(data: bytes, name: str, fields: int) -> None:
    """Refuse lines with more or fewer fields than the header: pandas would fill up or cut off in silence."""
    if b'"' in data or data.count(b",") == (fields - 1) * data.count(b"\n"):
        return
    for number, line in enumerate(data.splitlines(), start=1):
        found = line.count(b",") + 1
        if found != fields:
            raise TraceError(f"{name}, line {number}: {found} fields, but the header names {fields}")


def _parse(data: bytes, columns: list[str], dtype: dict[str, str] | type[str]) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            io.BytesIO(data),
            usecols=columns,
            dtype=dtype,
            index_col=False,
            skip_blank_lines=False,
        )


def _parse_cells(data: bytes, name: str, columns: list[str]) -> pd.DataFrame:
    """Parse again as text, so that the cell which is not a number can be found."""
    try:
        return _parse(data, columns, str)
    except (ValueError, pd.errors.ParserWarning) as error:
        detail = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise TraceError(f"{name}: not a CSV table ({detail})") from None
