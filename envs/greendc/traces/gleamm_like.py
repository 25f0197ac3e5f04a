"""Power of a site like GLEAMM on the West Texas plains, generated: 150 kW of PV and three 300 kW turbines.

The data of the site itself (Texas Tech University's microgrid) are not public. This generator is calibrated
on what RARE (section 3.3, Fig. 3) says of it and on a year of weather of the same plains; its tests state
each statistic.
"""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.traces.power import PowerTrace
from greendc.traces.turbine import LOSSES, turbine_kw

PV_KW = 150.0
INVERTER_KW = 130.0
TURBINES = 3

# Lubbock, Texas: 33.6° N; the sun is highest 47.6 minutes after noon of Central Standard Time on average.
_LATITUDE, _TILT = math.radians(33.6), math.radians(30.0)
_SOLAR_NOON = 12.793

# Wind: a Weibull distribution whose mean is highest in early spring and at night (the low-level jet of the
# plains), driven by weather systems that pass every six days and by gusts of a few hours.
_WIND_SPEED, _WEIBULL_SHAPE = 8.45, 2.85
_SEASON, _WINDIEST_DAY = 0.08, 50.0
_NIGHT, _WINDIEST_HOUR = 0.20, 1.0
_SYSTEM_SHARE, _SYSTEM_HOURS, _SYSTEM_MEMORY, _GUST_MEMORY = 0.85, 144.0, 60.0, 6.0

# Clouds: the share of clear-sky light that is left is 1 - depth * (1 - u) ** steepness, u uniform.
_CLOUD_DEPTH, _CLOUD_STEEPNESS, _CLOUD_MEMORY = 0.9, 4.5, 18.0


def generate(seed: int, hours: int = 8760, start: datetime = datetime(2021, 1, 1)) -> PowerTrace:
    """Generate hourly power; the same arguments give the same trace, and a longer one begins alike.

    :param seed: of the random generator
    :param hours: length
    :param start: first hour, Central Standard Time all year; it sets the season and the time of day
    :raises ValueError: if ``hours`` is not at least 1
    """
    require(hours >= 1, "hours", hours, "at least 1")
    clouds, winds, gusts = np.random.default_rng(seed).spawn(3)
    first_day = start.timetuple().tm_yday - 1
    time = first_day * 24.0 + start.hour + start.minute / 60.0 + np.arange(hours, dtype=np.float64) + 0.5
    day, hour = time / 24.0, time % 24.0
    return PowerTrace(_solar_kw(clouds, day, hour), _wind_kw(winds, gusts, day, hour), 1.0, start)


def _solar_kw(
    clouds: np.random.Generator, day: NDArray[np.float64], hour: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the power of panels that face south at 30°, behind clouds and the inverter."""
    cloud = _normal_cdf(-_autoregressive(clouds, len(day), _CLOUD_MEMORY))
    light = _clear_sky(day, hour) * (1.0 - _CLOUD_DEPTH * cloud**_CLOUD_STEEPNESS)
    air = 15.0 + 12.0 * np.sin(_turn(day - 105.0, 365.0)) + 6.0 * np.sin(_turn(hour - 9.0, 24.0))
    cell = air + 28.0 * light
    # 14 % losses, 96 % inverter, -0.37 % a degree above 25 °C.
    dc = PV_KW * light * (1.0 - 0.0037 * (cell - 25.0)) * 0.86 * 0.96
    ac: NDArray[np.float64] = np.clip(dc, 0.0, INVERTER_KW)
    return ac


def _clear_sky(day: NDArray[np.float64], hour: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return clear-sky irradiance on the panels in kW/m².

    Declination and equation of time after Cooper and Spencer, direct light after Meinel (1976), and a tenth
    of it diffuse.
    """
    season = _turn(day - 81.0, 365.0)
    equation_of_time = (9.87 * np.sin(2 * season) - 7.53 * np.cos(season) - 1.5 * np.sin(season)) / 60.0
    angle = _turn(hour - _SOLAR_NOON + equation_of_time, 24.0)
    declination = math.radians(23.45) * np.sin(season)

    def cosine_of_sun_from(latitude: float) -> NDArray[np.float64]:
        cosine: NDArray[np.float64] = math.sin(latitude) * np.sin(declination)
        cosine += math.cos(latitude) * np.cos(declination) * np.cos(angle)
        return cosine

    height = cosine_of_sun_from(_LATITUDE)
    up = height > 0.02
    air_mass = 1.0 / np.where(up, height, 1.0)
    direct = np.where(up, 1.45 * 0.7 ** (air_mass**0.678), 0.0)
    # A panel tilted to the south sees the sun as a level one nearer to the equator by the tilt would.
    on_panel = np.maximum(cosine_of_sun_from(_LATITUDE - _TILT), 0.0)
    irradiance: NDArray[np.float64] = direct * on_panel + 0.1 * direct * (1.0 + math.cos(_TILT)) / 2.0
    return irradiance


def _wind_kw(
    winds: np.random.Generator,
    gusts: np.random.Generator,
    day: NDArray[np.float64],
    hour: NDArray[np.float64],
) -> NDArray[np.float64]:
    slow = _oscillation(winds, len(day), _SYSTEM_HOURS, _SYSTEM_MEMORY)
    fast = _autoregressive(gusts, len(day), _GUST_MEMORY)
    normal = math.sqrt(_SYSTEM_SHARE) * slow + math.sqrt(1.0 - _SYSTEM_SHARE) * fast
    mean = _WIND_SPEED * (1.0 + _SEASON * np.cos(_turn(day - _WINDIEST_DAY, 365.0)))
    mean *= 1.0 + _NIGHT * np.cos(_turn(hour - _WINDIEST_HOUR, 24.0))
    # cdf(-x) is 1 - cdf(x) without its rounding to 0 for large x.
    weibull = (-np.log(_normal_cdf(-normal))) ** (1.0 / _WEIBULL_SHAPE) / math.gamma(
        1.0 + 1.0 / _WEIBULL_SHAPE
    )
    return TURBINES * turbine_kw(mean * weibull) * (1.0 - LOSSES)


def _turn(time: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    return 2.0 * math.pi / period * time


def _normal_cdf(values: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr  # SciPy is slow to import, and most environments do without it

    probability: NDArray[np.float64] = ndtr(values)
    return probability


def _autoregressive(rng: np.random.Generator, steps: int, memory: float) -> NDArray[np.float64]:
    """Return a stationary standard normal series whose correlation falls by e in ``memory`` steps."""
    keep = math.exp(-1.0 / memory)
    noise = rng.standard_normal(steps)
    noise[1:] *= math.sqrt(1.0 - keep * keep)
    return _recursion(noise, keep, 0.0)


def _oscillation(rng: np.random.Generator, steps: int, period: float, memory: float) -> NDArray[np.float64]:
    """Return a standard normal series that swings about ``period`` steps long and forgets in ``memory``."""
    damping = math.exp(-1.0 / memory)
    first, second = 2.0 * damping * math.cos(2.0 * math.pi / period), -damping * damping
    variance = (1.0 - second) / ((1.0 + second) * ((1.0 - second) ** 2 - first**2))
    warm_up = int(12.0 * memory)  # forgets that it starts at rest
    series = _recursion(rng.standard_normal(warm_up + steps), first, second)
    return series[warm_up:] / math.sqrt(variance)


def _recursion(noise: NDArray[np.float64], first: float, second: float) -> NDArray[np.float64]:
    """Return ``x[t] = first * x[t - 1] + second * x[t - 2] + noise[t]``, solved as a banded triangle."""
    from scipy.linalg.lapack import dtbtrs

    bands = np.empty((3, len(noise)))
    bands[0], bands[1], bands[2] = 1.0, -first, -second
    solution, _ = dtbtrs(bands, noise, uplo="L", diag="U")
    series: NDArray[np.float64] = solution
    return series.reshape(len(noise))
