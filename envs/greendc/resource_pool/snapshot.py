"""What a resource pool looks like now: which jobs run, are reserved and wait, and what power is to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from greendc import json_records
from greendc.json_records import Within, require
from greendc.resource_pool import layout as at
from greendc.resource_pool.jobs import MOST_STEPS
from greendc.resource_pool.view import STATUS_NAMES

MOST = 10**9
PLACED = ("reserved", "running")

Steps = Annotated[int, Within(0, MOST, "steps")]
Offset = Annotated[int, Within(-MOST, MOST, "steps")]
Work = Annotated[int, Within(1, MOST, "steps")]
Units = Annotated[int, Within(0, MOST, "units")]
Share = Annotated[float, Within(0.0, 1.0, "a share")]
Kilowatts = Annotated[float, Within(0.0, 1e300, "kW")]
Amount = Annotated[float, Within(0.0, 1e300, "a number")]
Number = Annotated[float, Within(-1e300, 1e300, "a number")]


@dataclass(frozen=True)
class PoolJob:
    """A job. All times are steps, counted from now.

    :param state: ``"waiting"``, ``"reserved"``, ``"running"``; of the past, ``"finished"`` and ``"left"``; of
        what is to come, if that is known, ``"future"``
    :param arrived_steps_ago: time since its arrival, below 0 for one that is to come
    :param duration_steps: its run time
    :param units: that it needs of each resource type
    :param qos: its QoS value, above 0
    :param remaining_steps: work that was left when it was placed, or suspended; default: all of it. 0 for one
        that was suspended in its ``end_delay``
    :param start_steps: of a placed job: when its placement begins, 0 or below of a running one
    :param block: of a placed job: the lowest unit that it has of each type
    :param first_started_steps_ago: time since it first ran; default of a running job: since its placement
        began, of others: it has not run yet
    :param finished_steps_ago: of a finished job: time since its end
    :param suspensions: how often it was suspended
    :param barred: whether it may not be placed again in this step, because it was suspended in it
    :param lateness_charged: what the reward has charged for its lateness, in value
    :param id: what decisions call it; default: its number, from 0. A simulator does not keep it
    """

    state: str
    arrived_steps_ago: Offset
    duration_steps: Work
    units: tuple[Units, ...]
    qos: Share
    remaining_steps: Steps | None = None
    start_steps: Offset | None = None
    block: tuple[Units, ...] | None = None
    first_started_steps_ago: Steps | None = None
    finished_steps_ago: Steps | None = None
    suspensions: Units = 0
    barred: bool = False
    lateness_charged: Amount = 0.0
    id: str | None = None


@dataclass(frozen=True)
class PoolPower:
    """The power of one step.

    :param level: the share of the pool that has power, where there is no site
    :param solar_kw: power of the sun at a site
    :param wind_kw: power of the wind at a site
    :param carbon_kg_per_kwh: carbon intensity of grid energy
    :param price_per_kwh: price of grid energy
    :param walk: the random walk of the forecast's error: later steps are foreseen as they are, times one plus
        the error of the forecast times what the walk adds until then
    """

    level: Share | None = None
    solar_kw: Kilowatts | None = None
    wind_kw: Kilowatts | None = None
    carbon_kg_per_kwh: Amount = 0.0
    price_per_kwh: Amount = 0.0
    walk: Number = 0.0


@dataclass(frozen=True)
class PoolSnapshot:
    """A resource pool at one instant, for :meth:`greendc.resource_pool.ResourcePoolSimulator.load`.

    :param jobs: in order of arrival, those that are to come last. A simulator numbers them in this order
    :param power: of this step and those that follow, as far as they are foreseen, at least the horizon;
        beyond them the last day repeats, or if less than a day is foreseen, the last step
    :param past_power: of the steps before this one, the latest last. It counts where the battery is settled
        at the end of an episode, and for forecasts from the past; before it all was as in its first step
    :param step: time steps since the episode began
    :param start_hour: hour of day at which it began
    :param stored_kwh: energy in the battery of a site
    :param units_on: units of each type that are on, where power is commanded
    :param units_next: units that will be on in the next step, likewise
    :param units_starting: units that start in this step, likewise
    :param potential: value of the placed jobs that was last counted for the reward's shaping; default: of
        those that are placed now
    :param totals: what has been counted and summed in the episode, by
        :data:`~greendc.resource_pool.layout.COUNTS` and :data:`~greendc.resource_pool.layout.SUMS`; what is
        not given is 0. ``decisions`` are those taken so far: planners choose their futures by it
    :param configuration: fields of the configuration that the simulator must have; those that are not given
        are not compared
    :param time: when the snapshot was taken, ISO 8601 with an offset from UTC, to tell its age
    :raises SnapshotError: names the field that is wrong, its value and what is allowed
    """

    jobs: tuple[PoolJob, ...]
    power: tuple[PoolPower, ...]
    past_power: tuple[PoolPower, ...] = ()
    step: Steps = 0
    start_hour: Annotated[float, Within(0.0, 24.0, "hours")] = 0.0
    stored_kwh: Amount | None = None
    units_on: Units | None = None
    units_next: Units | None = None
    units_starting: Units | None = None
    potential: Amount | None = None
    totals: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    time: str | None = None

    def __post_init__(self) -> None:
        """Check every field, and that jobs do not contradict themselves."""
        json_records.complete(self)
        newer, seen = MOST, dict[str, int]()
        for k, job in enumerate(self.jobs):
            _check_job(f"jobs[{k}].", job)
            first = seen.setdefault(self.name_of(k), k)
            require(first == k, f"jobs[{k}].id", job.id, f"new: jobs[{first}] is called so already")
            ago = job.arrived_steps_ago
            require(
                ago <= newer, f"jobs[{k}].arrived_steps_ago", ago, f"at most {newer}, as of the one before"
            )
            newer = ago
        allowed = f"at most step={self.step}, when the episode began"
        require(len(self.past_power) <= self.step, "past_power", f"{len(self.past_power)} rows", allowed)
        for name, value in self.totals.items():
            known = (*at.COUNTS, *at.SUMS)
            require(name in known, "totals", name, f"one of {', '.join(known)}")
            whole = name in at.COUNTS
            right = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            right = right and -1e300 <= value <= 1e300 and (not whole or 0 <= value < 2**62)
            require(right, f"totals.{name}", value, "a whole number, at least 0" if whole else "a number")
        if self.time is not None:
            json_records.moment("time", self.time)

    def name_of(self, job: int) -> str:
        """Return what decisions call a job, by its number."""
        name = self.jobs[job].id
        return str(job) if name is None else name

    def to_json(self) -> str:
        """Return the JSON text that :meth:`from_json` reads."""
        return json_records.to_text(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> PoolSnapshot:
        """Read a snapshot.

        :raises SnapshotError: names the field that is wrong, unknown or missing
        """
        return json_records.from_text(cls, text)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of :meth:`to_json`; a property's description is its unit."""
        return json_records.schema_of(PoolSnapshot)


def _check_job(where: str, job: PoolJob) -> None:
    """Check what a job says of itself."""
    state, ago = job.state, job.arrived_steps_ago
    require(state in STATUS_NAMES, f"{where}state", state, f"one of {', '.join(STATUS_NAMES)}")
    to_come = state == "future"
    require(
        to_come == (ago < 0), f"{where}arrived_steps_ago", ago, f"{'below 0' if to_come else 'at least 0'}"
    )
    fits = job.qos > 0.0 and job.duration_steps <= job.qos * MOST_STEPS
    require(fits, f"{where}qos", job.qos, "above 0, for a latest finish within 2**53 steps")
    left = job.remaining_steps
    most = job.duration_steps
    require(left is None or left <= most, f"{where}remaining_steps", left, f"at most duration_steps={most}")
    for name, states in (
        ("start_steps", PLACED),
        ("block", PLACED),
        ("finished_steps_ago", ("finished",)),
    ):
        value, wanted = getattr(job, name), state in states
        require(
            (value is not None) == wanted,
            f"{where}{name}",
            value,
            f"{'given' if wanted else 'null'}: {state}",
        )
    start = job.start_steps
    if start is not None:
        running = state == "running"
        allowed = f"{'0 or below' if running else 'above 0'}: {state}"
        require((start <= 0) == running, f"{where}start_steps", start, allowed)
        require(-start <= ago, f"{where}start_steps", start, f"at least {-ago}, when it arrived")
    for name in ("first_started_steps_ago", "finished_steps_ago"):
        value = getattr(job, name)
        require(value is None or value <= ago, f"{where}{name}", value, f"at most arrived_steps_ago={ago}")
    ran = job.first_started_steps_ago
    require(not to_come or ran is None, f"{where}first_started_steps_ago", ran, "null: future")
