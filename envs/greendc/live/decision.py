"""What to do now: which waiting jobs to start, in which order, and why others wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from greendc import json_records
from greendc.json_records import Within

_MOST = 10**9
_Seconds = Annotated[int, Within(1, 2**31, "seconds")]
_Processors = Annotated[int, Within(0, _MOST, "processors")]
_Steps = Annotated[int, Within(0, _MOST, "steps")]
_Units = Annotated[int, Within(0, _MOST, "units")]
_Actions = Annotated[int, Within(0, _MOST, "actions of the environment")]


@dataclass(frozen=True)
class PassedOver:
    """A job that should wait.

    :param id: what the cluster or the pool calls it
    :param reason: why, in words
    """

    id: str
    reason: str


@dataclass(frozen=True)
class Decision:
    """Advice for a cluster, from the instant of the snapshot on.

    :param start: ids of the jobs to start now, in this order
    :param passed_over: all other waiting jobs, in order of submission
    :param valid_seconds: seconds until something is expected to change that would change the advice (an end
        of a job, of power); ``None`` if nothing is. A new or a finished job makes it out of date at once
    :param excess: processors that run jobs and have no power: running jobs must give way
    :param policy: what decided
    """

    start: tuple[str, ...]
    passed_over: tuple[PassedOver, ...]
    valid_seconds: _Seconds | None
    excess: _Processors
    policy: str

    def to_json(self) -> str:
        """Return a JSON text; :meth:`schema` describes it."""
        return json_records.to_text(self)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of :meth:`to_json`."""
        return json_records.schema_of(Decision)


@dataclass(frozen=True)
class Place:
    """Where and when a job of a pool is to run.

    :param id: of the job
    :param start_steps: steps from now until it starts, 0 for now
    :param block: the lowest unit that it gets of each resource type
    """

    id: str
    start_steps: _Steps
    block: tuple[_Units, ...]


@dataclass(frozen=True)
class PoolDecision:
    """Advice for a resource pool, for the time step of the snapshot.

    :param start: ids of the jobs to start now, in this order
    :param places: of these and of the jobs to reserve room for, in the order of decision
    :param suspend: ids of the running jobs that give way, before any other starts
    :param passed_over: all jobs that wait after that, in order of arrival
    :param units_ordered: of each type, to be on from the next step; ``None`` where power is not commanded
    :param battery: ``"auto"``, ``"hold"`` or ``"charge"``, likewise
    :param valid_seconds: until the step is over. A new job makes it out of date at once
    :param actions: the same as actions of :class:`~greendc.resource_pool.ResourcePoolEnv`; the last one lets
        time go on. A policy of ``scope="queue"`` places jobs without them
    :param policy: what decided
    """

    start: tuple[str, ...]
    places: tuple[Place, ...]
    suspend: tuple[str, ...]
    passed_over: tuple[PassedOver, ...]
    units_ordered: _Units | None
    battery: str | None
    valid_seconds: _Seconds
    actions: tuple[_Actions, ...]
    policy: str

    def to_json(self) -> str:
        """Return a JSON text; :meth:`schema` describes it."""
        return json_records.to_text(self)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of :meth:`to_json`."""
        return json_records.schema_of(PoolDecision)
