"""Years of the marginal emissions that ship with the package, and generated weather of the same days."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

import numpy as np

from greendc.config import require
from greendc.traces.gleamm_like import PV_KW, TURBINES, generate
from greendc.traces.moer import REGIONS, UTC_OFFSET, load_moer
from greendc.traces.power import CarbonTrace, PowerTrace

_NAME = re.compile(rf"({'|'.join(REGIONS)})-(\d{{4}})")
TURBINE_KW = 300.0


def is_shipped_year(carbon: object) -> bool:
    """Return whether this names a year of shipped emissions, such as ``"PGE-2019"``."""
    return isinstance(carbon, str) and _NAME.fullmatch(carbon) is not None


def shipped_year(name: str) -> CarbonTrace:
    """Return the marginal emissions of a region in a year, hourly, from its first whole day to its last.

    Times are the region's standard time. The series that ship begin in May 2019 and end in August 2021.

    :param name: ``"PGE-2019"``, ...
    :raises ValueError: for a year of which there is nothing
    """
    match = _NAME.fullmatch(name)
    assert match is not None
    series = load_moer(match[1])
    times = series.times(UTC_OFFSET)
    days = times.astype("datetime64[D]")
    names, hours = np.unique(days, return_counts=True)
    whole = np.isin(days, names[hours == 24])
    inside = np.flatnonzero(whole & (times.astype("datetime64[Y]") == np.datetime64(match[2], "Y")))
    require(len(inside) > 0, "carbon", name, f"a year that the series holds, {times[0]} to {times[-1]}")
    start = times[inside[0]].astype("datetime64[s]").astype(datetime)
    return CarbonTrace(series.moer[inside].copy(), 1.0, start)


@lru_cache(maxsize=8)
def _weather(start: datetime, hours: int) -> PowerTrace:
    return generate(start.year, hours, start)


def same_days(carbon: CarbonTrace, pv_kw: float, wind_kw: float) -> PowerTrace:
    """Return generated sun and wind of the same days, from generators of these sizes.

    Each year has weather of its own. It is Texan: it has no real correlation with emissions elsewhere.
    """
    return of_size(_weather(carbon.start, len(carbon)), pv_kw, wind_kw)


def of_size(generated: PowerTrace, pv_kw: float, wind_kw: float) -> PowerTrace:
    """Return generated sun and wind as generators of these sizes give them."""
    solar = generated.solar_kw * (pv_kw / PV_KW)
    wind = generated.wind_kw * (wind_kw / (TURBINES * TURBINE_KW))
    return PowerTrace(solar, wind, generated.step_hours, generated.start)
