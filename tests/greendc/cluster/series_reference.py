"""Series that repeat, and where the dates of an episode lie in them: plain and slow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

FOREVER = 2**62
DAY = timedelta(days=1)


@dataclass
class Series:
    """Stretches of constant value that repeat."""

    times: list[int]
    values: list[float]
    period: int

    def at(self, time):
        phase = time % self.period
        return [v for t, v in zip(self.times, self.values, strict=True) if t <= phase][-1]

    def next_change(self, time):
        if len(self.times) == 1:
            return FOREVER
        phase = time % self.period
        return time - phase + min([t for t in self.times if t > phase], default=self.period)

    def integral(self, time):
        """From 0 to ``time``."""
        ends = [*self.times[1:], self.period]
        sums = [0.0]
        for t, end, value in zip(self.times, ends, self.values, strict=True):
            sums.append(sums[-1] + value * (end - t))
        phase = time % self.period
        k = max(i for i, t in enumerate(self.times) if t <= phase)
        return (time // self.period) * sums[-1] + (sums[k] + self.values[k] * (phase - self.times[k]))


def wall(start, of):
    """What the clock of ``of`` shows at an instant, without an offset."""
    if start is None or start.tzinfo is None:
        return start
    return start.astimezone(of.tzinfo).replace(tzinfo=None)


def place(begin: datetime, period: int, when: datetime) -> int:
    """The second of a series from ``begin`` on that a time is read at."""
    end = begin + timedelta(seconds=period)
    if not begin <= when < end and end - begin >= 365 * DAY:
        when = same_day(begin, end, when) or same_day(begin, end, when - DAY)
    while when < begin:
        when += timedelta(seconds=period)
    while when >= end:
        when -= timedelta(seconds=period)
    return round((when - begin).total_seconds())


def same_day(begin: datetime, end: datetime, when: datetime) -> datetime | None:
    """The first time in the series with the month, day and time of day of ``when``."""
    day = datetime.combine(begin.date(), when.time())
    while day < end:
        if day >= begin and (day.month, day.day) == (when.month, when.day):
            return day
        day += DAY
    return None
