"""What a cluster looks like now: which jobs run and wait, what is free, and what power is to come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from greendc import json_records
from greendc.json_records import Within, require

MOST_SECONDS = 2**31
"""Longest time that a field may hold: 68 years."""
MOST_PROCESSORS = 10**9

Seconds = Annotated[int, Within(0, MOST_SECONDS, "seconds")]
Limit = Annotated[int, Within(1, MOST_SECONDS, "seconds")]
Processors = Annotated[int, Within(1, MOST_PROCESSORS, "processors")]
Powered = Annotated[int, Within(0, MOST_PROCESSORS, "processors")]


@dataclass(frozen=True)
class RunningJob:
    """A job that runs.

    :param id: what the cluster calls it
    :param processors: it runs on, 1 or more
    :param limit_seconds: its time limit, counted from its start
    :param elapsed_seconds: time since its start, at most its limit
    :param user: whose it is; run times are predicted from the user's finished jobs
    :param drained_processors: of its processors, those that take no job after it, such as those of a node
        that is drained. Capacity and forecast count them as if they stayed
    """

    id: str
    processors: Processors
    limit_seconds: Limit
    elapsed_seconds: Seconds
    user: str | None = None
    drained_processors: Powered = 0


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
    processors: Processors
    limit_seconds: Limit
    waited_seconds: Seconds
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

    processors: Processors
    limit_seconds: Limit
    run_seconds: Limit
    submitted_seconds_ago: Seconds
    ended_seconds_ago: Seconds
    user: str | None = None


@dataclass(frozen=True)
class CapacityChange:
    """A change of the processors that have power.

    :param after_seconds: when, from now
    :param processors: how many have power from then on
    """

    after_seconds: Seconds
    processors: Powered


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

    processors: Processors
    capacity: Powered
    running: tuple[RunningJob, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    finished: tuple[FinishedJob, ...] = ()
    forecast: tuple[CapacityChange, ...] = ()
    forecast_seconds: Seconds = 0
    time: str | None = None

    def __post_init__(self) -> None:
        """Check every field, and that they do not contradict each other."""
        json_records.complete(self)
        require(self.capacity <= self.processors, "capacity", self.capacity, f"at most {self.processors}")
        self._check_jobs()
        self._check_forecast()
        if self.time is not None:
            self.taken_at()

    def _check_jobs(self) -> None:
        used = sum(job.processors for job in self.running)
        allowed = f"at most {self.processors}, the processors of the cluster, in all"
        require(used <= self.processors, "running", f"jobs on {used} processors", allowed)
        seen: dict[str, str] = {}
        for name in ("running", "waiting"):
            for k, job in enumerate(getattr(self, name)):
                where = f"{name}[{k}].id"
                require(job.id not in seen, where, job.id, f"new: {seen.get(job.id)} has it already")
                seen[job.id] = where
        for k, job in enumerate(self.running):
            allowed = f"at most limit_seconds={job.limit_seconds} (job {job.id})"
            right = job.elapsed_seconds <= job.limit_seconds
            require(right, f"running[{k}].elapsed_seconds", job.elapsed_seconds, allowed)
            drained, allowed = job.drained_processors, f"at most processors={job.processors} (job {job.id})"
            require(drained <= job.processors, f"running[{k}].drained_processors", drained, allowed)
        for k, past in enumerate(self.finished):
            allowed = f"at most submitted_seconds_ago={past.submitted_seconds_ago}"
            right = past.ended_seconds_ago <= past.submitted_seconds_ago
            require(right, f"finished[{k}].ended_seconds_ago", past.ended_seconds_ago, allowed)

    def _check_forecast(self) -> None:
        before = 0
        for k, change in enumerate(self.forecast):
            where, after = f"forecast[{k}].after_seconds", change.after_seconds
            require(after > before, where, after, f"above {before}: changes are in order of time, after now")
            allowed = f"below forecast_seconds={self.forecast_seconds}, where the forecast ends"
            require(after < self.forecast_seconds, where, after, allowed)
            right = change.processors <= self.processors
            require(right, f"forecast[{k}].processors", change.processors, f"at most {self.processors}")
            before = after

    @property
    def used(self) -> int:
        """Processors that run jobs."""
        return sum(job.processors for job in self.running)

    def without_drained(self) -> Snapshot:
        """Return the same cluster without the processors that take no job any more, and what runs on them."""
        drained = sum(job.drained_processors for job in self.running)
        if drained == 0:
            return self
        return replace(
            self,
            processors=max(self.processors - drained, 1),
            capacity=max(self.capacity - drained, 0),
            running=tuple(
                replace(job, processors=job.processors - job.drained_processors, drained_processors=0)
                for job in self.running
                if job.processors > job.drained_processors
            ),
            forecast=tuple(
                replace(change, processors=max(change.processors - drained, 0)) for change in self.forecast
            ),
        )

    def taken_at(self) -> datetime:
        """Return when it was taken.

        :raises SnapshotError: if ``time`` is missing, or no time with an offset from UTC
        """
        return json_records.moment("time", str(self.time))

    def to_json(self) -> str:
        """Return the JSON text that :meth:`from_json` reads."""
        return json_records.to_text(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """Read a snapshot.

        :raises SnapshotError: names the field that is wrong, unknown or missing
        """
        return json_records.from_text(cls, text)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of :meth:`to_json`; each property's description is its unit."""
        return json_records.schema_of(Snapshot)
