"""Power and carbon traces: what sun and wind deliver in kW, and what grid energy emits in kg/kWh."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.config import is_number, nearest, require
from greendc.lazy import LazyModule
from greendc.traces.carbon_feed import DURATION
from greendc.traces.limits import LIMITS
from greendc.traces.table_reader import Table
from greendc.traces.time_series import open_table, read_columns
from greendc.traces.trace_files import TraceError, UnclearTraceError

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


POWER_UNITS = {"w": 1e-3, "kw": 1.0, "mw": 1e3, "gw": 1e6}
"""Units of power, in kW."""

_MASSES = {"g": 1e-3, "kg": 1.0, "t": 1e3, "lb": 0.45359237, "lbs": 0.45359237}
_ENERGIES = {"kwh": 1.0, "mwh": 1e3}
# A mass begins with the word or after what is no letter: mg are not g.
_INTENSITY = re.compile(r"(?<![a-zµμ])(kg|g|t|lbs?)[\s_]*(?:co2[\s_]*(?:e|eq)?)?[\s_]*/[\s_]*([km]wh)")

_NOT_POWER = {
    "a speed": re.compile(r"speed|velocity|\bgusts?\b|\bm s\b|\bkm h\b|\b(mps|mph|kmh|kph|kts|knots?)\b"),
    "a direction": re.compile(r"direction|azimuth|\b(dir|deg|degrees?)\b"),
    "irradiance": re.compile(
        r"irradia|radiation|insolation|\b(rad|srad|ghi|dni|dhi|poa|sqm|square met\w+)\b"
        r"|\b([kmg]?wh?|[kmg]?j|per) ?(per |sq )?m ?[2²]"
    ),
}
"""What a column of sun or wind holds that is no power, as its words joined by spaces tell."""

_SOLAR, _WIND = frozenset({"solar", "pv"}), frozenset({"wind"})
_ALIKE = 0.75  # how much of a word must be there to take it for another one, misspelled
_OTHER_WORDS = frozenset(
    ("bind", "find", "hind", "ind", "kind", "mind", "polar", "rind", "sonar", "win", "window", "wine", "wing")
)
"""Words of their own that are alike."""
_COMPOUNDS = {
    "solar": re.compile(r"solar\w+|photovolt\w+|pv(\d+|power|plant|park|system|gen\w*|prod\w*)"),
    "wind": re.compile(r"wind(?!ow|ing)\w+"),
}
"""Words that begin with what they are, or mean it: SolarPower, WindPark, pv1."""
_DEFAULT_START = datetime(2021, 1, 1)


@dataclass(frozen=True, eq=False)
class PowerTrace:
    """Power of sun and wind, step by step, checked when built.

    :param solar_kw: ``(T,)`` float64, mean power of the photovoltaics in each step, in kW
    :param wind_kw: ``(T,)`` float64, the same of the turbines
    :param step_hours: length of a step in hours
    :param start: when the first step begins, by the clock of the site. Hours of the day are counted from it:
        those of a clock that is put forward in summer are the first step's all year
    :param counts: what was filled or closed up when the trace was read, by kind
    :param closed_up: where days are missing and the steps after them moved up: hours after the start, as the
        steps now are, and hours left out there
    :raises ValueError: for a value that is no number or beyond :data:`~greendc.traces.limits.LIMITS`, arrays
        of different or no length, a step that is not positive, or a start that is no ``datetime``; names the
        field and the step
    """

    solar_kw: NDArray[np.float64] = field(repr=False)
    wind_kw: NDArray[np.float64] = field(repr=False)
    step_hours: float = 1.0
    start: datetime = _DEFAULT_START
    counts: Mapping[str, int] = field(default_factory=dict)
    closed_up: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        check_series(self, ("solar_kw", "wind_kw"), "power", self.step_hours)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.solar_kw)

    @property
    def total_kw(self) -> NDArray[np.float64]:
        """Power of sun and wind together, ``(T,)`` in kW."""
        return self.solar_kw + self.wind_kw

    def resample(self, step_hours: float) -> PowerTrace:
        """Return the trace in steps of another length, each the mean over its time: energy is conserved.

        An incomplete last step is left out.

        :raises ValueError: if the trace is shorter than one such step
        """
        return replace(
            self,
            solar_kw=resample(self.solar_kw, self.step_hours, step_hours),
            wind_kw=resample(self.wind_kw, self.step_hours, step_hours),
            step_hours=step_hours,
        )


@dataclass(frozen=True, eq=False)
class CarbonTrace:
    """Carbon intensity of grid energy, step by step, checked when built.

    :param kg_per_kwh: ``(T,)`` float64, kg of CO2 (or its equivalent) for each kWh
    :param step_hours: length of a step in hours
    :param start: when the first step begins
    :param counts: what was filled or closed up when the trace was read, by kind
    :param closed_up: as for :class:`PowerTrace`; steps after days that are missing keep their own times
    :raises ValueError: as for :class:`PowerTrace`
    """

    kg_per_kwh: NDArray[np.float64] = field(repr=False)
    step_hours: float = 1.0
    start: datetime = _DEFAULT_START
    counts: Mapping[str, int] = field(default_factory=dict)
    closed_up: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        check_series(self, ("kg_per_kwh",), "carbon_intensity", self.step_hours)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.kg_per_kwh)

    def resample(self, step_hours: float) -> CarbonTrace:
        """Return the trace in steps of another length, each the mean over its time."""
        values = resample(self.kg_per_kwh, self.step_hours, step_hours)
        return replace(self, kg_per_kwh=values, step_hours=step_hours)


def read_power(
    path: str | Path,
    *,
    solar: str | None = None,
    wind: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    gaps: str = "error",
) -> PowerTrace:
    """Read a power trace from CSV (plain or ``.gz``) or Parquet, with a column of time stamps.

    Columns are found by name: one with the word ``solar`` or ``pv``, one with ``wind``, both with their
    unit, such as ``solar_kw`` or ``Wind (MW)``. If only one of the two is there, the other is 0. A column of
    numbers, or with a unit of power, whose name is nearly ``wind`` or ``solar``, or begins like it
    (``SolarPower``, ``pv1``), is then refused: it may be meant. So is one column for both, and a column whose
    name says irradiance, a speed or a direction, whatever ``unit`` says.

    :param path: the file
    :param solar: name of the solar column, if there are several or its name does not tell; ``""``: there is
        none
    :param wind: name of the wind column, likewise
    :param time: name of the column of time stamps (default: the first that begins with time or date)
    :param unit: ``"W"``, ``"kW"``, ``"MW"`` or ``"GW"`` for columns whose name does not tell; one that
        contradicts a name is refused, and so is a name in kWh where steps are not of an hour
    :param gaps: as in :func:`~greendc.traces.time_series.read_columns`: ``"error"``, ``"interpolate"``,
        ``"join"``, ``"mend"``, ``"bridge"``; ``counts`` of the trace tells what was done
    :raises TraceError: for a missing or ambiguous column, one of weather, an unknown unit, empty cells,
        text, power that is negative or above the world's, rows cut short, and times that are missing, do not
        rise or are irregular; names the file and line
    """
    table = open_table(path)
    chosen = {
        "solar": _choose(table, solar, "solar", lambda words: bool(_SOLAR & words)),
        "wind": _choose(table, wind, "wind", lambda words: bool(_WIND & words)),
    }
    if chosen["solar"] is None and chosen["wind"] is None:
        raise UnclearTraceError(
            f"{table.name}: no column of solar or wind power among {', '.join(map(repr, table.columns))}",
            "solar",
            "wind",
        )
    if chosen["solar"] == chosen["wind"]:
        both = f"{table.name}: column {chosen['solar']!r} would count twice, as solar and as wind power"
        raise UnclearTraceError(f'{both} ("" where there is none)', "solar", "wind")
    factors = {column: _power_factor(table, column, unit) for column in chosen.values() if column}
    series = read_columns(table, factors, "power", time, gaps)
    _refuse_energies(table, factors, series.step_hours)
    zeros = np.zeros(len(next(iter(series.columns.values()))))
    kw = {kind: series.columns[column] if column else zeros for kind, column in chosen.items()}
    return PowerTrace(
        kw["solar"], kw["wind"], series.step_hours, series.start, series.counts, series.closed_up
    )


def read_carbon(
    path: str | Path,
    *,
    column: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    gaps: str = "error",
) -> CarbonTrace:
    """Read a carbon intensity from CSV or JSON (plain or ``.gz``) or Parquet, with a column of time stamps.

    JSON is what services answer that forecast it (:mod:`greendc.traces.carbon_feed`): Electricity Maps,
    WattTime, Great Britain's, or rows of ``time``, ``duration`` and ``value``. Such rows may be CSV, too. A
    ``duration``, in minutes, must be the time to the next row.

    :param path: the file
    :param column: name of the column (default: the only one that says carbon, CO2 or moer, else ``value``
        beside ``duration``)
    :param time: name of the column of time stamps (default: the first that begins with time or date)
    :param unit: such as ``"g/kWh"`` or ``"lb/MWh"`` if the column's name does not tell (as
        ``gCO₂eq/kWh`` or ``kg_per_kwh`` does); one that contradicts the name is refused
    :param gaps: as in :func:`read_power`
    :raises TraceError: as :func:`read_power`
    """
    return carbon_trace(open_table(path), column, time, unit, gaps)


def carbon_trace(
    table: Table,
    column: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    gaps: str = "error",
) -> CarbonTrace:
    """Do what :func:`read_carbon` does with a table that is open already."""
    chosen = _choose(table, column, "carbon intensity", _says_carbon, "column")
    if chosen is None and {DURATION, "value"} <= set(table.columns):
        chosen = "value"
    if chosen is None:
        raise UnclearTraceError(
            f"{table.name}: no column of carbon intensity among {', '.join(map(repr, table.columns))}",
            "column",
        )
    factors = {chosen: _intensity_factor(table, chosen, unit)}
    series = read_columns(table, factors, "carbon_intensity", time, gaps)
    if DURATION in table.columns:
        minutes = table.read([DURATION])[DURATION].to_numpy(np.float64)
        step = 60.0 * series.step_hours
        table.refuse(np.abs(minutes - step) > 1e-6, f"{DURATION} must be the {step:g} minutes between rows")
    return CarbonTrace(
        series.columns[chosen], series.step_hours, series.start, series.counts, series.closed_up
    )


def says_power(column: str) -> bool:
    """Tell whether :func:`read_power` takes a column of this name for solar or wind power."""
    return bool((_SOLAR | _WIND) & set(_words(column)))


def says_carbon(column: str) -> bool:
    """Tell whether :func:`read_carbon` takes a column of this name for a carbon intensity."""
    return _says_carbon(set(_words(column)))


def format_power(trace: PowerTrace) -> bytes:
    """Return the trace as CSV text that :func:`read_power` reads: time, solar_kw, wind_kw (to 1 W)."""
    step = pd.Timedelta(hours=trace.step_hours)
    columns = {
        "time": pd.date_range(trace.start, periods=len(trace), freq=step),
        "solar_kw": trace.solar_kw,
        "wind_kw": trace.wind_kw,
    }
    text: str = pd.DataFrame(columns).to_csv(index=False, float_format="%.3f", lineterminator="\n")
    return text.encode()


def _choose(
    table: Table,
    column: str | None,
    what: str,
    matches: Callable[[set[str]], bool],
    option: str | None = None,
) -> str | None:
    if column == "" and option is None:
        return None
    if column is not None:
        return table.require_column(column)
    found = [name for name in table.columns if matches(set(_words(name)))]
    if len(found) > 1:
        raise UnclearTraceError(
            f"{table.name}: {len(found)} columns of {what} ({', '.join(map(repr, found))})", option or what
        )
    if not found and option is None:
        for name in table.columns:  # written otherwise, it would be taken for a site without any
            if _is_nearly(table, name, what):
                none = f'{what}="" if there is none'
                raise UnclearTraceError(
                    f"{table.name}: no column of {what}, but {name!r} is nearly one ({none})", what
                )
    return found[0] if found else None


def _is_nearly(table: Table, column: str, what: str) -> bool:
    """Tell by a word of a column's name, and its unit or cells, if it may be ``what``, written otherwise."""
    words = [word for word in _words(column) if word not in _OTHER_WORDS]
    alike = difflib.get_close_matches(what, words, cutoff=_ALIKE)
    if not alike and not any(_COMPOUNDS[what].fullmatch(word) for word in words):
        return False
    if POWER_UNITS.keys() & set(words) or _energy_unit(column):
        return True
    try:
        table.read([column], empty=[column])
    except TraceError:
        return False
    return True


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word]


def _says_carbon(words: set[str]) -> bool:
    return bool({"carbon", "co2", "moer"} & words) and not {"low", "free"} & words


def _power_factor(table: Table, column: str, unit: str | None) -> float:
    """Return what turns the column into kW.

    :raises TraceError: for a column that is no power by its name, or not in this unit
    """
    for what, says in _NOT_POWER.items():
        if says.search(" ".join(_words(column))):
            raise TraceError(
                f"{table.name}: column {column!r} is {what}, not power; needed is what panels or turbines "
                "give, in W, kW, MW or GW (scripts/fetch_traces.py power computes it from weather)"
            )
    named = [word for word in dict.fromkeys(_words(column)) if word in POWER_UNITS]
    energy = _energy_unit(column)
    if unit is not None and unit.lower() not in POWER_UNITS:
        raise ValueError(f"unit={unit!r}: must be W, kW, MW or GW{nearest(unit, ['W', 'kW', 'MW', 'GW'])}")
    if unit is not None and named and unit.lower() not in named:
        said = " and ".join(named)
        raise TraceError(f"{table.name}: column {column!r} is named in {said}, not in unit={unit!r}")
    if unit is not None and energy is not None and energy != f"{unit.lower()}h":
        raise TraceError(f"{table.name}: column {column!r} is named in {energy}, not in unit={unit!r}")
    if unit is None and len(named) != 1:
        said = "names several units" if named else "does not name a unit"
        raise UnclearTraceError(f"{table.name}: column {column!r} {said} of power (W, kW, MW or GW)", "unit")
    return POWER_UNITS[unit.lower() if unit is not None else named[0]]


def _energy_unit(column: str) -> str | None:
    """Return the unit of energy that a column's name says, if it says none of power."""
    words = _words(column)
    energies = [word for word in words if word in {f"{unit}h" for unit in POWER_UNITS}]
    return energies[0] if energies and not POWER_UNITS.keys() & set(words) else None


def _refuse_energies(table: Table, columns: Iterable[str], step_hours: float) -> None:
    """Raise an error for a column of energies, unless its numbers are those of the mean powers."""
    for column in columns:
        energy = _energy_unit(column)
        if energy is not None and step_hours != 1.0:
            raise TraceError(
                f"{table.name}: column {column!r} is energy in {energy} of steps of {step_hours:g} h, not "
                "power; the two have the same numbers in steps of 1 h alone"
            )


def _intensity_factor(table: Table, column: str, unit: str | None) -> float:
    """Return what turns the column into kg/kWh."""
    named = _parse_intensity(column)
    if unit is None:
        if named is None:
            raise UnclearTraceError(
                f"{table.name}: column {column!r} does not name a unit of carbon intensity (such as kg/kWh)",
                "unit",
            )
        return named
    given = _parse_intensity(unit)
    if given is None:
        raise ValueError(f"unit={unit!r}: must be a mass per energy, g, kg, t or lb per kWh or MWh")
    if named is not None and named != given:
        raise TraceError(f"{table.name}: column {column!r} names another unit than unit={unit!r}")
    return given


def _parse_intensity(text: str) -> float | None:
    match = _INTENSITY.search(re.sub(r"[\s_]per[\s_]", "/", text.lower()).replace("₂", "2"))
    return _MASSES[match[1]] / _ENERGIES[match[2]] if match else None


def check_series(trace: object, fields: tuple[str, ...], quantity: str, step_hours: float) -> None:
    """Raise a ``ValueError`` unless a trace's series are of one length, and within a quantity's limits.

    Its step must be a positive number, and its start a date and time.
    """
    name, limit = type(trace).__name__, LIMITS[quantity]
    right = is_number(step_hours) and 0.0 < step_hours < np.inf
    require(right, f"{name}.step_hours", step_hours, "finite and above 0")
    start = getattr(trace, "start", None)
    require(isinstance(start, datetime), f"{name}.start", start, "a datetime")
    length = None
    for key in fields:
        values = getattr(trace, key)
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim != 1:
            raise ValueError(f"{name}.{key}: must be a one-dimensional float64 array")
        length = len(values) if length is None else length
        if len(values) != length or length == 0:
            raise ValueError(
                f"{name}.{key}: has {len(values)} steps; all series need the same number, at least 1"
            )
        bad = limit.outside(values)
        if bad.any():
            step = int(np.argmax(bad))
            raise ValueError(f"{name}.{key}[{step}]={values[step]}: must be {limit}")


def resample(values: NDArray[np.float64], old: float, new: float, after: float = 0.0) -> NDArray[np.float64]:
    """Return the means of a piecewise constant series over steps of another length.

    :param values: of the series
    :param old: length of its steps in hours
    :param new: length of the steps that are wanted
    :param after: hours into the series at which the first of them begins
    :raises ValueError: for a length that is not finite and above 0, or longer than the series
    """
    require(0.0 < new < np.inf, "step_hours", new, "finite and above 0")
    steps = int((len(values) * old - after) / new + 1e-9)
    require(steps >= 1, "step_hours", new, f"at most the trace's length, {len(values) * old:g} h")
    integral = np.concatenate([[0.0], np.cumsum(values)]) * old
    edges = np.interp(after + np.arange(steps + 1) * new, np.arange(len(values) + 1) * old, integral)
    means: NDArray[np.float64] = np.maximum(np.diff(edges) / new, 0.0)
    return means
