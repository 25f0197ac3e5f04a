"""Seeded jobs with the statistics of a sample of Google's cluster trace of May 2019, so that none need ship.

The numbers below describe the random sample of 50,000 tasks of cell a that SustainGym published. For each
priority class the generator draws

- arrivals: Poisson around a mean rate that follows the hour (nights are busier than days) and the
  weekday (Sunday and Monday are busiest), times a log-normal factor that persists from hour to hour;
- durations and CPU: through their quantiles, as standard normal deviates that correlate up to a duration
  of 24 hours (longer jobs use about as much CPU as the rest).

Not in it: jobs of one collection that resemble each other, and the few priorities within a class that
stand for particular users.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.traces.jobs import HOUR_US, JobTrace

FIRST_WEEKDAY = 2
"""Day 0 is a Wednesday (1 May 2019); Monday is 0."""

_LONG_US = 24 * HOUR_US
# Standard normal deviates of the probabilities 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99,
# 0.995 and 0.999, and of the least and the greatest of about 50,000.
# fmt: off
_DEVIATES = (-4.1, -2.3263, -1.6449, -1.2816, -0.6745, 0.0, 0.6745, 1.2816, 1.6449, 1.96, 2.3263, 2.5758, 3.0902, 4.1)

# Share of the day's mean rate in each hour, local standard time.
_FLAT = (1.0,) * 24
_NIGHTLY = (1.31, 1.20, 1.33, 1.96, 1.94, 1.76, 2.07, 1.35, 0.24, 0.22, 0.26, 0.20,
            0.22, 0.24, 0.32, 0.33, 0.51, 0.52, 0.96, 1.29, 1.56, 1.40, 1.35, 1.48)
_EVENING = (1.01, 0.54, 0.60, 1.24, 2.49, 1.98, 1.92, 0.67, 0.54, 0.47, 0.54, 0.46,
            0.38, 0.62, 0.47, 0.46, 0.61, 0.69, 1.21, 1.72, 2.03, 1.58, 1.12, 0.65)
# Share of the week's mean rate on each day, Monday first.
_EVEN_WEEK = (1.0,) * 7
_BATCH_WEEK = (1.36, 1.02, 0.89, 0.76, 0.82, 0.96, 1.27)
# fmt: on


@dataclass(frozen=True)
class _Jobs:
    """What is known of one priority class; quantiles stand at ``_DEVIATES``."""

    priorities: tuple[tuple[int, float], ...]  # each with its share of the class
    rate: float  # jobs an hour
    hourly: tuple[float, ...]
    weekly: tuple[float, ...]
    spread: float  # standard deviation of the logarithm of the rate's random factor
    persistence: float  # its correlation from one hour to the next
    seconds: tuple[float, ...]
    micro_cpu: tuple[float, ...]
    correlation: float  # of the deviates of duration and CPU


# fmt: off
_CLASSES = (
    _Jobs(  # monitoring
        priorities=((360, 1.0),), rate=0.0958, hourly=_EVENING, weekly=_EVEN_WEEK,
        spread=1.1, persistence=0.3, correlation=0.66,
        seconds=(85, 116, 1820, 3790, 61800, 280e3, 474e3, 701e3, 882e3, 899e3, 946e3, 995e3, 1030e3, 1040e3),
        micro_cpu=(220, 220, 220, 430, 10500, 11600, 22000, 22000, 22000, 22000, 31100, 40800, 48600, 50500),
    ),
    _Jobs(  # production
        priorities=((200, 1.0),), rate=9.197, hourly=_FLAT, weekly=_EVEN_WEEK,
        spread=0.45, persistence=0.85, correlation=-0.23,
        seconds=(0.09, 6.28, 20.8, 26.9, 52.2, 156, 633, 4610, 35500, 182e3, 630e3, 1180e3, 2240e3, 2590e3),
        micro_cpu=(176, 352, 528, 705, 1850, 9250, 32800, 37700, 44600, 48600, 66000, 99000, 194000, 297000),
    ),
    _Jobs(  # mid
        priorities=((116, 0.45), (117, 0.04), (118, 0.21), (119, 0.30)), rate=2.457, hourly=_FLAT,
        weekly=_EVEN_WEEK, spread=0.4, persistence=0.3, correlation=0.16,
        seconds=(3.9, 24.2, 62.2, 114, 296, 630, 2370, 10800, 41600, 62900, 169e3, 355e3, 743e3, 956e3),
        micro_cpu=(220, 765, 2030, 2030, 3610, 8100, 14700, 20000, 36000, 55100, 81100, 99800, 243e3, 288e3),
    ),
    _Jobs(  # batch
        priorities=((103, 0.145), (105, 0.68), (107, 0.167), (114, 0.003), (115, 0.005)), rate=49.98,
        hourly=_NIGHTLY, weekly=_BATCH_WEEK, spread=0.35, persistence=0.65, correlation=0.45,
        seconds=(0.17, 29.6, 51.3, 60.8, 88.1, 273, 1300, 8550, 36800, 48700, 138e3, 877e3, 941e3, 1610e3),
        micro_cpu=(5, 1140, 2030, 2460, 3700, 4930, 8190, 16200, 21900, 27000, 33000, 43600, 78000, 133000),
    ),
    _Jobs(  # free
        priorities=((0, 0.98), (25, 0.02)), rate=3.794, hourly=_EVENING, weekly=_EVEN_WEEK,
        spread=1.1, persistence=0.4, correlation=0.18,
        seconds=(1.4, 13.9, 107, 183, 313, 924, 4590, 31400, 70200, 102e3, 181e3, 289e3, 730e3, 920e3),
        micro_cpu=(810, 2030, 2030, 2030, 4050, 8100, 16200, 40500, 40500, 40500, 40500, 40500, 40500, 40500),
    ),
)
# fmt: on


@dataclass(frozen=True, eq=False)
class Events:
    """Jobs ``(n,)`` before hours are rounded: class by class, and in order of their hours within one.

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
    """Draw jobs to the microsecond, as the trace itself has them.

    :param rng: source of all randomness
    :param days: length; day 0 is a Wednesday
    """
    require(days >= 1, "days", days, "at least 1")
    parts = [_sample_class(rng, jobs, days) for jobs in _CLASSES]
    return Events(
        time=np.concatenate([part.time for part in parts]),
        duration=np.concatenate([part.duration for part in parts]),
        cpu=np.concatenate([part.cpu for part in parts]),
        priority=np.concatenate([part.priority for part in parts]),
    )


def _sample_class(rng: np.random.Generator, jobs: _Jobs, days: int) -> Events:
    arrivals = rng.poisson(_hourly_rates(rng, jobs, days))
    n = int(arrivals.sum())
    hour = np.repeat(np.arange(24 * days), arrivals)
    deviate = rng.standard_normal(n)
    duration = (1e6 * _quantile(deviate, jobs.seconds)).astype(np.int64)
    rho = np.where(duration > _LONG_US, 0.0, jobs.correlation)
    cpu_deviate = rho * deviate + np.sqrt(1.0 - rho**2) * rng.standard_normal(n)
    priorities, shares = zip(*jobs.priorities, strict=True)
    return Events(
        time=hour * HOUR_US + rng.integers(HOUR_US, size=n),
        duration=duration,
        cpu=1e-6 * _quantile(cpu_deviate, jobs.micro_cpu),
        priority=rng.choice(priorities, size=n, p=shares),
    )


def _hourly_rates(rng: np.random.Generator, jobs: _Jobs, days: int) -> NDArray[np.float64]:
    """Return the mean number of arrivals in each hour ``(24 * days,)``, the random factor included."""
    hours = np.arange(24 * days)
    weekday = (hours // 24 + FIRST_WEEKDAY) % 7
    rates = jobs.rate * np.array(jobs.hourly)[hours % 24] * np.array(jobs.weekly)[weekday]
    shocks = rng.standard_normal(len(hours))
    shocks[1:] *= np.sqrt(1.0 - jobs.persistence**2)
    factor = shocks.tolist()
    for hour in range(1, len(factor)):
        factor[hour] += jobs.persistence * factor[hour - 1]
    # The mean of exp(s z) is exp(s² / 2).
    noise: NDArray[np.float64] = np.exp(jobs.spread * np.array(factor) - 0.5 * jobs.spread**2)
    return rates * noise


def _quantile(deviate: NDArray[np.float64], values: tuple[float, ...]) -> NDArray[np.float64]:
    """Turn standard normal deviates into values, log-linear between the known quantiles."""
    return np.exp(np.interp(deviate, _DEVIATES, np.log(values)))
