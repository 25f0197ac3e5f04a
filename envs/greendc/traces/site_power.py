"""Turns weather into the power of a site: photovoltaics with pvlib, turbines with a generic power curve."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.lazy import LazyModule
from greendc.traces.power import PowerTrace
from greendc.traces.trace_files import TraceError
from greendc.traces.turbine import LOSSES, at_height, turbine_kw
from greendc.traces.weather import Weather

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


TYPICAL_YEAR = 2021
"""The year that a trace is stamped with if 29 February is missing in its own."""


@dataclass(frozen=True)
class Generators:
    """What turns sun and wind into power at a site; the defaults are GLEAMM's capacities.

    :param pv_kw: photovoltaic panels, in kW of direct current at 1000 W/m² and 25 °C
    :param inverter_kw: largest output of the inverter
    :param tilt: of the panels from level, in degrees
    :param azimuth: to which the panels face, in degrees east of north
    :param turbines: number of 300 kW turbines (:func:`~greendc.traces.turbine.turbine_kw`)
    :param hub_height: of the turbines in m above ground
    """

    pv_kw: float = 150.0
    inverter_kw: float = 130.0
    tilt: float = 30.0
    azimuth: float = 180.0
    turbines: int = 3
    hub_height: float = 50.0

    def __post_init__(self) -> None:
        require(0.0 <= self.pv_kw < np.inf, "pv_kw", self.pv_kw, "finite and at least 0")
        require(0.0 < self.inverter_kw < np.inf, "inverter_kw", self.inverter_kw, "finite and above 0")
        require(0.0 <= self.tilt <= 90.0, "tilt", self.tilt, "in [0, 90]")
        require(0.0 <= self.azimuth <= 360.0, "azimuth", self.azimuth, "in [0, 360]")
        require(self.turbines >= 0, "turbines", self.turbines, "at least 0")
        require(1.0 <= self.hub_height <= 300.0, "hub_height", self.hub_height, "in [1, 300] m")


def site_power(weather: Weather, generators: Generators | None = None) -> PowerTrace:
    """Compute the power of a site from its weather.

    Weather files often leave out the 29 February of their year. A year with such a gap is stamped as 2021,
    so that the clock of the trace is regular; ``counts["restamped"]`` is then the number of steps, else 0.

    :param weather: the weather
    :param generators: panels and turbines (default: :class:`Generators`)
    :raises ImportError: if pvlib is missing; says how to install it
    :raises TraceError: if the steps of the weather are irregular in any other way
    """
    generators = generators or Generators()
    solar = _solar_kw(weather, generators)
    speed = at_height(weather.wind_speed, weather.wind_height, generators.hub_height)
    wind = generators.turbines * turbine_kw(speed, weather.density) * (1.0 - LOSSES)
    step, start, counts = _clock(weather.middle)
    return PowerTrace(solar, wind, step / pd.Timedelta(hours=1), start, counts)


def _clock(middle: pd.DatetimeIndex) -> tuple[pd.Timedelta, datetime, dict[str, int]]:
    """Return the length of a step, the beginning of the first one, and what was changed."""
    steps = middle[1:] - middle[:-1]
    step = pd.Timedelta(steps.to_series().mode().iloc[0]) if len(steps) else pd.Timedelta(0)
    if step <= pd.Timedelta(0):
        raise TraceError("the weather's times do not rise")
    start, counts = middle[0] - step / 2, {"restamped": 0}
    if (steps != step).any():
        whole_year = len(middle) * step == pd.Timedelta(days=365)
        if not whole_year or (steps % pd.Timedelta(days=1) != step).any():
            row = int(np.argmax(steps != step)) + 1
            raise TraceError(f"the weather jumps from {middle[row - 1]} to {middle[row]}")
        # The first step may begin in the last minutes of the year before.
        year = TYPICAL_YEAR - (middle[0].year - start.year)
        start, counts = start.replace(year=year), {"restamped": len(middle)}
    return step, start.to_pydatetime(), counts


def _solar_kw(weather: Weather, generators: Generators) -> NDArray[np.float64]:
    """Return the power of the panels: light after Hay and Davies, cells after SAPM, the rest PVWatts."""
    pvlib = _pvlib()
    sun = pvlib.solarposition.get_solarposition(
        weather.middle, weather.latitude, weather.longitude, altitude=weather.altitude
    )
    light = pvlib.irradiance.get_total_irradiance(
        generators.tilt,
        generators.azimuth,
        sun["apparent_zenith"].to_numpy(),
        sun["azimuth"].to_numpy(),
        weather.dni,
        weather.ghi,
        weather.dhi,
        dni_extra=pvlib.irradiance.get_extra_radiation(weather.middle).to_numpy(),
        model="haydavies",
    )["poa_global"]
    light = np.maximum(np.nan_to_num(np.asarray(light, dtype=np.float64)), 0.0)  # NaN where the sun is down
    mounting = pvlib.temperature.TEMPERATURE_MODEL_PARAMETERS["sapm"]["open_rack_glass_polymer"]
    cell = pvlib.temperature.sapm_cell(light, weather.temperature, weather.surface_wind, **mounting)
    losses = pvlib.pvsystem.pvwatts_losses() / 100.0
    dc = pvlib.pvsystem.pvwatts_dc(light, cell, generators.pv_kw, -0.0037) * (1.0 - losses)
    ac = pvlib.inverter.pvwatts(dc, generators.inverter_kw / 0.96)
    return np.maximum(np.nan_to_num(np.asarray(ac, dtype=np.float64)), 0.0)


def _pvlib() -> ModuleType:
    try:
        import pvlib
    except ImportError as error:
        raise ImportError("power from weather needs pvlib: pip install 'sb3-greendc[power]'") from error
    module: ModuleType = pvlib
    return module
