"""Reads weather files: EnergyPlus weather (EPW), or NSRDB's sun beside WIND Toolkit's wind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.lazy import LazyModule
from greendc.traces.limits import LIMITS
from greendc.traces.table_reader import NUMBER, Table, clean_text, read_table
from greendc.traces.trace_files import TraceError, read_file

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


# What EPW writes for a missing value (EnergyPlus Auxiliary Programs), and its columns, counted from 0.
_EPW = {
    "temperature": (6, 99.9),
    "pressure": (9, 999_999.0),
    "ghi": (13, 9999.0),
    "dni": (14, 9999.0),
    "dhi": (15, 9999.0),
    "wind_speed": (21, 999.0),
}
_EPW_COLUMNS = tuple(str(column) for column in range(35))
_EPW_HEADER = 8
_EPW_CLOCK = {"0": "year", "1": "month", "2": "day", "3": "hour"}
_EPW_PLACE = 10  # cells of its first line
_NSRDB = {
    "ghi": "GHI",
    "dni": "DNI",
    "dhi": "DHI",
    "temperature": "Temperature",
    "surface_wind": "Wind Speed",
}
_CLOCK = {"Year": "year", "Month": "month", "Day": "day", "Hour": "hour", "Minute": "minute"}
_ATMOSPHERE = 101_325.0  # Pa
_WIND_TOOLKIT_HEADER = 5
_WIND_TOOLKIT_CELLS = 10  # of its first line
_NEAR = 0.1  # degrees, about 10 km; the grids of the two archives are of 4 and 2 km


@dataclass(frozen=True, eq=False)
class Weather:
    """Weather of a place, one row a step.

    :param middle: ``(T,)`` middle of each step in local standard time, aware of its offset; for the sun
    :param ghi: ``(T,)`` global horizontal irradiance in W/m²
    :param dni: ``(T,)`` direct normal irradiance in W/m²
    :param dhi: ``(T,)`` diffuse horizontal irradiance in W/m²
    :param temperature: ``(T,)`` of the air near the ground in °C
    :param surface_wind: ``(T,)`` wind speed near the ground, which cools panels, in m/s
    :param wind_speed: ``(T,)`` wind speed at ``wind_height`` in m/s
    :param wind_height: in m above ground
    :param density: ``(T,)`` of the air at ``wind_height`` in kg/m³
    :param latitude: in degrees north
    :param longitude: in degrees east
    :param altitude: in m above the sea
    """

    middle: pd.DatetimeIndex
    ghi: NDArray[np.float64]
    dni: NDArray[np.float64]
    dhi: NDArray[np.float64]
    temperature: NDArray[np.float64]
    surface_wind: NDArray[np.float64]
    wind_speed: NDArray[np.float64]
    wind_height: float
    density: NDArray[np.float64]
    latitude: float
    longitude: float
    altitude: float


def read_weather(paths: Sequence[str | Path], hub_height: float) -> Weather:
    """Read one EPW file, or an NSRDB file and a WIND Toolkit file of the same place and time.

    The kind of a file is told by its content; the order does not matter; names that end in ``.gz`` are
    unpacked. Of the WIND Toolkit's heights the one nearest to ``hub_height`` is taken.

    :param paths: one or two files
    :param hub_height: of the turbine in m above ground
    :raises TraceError: for other files, too many or too few, a value that is missing, no number or beyond
        :data:`~greendc.traces.limits.LIMITS`, times that do not rise, fewer rows than the header
        promises, and a pair of files of other places (more than 0.1 degrees apart), years, steps or numbers
        of rows; names the file and line
    """
    texts: dict[str, tuple[str, bytes]] = {}
    for path in paths:
        # Names of places may be in another encoding; they are not read.
        text = clean_text(read_file(path), str(path), any_encoding=True)
        kind = _kind(_lines(text, 5))
        if kind is None:
            raise TraceError(f"{path}: neither EPW, nor NSRDB (PSM CSV), nor WIND Toolkit (SRW)")
        if kind in texts:
            raise TraceError(f"{path}: the second {kind} file; one is needed")
        texts[kind] = (str(path), text)
    if set(texts) == {"EPW"}:
        return _read_epw(*texts["EPW"])
    if set(texts) == {"NSRDB", "WIND Toolkit"}:
        return _join(texts["NSRDB"], texts["WIND Toolkit"], hub_height)
    raise TraceError(
        f"weather files of kind {' and '.join(sorted(texts)) or 'none'}: "
        "needed are one EPW file, or one NSRDB file and one WIND Toolkit (SRW) file"
    )


def _lines(text: bytes, count: int) -> list[str]:
    """Return the first lines, fewer if the text has not so many."""
    return [line.decode() for line in text.split(b"\n", count)[:count]]


def _kind(lines: list[str]) -> str | None:
    if lines[0].startswith("LOCATION,"):
        return "EPW"
    if lines[0].startswith("Source,Location ID"):
        return "NSRDB"
    if len(lines) > 4 and "Speed" in lines[2].split(",") and "m/s" in lines[3].split(","):
        return "WIND Toolkit"
    return None


def _read_epw(name: str, text: bytes) -> Weather:
    lines = _lines(text, _EPW_HEADER)
    place = lines[0].split(",")
    if len(place) != _EPW_PLACE:
        raise TraceError(f"{name}, line 1: {len(place)} fields instead of {_EPW_PLACE}")
    latitude, longitude, offset, altitude = _place(name, 1, place[6:10])
    table = _table(text, name, _EPW_HEADER, _EPW_COLUMNS)
    columns = {str(column): field for field, (column, _) in _EPW.items()}
    frame = table.read([*_EPW_CLOCK, *columns])
    values = {}
    for column, field in columns.items():
        values[field] = frame[column].to_numpy(np.float64)
        table.refuse(values[field] >= _EPW[field][1], f"{field} is missing")
        table.check(field, values[field], field)
    # Hours are numbered 1 to 24 by their end. The months of a typical year are of different years, of which
    # the first is taken for all.
    clock = _clock(table, frame, _EPW_CLOCK)
    table.refuse((clock["hour"] < 1).to_numpy(), "the time must be a date and an hour from 1 to 24")
    ends = _stamps(table, clock.assign(year=clock["year"].iloc[0]))
    _check_end(table, lines[-1], clock)
    return Weather(
        middle=_localize(ends - pd.Timedelta(minutes=30), offset),
        ghi=values["ghi"],
        dni=values["dni"],
        dhi=values["dhi"],
        temperature=values["temperature"],
        surface_wind=values["wind_speed"],
        wind_speed=values["wind_speed"],
        wind_height=10.0,
        density=_density(values["pressure"], values["temperature"]),
        latitude=latitude,
        longitude=longitude,
        altitude=altitude,
    )


def _check_end(table: Table, periods: str, clock: pd.DataFrame) -> None:
    """Refuse a file that ends before the day that its last header line names (``..., 1/ 1,12/31``)."""
    cells = periods.split(",")
    if cells[0] != "DATA PERIODS" or cells[1:2] != ["1"]:
        return
    end = [cell.strip() for cell in cells[-1].split("/")[:2]]
    last = len(clock) - 1
    found = [str(clock[field].iloc[last]) for field in ("month", "day")]
    if end != found or clock["hour"].iloc[last] != 24:
        raise table.error(last, f"the file ends here, but line {_EPW_HEADER} promises data up to {cells[-1]}")


def _join(nsrdb: tuple[str, bytes], toolkit: tuple[str, bytes], hub_height: float) -> Weather:
    name, text = nsrdb
    keys, cells = (line.split(",") for line in [*_lines(text, 2), "", ""][:2])
    if len(keys) != len(cells):
        raise TraceError(f"{name}, line 2: {len(cells)} fields instead of {len(keys)}")
    about = dict(zip(keys, cells, strict=True))
    latitude, longitude, offset, altitude = _place(
        name, 2, [about.get(key, "") for key in ("Latitude", "Longitude", "Local Time Zone", "Elevation")]
    )
    table = _table(text, name, 2)
    frame = table.read([*_CLOCK, *_NSRDB.values()])
    values = {field: frame[column].to_numpy(np.float64) for field, column in _NSRDB.items()}
    for field, column in _NSRDB.items():
        table.check(column, values[field], _quantity(field))
    stamps = _stamps(table, _clock(table, frame, _CLOCK))
    wind = _read_toolkit(*toolkit, hub_height)
    if len(wind["Speed"]) != len(table):
        raise TraceError(f"{toolkit[0]}: has {len(wind['Speed'])} rows, but {name} has {len(table)}")
    _refuse_others(toolkit, name, latitude, longitude, stamps)
    # NSRDB stamps the middle of the step where it can (minute 30 of hourly data); its sun is of that moment.
    return Weather(
        middle=_localize(stamps, offset),
        **values,
        wind_speed=wind["Speed"],
        wind_height=float(wind["height"][0]),
        density=_density(wind["Pressure"], wind["Temperature"]),
        latitude=latitude,
        longitude=longitude,
        altitude=altitude,
    )


def _refuse_others(
    toolkit: tuple[str, bytes], sun: str, latitude: float, longitude: float, stamps: pd.Series
) -> None:
    """Refuse a WIND Toolkit file whose first line says another place, year or step than the sun's file.

    What it does not say in numbers is not compared.
    """
    name, text = toolkit
    cells = _lines(text, 1)[0].split(",")
    if len(cells) != _WIND_TOOLKIT_CELLS:
        return
    step = stamps.diff().min() / pd.Timedelta(hours=1)
    compared = {
        "year": (cells[4], stamps.dt.year.iloc[len(stamps) // 2], 0.5),
        "latitude": (cells[5], latitude, _NEAR),
        "longitude": (cells[6], longitude, _NEAR),
        "step in hours": (cells[8], step, 0.05 * step),
    }
    known = {what: pair for what, pair in compared.items() if NUMBER.fullmatch(pair[0])}
    if any(abs(float(cell) - wanted) > tolerance for cell, wanted, tolerance in known.values()):
        theirs, ours = (
            ", ".join(f"{what} {float(pair[k]):.5g}" for what, pair in known.items()) for k in (0, 1)
        )
        raise TraceError(f"{name}, line 1: {theirs}; but {sun}: {ours}; needed are the same place and time")


def _read_toolkit(name: str, text: bytes, hub_height: float) -> dict[str, NDArray[np.float64]]:
    """Return temperature (°C), pressure (Pa) and speed (m/s) at the height nearest to ``hub_height``."""
    lines = _lines(text, _WIND_TOOLKIT_HEADER)
    kinds, units, heights = (line.split(",") for line in lines[2:5])
    for line, cells in ((4, units), (5, heights)):
        if len(cells) != len(kinds):
            raise TraceError(f"{name}, line {line}: {len(cells)} fields instead of {len(kinds)}")
    names = [
        f"{kind} in {unit} at {height:g} m"
        for kind, unit, height in zip(kinds, units, _floats(name, 5, heights, "wind_height"), strict=True)
    ]
    for number, column in enumerate(names):
        if column in names[:number]:
            raise TraceError(f"{name}, lines 3 to 5: two columns of {column}")
    known = [float(height) for kind, height in zip(kinds, heights, strict=True) if kind == "Speed"]
    height = min(known, key=lambda h: abs(h - hub_height))
    table = _table(text, name, _WIND_TOOLKIT_HEADER, names)
    _check_length(table, lines[0])
    wanted = {
        "Temperature": ("C", "temperature", 1.0),
        "Pressure": ("atm", "pressure", _ATMOSPHERE),
        "Speed": ("m/s", "wind_speed", 1.0),
    }
    columns = {kind: f"{kind} in {unit} at {height:g} m" for kind, (unit, _, _) in wanted.items()}
    for column in columns.values():
        if column not in names:
            raise TraceError(f"{name}: no {column}")
    frame = table.read(columns.values())
    values = {"height": np.array([height])}
    for kind, (_, quantity, factor) in wanted.items():
        cells_of_kind = frame[columns[kind]].to_numpy(np.float64)
        values[kind] = table.check(kind, cells_of_kind, quantity, factor)
    return values


def _check_length(table: Table, about: str) -> None:
    """Refuse a file with fewer or more rows than its first line says, whose last cell is their number."""
    rows = about.rpartition(",")[2].strip()
    if rows.isdecimal() and int(rows) != len(table):
        raise TraceError(f"{table.name}: has {len(table)} rows, but line 1 promises {rows}")


def _density(pressure: NDArray[np.float64], temperature: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of dry air in kg/m³, from Pa and °C."""
    return pressure / (287.05 * (temperature + 273.15))


def _table(text: bytes, name: str, skip: int, columns: Sequence[str] | None = None) -> Table:
    """Return the table behind a header of ``skip`` lines, or say that there is none."""
    table = read_table(text, name, columns, skip=skip) if text.count(b"\n") > skip else None
    if table is None or not len(table):
        raise TraceError(f"{name}: has no rows after its header")
    return table


def _quantity(field: str) -> str:
    return "wind_speed" if field == "surface_wind" else field


def _place(name: str, line: int, cells: Sequence[str]) -> list[float]:
    """Return latitude, longitude, offset from UTC and altitude."""
    quantities = ("latitude", "longitude", "utc_offset", "altitude")
    place = [
        number
        for cell, quantity in zip(cells, quantities, strict=True)
        for number in _floats(name, line, [cell], quantity)
    ]
    if 4.0 * place[2] % 1.0 != 0.0:
        raise TraceError(
            f"{name}, line {line}: utc_offset={cells[2]!r}: must be a multiple of a quarter hour"
        )
    return place


def _floats(name: str, line: int, cells: Sequence[str], quantity: str) -> list[float]:
    """Return numbers of a header, within the limits of their quantity."""
    limit = LIMITS[quantity]
    for cell in cells:
        if not NUMBER.fullmatch(cell) or not limit.low <= float(cell) <= limit.high:
            raise TraceError(f"{name}, line {line}: {quantity}={cell[:40]!r}: must be {limit}")
    return [float(cell) for cell in cells]


def _clock(table: Table, frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return year, month, day, hour and minute as whole numbers."""
    clock = frame[list(columns)].rename(columns=columns)
    whole = (clock % 1 == 0).all(axis=1) & (clock.abs() < 10_000).all(axis=1)
    table.refuse(~whole.to_numpy(), "the time must be made of whole numbers")
    table.check("year", clock["year"].to_numpy(np.float64), "year")
    return clock.astype(np.int64)


def _stamps(table: Table, clock: pd.DataFrame) -> pd.Series:
    """Return times, each later than that of the row before."""
    hours, minutes = clock["hour"], clock.get("minute", pd.Series(0, clock.index))
    days = pd.to_datetime(clock[["year", "month", "day"]], errors="coerce")
    bad = days.isna() | ~hours.between(0, 24) | ~minutes.between(0, 59)
    table.refuse(bad.to_numpy(), "the time must be a date and an hour")
    stamps = days + pd.to_timedelta(60 * hours + minutes, unit="min")
    falling = np.diff(stamps.to_numpy("datetime64[s]").astype(np.int64), prepend=-(2**62)) <= 0
    table.refuse(falling, "the time does not come after that of the row before")
    return stamps


def _localize(stamps: pd.Series, hours: float) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(stamps).tz_localize(timezone(timedelta(hours=hours)))
