"""Workloads of parallel jobs: windows of a log in Standard Workload Format, or of a modeled one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from greendc.config import is_number, require, require_kinds, require_one_of
from greendc.resource_pool.jobs import JobArrays, arrival_rate
from greendc.traces.log_clock import log_start
from greendc.traces.lublin import DAY_SECONDS, LublinModel
from greendc.traces.swf import JobLog

_QOS_RANGE = (0.1, 0.9)
_MODELED_JOBS = 50_000
_MODEL_SEED = 2003
_ROUNDING = 1e-9
"""Of a step: a job so near to the beginning of a step is submitted with it."""


@dataclass(frozen=True, eq=False)
class RecordedWorkload:
    """Windows of consecutive jobs from one long recording, such as a log.

    A window begins at a random time, the same for all times of the recording, or at a random midnight of it
    where the recording has kept its clock. The recording is a ring: after its last job comes its first, so
    a window may be longer than it.

    Logs of parallel jobs know neither GPUs nor urgency. RARE (section 5.3.2) adds both at random, without
    the distributions; here, each job draws its QoS value from U(0.1, 0.9), as synthetic jobs do, unless the
    log says it (:attr:`~greendc.traces.swf.JobLog.qos`), and, if
    ``other_demand`` is on, its demand of every other type from U{0..its CPU units}, so that wide jobs stay
    wide. Both are drawn for each window.

    Use :func:`log_workload` or :func:`lublin_workload` to build one.

    :param submit: ``(J,)`` float64, steps since the beginning of the recording, non-decreasing
    :param duration: ``(J,)`` int64, steps
    :param cpu: ``(J,)`` int64, CPU units
    :param length: length of the recording in steps
    :param resource_types: number of resource types; the first is CPU
    :param other_demand: whether jobs need resources other than CPU
    :param day_steps: length of a day in steps if windows begin at midnight (``length`` is then a multiple of
        it), or 0 if they begin at any time
    :param counts: what was left out or clipped when the recording was made
    :param source: what errors call the recording
    :param qos: ``(J,)`` float64 in (0, 1], each job's own QoS value; ``None``: drawn as said above
    """

    submit: NDArray[np.float64] = field(repr=False)
    duration: NDArray[np.int64] = field(repr=False)
    cpu: NDArray[np.int64] = field(repr=False)
    length: float
    resource_types: int
    other_demand: bool
    day_steps: float
    counts: dict[str, int]
    source: str
    qos: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_kinds(type(self).__annotations__, vars(self))
        require(self.resource_types >= 1, "resource_types", self.resource_types, "at least 1")

    def __len__(self) -> int:
        """Return the number of jobs in the recording."""
        return len(self.submit)

    @property
    def jobs_per_step(self) -> float:
        """Mean number of arrivals in a step."""
        return len(self) / self.length

    @property
    def mean_duration(self) -> float:
        """Mean run time in steps, exact."""
        return float(self.duration.mean())

    @property
    def mean_units(self) -> tuple[float, ...]:
        """Mean units of each type, exact."""
        cpu = float(self.cpu.mean())
        return (cpu, *[self._other_share * cpu] * (self.resource_types - 1))

    @property
    def _other_share(self) -> float:
        return 0.5 if self.other_demand else 0.0

    def mean_value(self, prices: Sequence[float]) -> float:
        """Return the mean job value, exact: size and run time as recorded, the rest drawn independently."""
        per_cpu_unit = np.dot(prices, (1.0, *[self._other_share] * (self.resource_types - 1)))
        work = self.duration * self.cpu
        if self.qos is not None:
            return float((work * self.qos).mean() * per_cpu_unit)
        return float(work.mean() * per_cpu_unit) * sum(_QOS_RANGE) / 2

    def sample(self, rng: np.random.Generator, steps: int) -> JobArrays:
        """Draw a window of the jobs that arrive in steps ``0 .. steps - 1``."""
        if self.day_steps:
            start = float(rng.integers(round(self.length / self.day_steps))) * self.day_steps
        else:
            start = rng.random() * self.length
        index = np.arange(self._jobs_before(start), self._jobs_before(start + steps))
        lap, job = np.divmod(index, len(self))
        arrival = np.floor(self.submit[job] + lap * self.length - start + _ROUNDING).astype(np.int64)
        # Rounding of the sum may put a job at the very edge of the window just outside it.
        np.clip(arrival, 0, steps - 1, out=arrival)
        units = np.zeros((len(job), self.resource_types), dtype=np.int64)
        cpu = self.cpu[job]
        units[:, 0] = cpu
        if self.other_demand and self.resource_types > 1:
            draws = rng.random((len(job), self.resource_types - 1))
            units[:, 1:] = draws * (cpu + 1)[:, np.newaxis]
        qos = rng.uniform(*_QOS_RANGE, len(job)) if self.qos is None else self.qos[job]
        return JobArrays(arrival, self.duration[job], units, qos)

    def _jobs_before(self, time: float) -> int:
        """Return how many jobs of the endlessly repeated recording are submitted before ``time``."""
        lap, rest = divmod(time, self.length)
        return int(lap) * len(self) + int(self.submit.searchsorted(rest - _ROUNDING))


def log_workload(
    log: JobLog,
    *,
    units: int,
    resource_types: int = 2,
    horizon: int,
    step_hours: float = 1.0,
    offered_load: float | None = 1.0,
    too_large: str = "clip",
    other_demand: bool = True,
    machine_processors: int | None = None,
) -> RecordedWorkload:
    """Turn a job log into a workload for a pool.

    Run times are rounded up to steps, sizes are scaled from the logged machine to the pool and rounded up
    to units. ``counts`` of the result tells what became of every line: those without submit time, run
    time or processors and partial executions (status 2 to 4, which repeat another line) are left out;
    jobs that can never fit follow ``too_large``; ``jobs`` are left.

    :param log: the log
    :param units: units ``M`` of each resource type of the pool
    :param resource_types: number of resource types
    :param horizon: longest run time that fits the pool, in steps
    :param step_hours: length of a step in hours
    :param offered_load: inter-arrival times are multiplied by the one factor that gives the whole log this
        load (see :func:`~greendc.resource_pool.jobs.arrival_rate`; a window may be above or below it), or
        ``None`` for the log's own times; windows then begin at midnight of the log's time zone
    :param too_large: ``"clip"`` jobs longer than the horizon or larger than the machine to it, or ``"drop"``
        them; both count
    :param other_demand: whether jobs get a random demand of the other resource types
    :param machine_processors: processors that are scaled to the whole pool (default: all of the logged
        machine); ``units`` keeps the sizes as they are in the log
    :raises ValueError: for a value out of range, or if no job of the log fits
    """
    machine = log.machine_processors if machine_processors is None else machine_processors
    require(is_number(machine) and machine >= 1, "machine_processors", machine, "a number of at least 1")
    submit, run_time, processors = log.column("submit_time"), log.column("run_time"), log.processors
    left_out = {
        "no_submit_time": np.isnan(submit),
        "no_run_time": ~(run_time > 0),
        "no_processors": np.isnan(processors),
        "partial_executions": np.isin(log.column("status"), (2, 3, 4)),
    }
    usable = np.ones(len(log), dtype=np.bool_)
    counts = {}
    for rule, flags in left_out.items():
        counts[rule] = int(np.count_nonzero(usable & flags))
        usable &= ~flags
    hours = submit[usable] / 3600.0
    cpu, duration, fits, clipped = _to_pool(
        processors[usable], run_time[usable], machine, units, horizon, step_hours, too_large
    )
    counts |= clipped
    if not fits.any():
        raise ValueError(
            f"{log.source}: none of its {len(log)} jobs fits a pool of {units} units "
            f"and a horizon of {horizon} steps ({counts})"
        )
    hours, cpu, duration = hours[fits], cpu[fits], duration[fits]
    qos = None if log.qos is None else log.qos[usable][fits]
    counts["jobs"] = len(hours)
    if offered_load is None:
        clock = hours + _midnight_offset_hours(log)
        first_day = np.floor(clock[0] / 24.0)
        time = (clock - 24.0 * first_day) / step_hours
        day_steps = 24.0 / step_hours
        length = (np.floor(time[-1] / day_steps) + 1.0) * day_steps
    else:
        # The ring closes with a mean gap, so that its rate is that of the log.
        length = len(hours) / _rate(offered_load, units, cpu, duration)
        span = (hours[-1] - hours[0]) * len(hours) / max(1, len(hours) - 1)
        time = (hours - hours[0]) * (length / span if span > 0 else 0.0)
        day_steps = 0.0
    return RecordedWorkload(
        time, duration, cpu, float(length), resource_types, other_demand, day_steps, counts, log.source, qos
    )


def lublin_workload(
    *,
    units: int,
    resource_types: int = 2,
    horizon: int,
    step_hours: float = 1.0,
    offered_load: float = 1.0,
    too_large: str = "clip",
    other_demand: bool = True,
    model: LublinModel | None = None,
) -> RecordedWorkload:
    """Return a workload of jobs from the Lublin-Feitelson model: 50,000 of them, recorded once.

    Sizes and run times become units and steps as in :func:`log_workload`. The offered load changes the
    model's gaps between jobs but not its daily cycle: step 0 of a window is midnight.

    :param units: units ``M`` of each resource type of the pool
    :param resource_types: number of resource types
    :param horizon: longest run time that fits the pool, in steps
    :param step_hours: length of a step in hours
    :param offered_load: see :func:`~greendc.resource_pool.jobs.arrival_rate`; greater than 0
    :param too_large: what becomes of jobs longer than the horizon: ``"clip"`` or ``"drop"``
    :param other_demand: whether jobs get a random demand of the other resource types
    :param model: the model (default: the published parameters, 128 nodes)
    :raises ValueError: for a value out of range
    """
    model = model or LublinModel()
    rng = np.random.default_rng(_MODEL_SEED)
    sizes = model.sample_sizes(rng, _MODELED_JOBS)
    run_times = np.maximum(model.sample_run_times(rng, sizes), 1.0)
    gaps = model.sample_gaps(rng, _MODELED_JOBS)
    cpu, duration, fits, counts = _to_pool(
        sizes.astype(np.float64), run_times, model.nodes, units, horizon, step_hours, too_large
    )
    cpu, duration, gaps = cpu[fits], duration[fits], gaps[fits]
    counts["jobs"] = len(cpu)
    days = max(1, round(len(cpu) / _rate(offered_load, units, cpu, duration) * step_hours / 24.0))
    # Gaps add up to whole days; the ring's last gap leads to the midnight at which it begins again.
    cycle_time = np.cumsum(gaps) - gaps[0]
    clock = model.clock_time(cycle_time * (days * DAY_SECONDS / gaps.sum()))
    day_steps = 24.0 / step_hours
    time = clock / 3600.0 / step_hours
    return RecordedWorkload(
        time, duration, cpu, days * day_steps, resource_types, other_demand, day_steps, counts, "lublin"
    )


def _rate(offered_load: float, units: int, cpu: NDArray[np.int64], duration: NDArray[np.int64]) -> float:
    """Return the jobs per step of an offered load. No other type gets more work than CPU."""
    require(
        is_number(offered_load) and 0.0 < offered_load < np.inf,
        "offered_load",
        offered_load,
        "greater than 0 (and finite) for a recording",
    )
    return arrival_rate(offered_load, units, float((cpu * duration).mean()))


def _to_pool(
    processors: NDArray[np.float64],
    run_time: NDArray[np.float64],
    machine: int,
    units: int,
    horizon: int,
    step_hours: float,
    too_large: str,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], dict[str, int]]:
    """Return CPU units and steps of each job, which jobs fit, and the counts of those that did not."""
    given = {"units": units, "horizon": horizon, "step_hours": step_hours}
    require_kinds(_to_pool.__annotations__, given)
    require(units >= 1, "units", units, "at least 1")
    require(horizon >= 1, "horizon", horizon, "at least 1 step")
    require(0.0 < step_hours < np.inf, "step_hours", step_hours, "greater than 0")
    require_one_of("too_large", too_large, ("clip", "drop"))
    cpu = -(-np.ceil(processors).astype(np.int64) * units // machine)
    # A run time of exactly n steps must stay n steps whatever step_hours rounds to.
    duration = np.maximum(np.ceil(run_time / (3600.0 * step_hours) - 1e-9), 1.0).astype(np.int64)
    too_wide, too_long = cpu > units, duration > horizon
    verb = "clipped" if too_large == "clip" else "dropped"
    counts = {
        f"{verb}_units": int(np.count_nonzero(too_wide)),
        f"{verb}_duration": int(np.count_nonzero(too_long)),
    }
    if too_large == "drop":
        return cpu, duration, ~(too_wide | too_long), counts
    everything = np.ones(len(cpu), dtype=np.bool_)
    return np.minimum(cpu, units), np.minimum(duration, horizon), everything, counts


def _midnight_offset_hours(log: JobLog) -> float:
    """Return the local time of day, in hours, of the log's second 0 (midnight if the header is silent)."""
    start = log_start(log)
    if start is None:
        return 0.0
    return (start - start.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds() / 3600.0
