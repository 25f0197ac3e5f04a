"""What each reader should return, computed once more in plain Python, slowly and from the text alone.

An oracle shares no code with the reader that it judges. It returns named values, or raises :class:`Refuse`
where the text does not tell what was meant, or :class:`Unsure` where it cannot read what a reader may read
(such as ``2021-03`` for a time).
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np

Values = dict[str, Any]
Files = Mapping[str, bytes]

_NUMBER = re.compile(r"[ \t]*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[ \t]*")
_EMPTY = {"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None"}
_TRUTH = {"true", "True", "TRUE", "false", "False", "FALSE"}
_KW = {"w": 1e-3, "kw": 1.0, "mw": 1e3, "gw": 1e6}
_TIME = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d?):(\d\d?)(?::(\d\d?))?[ \t]*(Z|[-+]\d\d:\d\d)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class Refuse(Exception):  # noqa: N818
    """What a reader must refuse."""


class Unsure(Exception):  # noqa: N818
    """What the oracle cannot judge."""


def require(condition: bool, why: str) -> None:
    """Raise :class:`Refuse` unless the condition holds."""
    if not condition:
        raise Refuse(why)


# --- text ---------------------------------------------------------------------------------------------------


def lines_of(data: bytes, lenient: bool = False) -> list[str]:
    """Return the lines of a text that is whole."""
    require(data[:2] not in (b"\xff\xfe", b"\xfe\xff"), "UTF-16")
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    try:
        text = data.decode("utf-8", "replace" if lenient else "strict")
    except UnicodeDecodeError:
        raise Refuse("not UTF-8") from None
    text = text.replace("\r\n", "\n")
    require("\ufeff" not in text, "byte-order mark")
    require(not any((ord(c) < 32 and c not in "\n\t") or ord(c) == 127 for c in text), "control character")
    require(text.strip() != "", "empty")
    if not text.endswith("\n"):
        text = text.rstrip(" \t")
    require(text.endswith("\n"), "no end of the last line")
    return text.rstrip("\n").split("\n")


def table_of(data: bytes, skip: int = 0, names: Sequence[str] | None = None) -> list[dict[str, str]]:
    """Return the rows of a table by column."""
    lines = lines_of(data, lenient=skip > 0)[skip:]
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines) + "\n", newline=""), strict=True))
    except csv.Error as error:
        raise Refuse(str(error)) from None
    header = list(names) if names is not None else [name.strip() for name in rows.pop(0)] if rows else []
    named = [name for name in header if name]
    require(len(set(named)) == len(named) and len(header) > 1, "columns")
    for row in rows:
        require(len(row) == len(header), "number of fields")
    return [dict(zip(header, row, strict=True)) for row in rows]


def number(cell: str) -> float:
    """Return a finite number; NaN for an empty cell."""
    if cell.strip() in _EMPTY:
        return math.nan
    require(_NUMBER.fullmatch(cell) is not None, f"no number: {cell!r}")
    value = float(cell)
    require(math.isfinite(value), "not finite")
    return value


def column(rows: Sequence[Mapping[str, str]], name: str, low: float, high: float) -> np.ndarray[Any, Any]:
    """Return a column of numbers within limits, none of them missing."""
    require(bool(rows) and name in rows[0], f"no column {name}")
    values = np.array([number(row[name]) for row in rows])
    require(bool(((values >= low) & (values <= high)).all()), f"{name} out of its limits")
    return values


def stamp(cell: str) -> datetime:
    """Return a time; one without an offset is UTC."""
    loose = _TIME.fullmatch(cell.strip())  # pandas reads 2021/3/1 5:0 as well
    if loose:
        *date, hour, minute, second, offset = loose.groups()
        clock_of = [f"{int(part or 0):02}" for part in (hour, minute, second)]
        cell = f"{'-'.join(date)}T{':'.join(clock_of)}{offset or ''}"
    try:
        found = datetime.fromisoformat(cell.replace("Z", "+00:00"))
    except ValueError:
        raise Unsure(f"time {cell!r}") from None
    require(1900 <= found.year <= 2100, "year")
    return found


def microseconds(found: datetime) -> int:
    """Return microseconds since 1970."""
    return ((found if found.tzinfo else found.replace(tzinfo=timezone.utc)) - _EPOCH) // _MICROSECOND


def clock(rows: Sequence[Mapping[str, str]], name: str) -> tuple[list[int], int, datetime]:
    """Return which step each row is, a step in microseconds, and the first time."""
    times = [stamp(row[name]) for row in rows]
    require(len({time.tzinfo is None for time in times}) == 1, "with and without offsets")
    at = [microseconds(time) for time in times]
    steps = [b - a for a, b in pairwise(at)]
    require(bool(steps) and min(steps) > 0, "times do not rise")
    step = max(sorted(set(steps)), key=steps.count)
    require(all(length % step == 0 for length in steps), "irregular")
    require(1_000_000 <= step <= 366 * 86_400_000_000, "step")
    return [(time - at[0]) // step for time in at], step, times[0]


# --- traces -------------------------------------------------------------------------------------------------


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word]


def _time_column(names: Sequence[str]) -> str:
    found = [name for name in names if name.lower().startswith(("time", "date"))]
    require(bool(found), "no time")
    return found[0]


def _series(
    rows: list[dict[str, str]], chosen: Mapping[str, tuple[str, float]], high: float, gaps: str
) -> Values:
    require(bool(rows), "no rows")
    index, step, start = clock(rows, _time_column(list(rows[0])))
    missing = index[-1] + 1 - len(index)
    require(missing == 0 or (gaps == "interpolate" and missing <= len(index)), "gap")
    values: Values = {"step": step / 3.6e9, "start": start.isoformat()}
    for what, (name, factor) in chosen.items():
        found = np.array([number(row[name]) for row in rows]) * factor
        gone = np.isnan(found)
        require(not gone.any() or (gaps == "interpolate" and not gone[0] and not gone[-1]), "missing")
        require(bool(((found[~gone] >= 0) & (found[~gone] <= high)).all()), "limits")
        if gaps == "interpolate":
            found = np.interp(np.arange(index[-1] + 1), np.array(index)[~gone], found[~gone])
        values[what] = found
    return values


def power(files: Files, gaps: str = "error") -> Values:
    """Return solar and wind power in kW."""
    return power_of(table_of(files["power.csv"]), gaps)


def power_of(rows: list[dict[str, str]], gaps: str = "error") -> Values:
    """Return solar and wind power in kW from the rows of a table."""
    require(bool(rows), "no rows")
    chosen = {}
    for what, words in (("solar", {"solar", "pv"}), ("wind", {"wind"})):
        names = [name for name in rows[0] if words & set(_words(name))]
        require(len(names) < 2, "ambiguous")
        for name in names:
            units = [word for word in _words(name) if word in _KW]
            require(bool(units), "no unit")
            chosen[what] = name, _KW[units[0]]
    require(bool(chosen), "no power")
    return _series(rows, chosen, 1e9, gaps)


def carbon(files: Files, gaps: str = "error") -> Values:
    """Return the carbon intensity in kg/kWh."""
    rows = table_of(files["carbon.csv"])
    require(bool(rows), "no rows")
    names = [
        n
        for n in rows[0]
        if {"carbon", "co2", "moer"} & set(_words(n)) and not {"low", "free"} & set(_words(n))
    ]
    require(len(names) == 1, "ambiguous")
    compact = re.sub(r"[\s_]+", "", names[0].lower().replace(" per ", "/").replace("_per_", "/")).replace(
        "₂", "2"
    )
    unit = re.search(r"(kg|g|t|lb)(?:co2(?:e|eq)?)?/([km]wh)", compact)
    if unit is None:
        raise Refuse("no unit")
    mass = {"g": 1e-3, "kg": 1.0, "t": 1e3, "lb": 0.45359237}[unit[1]]
    return _series(rows, {"carbon": (names[0], mass / {"kwh": 1.0, "mwh": 1e3}[unit[2]])}, 5.0, gaps)


def carbon_feed(files: Files) -> Values:
    """Return the carbon intensity in kg/kWh of a service's answer in JSON."""

    def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        require(len({key for key, _ in pairs}) == len(pairs), "a key twice")
        return dict(pairs)

    try:
        answer = json.loads(files["answer.json"], object_pairs_hook=no_key_twice)
        entries = [(entry["datetime"], entry["carbonIntensity"]) for entry in answer["forecast"]]
    except (ValueError, LookupError, TypeError) as error:
        raise Refuse(str(error)) from None
    for time, value in entries:
        require(type(time) is str and type(value) in (int, float), "types")
    rows = [{"time": time, "value": str(value)} for time, value in entries]
    return _series(rows, {"carbon": ("value", 1e-3)}, 5.0, "error")


def moer(files: Files) -> Values:
    """Return hourly emissions rates and forecasts in kg/kWh."""
    return _rates(table_of(files["moer.csv"]), ("moer", "f1", "f2", "f3"), 60)


def moer_archive(files: Files) -> Values:
    """Return emissions rates and forecasts every 5 minutes in kg/kWh."""
    return _rates(table_of(files["SGIP.csv"]), ("moer", *(f"f{k}" for k in range(1, 37))), 5)


def _rates(rows: list[dict[str, str]], names: Sequence[str], minutes: int) -> Values:
    values = np.array([column(rows, name, 0.0, 5.0) for name in names]).T
    require("time" in rows[0], "no time")
    times = [stamp(row["time"]) for row in rows]
    require(len({time.tzinfo is None for time in times}) == 1, "with and without offsets")
    at = [microseconds(time) for time in times]
    step = minutes * 60_000_000
    require(all(time % step == 0 for time in at), "not on the clock")
    require(all(b - a == step for a, b in pairwise(at)), "gap")
    return {"start": at[0], "values": values}


def google(files: Files) -> Values:
    """Return hours, durations, CPU and priorities of the jobs that are kept."""
    rows = table_of(files["day_0.csv"])
    year = 366 * 86_400e6
    time, duration = column(rows, "time", 0, year), column(rows, "duration", 0, year)
    cpu, priority = column(rows, "cpu", 0, 100), column(rows, "priority", 0, 32767)
    for values in (time, duration, priority):
        require(bool((values == np.floor(values)).all()), "whole numbers")
    tasks = [row["task_id"] for row in rows if row.get("task_id", "").strip() not in _EMPTY]
    require(len(set(tasks)) == len(tasks), "doubled task")
    start = time - 600e6
    keep = (start >= 0) & (duration > 0) & (cpu > 0) & (cpu <= 1)
    require(bool(keep.any()), "no jobs")
    order = np.flatnonzero(keep)[np.argsort(start[keep], kind="stable")]
    return {
        "hour": start[order] // 3_600_000_000,
        "duration": np.ceil(duration[order] / 3_600_000_000),
        "cpu": np.maximum(np.round(cpu[order] * 1e6), 1),
        "priority": priority[order],
    }


_SKY = {"ghi": 2000.0, "dni": 1500.0, "dhi": 1500.0}


def epw(files: Files) -> Values:
    """Return weather of an EPW file."""
    lines = lines_of(files["place.epw"], lenient=True)
    place = lines[0].split(",")
    require(place[0] == "LOCATION" and len(place) == 10 and len(lines) > 8, "header")
    values = _place(place[6:10])
    rows = table_of(files["place.epw"], 8, [str(i) for i in range(35)])
    for i, name in ((13, "ghi"), (14, "dni"), (15, "dhi")):
        values[name] = column(rows, str(i), 0.0, _SKY[name])
    values["wind"] = column(rows, "21", 0.0, 115.0)
    values["temperature"] = column(rows, "6", -90.0, 60.0)
    pressure = column(rows, "9", 30_000.0, 110_000.0)
    values["density"] = pressure / (287.05 * (values["temperature"] + 273.15))
    year, month, day, hour = (column(rows, str(i), 0, 3000) for i in range(4))
    require(bool(((year >= 1900) & (year <= 2100) & (hour >= 1)).all()), "clock")
    values["middle"] = [at - 1_800_000_000 for at in _times(np.full(len(rows), year[0]), month, day, hour)]
    require(all(value == math.floor(value) for value in year), "clock")
    end = lines[7].split(",")
    if end[:2] == ["DATA PERIODS", "1"]:
        last = [str(int(month[-1])), str(int(day[-1]))]
        require([part.strip() for part in end[-1].split("/")[:2]] == last and hour[-1] == 24, "cut")
    return values


def _place(cells: Sequence[str]) -> Values:
    limits = ((-90, 90), (-180, 180), (-12, 14), (-500, 9000))
    values = [number(cell) for cell in cells]
    for value, (low, high) in zip(values, limits, strict=True):
        require(low <= value <= high, "place")
    require(values[2] * 4 == round(values[2] * 4), "offset")
    return {"place": np.array(values)}


def _times(*fields: np.ndarray[Any, Any]) -> list[int]:
    """Return microseconds of year, month, day, hour and perhaps minute, by the local clock."""
    found = []
    for row in zip(*fields, strict=True):
        require(all(value == math.floor(value) for value in row), "clock")
        year, month, day, hour, minute = (*map(int, row), 0)[:5]
        require(0 <= hour <= 24 and 0 <= minute <= 59, "hour")
        try:
            at = datetime(year, month, day, tzinfo=timezone.utc) + timedelta(hours=hour, minutes=minute)
        except ValueError:
            raise Refuse("date") from None
        found.append(microseconds(at))
    require(all(b > a for a, b in pairwise(found)), "times do not rise")
    return found


def nsrdb(files: Files) -> Values:
    """Return weather of an NSRDB file and a WIND Toolkit file at 80 m."""
    sun, wind = lines_of(files["sun.csv"], lenient=True), lines_of(files["wind.srw"], lenient=True)
    require(sun[0].startswith("Source,Location ID") and len(sun) > 3, "NSRDB")
    keys, cells = sun[0].split(","), sun[1].split(",")
    require(len(keys) == len(cells), "place")
    about = dict(zip(keys, cells, strict=True))
    names = ("Latitude", "Longitude", "Local Time Zone", "Elevation")
    values = _place([about.get(name, "x") for name in names])
    rows = table_of(files["sun.csv"], 2)
    for name in _SKY:
        values[name] = column(rows, name.upper(), 0.0, _SKY[name])
    values["temperature"] = column(rows, "Temperature", -90.0, 60.0)
    year = column(rows, "Year", 1900, 2100)
    clock_of = [column(rows, name, 0, 3000) for name in ("Month", "Day", "Hour", "Minute")]
    values["middle"] = _times(year, *clock_of)
    require(len(wind) > 5, "no rows")
    kinds, units, heights = (line.split(",") for line in wind[2:5])
    require("Speed" in kinds and "m/s" in units, "WIND Toolkit")
    require(len(kinds) == len(units) == len(heights), "columns")
    at = [number(height) for height in heights]
    require(all(1 <= height <= 500 for height in at), "height")
    keys = [f"{kind}|{unit}|{height:g}" for kind, unit, height in zip(kinds, units, at, strict=True)]
    require(len(set(keys)) == len(keys), "columns")
    rows = table_of(files["wind.srw"], 5, keys)
    told = wind[0].rpartition(",")[2].strip()
    require(not told.isdecimal() or int(told) == len(rows), "length")
    require(len(rows) == len(values["ghi"]), "lengths")
    height = min(
        (h for kind, h in zip(kinds, at, strict=True) if kind == "Speed"), key=lambda h: abs(h - 80.0)
    )
    celsius = column(rows, f"Temperature|C|{height:g}", -90.0, 60.0)
    pascal = column(rows, f"Pressure|atm|{height:g}", 0.0, 1e9) * 101_325.0
    require(bool(((pascal >= 30_000) & (pascal <= 110_000)).all()), "pressure")
    values["wind"] = column(rows, f"Speed|m/s|{height:g}", 0.0, 115.0)
    values["density"] = pascal / (287.05 * (celsius + 273.15))
    return values


# --- results and logs ---------------------------------------------------------------------------------------


def results(files: Files) -> Values:
    """Return all columns of a table of episodes."""
    rows = table_of(files["results.csv"])
    require(bool(rows) and {"policy", "env_id", "seed"} <= set(rows[0]), "columns")
    values = _columns(rows, ("policy", "env_id"), {""})
    for name in ("seed", "run", "episode"):
        whole = isinstance(values.get(name, np.ones(1)), np.ndarray)
        require(
            whole and bool((np.floor(values.get(name, np.ones(1))) == values.get(name, 1)).all()), "whole"
        )
    return values


def progress(files: Files) -> Values:
    """Return all columns of a training log, of which the last line may still be in writing."""
    data = files["progress.csv"]
    whole = data[: data.rfind(b"\n") + 1] or data
    rows = table_of(whole)
    header = next(csv.reader([lines_of(whole)[0]]))
    require("time/total_timesteps" in [name.strip() for name in header], "columns")
    return _columns(rows, (), _EMPTY)


def _columns(rows: Sequence[Mapping[str, str]], texts: Sequence[str], empty: set[str]) -> Values:
    values: Values = {}
    for name in rows[0] if rows else ():
        cells = [row[name] for row in rows]
        if name in texts:
            require("" not in cells, "empty text")
            values[name] = cells
            continue
        numeric = [cell in empty or _NUMBER.fullmatch(cell) is not None for cell in cells]
        words = [cell for cell in cells if cell not in empty]
        infinite = {"inf", "-inf", "+inf", "infinity", "-infinity", "+infinity"}
        if all(flag or cell.strip().lower() in infinite for flag, cell in zip(numeric, cells, strict=True)):
            values[name] = np.array([math.nan if cell in empty else float(cell) for cell in cells])
            continue
        require(not any(_NUMBER.fullmatch(cell) for cell in words), "numbers and words")
        if all(cell in _TRUTH for cell in words):
            cells = [cell.capitalize() if cell in _TRUTH else cell for cell in cells]
        values[name] = [None if cell in empty else cell for cell in cells]
    return values


# --- YAML ---------------------------------------------------------------------------------------------------

_YAML: tuple[tuple[str, Callable[[str], Any]], ...] = (
    (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    (r"~|null|Null|NULL|", lambda text: None),
    (r"[-+]?[0-9]+", int),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", lambda text: float(text.replace(".", ""))),
)


def yaml_value(files: Files) -> Values:
    """Return the value of a YAML text, by the rules of YAML 1.2 on PyYAML's tree of nodes."""
    import yaml

    try:
        text = files["hparams.yml"].decode()
        loader = yaml.BaseLoader(text)
        node = loader.get_single_node()
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Refuse(str(error)) from None
    return {"value": None if node is None else _yaml_node(node, 0)}


def _yaml_node(node: Any, depth: int) -> Any:
    require(depth < 50, "deep")
    explicit = not node.tag.startswith("tag:yaml.org,2002:") or (depth and node.tag not in _PLAIN_TAGS)
    if explicit:
        raise Unsure(node.tag)
    kind = type(node).__name__
    if kind == "SequenceNode":
        return [_yaml_node(item, depth + 1) for item in node.value]
    if kind == "MappingNode":
        found: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        written: set[tuple[str, bool]] = set()
        for key, value in node.value:
            name = _yaml_node(key, depth + 1)
            if isinstance(name, list | dict):
                raise Refuse("key")
            if name == "<<" and key.style is None:
                sources = _yaml_node(value, depth + 1)
                for source in reversed(sources if isinstance(sources, list) else [sources]):
                    require(isinstance(source, dict), "merge")
                    merged |= source
                require("<<" not in found, "twice")
            else:
                require((key.value, key.style is None) not in written, "twice")
                written.add((key.value, key.style is None))
                if name in found:
                    raise Unsure("keys that are equal but not written alike")
                found[name] = _yaml_node(value, depth + 1)
        return merged | found
    if node.style is None:
        for pattern, convert in _YAML:
            if re.fullmatch(pattern, node.value):
                require(len(node.value) < 100, "digits")
                return convert(node.value)
    return node.value


_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}
