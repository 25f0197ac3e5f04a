"""Reads weather files: EnergyPlus weather (EPW), or NSRDB's sun beside WIND Toolkit's wind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from greendc.traces.tables import TraceError, read_text

# What EPW writes for a missing value (EnergyPlus Auxiliary Programs), and its columns, counted from 0.
_EPW = {
    "temperature": (6, 99.9),
    "pressure": (9, 999_999.0),
    "ghi": (13, 9999.0),
    "dni": (14, 9999.0),
    "dhi": (15, 9999.0),
    "wind_speed": (21, 999.0),
}
_EPW_COLUMNS, _EPW_HEADER = 35, 8
_NSRDB = {
    "ghi": "GHI",
    "dni": "DNI",
    "dhi": "DHI",
    "temperature": "Temperature",
    "surface_wind": "Wind Speed",
}
_ATMOSPHERE = 101_325.0  # Pa


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
    :raises TraceError: for other files, too many or too few, or a value that is missing or not a number;
        names the file and line
    """
    texts: dict[str, tuple[str, list[str]]] = {}
    for path in paths:
        lines = read_text(path).decode("utf-8", "replace").splitlines()
        kind = _kind(lines)
        if kind is None:
            raise TraceError(f"{path}: neither EPW, nor NSRDB (PSM CSV), nor WIND Toolkit (SRW)")
        if kind in texts:
            raise TraceError(f"{path}: the second {kind} file; one is needed")
        texts[kind] = (str(path), lines)
    if set(texts) == {"EPW"}:
        return _read_epw(*texts["EPW"])
    if set(texts) == {"NSRDB", "WIND Toolkit"}:
        return _join(texts["NSRDB"], texts["WIND Toolkit"], hub_height)
    raise TraceError(
        f"weather files of kind {' and '.join(sorted(texts)) or 'none'}: "
        "needed are one EPW file, or one NSRDB file and one WIND Toolkit (SRW) file"
    )


def _kind(lines: list[str]) -> str | None:
    if lines[0].startswith("LOCATION,"):
        return "EPW"
    if lines[0].startswith("Source,Location ID"):
        return "NSRDB"
    if len(lines) > 4 and "Speed" in lines[2].split(",") and "m/s" in lines[3].split(","):
        return "WIND Toolkit"
    return None


def _read_epw(name: str, lines: list[str]) -> Weather:
    place = _floats(name, 1, lines[0].split(",")[6:10], 4)
    rows = _rows(name, lines, _EPW_HEADER, _EPW_COLUMNS)
    values = {}
    for field, (column, missing) in _EPW.items():
        values[field] = _numbers(name, rows[column], field, _EPW_HEADER)
        _refuse(values[field] >= missing, name, _EPW_HEADER, f"{field} is missing")
    # Hours are numbered 1 to 24 by their end. The months of a typical year are of different years, of which
    # the first is taken for all.
    clock = pd.DataFrame({"year": rows[0].iloc[0], "month": rows[1], "day": rows[2]}).astype(float)
    ends = pd.to_datetime(clock, errors="coerce") + pd.to_timedelta(rows[3].astype(float), unit="h")
    return Weather(
        middle=_localize(name, _EPW_HEADER, ends - pd.Timedelta(minutes=30), place[2]),
        ghi=values["ghi"],
        dni=values["dni"],
        dhi=values["dhi"],
        temperature=values["temperature"],
        surface_wind=values["wind_speed"],
        wind_speed=values["wind_speed"],
        wind_height=10.0,
        density=_density(values["pressure"], values["temperature"]),
        latitude=place[0],
        longitude=place[1],
        altitude=place[3],
    )


def _join(nsrdb: tuple[str, list[str]], toolkit: tuple[str, list[str]], hub_height: float) -> Weather:
    name, lines = nsrdb
    about = dict(zip(lines[0].split(","), lines[1].split(","), strict=False))
    place = _floats(
        name, 2, [about.get(key, "") for key in ("Latitude", "Longitude", "Local Time Zone", "Elevation")], 4
    )
    header = lines[2].split(",")
    rows = _rows(name, lines, 3, len(header)).set_axis(header, axis=1)
    unknown = {"Year", "Month", "Day", "Hour", "Minute", *_NSRDB.values()} - set(header)
    if unknown:
        raise TraceError(f"{name}, line 3: no column {sorted(unknown)[0]!r}")
    values = {field: _numbers(name, rows[column], column, 3) for field, column in _NSRDB.items()}
    clock = rows[["Year", "Month", "Day", "Hour", "Minute"]].apply(pd.to_numeric, errors="coerce")
    stamps = pd.to_datetime(clock, errors="coerce")
    wind = _read_toolkit(*toolkit, hub_height)
    if len(wind["Speed"]) != len(rows):
        raise TraceError(f"{toolkit[0]}: has {len(wind['Speed'])} rows, but {name} has {len(rows)}")
    # NSRDB stamps the middle of the step where it can (minute 30 of hourly data); its sun is of that moment.
    return Weather(
        middle=_localize(name, 3, stamps, place[2]),
        **values,
        wind_speed=wind["Speed"],
        wind_height=float(wind["height"][0]),
        density=_density(wind["Pressure"] * _ATMOSPHERE, wind["Temperature"]),
        latitude=place[0],
        longitude=place[1],
        altitude=place[3],
    )


def _read_toolkit(name: str, lines: list[str], hub_height: float) -> dict[str, NDArray[np.float64]]:
    """Return temperature (°C), pressure (atm) and speed (m/s) at the height nearest to ``hub_height``."""
    kinds, units, heights = (lines[row].split(",") for row in (2, 3, 4))
    wanted = {"Temperature": "C", "Pressure": "atm", "Speed": "m/s"}
    columns = list(zip(kinds, units, _floats(name, 5, heights, len(kinds)), strict=False))
    height = min((h for kind, _, h in columns if kind == "Speed"), key=lambda h: abs(h - hub_height))
    rows = _rows(name, lines, 5, len(kinds))
    values = {"height": np.array([height])}
    for kind, unit in wanted.items():
        if (kind, unit, height) not in columns:
            raise TraceError(f"{name}: no {kind} in {unit} at {height:g} m")
        values[kind] = _numbers(name, rows[columns.index((kind, unit, height))], kind, 5)
    return values


def _density(pressure: NDArray[np.float64], temperature: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of dry air in kg/m³, from Pa and °C."""
    return pressure / (287.05 * (temperature + 273.15))


def _rows(name: str, lines: list[str], header: int, columns: int) -> pd.DataFrame:
    """Return the cells after the header as text, or say which line has not the right number of them."""
    body = lines[header:]
    for number, line in enumerate(body, start=header + 1):
        if line.count(",") != columns - 1:
            raise TraceError(f"{name}, line {number}: has {line.count(',') + 1} cells, not {columns}")
    if not body:
        raise TraceError(f"{name}: has no rows after its header")
    return pd.read_csv(io.StringIO("\n".join(body)), header=None, dtype=str)


def _numbers(name: str, cells: pd.Series, field: str, header: int) -> NDArray[np.float64]:
    values = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    _refuse(~np.isfinite(values), name, header, f"{field} must be a finite number")
    return values


def _floats(name: str, line: int, cells: Sequence[str], count: int) -> list[float]:
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        values = []
    if len(values) != count:
        raise TraceError(f"{name}, line {line}: must hold {count} numbers, not {','.join(cells)[:60]!r}")
    return values


def _localize(name: str, header: int, stamps: pd.Series, hours: float) -> pd.DatetimeIndex:
    _refuse(stamps.isna().to_numpy(), name, header, "the time must be a date and an hour")
    return pd.DatetimeIndex(stamps).tz_localize(f"UTC{hours:+03.0f}:{round(abs(hours) % 1 * 60):02d}")


def _refuse(bad: NDArray[np.bool_], name: str, header: int, what: str) -> None:
    if bad.any():
        raise TraceError(f"{name}, line {header + 1 + int(np.argmax(bad))}: {what}")
