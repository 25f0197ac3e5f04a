"""Dataclasses with a JSON form: each field declares its unit and range, and an error names the field.

A field is a number (``Annotated`` with :class:`Within`), text, true or false, one of these or ``None``, an
object of JSON, or a tuple of any length of numbers or of such dataclasses.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from greendc.config import nearest

T = TypeVar("T")

MOST_ROWS = 10**6
"""How many rows a list may hold."""
_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", Mapping: "object"}
_SAID = {str: "text", bool: "true or false", Mapping: "an object"}


class SnapshotError(ValueError):
    """A snapshot that contradicts itself, or lacks something; the message names the field."""


@dataclass(frozen=True)
class Within:
    """What a number of a field may be.

    :param low: the least
    :param high: the most
    :param unit: what it counts, in the plural
    """

    low: float
    high: float
    unit: str


@dataclass(frozen=True)
class Field:
    """A field, as its annotation declares it.

    :param name: its name
    :param kinds: the types that it may have, without ``None``
    :param optional: whether it may be ``None``
    :param within: of a number, or of the numbers of a list
    :param row: what a list holds, or ``None`` if it is none
    :param required: whether it has no default
    :param default: what it is without being given, or ``MISSING``
    """

    name: str
    kinds: tuple[Any, ...]
    optional: bool
    within: Within | None
    row: Any
    required: bool
    default: Any

    @property
    def holds_records(self) -> bool:
        """Whether it is a list of dataclasses."""
        return dataclasses.is_dataclass(self.row)


@lru_cache(maxsize=64)
def fields_of(record: Any) -> tuple[Field, ...]:
    """Return the fields of a dataclass."""
    hints, found = get_type_hints(record, include_extras=True), []
    for field in dataclasses.fields(record):
        hint, missing = hints[field.name], dataclasses.MISSING
        parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        kinds, within, row = [], None, None
        for part in parts:
            if get_origin(part) is tuple:
                row, within = _bare(get_args(part)[0])
            elif part is not type(None):
                kind, limits = _bare(part)
                kinds.append(Mapping if get_origin(kind) is collections.abc.Mapping else kind)
                within = within or limits
        required = field.default is missing and field.default_factory is missing
        optional = type(None) in parts
        found.append(Field(field.name, tuple(kinds), optional, within, row, required, field.default))
    return tuple(found)


def _bare(hint: Any) -> tuple[Any, Within | None]:
    """Return a type and its range."""
    if get_origin(hint) is Annotated:
        kind, within = get_args(hint)[:2]
        return kind, within
    return hint, None


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raise a :class:`SnapshotError` that names the field, its value and what is allowed, unless it holds."""
    if not condition:
        raise SnapshotError(f"{field}={value!r}: must be {allowed}")


def complete(record: Any, where: str = "") -> None:
    """Check the fields of a frozen dataclass, and make tuples of records of its lists of objects.

    :param where: what precedes the names of fields in errors
    :raises SnapshotError: names the field that is wrong
    """
    for field in fields_of(record.__class__):
        path, value = f"{where}{field.name}", getattr(record, field.name)
        if field.row is not None and not (field.optional and value is None):
            object.__setattr__(record, field.name, _rows(field, value, path))
        elif not (field.optional and value is None):
            _check(field, field.kinds, value, path)


def _rows(field: Field, given: object, path: str) -> tuple[Any, ...]:
    """Return a list as a tuple, each row checked."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        row = field.row.__name__
        raise SnapshotError(f"{path}: must be a list of {row}, not {type(given).__name__}")
    require(len(given) <= MOST_ROWS, path, f"{len(given)} rows", f"at most {MOST_ROWS}")
    rows = []
    for k, item in enumerate(given):
        place = f"{path}[{k}]"
        if field.holds_records:
            item = item if isinstance(item, field.row) else from_data(field.row, item, f"{place}.")
            complete(item, f"{place}.")
        else:
            _check(field, (field.row,), item, place)
        rows.append(item)
    return tuple(rows)


def _check(field: Field, kinds: tuple[Any, ...], value: object, path: str) -> None:
    or_null = " or null" * field.optional
    if field.within is None:
        allowed = " or ".join(_SAID[kind] for kind in kinds) + or_null
        require(isinstance(value, kinds), path, value, allowed)
        return
    low, high = field.within.low, field.within.high
    number = isinstance(value, int if kinds == (int,) else (int, float)) and not isinstance(value, bool)
    whole = "whole " * (kinds == (int,))
    allowed = f"{whole}{field.within.unit}, from {low} to {high}{or_null}"
    require(number and low <= value <= high, path, value, allowed)  # type: ignore[operator]  # a number


def from_data(record: Callable[..., T], data: object, where: str = "") -> T:
    """Make a dataclass of a JSON object.

    :raises SnapshotError: names the field that is unknown or missing, or wrong, if the class checks itself
    """
    place = where.rstrip(".") or "snapshot"
    if not isinstance(data, Mapping):
        raise SnapshotError(f"{place}: must be an object, not {type(data).__name__}")
    known = [field.name for field in fields_of(record)]
    for key in data:
        if key not in known:
            hint = nearest(str(key), known) or f"; known are {', '.join(known)}"
            raise SnapshotError(f"{where}{key}: unknown field{hint}")
    for field in fields_of(record):
        if field.required and field.name not in data:
            job = f" (job {data['id']})" if "id" in data else ""
            raise SnapshotError(f"{where}{field.name}: missing{job}")
    return record(**data)


def from_text(record: Callable[..., T], text: str | bytes) -> T:
    """Make a dataclass of a JSON text.

    :raises SnapshotError: names the line that is no JSON, or as :func:`from_data`
    """
    return from_data(record, parse(text))


def parse(text: str | bytes) -> Any:
    """Return what a JSON text holds, with or without a byte order mark.

    :raises SnapshotError: names the line that is no JSON, or the key that stands twice in an object
    """
    if not isinstance(text, str | bytes | bytearray):
        raise SnapshotError(f"snapshot: must be a JSON text, not {type(text).__name__}")
    try:
        return json.loads(
            text.removeprefix("\ufeff") if isinstance(text, str) else text, object_pairs_hook=_unique
        )
    except json.JSONDecodeError as error:
        raise SnapshotError(f"line {error.lineno}: no JSON ({error.msg})") from None
    except UnicodeDecodeError:
        raise SnapshotError("snapshot: no text in UTF-8") from None
    except RecursionError:
        raise SnapshotError("snapshot: nested too deeply") from None
    except ValueError:  # what is left: Python reads no number of more than some thousand digits
        raise SnapshotError("snapshot: a number has too many digits") from None


def moment(field: str, text: str) -> datetime:
    """Return a time with an offset from UTC.

    :param field: that holds it
    :param text: ISO 8601
    :raises SnapshotError: for anything else
    """
    try:
        found = datetime.fromisoformat(text.removesuffix("Z") + "+00:00" * text.endswith("Z"))
    except ValueError:
        found = datetime.min
    require(found.tzinfo is not None, field, text, "a time such as 2026-03-01T12:00:00+00:00")
    return found


def to_text(record: Any) -> str:
    """Return the JSON text that :func:`from_text` reads."""
    return json.dumps(dataclasses.asdict(record), indent=1, allow_nan=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise SnapshotError(f"{key}: stands twice in one object")
        data[key] = value
    return data


def schema_of(record: type) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a dataclass."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_schema(record)}


def _schema(record: type) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in fields_of(record):
        if field.holds_records:
            properties[field.name] = {"type": "array", "items": _schema(field.row)}
            continue
        names = ["array"] if field.row is not None else [_TYPES[kind] for kind in field.kinds]
        names += ["null"] * field.optional
        described: dict[str, Any] = {"type": names if len(names) > 1 else names[0]}
        within = field.within
        limits = {} if within is None else {"minimum": within.low, "maximum": within.high}
        described |= limits if field.row is None else {"items": {"type": _TYPES[field.row], **limits}}
        if within is not None:
            described["description"] = within.unit
        if field.default is not dataclasses.MISSING:
            described["default"] = field.default
        properties[field.name] = described
    return {
        "title": record.__name__,
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields_of(record) if field.required],
        "additionalProperties": False,
    }
