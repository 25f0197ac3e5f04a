"""The jobs of a configuration: the trace as the compiled code reads it, and the room that it needs."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.traces.google import read_google_jobs
from greendc.traces.google_like import generate
from greendc.traces.jobs import JobTrace
from greendc.vcc import kernel, layout
from greendc.vcc.config import VCCConfig
from greendc.vcc.kernel_queue import UNIT


class Workload:
    """A job trace in the order in which its jobs claim to run.

    :param config: the configuration
    :raises ValueError: if the trace does not fit the configuration
    """

    jobs: NDArray[np.void]
    """``(J,)`` :class:`~greendc.vcc.layout.TraceJob`."""
    input_order: NDArray[np.int32]
    """``(J,)``: rows of ``jobs`` by hour, then input order."""
    hour_offsets: NDArray[np.int64]
    """``(24 * trace days + 1,)``: first job of each hour."""
    first_places: NDArray[np.int64]
    """``(FLEXIBLE_GROUPS + 1,)``: first place of each group, and their end."""
    most_flexible: int
    """Jobs that an episode can have, flexible ones and others."""
    most_inflexible: int
    most_jobs_a_day: int
    day_profiles: NDArray[np.int64]
    """``(trace days, T + 24)``: no-delay load of each day's jobs from its midnight on."""

    def __init__(self, config: VCCConfig) -> None:
        self._config = config
        self.trace = load_trace(config)
        self._sort()
        self._count_places()
        hours = layout.DAY * config.days
        self.day_profiles = np.zeros((self.trace.days, hours + layout.DAY), dtype=np.int64)
        for day, profile in enumerate(self.day_profiles):
            kernel.add_profile(self.jobs, self.hour_offsets, layout.DAY * day, profile)

    def _sort(self) -> None:
        trace, config = self.trace, self._config
        if not config.resample_days and trace.days < config.days:
            raise ValueError(
                f"days={config.days}: the job trace has {trace.days} days; "
                "lower days or let resample_days=True draw new ones"
            )
        require_countable(trace, layout.DAY * config.days)
        job_class = trace.job_class
        order = np.lexsort((job_class, trace.submit_hour))
        self.jobs = np.zeros(len(trace), layout.TRACE_JOB)
        self.jobs["cpu"] = trace.cpu[order]
        self.jobs["duration"] = trace.duration[order]
        self.jobs["job_class"] = job_class[order]
        self.jobs["order"] = order - trace.day_offsets[trace.submit_hour // layout.DAY]
        self.input_order = np.lexsort((order, trace.submit_hour[order])).astype(np.int32)
        hours = np.arange(layout.DAY * trace.days + 1)
        self.hour_offsets = np.searchsorted(trace.submit_hour, hours).astype(np.int64)
        self.most_jobs_a_day = int(np.diff(trace.day_offsets).max())

    def _count_places(self) -> None:
        """Make room for the jobs of any days: places by group, and lists of running jobs."""
        trace = self.trace
        group = np.maximum(trace.job_class - layout.FIRST_FLEXIBLE_CLASS, -1)
        of_day = np.zeros((trace.days, layout.FLEXIBLE_GROUPS + 1), dtype=np.int64)
        np.add.at(of_day, (trace.submit_hour // layout.DAY, group), 1)
        *flexible, inflexible = of_day.max(axis=0) * (self._config.days + 1)
        self.first_places = UNIT * np.cumsum([0, *(count // UNIT + 1 for count in flexible)])
        self.most_flexible, self.most_inflexible = max(1, int(sum(flexible))), int(inflexible) + 1

    def same_jobs(self, other: Workload) -> bool:
        """Return whether another workload, of an equal configuration, has read the same jobs."""
        if isinstance(self._config.workload, JobTrace) or self._config.workload == "google_like":
            return True
        pairs = (self.jobs, other.jobs), (self.hour_offsets, other.hour_offsets)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def draw_days(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the trace's day for the day before t = 0 and for each day of the episode."""
        wanted = np.arange(-1, self._config.days) % self.trace.days
        if not self._config.resample_days:
            return wanted
        weekdays = np.arange(-1, self._config.days) % 7
        draws = rng.random(len(weekdays))
        if self.trace.days < 7:
            return (draws * self.trace.days).astype(np.int64)
        choices = (self.trace.days - 1 - weekdays) // 7 + 1
        return weekdays + 7 * (draws * choices).astype(np.int64)


def load_trace(config: VCCConfig) -> JobTrace:
    """Return the job trace that a configuration names.

    :raises ValueError: if there is no such file or folder
    """
    if isinstance(config.workload, JobTrace):
        return config.workload
    if config.workload == "google_like":
        return generate(config.workload_seed)
    path = Path(config.workload)
    if not path.exists():
        raise ValueError(
            f"workload={str(config.workload)!r}: must be 'google_like', a JobTrace, or an existing file "
            "or folder of per-day job CSVs"
        )
    return read_google_jobs(path)


def require_countable(trace: JobTrace, hours: int) -> None:
    """Raise a ``ValueError`` if hours, or the work of an episode, are too large for the kernel's integers."""
    longest = int(trace.duration.max())
    most = np.iinfo(np.int32).max - hours - layout.DAY
    require(longest <= most, "workload", f"a job of {longest} hours", f"one of jobs of at most {most} hours")
    work = np.bincount(trace.submit_hour // layout.DAY, trace.cpu.astype(np.float64) * trace.duration)
    most_work = float(work.max()) * (hours // layout.DAY + 1)
    most = 2**62 // layout.MICRO
    found = f"up to {most_work / layout.MICRO:.3g} machine-unit-hours an episode"
    require(most_work / layout.MICRO < most, "workload", found, f"below {most:.3g}")


def capacity_of(config: VCCConfig, trace: JobTrace) -> int:
    """Return C in millionths of a machine unit; warn above a target load of 0.8.

    :raises ValueError: if so small a ``target_load`` needs a million machines
    """
    if config.capacity is not None:
        return round(config.capacity * layout.MICRO)
    needed = trace.mean_load / config.target_load
    require(needed < 1e6, "target_load", config.target_load, f"at least {trace.mean_load / 1e6:.3g} here")
    if config.target_load > 0.8:
        warnings.warn(
            f"target_load={config.target_load}: above 0.8 the work of some days exceeds the capacity",
            stacklevel=2,
        )
    return math.ceil(trace.mean_load / config.target_load * layout.MICRO)
