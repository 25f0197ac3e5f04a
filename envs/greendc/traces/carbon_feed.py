"""Forecasts of carbon intensity in JSON, as services answer: a table whose rows are its entries.

- rows ``{"time", "duration", "value"}``, ``duration`` in minutes (the form of the Carbon Aware SDK, whose
  ``timestamp`` is taken for ``time``)
- Electricity Maps: ``{"forecast": [{"datetime", "carbonIntensity"}]}``, g/kWh
- WattTime, version 3: ``{"data": [{"point_time", "value"}], "meta": {"units"}}``
- the Carbon Intensity API of Great Britain: ``{"data": [{"from", "to", "intensity": {"forecast"}}]}``, g/kWh,
  also of a region
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from greendc.traces.table_reader import Table
from greendc.traces.trace_files import TraceError

GRAMS = "gCO2/kWh"
DURATION = "duration"
Entry = tuple[object, object, object]
"""Time, minutes (or ``None``) and value."""

_FORMS = (
    "rows of time, duration and value, or an answer of Electricity Maps, WattTime or carbonintensity.org.uk"
)
_SHOWN = 40


def parse_feed(data: bytes, name: str) -> Table:
    """Return the entries of an answer as a table: ``time``, perhaps ``duration`` in minutes, and the value.

    The last column's name says its unit if the answer does, as in ``carbon_intensity (gCO2/kWh)``.

    :param data: the content of the file
    :param name: what errors call it
    :raises TraceError: if it is no JSON or of none of the forms, holds an error of the service in place of a
        forecast, or an entry lacks something; names the entry, from 1
    """
    try:
        answer = json.loads(data, parse_constant=_refuse_constant, object_pairs_hook=_unlike)
    except (ValueError, RecursionError) as error:  # json's own and Unicode's errors are ValueErrors
        raise TraceError(f"{name}: no whole JSON ({error})") from None
    entries, value, read = _form(answer, name)
    if not entries:
        raise TraceError(f"{name}: a forecast without entries")
    found = [_checked(entry, k, name, read) for k, entry in enumerate(entries, start=1)]
    timed = [minutes is not None for _, minutes, _ in found]
    if any(timed) and not all(timed):
        raise TraceError(f"{name}, entry {timed.index(False) + 1}: {DURATION} is missing")
    columns = ("time", DURATION, value) if timed[0] else ("time", value)
    rows = [tuple(str(cell) for cell in row if cell is not None) for row in found]
    body = "".join(",".join(row) + "\n" for row in rows).encode()
    return Table(name, columns, "entry 1", len(rows), body, None)


def _form(answer: Any, name: str) -> tuple[Sequence[Any], str, Callable[[Mapping[str, Any]], Entry]]:
    """Return the entries of an answer, the column of their values, and what reads one."""
    if isinstance(answer, list):
        return answer, "value", _plain
    if isinstance(answer, Mapping):
        if isinstance(answer.get("forecast"), list):
            return answer["forecast"], _column(GRAMS), _electricity_maps
        rows = answer.get("data")
        if isinstance(rows, Mapping):  # of a region
            rows = rows.get("data")
        meta = answer.get("meta")
        if isinstance(rows, list) and isinstance(meta, Mapping):
            step = meta.get("data_point_period_seconds")
            minutes = step / 60 if isinstance(step, int | float) and not isinstance(step, bool) else None
            column = _column(meta.get("units"))
            return rows, column, lambda entry: (entry["point_time"], minutes, entry["value"])
        if isinstance(rows, list):
            return rows, _column(GRAMS), _half_hour
        said = answer.get("error") or answer.get("message")
        if said:
            raise TraceError(f"{name}: an error of the service: {str(said)[:200]}")
    raise TraceError(f"{name}: must be {_FORMS}")


def _column(unit: object) -> str:
    return f"carbon_intensity ({unit})"


def _plain(entry: Mapping[str, Any]) -> Entry:
    return entry["time" if "time" in entry else "timestamp"], entry[DURATION], entry["value"]


def _electricity_maps(entry: Mapping[str, Any]) -> Entry:
    return entry["datetime"], None, entry["carbonIntensity"]


def _half_hour(entry: Mapping[str, Any]) -> Entry:
    begin, end = (datetime.fromisoformat(entry[key].replace("Z", "+00:00")) for key in ("from", "to"))
    return entry["from"], (end - begin).total_seconds() / 60, entry["intensity"]["forecast"]


def _checked(entry: Any, number: int, name: str, read: Callable[[Mapping[str, Any]], Entry]) -> Entry:
    """Return an entry as it can stand in a line of text."""
    where = f"{name}, entry {number}"
    if not isinstance(entry, Mapping):
        raise TraceError(f"{where}: must be an object, not {json.dumps(entry)[:_SHOWN]}")
    try:
        time, minutes, value = read(entry)
    except KeyError as error:
        raise TraceError(f"{where}: {error.args[0]} is missing") from None
    except (AttributeError, TypeError, ValueError):
        raise TraceError(f"{where}: not as the other forms have it: {json.dumps(entry)[:_SHOWN]}") from None
    if not isinstance(time, str) or not time.strip() or set(time) & set(',"\n\r'):
        raise TraceError(f"{where}: time={str(time)[:_SHOWN]!r}: must be a date and time (ISO 8601)")
    for what, cell in (("value", value), (DURATION, minutes)):
        if not (_is_number(cell) or (what == DURATION and cell is None)):
            raise TraceError(f"{where}: {what}={str(cell)[:_SHOWN]!r}: must be a finite number")
    return time, minutes, value


def _is_number(cell: object) -> bool:
    try:
        return isinstance(cell, int | float) and not isinstance(cell, bool) and math.isfinite(cell)
    except OverflowError:  # an integer beyond all floats
        return False


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _unlike(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, none of whose keys may stand in it twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} twice in one object")
    return found
