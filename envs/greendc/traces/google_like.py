"""Seeded jobs with the statistics of a sample of Google's cluster trace of May 2019, so that none need ship.

Jobs come in eight streams (:mod:`greendc.traces.google_like_streams`). Each draws

- arrivals: Poisson around a mean rate that follows the hour and the weekday, times a random factor that
  persists from hour to hour;
- durations and CPU: through their quantiles, as standard normal deviates that correlate;
- priorities: independently, within the stream's class.

Left out: tasks of one collection that resemble each other, and what single users of a priority do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.traces.google_like_streams import DEVIATES, STREAMS, Stream
from greendc.traces.jobs import HOUR_US, JobTrace

FIRST_WEEKDAY = 2
"""Day 0 is a Wednesday (1 May 2019); Monday is 0."""


@dataclass(frozen=True, eq=False)
class Events:
    """Jobs ``(n,)`` as a trace has them: to the microsecond, stream by stream, not sorted by time.

    :param time: microseconds since t = 0
    :param duration: microseconds
    :param cpu: machine units
    :param priority: Google's scale
    """

    time: NDArray[np.int64]
    duration: NDArray[np.int64]
    cpu: NDArray[np.float64]
    priority: NDArray[np.int64]


def generate(seed: int, days: int = 30) -> JobTrace:
    """Draw a job trace; the same seed and length give the same jobs.

    :param seed: of the generator, not negative
    :param days: length of the trace; day 0 is a Wednesday
    :raises ValueError: for a negative seed or fewer days than one
    """
    require(seed >= 0, "seed", seed, "at least 0")
    events = sample_events(np.random.default_rng(seed), days)
    return JobTrace.from_events(events.time, events.duration, events.cpu, events.priority, days)


def sample_events(rng: np.random.Generator, days: int) -> Events:
    """Draw jobs before their times are rounded to hours.

    :param rng: source of all randomness
    :param days: length; day 0 is a Wednesday
    :raises ValueError: for less than a day
    """
    require(days >= 1, "days", days, "at least 1")
    parts = [_sample_stream(rng, stream, days) for stream in STREAMS.values()]
    return Events(
        time=np.concatenate([part.time for part in parts]),
        duration=np.concatenate([part.duration for part in parts]),
        cpu=np.concatenate([part.cpu for part in parts]),
        priority=np.concatenate([part.priority for part in parts]),
    )


def _sample_stream(rng: np.random.Generator, stream: Stream, days: int) -> Events:
    arrivals = rng.poisson(_hourly_rates(rng, stream, days))
    n = int(arrivals.sum())
    hour = np.repeat(np.arange(24 * days), arrivals)
    deviate = rng.standard_normal(n)
    rho = stream.correlation
    cpu_deviate = rho * deviate + np.sqrt(1.0 - rho**2) * rng.standard_normal(n)
    priorities, shares = zip(*stream.priorities, strict=True)
    return Events(
        time=hour * HOUR_US + rng.integers(HOUR_US, size=n),
        duration=(1e6 * _quantile(deviate, stream.seconds)).astype(np.int64),
        cpu=1e-6 * _quantile(cpu_deviate, stream.micro_cpu),
        priority=rng.choice(priorities, size=n, p=shares),
    )


def _hourly_rates(rng: np.random.Generator, stream: Stream, days: int) -> NDArray[np.float64]:
    """Return the mean number of arrivals in each hour ``(24 * days,)``, the random factor included."""
    hours = np.arange(24 * days)
    weekday = (hours // 24 + FIRST_WEEKDAY) % 7
    hourly, weekly = np.array(stream.hourly, np.float64), np.array(stream.weekly, np.float64)
    rates = stream.rate * hourly[hours % 24] * weekly[weekday]
    shocks = rng.standard_normal(len(hours))
    shocks[1:] *= np.sqrt(1.0 - stream.persistence**2)
    deviate = shocks.tolist()
    for hour in range(1, len(deviate)):
        deviate[hour] += stream.persistence * deviate[hour - 1]
    # A square has fewer very busy hours, and more quiet ones, than a log-normal factor. Its mean is 1.
    factor = (1.0 + stream.spread * np.array(deviate)) ** 2 / (1.0 + stream.spread**2)
    busy: NDArray[np.float64] = rates * factor
    return busy


def _quantile(deviate: NDArray[np.float64], values: tuple[float, ...]) -> NDArray[np.float64]:
    """Turn standard normal deviates into values, log-linear between the known quantiles."""
    drawn: NDArray[np.float64] = np.exp(np.interp(deviate, DEVIATES, np.log(values)))
    return drawn
