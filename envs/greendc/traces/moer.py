"""Marginal operating emissions rates (MOER): what one kWh more would emit, hour by hour.

The series that ship with the package are hourly means of California's SGIP signal for two utilities,
May 2019 to August 2021; :mod:`greendc.traces.moer_archive` makes them from the 5-minute archive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from greendc.config import require, require_one_of
from greendc.traces.clocks import regular_times
from greendc.traces.limits import LIMITS
from greendc.traces.manifest import data_folder, load_checked
from greendc.traces.table_reader import read_table
from greendc.traces.trace_files import TraceError, read_file, unpack

REGIONS = {"PGE": "SGIP_CAISO_PGE", "SCE": "SGIP_CAISO_SCE"}
"""Regions that ship with the package, and what the SGIP signal calls them."""
UTC_OFFSET = -8
"""Hours from UTC to the regions' local standard time (Pacific, without daylight saving)."""
HOURLY_COLUMNS = ("moer", "f1", "f2", "f3")


def shipped_file(region: str) -> str:
    """Return the name that the manifest knows the region's hourly series by."""
    return f"moer/{region.lower()}.csv.gz"


@dataclass(frozen=True, eq=False)
class MoerSeries:
    """An hourly emissions series without gaps, and the forecasts that were archived with it.

    :param region: what it is called
    :param start: the first hour (UTC)
    :param moer: ``(H,)`` mean emissions rate of each hour, kg CO2/kWh. Zeros are real: renewable
        energy is being curtailed, and a kWh more would emit nothing
    :param forecast: ``(H, 3)`` the forecast issued when the hour begins, averaged over its first,
        second and third hour, kg CO2/kWh
    :raises ValueError: for arrays of other shapes, values beyond the limits of an emissions rate, and a start
        that is no ``numpy.datetime64`` of a whole hour
    """

    region: str
    start: np.datetime64
    moer: NDArray[np.float64] = field(repr=False)
    forecast: NDArray[np.float64] = field(repr=False)

    def __post_init__(self) -> None:
        """Check the arrays and make them read-only copies, since a series is shared once it is cached."""
        start = self.start
        known = isinstance(start, np.datetime64) and not np.isnat(start)
        hour = start.astype("datetime64[h]") if known else start
        require(known and hour == start, "start", start, "a numpy.datetime64 of a whole hour (UTC)")
        object.__setattr__(self, "start", hour)
        hours = len(self.moer)
        require(hours > 0, "moer.shape", (hours,), "at least one hour long")
        for name, width in (("moer", ()), ("forecast", (3,))):
            values = np.array(getattr(self, name), np.float64)
            shape = (hours, *width)
            require(values.shape == shape, f"{name}.shape", values.shape, f"{shape}")
            limit = LIMITS["carbon_intensity"]
            bad = values[limit.outside(values)]
            require(not bad.size, name, bad[:1].tolist(), str(limit))
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.moer)

    def times(self, utc_offset: int = 0) -> NDArray[np.datetime64]:
        """Return the beginning of every hour ``(H,)`` on the clock that is ``utc_offset`` hours from UTC."""
        hours: NDArray[np.datetime64] = self.start + np.arange(len(self)) + np.timedelta64(utc_offset, "h")
        return hours

    def month_slice(
        self,
        month: str,
        utc_offset: int = UTC_OFFSET,
        hours: int = 720,
        extra: int = 24,
        past: int = 24,
    ) -> int:
        """Return the index of the hour in which a month begins by local standard time.

        :param month: ``"YYYY-MM"``
        :param utc_offset: hours from UTC to local standard time
        :param hours: length of the episode that starts there
        :param extra: hours after it that the forecasts read
        :param past: hours before it that the forecasts read
        :raises ValueError: if the month is written otherwise, or the series does not hold all those hours
        """
        require(
            isinstance(month, str) and re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month) is not None,
            "month",
            month,
            "written 'YYYY-MM'",
        )
        first = np.datetime64(month, "M").astype("datetime64[h]") - np.timedelta64(utc_offset, "h")
        index = int((first - self.start).astype(np.int64))
        if index < past or index + hours + extra > len(self):
            last = self.start + np.timedelta64(len(self), "h")
            raise ValueError(
                f"month={month!r}: the MOER of {self.region} runs from {self.start}:00 to {last}:00 UTC, and "
                f"{past} h before the month, {hours} h of it and {extra} h more must lie in that"
                f"{self._known_months(utc_offset, hours + extra, past)}"
            )
        return index

    def _known_months(self, utc_offset: int, hours: int, past: int) -> str:
        """Name the months for which :meth:`month_slice` has an answer."""
        local = self.times(utc_offset)
        months = np.arange(local[0].astype("datetime64[M]"), local[-1].astype("datetime64[M]") + 1)
        index = (months.astype("datetime64[h]") - local[0]).astype(np.int64)
        known = months[(index >= past) & (index + hours <= len(self))]
        return f" (months {known[0]} to {known[-1]})" if known.size else ""


def read_moer(path: str | Path, region: str) -> MoerSeries:
    """Read an hourly series in the shipped form: CSV(.gz) with columns ``time,moer,f1,f2,f3``.

    :param path: the file; ``time`` is UTC and the hour's beginning
    :param region: what to call the series
    :raises TraceError: naming file and line, for a missing or truncated file, missing columns, values
        that are no numbers or no emissions rates, and hours that are missing, doubled or out of order
    """
    return _parse(read_file(path), str(path), region)


def load_moer(region: str = "PGE") -> MoerSeries:
    """Return the series that ships with the package, its checksum checked; one object per process.

    :param region: ``"PGE"`` (Pacific Gas and Electric) or ``"SCE"`` (Southern California Edison)
    :raises ValueError: for another region
    :raises TraceError: if the data folder lacks the file, or it was altered
    """
    require_one_of("region", region, REGIONS)
    return _load(region, data_folder())


@lru_cache
def _load(region: str, folder: Path) -> MoerSeries:
    """Cache by folder too: ``GREENDC_TRACES`` may change while a process runs."""
    name = shipped_file(region)
    return _parse(unpack(load_checked(name), str(folder / name)), name, region)


def _parse(data: bytes, name: str, region: str) -> MoerSeries:
    times, values = parse_rates(data, name, HOURLY_COLUMNS, minutes=60)
    return MoerSeries(region, times[0], values[:, 0], values[:, 1:])


def parse_rates(
    data: bytes, name: str, columns: Sequence[str], minutes: int
) -> tuple[NDArray[np.datetime64], NDArray[np.float64]]:
    """Read emissions rates with a regular clock from CSV text.

    :param data: the text, with a column ``time``
    :param name: what errors call the file
    :param columns: names of the columns of rates
    :param minutes: the step of the clock
    :return: times ``(T,)`` in UTC seconds, and rates ``(T, columns)`` in kg CO2/kWh
    :raises TraceError: as for :func:`read_moer`
    """
    table = read_table(data, name)
    if not len(table):
        raise TraceError(f"{name}: the file holds no rows")
    frame = table.read(columns, ["time"])
    times = regular_times(table, "time", frame["time"], minutes)
    values = frame[list(columns)].to_numpy(np.float64)
    if LIMITS["carbon_intensity"].outside(values).any():
        for column, of_column in zip(columns, values.T, strict=True):
            table.check(column, of_column, "carbon_intensity")
    return times, values
