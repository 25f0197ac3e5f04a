"""How many processors have power, and how dirty it is: series that repeat."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from greendc.cluster.clocks import check_start, whole_days
from greendc.cluster.layout import DAY, MOST_SECONDS
from greendc.config import is_number, require
from greendc.records import Floats, Ints
from greendc.traces.gleamm_like import generate
from greendc.traces.moer import MoerSeries
from greendc.traces.power import CarbonTrace, PowerTrace

HOUR = 3600


@dataclass(frozen=True, eq=False)
class CapacitySeries:
    """Processors that have power, constant between changes; after ``period`` seconds it begins again.

    :param times: ``(S,)`` seconds at which it changes, from 0 up to below the period, rising
    :param processors: ``(S,)`` from each of these times on, 0 or more
    :param period: seconds
    :param start: what the clock shows at second 0, with or without an offset from UTC; ``None``: second 0 is
        that of the log
    :raises ValueError: naming the field, for arrays that break these rules
    """

    times: Ints = field(repr=False)
    processors: Ints = field(repr=False)
    period: int
    start: datetime | None = None

    def __post_init__(self) -> None:
        """Check the arrays, and leave out changes that change nothing."""
        period = self.period
        whole = isinstance(period, int | np.integer) and not isinstance(period, bool)
        allowed = f"whole seconds, from 1 to below {MOST_SECONDS}"
        require(whole and 1 <= period < MOST_SECONDS, "period", period, allowed)
        check_start("start", self.start)
        times, processors = np.array(self.times), np.array(self.processors)
        for name, values in (("times", times), ("processors", processors)):
            require(values.dtype.kind in "iu", name, f"of dtype {values.dtype}", "whole numbers")
            right = values.ndim == 1 and len(values) >= 1 and values.shape == times.shape
            require(right, name, f"of shape {values.shape}", "one number for each change")
        require(times[0] == 0, "times[0]", int(times[0]), "0")
        require(bool((np.diff(times) > 0).all()), "times", times[:4].tolist(), "rising")
        require(times[-1] < period, f"times[{len(times) - 1}]", int(times[-1]), f"below period={period}")
        bad = processors[(processors < 0) | (processors > 10**9)]
        require(not bad.size, "processors", bad[:1].tolist(), "0 or more and at most a billion")
        changes = np.r_[True, np.diff(processors) != 0]
        for name, values in (("times", times), ("processors", processors)):
            kept = values[changes].astype(np.int64)
            kept.setflags(write=False)
            object.__setattr__(self, name, kept)

    @property
    def greatest(self) -> int:
        """The greatest capacity."""
        return int(self.processors.max())

    def at(self, seconds: int) -> int:
        """Return the capacity at a time of 0 or more."""
        return int(self.processors[np.searchsorted(self.times, seconds % self.period, side="right") - 1])

    def delayed(self, seconds: int) -> CapacitySeries:
        """Return the series that shows everything ``seconds`` later."""
        times = (self.times + seconds) % self.period
        order = np.argsort(times, kind="stable")
        times, processors = times[order], self.processors[order]
        if times[0] > 0:
            times, processors = np.r_[0, times], np.r_[processors[-1], processors]
        return replace(self, times=times, processors=processors)

    def in_days(self, name: str = "power") -> CapacitySeries:
        """Return the series as it lasts whole days (:func:`~greendc.cluster.clocks.whole_days`).

        :param name: the field that it is of, for errors
        """
        times, processors, period = whole_days(name, self.times, self.processors, self.period)
        return replace(self, times=times, processors=processors, period=period)

    @classmethod
    def from_kilowatts(
        cls,
        kilowatts: NDArray[np.float64],
        step_hours: float,
        processors: int,
        kw_each: float,
        floor: float,
        start: datetime | None = None,
    ) -> CapacitySeries:
        """Turn a power series into processors.

        :param kilowatts: ``(T,)`` for computing
        :param step_hours: length of a step
        :param processors: of the cluster, the most that can have power
        :param kw_each: of a busy processor
        :param floor: share of the processors that always have power, from the grid
        :param start: what the clock shows when the first step begins, such as a trace's ``start``
        :raises ValueError: for power that is negative or not finite, and numbers out of range; names them
        """
        kilowatts = np.asarray(kilowatts)
        found = f"of shape {kilowatts.shape} and dtype {kilowatts.dtype}"
        right = kilowatts.ndim == 1 and len(kilowatts) > 0 and kilowatts.dtype.kind in "iuf"
        require(right, "kilowatts", found, "a number for each step")
        wrong = np.flatnonzero(~((kilowatts >= 0) & np.isfinite(kilowatts)))
        if len(wrong) > 0:
            require(False, f"kilowatts[{wrong[0]}]", float(kilowatts[wrong[0]]), "0 or more, and finite")
        right = is_number(step_hours) and 1 <= step_hours * HOUR < MOST_SECONDS / len(kilowatts)
        allowed = f"a second or more, and all {len(kilowatts)} steps less than {MOST_SECONDS} s"
        require(right, "step_hours", step_hours, allowed)
        right = is_number(processors) and processors >= 0 and processors == math.floor(processors)
        require(right, "processors", processors, "a whole number, 0 or more")
        require(is_number(floor), "power_floor", floor, "a share of the processors, from 0 to 1")
        require(0 <= floor <= 1, "power_floor", floor, "a share of the processors, from 0 to 1")
        require(is_number(kw_each) and 0 < kw_each < math.inf, "kw_each", kw_each, "above 0, and finite")
        steps = np.round(np.arange(len(kilowatts) + 1) * step_hours * HOUR).astype(np.int64)
        # What is a whole number but for rounding stays it: 0.6 kW are three processors of 0.2 kW.
        served = np.floor(np.asarray(kilowatts, np.float64) / kw_each + 1e-9)
        served = np.clip(served, np.floor(floor * processors + 1e-9), processors).astype(np.int64)
        return cls(steps[:-1], served, int(steps[-1]), start)


@lru_cache(maxsize=1)
def _default_trace() -> PowerTrace:
    return generate(0)


def green_capacity(
    processors: int, busy_kw: float, floor: float, share: float = 0.5, trace: PowerTrace | None = None
) -> CapacitySeries:
    """Return the capacity under sun and wind of a site like GLEAMM, scaled to the cluster.

    :param processors: of the cluster
    :param busy_kw: of a busy processor
    :param floor: share of the processors that always have power
    :param share: mean of sun and wind over the power of the whole cluster
    :param trace: power, step by step, whose ``start`` is the capacity's (default: a generated year, which has
        none)
    """
    start = None if trace is None else trace.start
    trace = trace or _default_trace()
    power = trace.solar_kw + trace.wind_kw
    mean = float(power.mean())
    require(mean > 0, "power", f"of mean {mean}", "a trace with some power")
    scaled = power * (share * processors * busy_kw / mean)
    return CapacitySeries.from_kilowatts(scaled, trace.step_hours, processors, busy_kw, floor, start)


@dataclass(frozen=True, eq=False)
class CarbonSeries:
    """Carbon intensity, constant within steps of equal length; it repeats.

    :param kg_per_kwh: ``(C,)``
    :param step_seconds: length of a step
    :param start: what the clock shows when the first step begins; ``None`` of a constant
    """

    kg_per_kwh: Floats = field(repr=False)
    step_seconds: int = HOUR
    start: datetime | None = None

    @classmethod
    def of(cls, carbon: float | MoerSeries | CarbonTrace) -> CarbonSeries:
        """Make a series of a constant or a trace.

        :raises ValueError: for a constant that is negative or not finite, and for a series that leaves out
            days or has steps of other than whole seconds
        """
        if isinstance(carbon, MoerSeries):
            start = carbon.start.astype("datetime64[s]").astype(datetime)
            return cls(np.array(carbon.moer), HOUR, start.replace(tzinfo=timezone.utc))
        if isinstance(carbon, CarbonTrace):
            hours = sum(left_out for _, left_out in carbon.closed_up)
            allowed = "one without gaps (gaps='interpolate' or gaps='bridge' fills them)"
            require(hours == 0, "carbon", f"a series that leaves out {hours:g} h", allowed)
            seconds = carbon.step_hours * HOUR
            whole = seconds > 0.5 and abs(seconds - round(seconds)) < 1e-6
            require(whole, "carbon", f"a series in steps of {seconds:g} s", "one in steps of whole seconds")
            return cls(np.array(carbon.kg_per_kwh), round(seconds), carbon.start)
        require(0 <= carbon < 1e3, "carbon", carbon, "0 or more kg CO2/kWh, or a series of such")
        return cls(np.array([float(carbon)]), DAY)
