"""Where the power of an episode comes from: a level, a chain of levels, or a trace in kW."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from functools import lru_cache
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.energy.kernel import markov_levels
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.shipped_years import is_shipped_year, of_size, same_days, shipped_year
from greendc.traces.gleamm_like import generate
from greendc.traces.power import CarbonTrace, PowerTrace, read_carbon, read_power, resample
from greendc.traces.prices import PriceTrace

GENERATED_HOURS = 8760
GENERATED_SEED = 0


@lru_cache(maxsize=4)
def _generated(hours: int) -> PowerTrace:
    """The default trace; it takes a tenth of a second to make, and environments come in numbers."""
    return generate(GENERATED_SEED, hours)


def _covering(
    name: str, series: CarbonTrace | PriceTrace, values: NDArray[np.float64], trace: PowerTrace
) -> NDArray[np.float64]:
    """Return the part of a series, in the trace's steps, that is the trace's time.

    :param name: the field that the series is of
    :param series: in steps of any length
    :param values: the series' own
    :raises ValueError: if it is not on the trace's clock, or does not cover it; names the field
    """
    aware = series.start.tzinfo is not None
    require(
        aware == (trace.start.tzinfo is not None),
        name,
        f"times {'with' if aware else 'without'} a time zone",
        f"on the trace's clock, whose times are {'without' if aware else 'with'} one",
    )
    lead = (_instant(trace.start) - _instant(series.start)).total_seconds() / 3600.0
    if series.step_hours != trace.step_hours:
        skipped = lead / series.step_hours
        # Where the trace's steps begin between those that the series would get, but with one that it has.
        if not _is_whole(lead / trace.step_hours) and _is_whole(skipped) and 0 < skipped < len(values) - 0.5:
            values, lead = values[round(skipped) :], 0.0
        values = resample(values, series.step_hours, trace.step_hours)
    first = round(lead / trace.step_hours)
    require(
        _is_whole(lead / trace.step_hours) and 0 <= first <= len(values) - len(trace),
        name,
        f"{len(series)} steps of {series.step_hours:g} h from {series.start}",
        f"a series that covers the trace, {len(trace)} steps of {trace.step_hours:g} h from {trace.start}, "
        "step by step",
    )
    return values[first : first + len(trace)]


def _instant(time: datetime) -> datetime:
    """Return a time whose differences to others are what passes between them, where clocks are put on, too.

    Python takes times that share a time zone apart by what their clocks show.
    """
    return time if time.tzinfo is None else time.astimezone(timezone.utc)


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < 1e-6


class PowerSource:
    """Fill the power series of one episode: ``episode_steps + horizon`` steps, so that forecasts read on.

    :param config: the configuration
    :raises ValueError: for a trace or carbon series that is too short, has another step, exceeds the
        site's generators, or does not fit the other one; names the field
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
            carbon = read_carbon(carbon)
        return _covering("carbon", carbon, carbon.kg_per_kwh, trace)

    def _price(self, trace: PowerTrace) -> NDArray[np.float64]:
        """Return the price of grid energy in every step of the trace."""
        price = self.config.price
        if isinstance(price, float | Real):
            return np.full(len(trace), float(price))
        if not isinstance(price, PriceTrace):
            raise TypeError(f"price: must be a number or a PriceTrace, not {type(price).__name__}")
        return _covering("price", price, price.per_kwh, trace)

    def _starts(self, trace: PowerTrace) -> NDArray[np.int64]:
        """Return the steps that an episode may start at: the first of each day, as for workloads' days.

        A trace that is too short to hold an episode from any midnight on may be started anywhere.
        """
        steps = np.arange(len(trace) - self.steps + 1)
        start = trace.start.hour + trace.start.minute / 60
        midnights = steps[np.round(start + steps * trace.step_hours, 6) % 24 < trace.step_hours]
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
        start_hour = trace.start.hour + trace.start.minute / 60.0
        return (start_hour + first * trace.step_hours) % 24.0
