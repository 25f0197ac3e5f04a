"""What a cluster looks like now: which jobs run and wait, what is free, and what power is to come."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

from greendc.config import nearest

MOST_SECONDS = 2**31
"""Longest time that a field may hold: 68 years."""
MOST_PROCESSORS = 10**9
MOST_JOBS = 10**6

T = TypeVar("T")


class SnapshotError(ValueError):
    """A snapshot that contradicts itself, or lacks something; the message names the field."""


@dataclass(frozen=True)
class RunningJob:
    """A job that runs.

    :param id: what the cluster calls it
    :param processors: it runs on, 1 or more
    :param limit_seconds: its time limit, counted from its start
    :param elapsed_seconds: time since its start, at most its limit
    :param user: whose it is; run times are predicted from the user's finished jobs
    """

    id: str
    processors: int
    limit_seconds: int
    elapsed_seconds: int
    user: str | None = None


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits.

    :param id: what the cluster calls it
    :param processors: it needs, 1 or more
    :param limit_seconds: its time limit
    :param waited_seconds: time since its submission
    :param user: as in :class:`RunningJob`
    """

    id: str
    processors: int
    limit_seconds: int
    waited_seconds: int
    user: str | None = None


@dataclass(frozen=True)
class FinishedJob:
    """A job of the past, from which users' run times and the jobs to come are predicted.

    :param processors: it ran on
    :param limit_seconds: its time limit
    :param run_seconds: time that it ran; what exceeds the limit counts as the limit
    :param submitted_seconds_ago: time since its submission
    :param ended_seconds_ago: time since its end
    :param user: as in :class:`RunningJob`
    """

    processors: int
    limit_seconds: int
    run_seconds: int
    submitted_seconds_ago: int
    ended_seconds_ago: int
    user: str | None = None


@dataclass(frozen=True)
class CapacityChange:
    """A change of the processors that have power.

    :param after_seconds: when, from now
    :param processors: how many have power from then on
    """

    after_seconds: int
    processors: int


@dataclass(frozen=True)
class Snapshot:
    """A cluster of equal processors at one instant. All times are whole seconds, counted from this instant.

    :param processors: of the cluster
    :param capacity: processors that have power now; fewer than run jobs if power has just fallen
    :param running: the jobs that run
    :param waiting: the jobs that wait, in any order
    :param finished: jobs of the past, in any order; may be empty
    :param forecast: changes of the capacity, in order of time; none: it stays as it is
    :param forecast_seconds: how far the forecast is known; 0 without one
    :param time: when the snapshot was taken, ISO 8601 with an offset from UTC, to tell its age
    :raises SnapshotError: names the field that is wrong, its value and what is allowed
    """

    processors: int
    capacity: int
    running: tuple[RunningJob, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    finished: tuple[FinishedJob, ...] = ()
    forecast: tuple[CapacityChange, ...] = ()
    forecast_seconds: int = 0
    time: str | None = None

    def __post_init__(self) -> None:
        """Check every field, and that they do not contradict each other."""
        for name, row in ROWS.items():
            object.__setattr__(self, name, _checked_rows(name, row, getattr(self, name)))
        _check_fields("", self)
        _require(self.capacity <= self.processors, "capacity", self.capacity, f"at most {self.processors}")
        self._check_jobs()
        self._check_forecast()
        if self.time is not None:
            self.taken_at()

    def _check_jobs(self) -> None:
        used = sum(job.processors for job in self.running)
        allowed = f"at most {self.processors}, the processors of the cluster, in all"
        _require(used <= self.processors, "running", f"jobs on {used} processors", allowed)
        seen: dict[str, str] = {}
        for name in ("running", "waiting"):
            for k, job in enumerate(getattr(self, name)):
                where = f"{name}[{k}].id"
                _require(job.id not in seen, where, job.id, f"new: {seen.get(job.id)} has it already")
                seen[job.id] = where
        for k, job in enumerate(self.running):
            allowed = f"at most limit_seconds={job.limit_seconds} (job {job.id})"
            right = job.elapsed_seconds <= job.limit_seconds
            _require(right, f"running[{k}].elapsed_seconds", job.elapsed_seconds, allowed)
        for k, past in enumerate(self.finished):
            allowed = f"at most submitted_seconds_ago={past.submitted_seconds_ago}"
            right = past.ended_seconds_ago <= past.submitted_seconds_ago
            _require(right, f"finished[{k}].ended_seconds_ago", past.ended_seconds_ago, allowed)

    def _check_forecast(self) -> None:
        before = 0
        for k, change in enumerate(self.forecast):
            where, after = f"forecast[{k}].after_seconds", change.after_seconds
            _require(after > before, where, after, f"above {before}: changes are in order of time, after now")
            allowed = f"below forecast_seconds={self.forecast_seconds}, where the forecast ends"
            _require(after < self.forecast_seconds, where, after, allowed)
            right = change.processors <= self.processors
            _require(right, f"forecast[{k}].processors", change.processors, f"at most {self.processors}")
            before = after

    @property
    def used(self) -> int:
        """Processors that run jobs."""
        return sum(job.processors for job in self.running)

    def taken_at(self) -> datetime:
        """Return when it was taken.

        :raises SnapshotError: if ``time`` is missing, or no time with an offset from UTC
        """
        text = str(self.time)
        try:
            moment = datetime.fromisoformat(text.removesuffix("Z") + "+00:00" * text.endswith("Z"))
        except ValueError:
            moment = datetime.min
        allowed = "a time such as 2026-03-01T12:00:00+00:00"
        _require(moment.tzinfo is not None, "time", self.time, allowed)
        return moment

    def to_json(self) -> str:
        """Return the JSON text that :meth:`from_json` reads."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """Read a snapshot.

        :raises SnapshotError: names the field that is wrong, unknown or missing
        """
        try:
            data = json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            raise SnapshotError(f"line {error.lineno}: no JSON ({error.msg})") from None
        except RecursionError:
            raise SnapshotError("snapshot: nested too deeply") from None
        return _row("", cls, data)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of :meth:`to_json`; each property's description is its unit."""
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_of(Snapshot)}


ROWS: dict[str, type] = {
    "running": RunningJob,
    "waiting": WaitingJob,
    "finished": FinishedJob,
    "forecast": CapacityChange,
}
"""What the lists of a snapshot hold."""


def schema_of(record: type) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass of numbers, texts and lists of such dataclasses."""
    properties: dict[str, Any] = {}
    for name, kinds, fallback in _fields(record):
        if name in ROWS and record is Snapshot:
            properties[name] = {"type": "array", "items": schema_of(ROWS[name])}
            continue
        types = [{int: "integer", str: "string", type(None): "null"}[kind] for kind in kinds]
        properties[name] = {"type": types if len(types) > 1 else types[0]}
        if int in kinds:
            low, high = _range(name)
            properties[name] |= {"minimum": low, "maximum": high}
        if fallback is not dataclasses.MISSING:
            properties[name]["default"] = fallback
    required = [name for name, _, fallback in _fields(record) if fallback is dataclasses.MISSING]
    return {
        "title": record.__name__,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _require(condition: bool, field: str, value: object, allowed: str) -> None:
    if not condition:
        raise SnapshotError(f"{field}={value!r}: must be {allowed}")


def _fields(record: type) -> Iterator[tuple[str, tuple[type, ...], Any]]:
    """Yield name, allowed types and default of each field of a dataclass."""
    hints = get_type_hints(record)
    for field in dataclasses.fields(record):
        kinds = getattr(hints[field.name], "__args__", None) or (hints[field.name],)
        yield field.name, kinds, field.default


def _range(name: str) -> tuple[int, int]:
    if name.endswith(("seconds", "seconds_ago")):
        return (1 if name in ("limit_seconds", "run_seconds") else 0), MOST_SECONDS
    least_is_one = name == "processors"
    return int(least_is_one), MOST_PROCESSORS


def _check_fields(where: str, record: Any) -> None:
    """Check the numbers and texts of a dataclass."""
    for name, kinds, _ in _fields(type(record)):
        value, path = getattr(record, name), f"{where}{name}"
        if name in ROWS and isinstance(record, Snapshot):
            continue
        if int in kinds:
            whole = isinstance(value, int) and not isinstance(value, bool)
            low, high = _range(name)
            if isinstance(record, CapacityChange) and name == "processors":
                low = 0
            unit = "seconds" if "seconds" in name else "processors"
            _require(whole and low <= value <= high, path, value, f"whole {unit}, from {low} to {high}")
        else:
            allowed = "text" + " or null" * (type(None) in kinds)
            _require(isinstance(value, kinds), path, value, allowed)


def _checked_rows(name: str, row: type[T], given: object) -> tuple[T, ...]:
    """Return a list of a snapshot as a tuple of records, each checked."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise SnapshotError(f"{name}: must be a list of {row.__name__}, not {type(given).__name__}")
    _require(len(given) <= MOST_JOBS, name, f"{len(given)} rows", f"at most {MOST_JOBS}")
    rows = []
    for k, item in enumerate(given):
        record = item if isinstance(item, row) else _row(f"{name}[{k}].", row, item)
        _check_fields(f"{name}[{k}].", record)
        rows.append(record)
    return tuple(rows)


def _row(where: str, record: type[T], data: object) -> T:
    """Make a dataclass of a JSON object."""
    place = where.rstrip(".") or "snapshot"
    if not isinstance(data, Mapping):
        raise SnapshotError(f"{place}: must be an object, not {type(data).__name__}")
    known = [name for name, _, _ in _fields(record)]
    for key in data:
        if key not in known:
            hint = nearest(str(key), known) or f"; known are {', '.join(known)}"
            raise SnapshotError(f"{where}{key}: unknown field{hint}")
    for name, _, fallback in _fields(record):
        if name not in data and fallback is dataclasses.MISSING:
            job = f" (job {data['id']})" if "id" in data else ""
            raise SnapshotError(f"{where}{name}: missing{job}")
    return record(**data)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise SnapshotError(f"{key}: stands twice in one object")
        data[key] = value
    return data
