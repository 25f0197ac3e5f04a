"""The 5-minute archive of the SGIP signal: reading its files, and making hourly series of them.

A file covers a UTC month and a day on each side. A row has the stamp ``time``, the emissions rate
observed then (``moer``), and the forecast issued then for 5, 10, … 180 minutes later (``f1`` … ``f36``),
all in kg CO2/kWh. SustainGym publishes such files for May 2019 to August 2021 (CC BY 4.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.lazy import LazyModule
from greendc.traces.moer import HOURLY_COLUMNS, parse_rates
from greendc.traces.trace_files import TraceError, read_file

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


ARCHIVE_COLUMNS = ("moer", *(f"f{lead}" for lead in range(1, 37)))
"""The numbers of a row; ``f{k}`` is for ``5 k`` minutes after the row's time."""

_STEP = np.timedelta64(5, "m")


def read_moer_archive(paths: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """Read archive files as one table without gaps or doubled rows.

    :param paths: one CSV(.gz) file or several, in any order
    :return: ``time`` (UTC, every 5 minutes), ``moer`` and ``f1`` … ``f36`` (kg CO2/kWh)
    :raises TraceError: naming file and line, for a missing or truncated file, missing columns, values
        that are no numbers or no emissions rates, stamps that are missing, doubled or out of order, and
        rows in which two files differ
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    return join_archive((str(path), read_file(path)) for path in paths)


def join_archive(files: Iterable[tuple[str, bytes]]) -> pd.DataFrame:
    """Join archive files that are in memory; result and errors as for :func:`read_moer_archive`.

    :param files: name and unpacked text of each
    """
    parsed = [(name, *parse_rates(text, name, ARCHIVE_COLUMNS, minutes=5)) for name, text in files]
    if not parsed:
        raise TraceError("no MOER archive file was given")
    start = stop = min(times[0] for _, times, _ in parsed)
    for _, times, _ in sorted(parsed, key=lambda file: file[1][0]):  # before room is made for the gap
        if times[0] > stop:
            raise TraceError(
                f"the MOER archive has no rows for {stop} UTC: the file of that month is missing"
            )
        stop = max(stop, times[-1] + _STEP)
    joined = np.full((int((stop - start) / _STEP), len(ARCHIVE_COLUMNS)), np.nan)
    for name, times, values in parsed:
        first = int((times[0] - start) / _STEP)
        rows = joined[first : first + len(times)]
        differ = ~np.isnan(rows[:, 0]) & (rows != values).any(axis=1)
        if differ.any():
            # The header is line 1, and no row of such a file is empty or goes over two lines.
            line = int(np.argmax(differ)) + 2
            raise TraceError(f"{name}, line {line}: differs from another file at the same time")
        rows[:] = values
    table = pd.DataFrame(joined, columns=list(ARCHIVE_COLUMNS))
    stamps = pd.Series(start + np.arange(len(joined)) * _STEP).dt.tz_localize("UTC")
    table.insert(0, "time", stamps)
    return table


def hourly_moer(archive: pd.DataFrame) -> pd.DataFrame:
    """Average 5-minute rows over the hour.

    :param archive: a table from :func:`read_moer_archive`, of whole hours
    :return: ``time`` (UTC, the hour's beginning); ``moer``, the mean of the hour's twelve values; ``f1``,
        ``f2`` and ``f3``, the forecast issued on the hour averaged over its first, second and third hour
        (leads 5 to 60, 65 to 120 and 125 to 180 minutes)
    :raises TraceError: if the rows do not make whole hours
    """
    times = archive["time"].dt.tz_localize(None).to_numpy().astype("datetime64[s]")
    whole = (
        len(times) > 0
        and len(times) % 12 == 0
        and times[0] == times[0].astype("datetime64[h]")
        and bool((np.diff(times) == _STEP).all())
    )
    if not whole:
        raise TraceError("MOER archive: hourly means need the twelve 5-minute rows of every hour, :00 to :55")
    observed = archive["moer"].to_numpy().reshape(-1, 12)
    issued = archive[list(ARCHIVE_COLUMNS[1:])].to_numpy()[::12]
    means = [_mean_of_12(observed), *(_mean_of_12(issued[:, k : k + 12]) for k in (0, 12, 24))]
    hourly = pd.DataFrame(dict(zip(HOURLY_COLUMNS, means, strict=True)))
    hourly.insert(0, "time", archive["time"].iloc[::12].reset_index(drop=True))
    return hourly


def format_hourly(hourly: pd.DataFrame) -> bytes:
    """Return the CSV text of a table from :func:`hourly_moer`: six decimals, the same on every machine."""
    return hourly.to_csv(
        index=False, float_format="%.6f", date_format="%Y-%m-%dT%H:%MZ", lineterminator="\n"
    ).encode()


def _mean_of_12(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average over columns from left to right: NumPy's own order of summation depends on the processor."""
    total = np.zeros(len(values))
    for column in range(12):
        total += values[:, column]
    return total / 12
