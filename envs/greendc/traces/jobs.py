"""Job traces: what was submitted when, how long it ran, how much it used and how urgent it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.traces.trace_files import TraceError

MICRO = 1_000_000
"""CPU is counted in millionths of a machine, so that loads add up exactly in any order."""
HOUR_US = 3_600_000_000
"""Microseconds in an hour."""

CLASS_FLOORS = (360, 120, 116, 100)
"""The lowest priority of each of Google's classes but the last: monitoring, production, mid, batch, free."""
INFLEXIBLE_CLASSES = 2
"""The classes below this (monitoring, production) are never delayed."""


def priority_class(priority: NDArray[np.integer]) -> NDArray[np.int8]:
    """Return the class of each priority: 0 monitoring, 1 production, 2 mid, 3 batch, 4 free.

    Google names no tier for 100 to 109; they count as batch.
    """
    classes: NDArray[np.int8] = sum(
        ((priority < floor).astype(np.int8) for floor in CLASS_FLOORS), np.zeros(priority.shape, np.int8)
    )
    return classes


@dataclass(frozen=True, eq=False)
class JobTrace:
    """Jobs in order of submission. The arrays are ``(n,)`` and read-only.

    :param submit_hour: whole hours since t = 0, which is midnight of the first day; never decreasing
    :param duration: hours of running time, rounded up
    :param cpu: millionths of a machine, at least 1 and at most a whole machine
    :param priority: Google's scale, 0 to 450; see :func:`priority_class`
    :param days: length of the trace; every job is submitted within it
    :param counts: what became of the rows that it was made from, such as ``"read"`` or ``"zero_cpu"``
    :raises ValueError: naming the field, for arrays that break these rules
    """

    submit_hour: NDArray[np.int32] = field(repr=False)
    duration: NDArray[np.int32] = field(repr=False)
    cpu: NDArray[np.int64] = field(repr=False)
    priority: NDArray[np.int16] = field(repr=False)
    days: int
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the arrays and make them read-only copies of the stated types."""
        require(self.days >= 1, "days", self.days, "at least 1")
        n = len(self.submit_hour)
        require(n > 0, "submit_hour", "[]", "at least one job")
        hours = 24 * self.days
        limits = {
            "submit_hour": (np.int32, 0, hours - 1),
            "duration": (np.int32, 1, np.iinfo(np.int32).max - hours),
            "cpu": (np.int64, 1, MICRO),
            "priority": (np.int16, 0, np.iinfo(np.int16).max),
        }
        for name, (dtype, low, high) in limits.items():
            values = np.asarray(getattr(self, name))
            require(np.issubdtype(values.dtype, np.integer), f"{name}.dtype", values.dtype, "an integer type")
            require(values.shape == (n,), f"{name}.shape", values.shape, f"{(n,)}")
            bad = values[(values < low) | (values > high)]
            require(not bad.size, name, bad[:1].tolist(), f"from {low} to {high}")
            values = values.astype(dtype)
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        require(bool((np.diff(self.submit_hour) >= 0).all()), "submit_hour", "unsorted", "in order of time")

    @classmethod
    def from_events(
        cls,
        time: NDArray[np.int64],
        duration: NDArray[np.int64],
        cpu: NDArray[np.float64],
        priority: NDArray[np.int64],
        days: int | None = None,
    ) -> JobTrace:
        """Make a trace of events in microseconds: sort, round up to whole hours, and drop what cannot run.

        Dropped, and counted in this order: ``before_start`` (negative times: already running when the
        trace began), ``after_end`` (only when ``days`` is given), ``zero_duration``, ``zero_cpu`` and
        ``too_large`` (more CPU than one machine has).

        :param time: microseconds since t = 0
        :param duration: microseconds of running time
        :param cpu: machine units; rounded to millionths, and to one millionth at least
        :param priority: Google's scale
        :param days: length of the trace (default: up to the end of the day of the last job that is kept)
        :raises TraceError: if nothing is left
        """
        day_of = time // (24 * HOUR_US)
        dropped = {
            "before_start": time < 0,
            "after_end": np.zeros(len(time), np.bool_) if days is None else day_of >= days,
            "zero_duration": duration <= 0,
            "zero_cpu": cpu <= 0,
            "too_large": cpu > 1.0,
        }
        counts = {"read": len(time)}
        keep = np.ones(len(time), np.bool_)
        for name, bad in dropped.items():
            counts[name] = int(np.count_nonzero(keep & bad))
            keep &= ~bad
        counts["kept"] = int(np.count_nonzero(keep))
        if not counts["kept"]:
            raise TraceError(f"every row was dropped: {counts}")
        if days is None:
            days = int(day_of[keep].max()) + 1
        order = np.flatnonzero(keep)[np.argsort(time[keep], kind="stable")]
        # The constructor narrows the types, after it has checked that the values fit.
        return cls(
            submit_hour=cast("NDArray[np.int32]", time[order] // HOUR_US),
            duration=cast("NDArray[np.int32]", -(-duration[order] // HOUR_US)),
            cpu=np.maximum(np.rint(cpu[order] * MICRO), 1).astype(np.int64),
            priority=cast("NDArray[np.int16]", priority[order]),
            days=days,
            counts=counts,
        )

    def __len__(self) -> int:
        return len(self.submit_hour)

    @property
    def hours(self) -> int:
        """Length of the trace in hours."""
        return 24 * self.days

    @property
    def job_class(self) -> NDArray[np.int8]:
        """The priority class of each job ``(n,)``."""
        return priority_class(self.priority)

    @property
    def inflexible(self) -> NDArray[np.bool_]:
        """Whether each job ``(n,)`` is of a class that is never delayed."""
        return self.job_class < INFLEXIBLE_CLASSES

    @property
    def day_offsets(self) -> NDArray[np.int64]:
        """Index of each day's first job, and at the end the number of jobs ``(days + 1,)``."""
        return np.searchsorted(self.submit_hour, 24 * np.arange(self.days + 1)).astype(np.int64)

    @property
    def mean_load(self) -> float:
        """Machines in use on average over the trace, if every job starts at once and none ran before."""
        inside = np.minimum(self.duration.astype(np.int64), self.hours - self.submit_hour)
        return int((self.cpu * inside).sum()) / (MICRO * self.hours)
