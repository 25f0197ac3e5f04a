"""Where the power of an episode comes from: a level, a chain of levels, or a trace in kW."""

from __future__ import annotations

import math
from datetime import datetime
from functools import lru_cache
from numbers import Real
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from greendc.config import require, require_class
from greendc.energy.kernel import markov_levels
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.covering import covering
from greendc.resource_pool.shipped_years import is_shipped_year, of_size, same_days, shipped_year
from greendc.traces.gleamm_like import generate
from greendc.traces.power import CarbonTrace, PowerTrace, read_carbon, read_power
from greendc.traces.prices import PriceTrace

GENERATED_HOURS = 8760
GENERATED_SEED = 0
MICROSECONDS = 3_600_000_000
"""Of an hour: whole numbers of them tell midnights, which sums of hours miss."""


@lru_cache(maxsize=4)
def _generated(hours: int) -> PowerTrace:
    """The default trace; it takes a tenth of a second to make, and environments come in numbers."""
    return generate(GENERATED_SEED, hours)


class PowerSource:
    """Fill the power series of one episode: ``episode_steps + horizon`` steps, so that forecasts read on.

    :param config: the configuration
    :raises ValueError: for a trace or carbon series that is too short, has another step, exceeds the
        site's generators, or does not fit the other one; names the field
    :raises TypeError: for a trace, carbon or price of another class; names the field
    """

    def __init__(self, config: ResourcePoolConfig) -> None:
        self.config = config
        self.steps = config.episode_steps + config.horizon
        self.trace: PowerTrace | None = None
        self.mean_price = 0.0
        if config.power == "trace":
            self.trace = self._trace()
            self.carbon = self._carbon(self.trace)
            self.price = self._price(self.trace)
            self.mean_price = float(self.price.mean())
            self.starts = self._starts(self.trace)
            self._series = np.zeros((len(self.trace), at.SERIES))
            self._series[:, at.SOLAR], self._series[:, at.WIND] = self.trace.solar_kw, self.trace.wind_kw
            self._series[:, at.CARBON], self._series[:, at.PRICE] = self.carbon, self.price

    def _trace(self) -> PowerTrace:
        config, site = self.config, self.config.site_config
        trace = config.trace
        if trace is None and is_shipped_year(config.carbon):
            trace = same_days(shipped_year(str(config.carbon)), site.pv_kw, site.wind_kw)
        elif trace is None:
            trace = _generated(max(GENERATED_HOURS, math.ceil(self.steps * config.step_hours)))
            trace = of_size(trace, site.pv_kw, site.wind_kw)
        elif not isinstance(trace, PowerTrace):
            require_class("trace", trace, (str, Path), "a PowerTrace, a path or None")
            trace = read_power(trace)
        if trace.step_hours != config.step_hours:
            trace = trace.resample(config.step_hours)
        allowed = f"at least episode_steps + horizon = {self.steps} steps of {config.step_hours:g} h long"
        require(len(trace) >= self.steps, "trace", f"{len(trace)} steps", allowed)
        for name, peak in (("pv_kw", trace.solar_kw.max()), ("wind_kw", trace.wind_kw.max())):
            limit = getattr(site, name)
            allowed = f"at least the trace's peak of {peak:g} kW (or has the trace another unit?)"
            require(peak <= limit, f"site.{name}", limit, allowed)
        return trace

    def _carbon(self, trace: PowerTrace) -> NDArray[np.float64]:
        """Return the carbon intensity of every step of the trace."""
        carbon = self.config.carbon
        if isinstance(carbon, float | Real):
            return np.full(len(trace), float(carbon))
        if is_shipped_year(carbon):
            carbon = shipped_year(str(carbon))
        elif not isinstance(carbon, CarbonTrace):
            require_class("carbon", carbon, (str, Path), "a number, a CarbonTrace, a path or a shipped year")
            carbon = read_carbon(carbon)
        return covering("carbon", carbon, carbon.kg_per_kwh, trace)

    def _price(self, trace: PowerTrace) -> NDArray[np.float64]:
        """Return the price of grid energy in every step of the trace."""
        price = self.config.price
        if isinstance(price, float | Real):
            return np.full(len(trace), float(price))
        require_class("price", price, (PriceTrace,), "a number or a PriceTrace")
        return covering("price", price, price.per_kwh, trace)

    def _starts(self, trace: PowerTrace) -> NDArray[np.int64]:
        """Return the steps that an episode may start at: the first of each day, as for workloads' days.

        A trace that is too short to hold an episode from any midnight on may be started anywhere.
        """
        steps = np.arange(len(trace) - self.steps + 1)
        begin = np.round((_hour_of_day(trace.start) + steps * trace.step_hours) * MICROSECONDS).astype(
            np.int64
        )
        midnights = steps[begin % (24 * MICROSECONDS) < round(trace.step_hours * MICROSECONDS)]
        return midnights if len(midnights) else steps

    def fill(self, series: NDArray[np.float64], rng: np.random.Generator) -> float:
        """Draw an episode's power into ``series`` and return the hour of day at which it starts.

        :param series: ``(episode_steps + horizon, SERIES)``, overwritten
        """
        start_hour = 0.0
        if self.trace is None:
            series[:] = 0.0
            self._fill_levels(series, rng)
        else:
            start_hour = self._fill_trace(self.trace, series, rng)
        if self.config.forecast_error > 0.0:
            np.cumsum(rng.standard_normal(self.steps), out=series[:, at.WALK])
        return start_hour

    def _fill_levels(self, series: NDArray[np.float64], rng: np.random.Generator) -> None:
        config = self.config
        high, low = config.power_level, config.power_low
        levels = series[:, at.SOLAR]
        if config.power == "constant":
            levels[:] = high
        elif config.power == "on_off":
            phase = np.arange(self.steps) % (config.on_steps + config.off_steps)
            levels[:] = np.where(phase < config.on_steps, high, low)
        elif config.power == "markov":
            chain = np.empty(self.steps)
            markov_levels(chain, rng.random(self.steps), high, low, config.stay_on, config.stay_off)
            levels[:] = chain
        else:
            spread = min(high, 1.0 - high)
            levels[:] = rng.uniform(high - spread, high + spread, self.steps)

    def _fill_trace(self, trace: PowerTrace, series: NDArray[np.float64], rng: np.random.Generator) -> float:
        first = int(self.starts[rng.integers(len(self.starts))])
        series[:] = self._series[first : first + self.steps]
        return (_hour_of_day(trace.start) + first * trace.step_hours) % 24.0


def _hour_of_day(time: datetime) -> float:
    """Return what a clock shows, in hours."""
    return time.hour + time.minute / 60.0 + (time.second + time.microsecond / 1e6) / 3600.0
