"""Clocks: where an episode's dates lie in series that repeat."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.cluster.layout import DAY
from greendc.config import require
from greendc.records import Ints
from greendc.traces.limits import LIMITS
from greendc.traces.log_clock import fixed

YEAR = 365 * DAY
"""A series of so many seconds or more has every month and day, but for one."""
PATTERNS = (DAY, 7 * DAY)
"""Lengths of series that stand for every day or week."""
_EPOCH = datetime(1970, 1, 1)
_LONGEST = 1000 * YEAR
_FROM_MIDNIGHT = "from its first midnight on"
_EXAMPLE = "'2024-03-01T08:00:00-06:00'"


def read_start(field: str, text: str) -> datetime:
    """Return a date and time in ISO 8601, with or without an offset from UTC.

    :param field: what errors call it
    :raises ValueError: for anything else
    """
    try:
        time = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{field}={text!r}: must be a date and time such as {_EXAMPLE}") from None
    check_start(field, time)
    return time


def check_start(field: str, start: object) -> None:
    """Refuse what is neither ``None`` nor a date and time of a reasonable year.

    :param field: what errors call it
    :raises ValueError: for anything else
    """
    if start is None:
        return
    require(isinstance(start, datetime), field, start, "a datetime, or None")
    assert isinstance(start, datetime)
    bad = LIMITS["year"].outside(np.array(float(start.year))).any()
    require(not bad, field, str(start), f"of the years {LIMITS['year']}")


def seconds_on(name: str, start: datetime, base: datetime, owner: str) -> int:
    """Return seconds from 1970 to ``start`` on the clock of ``base``.

    :param name: the field that ``start`` is of, for errors
    :param owner: whose clock it is, for errors
    :raises ValueError: if one has an offset from UTC and the other has none
    """
    aware, other = start.utcoffset() is not None, base.utcoffset() is not None
    hint = f"; log_start={_EXAMPLE}, with or without -06:00, says what it is" if owner == "the log" else ""
    require(
        aware == other,
        name,
        f"times {'with' if aware else 'without'} a time zone",
        f"on {owner}'s clock, whose times are {'with' if other else 'without'} one{hint}",
    )
    if aware:
        start = start.astimezone(fixed(base).tzinfo)
    return round((start.replace(tzinfo=None) - _EPOCH).total_seconds())


def whole_days(name: str, times: Ints, values: NDArray[Any], period: int) -> tuple[Ints, NDArray[Any], int]:
    """Let a series last whole days, so that it keeps the time of day when it begins again.

    What its last day lacks is taken from the same time of its first day.

    :param name: the field that the series is of, for errors
    :param times: ``(S,)`` seconds at which it changes, from 0 up
    :param values: ``(S,)``
    :param period: seconds after which it repeats
    :return: times, values and period
    :raises ValueError: for a series of less than a day
    """
    require(period >= DAY, name, f"a series of {period} s", "one of a day or more, since the log has a clock")
    rest = period % DAY
    if rest == 0:
        return times, values, period
    first = int(np.searchsorted(times, rest, side="right")) - 1
    more = np.flatnonzero((times > rest) & (times < DAY))
    days = period - rest
    added = np.r_[period, times[more] + days]
    return np.r_[times, added], np.r_[values, values[first], values[more]], days + DAY


@dataclass(frozen=True)
class Calendar:
    """The dates of a series that repeats.

    :param name: the field that the series is of, for errors
    :param begin: seconds from 1970 to its second 0, on the log's clock
    :param period: seconds after which it repeats
    """

    name: str
    begin: int
    period: int

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for every day or week."""
        return self.period in PATTERNS

    def holds(self, low: int, high: int) -> bool:
        """Return whether all times from ``low`` to ``high``, seconds from 1970, are of its own dates."""
        return self.begin <= low and high < self.begin + self.period

    def second(self, time: int) -> int:
        """Return where a time lies in the series, in seconds from 0 to below the period.

        At its own date if it has that. Else, in a series of a year or more, at the same month, day and time
        of day, of the first year that has it (of the day before if none has); in others as they repeat.

        :param time: seconds from 1970
        """
        since = time - self.begin
        if 0 <= since < self.period or self.period < YEAR:
            return since % self.period
        years = range(self._date(self.begin).year, self._date(self.begin + self.period).year + 1)
        for day in (self._date(time), self._date(time - DAY)):
            for year in years:
                try:
                    found = round((day.replace(year=year) - _EPOCH).total_seconds()) - self.begin
                except ValueError:  # 29 February
                    continue
                if 0 <= found < self.period:
                    return found
        return since % self.period

    @staticmethod
    def _date(seconds: int) -> datetime:
        return _EPOCH + timedelta(seconds=seconds)

    def laid_on(self, low: int, high: int) -> str:
        """Return in words how times from ``low`` to ``high`` find their place.

        :raises ValueError: if the series has nothing to say of them; names the field
        """
        if self.holds(low, high):
            return "by date"
        if self.is_pattern:
            return f"every {'day' if self.period == DAY else 'week'} alike"
        require(
            self.period >= YEAR,
            self.name,
            f"{self._date(self.begin)} to {self._date(self.begin + self.period)}",
            f"a series that covers {self._date(low)} to {self._date(high)}, or one of a year or more, which "
            "is laid on by month, day and time of day, or of one day or week, which is repeated",
        )
        return "by date where it has that, else by month, day and time of day"


class Clocks:
    """Where the episodes of a log begin in the series of power and carbon.

    :param jobs_start: what the clock shows at second 0 of the log, ``None`` where that is not known
    :param submits: when the first and the last job that episodes may use were submitted, the log's seconds
    :param power: start and period of the power series, ``None`` without one; its start may be ``None``
    :param carbon: likewise; a constant has no start
    :param draws: whether a day of the power series is drawn for each episode
    :raises ValueError: for series that are not on the log's clock, or have nothing to say of its time
    """

    def __init__(
        self,
        jobs_start: datetime | None,
        submits: tuple[int, int],
        power: tuple[datetime | None, int] | None,
        carbon: tuple[datetime | None, int],
        draws: bool,
    ) -> None:
        base, owner = jobs_start, "the log"
        if base is None and power is not None:
            base, owner = power[0], "power"
        if base is None:
            base, owner = carbon[0], "carbon"
        self.start = None if jobs_start is None else seconds_on("log_start", jobs_start, jobs_start, owner)

        def calendar(name: str, series: tuple[datetime | None, int] | None) -> Calendar | None:
            if series is None or series[0] is None:
                return None
            assert base is not None
            length = f"a series of {series[1]} s"
            require(series[1] <= _LONGEST, name, length, "one of at most 1000 years, since it has a start")
            return Calendar(name, seconds_on(name, series[0], base, owner), series[1])

        words = f"{submits[1]} s after second 0"
        require(self.start is None or submits[1] <= _LONGEST, "submit", words, "within 1000 years of it")
        days = 0 if power is None else power[1] // DAY
        self.days = days if draws and days >= 2 else 0
        self.power, self.carbon = calendar("power", power), calendar("carbon", carbon)
        self._check(submits, power)

    @property
    def midnight(self) -> int:
        """What the clock shows at second 0 of the log, in seconds from midnight; 0 where it is not known."""
        return 0 if self.start is None else self.start % DAY

    @property
    def _dated(self) -> bool:
        """Whether an episode has the dates of the power series, not those of the log."""
        power = self.power
        return power is not None and not power.is_pattern and (self.days > 0 or self.start is None)

    def _check(self, submits: tuple[int, int], power: tuple[datetime | None, int] | None) -> None:
        """Refuse series that have nothing to say of the episodes' time; note how others are laid on."""
        self._manners = {} if power is None else {"power": "second 0 is that of the log"}
        low, high = (time + (self.start or 0) for time in submits)
        if self.days > 0:
            self._manners["power"] = f"a day of {self.days}, drawn by the seed"
            self._manners["power"] += "" if self.power is None else ", at the log's time of day"
        elif self.power is not None:
            self._manners["power"] = _FROM_MIDNIGHT if self.start is None else self.power.laid_on(low, high)
        if self.carbon is None:
            return
        if self._dated:
            assert self.power is not None
            low, high = self.power.begin, self.power.begin + self.power.period - 1
            self._manners["carbon"] = f"{self.carbon.laid_on(low, high)}, at the dates of the power"
        elif self.start is None:
            self._manners["carbon"] = _FROM_MIDNIGHT
        else:
            later = power[1] - DAY if self.days > 0 and power is not None else 0
            self._manners["carbon"] = self.carbon.laid_on(low, high + later)

    def shifts(self, submit: int, rng: np.random.Generator) -> tuple[int, int]:
        """Return what is added to the log's seconds to read the power series, and the carbon series.

        :param submit: when the episode's first job was submitted, the log's seconds
        :param rng: of the day of the power series
        """
        day = int(rng.integers(self.days)) * DAY if self.days > 0 else 0
        power = day
        if self.power is not None:
            power = self._power_shift(submit, day)
        if self.carbon is None:
            return power, power
        if self._dated:
            assert self.power is not None
            date = self.power.begin + (submit + power) % self.power.period
        elif self.start is None:
            return power, day + -self.carbon.begin % DAY
        else:
            date = self.start + submit + day
        return power, self.carbon.second(date) - submit

    def _power_shift(self, submit: int, day: int) -> int:
        assert self.power is not None
        if self.start is None:
            return day + -self.power.begin % DAY
        time = self.start + submit
        if self.days > 0:
            return (time - self.power.begin) % DAY + day - submit
        return self.power.second(time) - submit

    def describe(self) -> dict[str, str]:
        """Return in words what the clock of the log is, and how each series is laid onto its time."""
        words = "not known: second 0 is taken for midnight"
        if self.start is not None:
            words = f"second 0 is {_EPOCH + timedelta(seconds=self.start)}"
        return {"log": words, **self._manners}
