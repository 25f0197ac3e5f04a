"""A carbon series on the steps of a power trace: its values of that time, else those of its calendar."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from greendc.resource_pool.covering import elapsed_hours
from greendc.traces.power import CarbonTrace, PowerTrace, resample
from greendc.traces.time_series import open_table, time_column
from sb3_greendc.experiments.my_site.assumptions import Assumption

_ROUNDING = 1e-6
"""Of a step: what is nearer than that to a step's edge is on it."""
_UTC = re.compile(r"(?:\b|(?<=time|date))(?:utc|gmt)\b(?!\W*(?:\d|offset))")
"""What a column says that is in UTC: UTC+1 and a UTC offset are something else."""


@dataclass(frozen=True, eq=False)
class LaidCarbon:
    """The carbon intensity of each step of a power trace.

    :param kg_per_kwh: ``(T,)`` float64
    :param by_calendar: how many of the steps the series does not cover
    :param clock: how its clock was brought to the power's, in a sentence
    :param unclear: whether a file has no offsets from UTC, and nobody says more
    """

    kg_per_kwh: NDArray[np.float64]
    by_calendar: int
    clock: str
    unclear: bool

    @property
    def said(self) -> str:
        """Whose times the values are of, for the report."""
        total = len(self.kg_per_kwh)
        if not self.by_calendar:
            return "at the times of the power"
        if self.by_calendar == total:
            return "of another time, laid onto the power's calendar"
        return (
            f"at the times of the power, but for {self.by_calendar:,} of {total:,} steps that it does not "
            "cover: for these it was laid onto the power's calendar"
        )


def lay_on(
    carbon: CarbonTrace, power: PowerTrace, clock: float | None = None, utc: Collection[str] = ()
) -> LaidCarbon:
    """Return the carbon intensity of each step of a power trace.

    A step that the series covers gets its mean over the step. Any other gets the value of the same month, day
    and hour, the mean of several years; where the series has none for up to a day (29 February), that of the
    hour before. Steps after days that were closed up keep their own times.

    :param carbon: the series
    :param power: the trace
    :param clock: hours to add to the series' clock; ``None``: what the offsets from UTC of both say, if both
        have one (of the trace, that of its first step), else 0
    :param utc: ``"carbon"`` and ``"power"`` if their times are in UTC where they have no offsets
    :raises ValueError: if the series has nothing for longer parts of the trace's calendar
    """
    step = power.step_hours
    begin, wanted_begin, said, unclear = _begin(carbon, power, clock, utc)
    lead = (wanted_begin - begin) / timedelta(hours=step)  # steps from the series' start to the trace's
    first = int(np.floor(lead + _ROUNDING))
    after = step * (lead - first) if lead - first > _ROUNDING else 0.0
    values = _means(carbon, step, after)
    moved = elapsed_hours(power)
    places = first + np.round(moved / step).astype(np.int64)
    covered = (places >= 0) & (places < len(values))
    if covered.all():
        return LaidCarbon(values[places], 0, said, unclear)
    begin += timedelta(hours=after)
    times = _calendar(begin, np.arange(len(values), dtype=np.float64) * step)
    wanted = _calendar(wanted_begin, moved)
    by_calendar = pd.Series(values).groupby(times.strftime("%m-%d %H:%M")).mean()
    found = by_calendar.reindex(wanted.strftime("%m-%d %H:%M"))
    a_day = max(1, round(24 / step))
    laid: NDArray[np.float64] = np.array(found.ffill(limit=a_day).bfill(limit=a_day), np.float64)
    laid[covered] = values[places[covered]]
    if np.isnan(laid).any():
        known = covered | found.notna().to_numpy()
        raise ValueError(
            f"--carbon: covers {known.mean():.0%} of the power's calendar, and has nothing for "
            f"{wanted[int(np.isnan(laid).argmax())]:%d %B} and later; it must have every day of the year "
            "that the power has"
        )
    return LaidCarbon(laid, int(len(laid) - covered.sum()), said, unclear)


def about_carbon(options: argparse.Namespace, carbon: CarbonTrace, laid: LaidCarbon) -> Iterator[Assumption]:
    """Return what was assumed of the series' time."""
    total = len(laid.kg_per_kwh)
    when = laid.clock
    if laid.by_calendar == total:
        when = f"{when}; " if laid.unclear else ""
        when += (
            f"the series begins {carbon.start:%Y-%m-%d}; it is of another time than the power, and was laid "
            "onto its calendar, day by day and hour by hour: its weather is not that of the power"
        )
    elif laid.by_calendar:
        when += (
            f"; the series covers {total - laid.by_calendar:,} of {total:,} steps; the others have its "
            "values of the same day and hour"
        )
    yield Assumption("clock of the carbon file", when, "--carbon-clock", options.carbon_clock is not None)


def says_utc(path: Path, time: str | None = None) -> bool:
    """Tell whether the column of time stamps of a file is in UTC by its name, as in ``Datetime (UTC)``.

    :param path: a file that :func:`~greendc.traces.power.read_carbon` or its like reads
    :param time: name of the column, if it was told
    """
    column = time_column(open_table(path), time)
    return _UTC.search(column.lower().replace("_", " ")) is not None


def _begin(
    carbon: CarbonTrace, power: PowerTrace, clock: float | None, utc: Collection[str]
) -> tuple[datetime, datetime, str, bool]:
    """Return when series and trace begin on the power's clock, how that is known, and if it is unclear."""
    starts, how = {"carbon": carbon.start, "power": power.start}, {}
    for name, start in starts.items():
        how[name] = "has offsets from UTC"
        if name in utc and start.tzinfo is None:
            starts[name] = start.replace(tzinfo=timezone.utc)
            how[name] = "is in UTC, by the name of its column of times"
    offset, of_carbon = starts["power"].utcoffset(), starts["carbon"].utcoffset()
    begin = _whole_step(starts["carbon"], carbon.step_hours)
    first = _whole_step(power.start.replace(tzinfo=None), power.step_hours)
    if clock is not None:
        begin = begin.replace(tzinfo=None) + timedelta(hours=clock)
        return begin, first, f"{clock:+g} h were added to it", False
    begin_here = begin.replace(tzinfo=None)
    if offset is None and of_carbon is None:
        said = "neither file has offsets from UTC; both were taken to have the same clock"
        return begin_here, first, f"{said}: say --carbon-clock if they have not", True
    if offset == of_carbon:
        return begin_here, first, "both files have the same clock", False
    if offset is not None and of_carbon is not None:
        apart, here = offset - of_carbon, timezone(offset)
        begin = _whole_step(starts["carbon"], carbon.step_hours, apart).astimezone(here)
        first = _whole_step(starts["power"], power.step_hours, apart).replace(tzinfo=None)
        said = "both files have offsets from UTC, and were brought to one clock"
        if len(set(how.values())) > 1:
            whose = ", ".join(f"the {name} file {word}" for name, word in how.items())
            said = f"{whose}; they were brought to one clock"
        return begin.replace(tzinfo=None), first, said, False
    alone, other = ("carbon", "power") if offset is None else ("power", "carbon")
    said = f"the {alone} file alone {how[alone]}; the {other} file was taken to have the same clock"
    return begin_here, first, f"{said}: say --carbon-clock if it has not", True


def _means(carbon: CarbonTrace, step: float, after: float) -> NDArray[np.float64]:
    """Return means of the series over steps that begin some hours after its start."""
    if carbon.step_hours == step and not after:
        return carbon.kg_per_kwh
    return resample(carbon.kg_per_kwh, carbon.step_hours, step, after)


def _calendar(begin: datetime, hours: NDArray[np.float64]) -> pd.DatetimeIndex:
    return (pd.Timestamp(begin) + pd.to_timedelta(hours, unit="h")).round("s")


def _whole_step(time: datetime, step_hours: float, apart: timedelta = timedelta(0)) -> datetime:
    """Return the beginning of the hour, or of a shorter step: some stamp means at the middle of it.

    Where two clocks are no whole number of such steps apart, a stamp that begins one in UTC stays as it is:
    5:30 in India is a full hour elsewhere.
    """
    step = timedelta(hours=min(step_hours, 1.0))
    if apart % step:
        in_utc = time.astimezone(timezone.utc)
        if in_utc == _whole_step(in_utc, step_hours):
            return time
    found: datetime = pd.Timestamp(time.replace(tzinfo=None)).floor(pd.Timedelta(step)).to_pydatetime()
    return found.replace(tzinfo=time.tzinfo)
