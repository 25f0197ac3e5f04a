"""Workloads: where the jobs of an episode come from.

A workload is anything with :class:`Workload`'s five members. The registered names build one for a pool of
a given size; :func:`make_workload` is the way in for environments and scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from greendc.config import nearest, require, require_one_of
from greendc.resource_pool.hpc_workloads import log_workload, lublin_workload
from greendc.resource_pool.jobs import JobArrays, arrival_rate
from greendc.traces.job_logs import read_log
from greendc.traces.swf import JobLog


@runtime_checkable
class Workload(Protocol):
    """A source of jobs. Implementations hold no random state: everything random comes from the generator."""

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs were changed or left out so far, by rule, so that nothing is clipped silently."""
        ...

    @property
    def mean_duration(self) -> float:
        """Mean run time of a sampled job in steps."""
        ...

    @property
    def mean_units(self) -> tuple[float, ...]:
        """Mean units of each resource type that a sampled job needs."""
        ...

    def mean_value(self, prices: Sequence[float]) -> float:
        """Return the mean of :func:`~greendc.resource_pool.jobs.job_values` over sampled jobs."""
        ...

    def sample(self, rng: np.random.Generator, steps: int) -> JobArrays:
        """Draw the jobs that arrive in steps ``0 .. steps - 1``."""
        ...


@dataclass(frozen=True)
class SyntheticWorkload:
    """The synthetic jobs of RARE and SC20: mostly short, up to half of the pool wide, any urgency.

    70 % of the jobs last U{1..10} steps, the rest U{10..30}; CPU demand is U{1..M//2} units, that of every
    other type U{0..M//2}; the QoS value is U(0.1, 0.9). All are independent. A run time above
    ``horizon`` is clipped to it and counted as ``clipped_duration``.

    :param units: units ``M`` of each resource type, at least 1
    :param resource_types: number of resource types ``R``; the first is CPU
    :param horizon: longest run time that fits the pool, in steps
    :param offered_load: what it means depends on ``arrivals``
    :param arrivals: ``"poisson"``: the rate that :func:`~greendc.resource_pool.jobs.arrival_rate` gives;
        ``"jobs_per_step"``: Poisson with mean ``offered_load`` jobs a step; ``"bernoulli"`` (SC20): one job
        with probability ``offered_load`` in each step, so 0.5 is a job every other step
    :raises ValueError: for a value out of range
    """

    units: int
    resource_types: int = 2
    horizon: int = 48
    offered_load: float = 1.0
    arrivals: str = "poisson"
    counts: dict[str, int] = field(
        default_factory=lambda: {"sampled": 0, "clipped_duration": 0}, init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        require(self.units >= 1, "units", self.units, "at least 1")
        require(self.resource_types >= 1, "resource_types", self.resource_types, "at least 1")
        require(self.horizon >= 1, "horizon", self.horizon, "at least 1 step")
        require_one_of("arrivals", self.arrivals, ("poisson", "jobs_per_step", "bernoulli"))
        limit = 1.0 if self.arrivals == "bernoulli" else np.inf
        require(
            0.0 <= self.offered_load <= limit and np.isfinite(self.offered_load),
            "offered_load",
            self.offered_load,
            "a probability in [0, 1] with Bernoulli arrivals" if limit == 1.0 else "finite and at least 0",
        )

    @cached_property
    def mean_duration(self) -> float:
        """Mean run time in steps, exact, after clipping to the horizon (9.85 when nothing is clipped)."""
        short = np.minimum(np.arange(1, 11), self.horizon).mean()
        long = np.minimum(np.arange(10, 31), self.horizon).mean()
        return float(0.7 * short + 0.3 * long)

    @property
    def mean_units(self) -> tuple[float, ...]:
        """Mean units of each type, exact."""
        half = self._most_units
        return ((1 + half) / 2, *[half / 2] * (self.resource_types - 1))

    @property
    def _most_units(self) -> int:
        return max(1, self.units // 2)

    @cached_property
    def jobs_per_step(self) -> float:
        """Mean number of arrivals in a step."""
        if self.arrivals == "poisson":
            return arrival_rate(self.offered_load, self.units, self.mean_duration * max(self.mean_units))
        return self.offered_load

    def mean_value(self, prices: Sequence[float]) -> float:
        """Return the mean job value, exact: duration, units and QoS value are independent, E[qos] = 0.5."""
        return 0.5 * self.mean_duration * float(np.dot(prices, self.mean_units))

    def sample(self, rng: np.random.Generator, steps: int) -> JobArrays:
        """Draw the jobs that arrive in steps ``0 .. steps - 1``."""
        arrival = self._sample_arrivals(rng, steps)
        size, half = len(arrival), self._most_units
        duration = np.where(rng.random(size) < 0.7, rng.integers(1, 11, size), rng.integers(10, 31, size))
        if self.horizon < 30:
            self.counts["clipped_duration"] += int(np.count_nonzero(duration > self.horizon))
            np.minimum(duration, self.horizon, out=duration)
        units = rng.integers(0, half + 1, (size, self.resource_types))
        units[:, 0] = rng.integers(1, half + 1, size)
        self.counts["sampled"] += size
        return JobArrays(arrival, duration, units, rng.uniform(0.1, 0.9, size))

    def _sample_arrivals(self, rng: np.random.Generator, steps: int) -> NDArray[np.int64]:
        if self.arrivals == "bernoulli":
            return np.flatnonzero(rng.random(steps) < self.offered_load).astype(np.int64)
        # Given their number, the arrivals of a Poisson process are independent and uniform over the steps.
        arrival = rng.integers(0, steps, rng.poisson(self.jobs_per_step * steps))
        arrival.sort()
        return arrival


MEMBERS = ("counts", "mean_duration", "mean_units", "mean_value", "sample")
"""Of a :class:`Workload`."""

WORKLOADS = ("synthetic", "bernoulli", "jobs_per_step", "lublin", "hpc")
"""The registered names that :func:`make_workload` understands."""


def make_workload(
    spec: str | Path | JobLog | Workload,
    *,
    units: int,
    resource_types: int,
    horizon: int,
    step_hours: float = 1.0,
    offered_load: float | None = 1.0,
    too_large: str = "clip",
) -> Workload:
    """Build the workload that ``spec`` names for a pool.

    :param spec:

        - ``"synthetic"``, ``"bernoulli"``, ``"jobs_per_step"``: :class:`SyntheticWorkload` with Poisson
          arrivals at an offered load, or with SC20's or so many arrivals a step
        - ``"lublin"``: the Lublin-Feitelson model, whose jobs need CPU only
        - ``"hpc"``: the same with a random demand of the other types, like a log, for when none is at hand
        - a :class:`~greendc.traces.swf.JobLog`, or the path of a log in Standard Workload Format or of an
          export of ``sacct``: :func:`~greendc.resource_pool.hpc_workloads.log_workload`
        - any other :class:`Workload`, which is returned as it is
    :param units: units ``M`` of each resource type
    :param resource_types: number of resource types ``R``
    :param horizon: longest run time that fits the pool, in steps
    :param step_hours: length of a step in hours; synthetic jobs are made of steps of any length
    :param offered_load: as the named workload explains; ``None`` only for a log: its own arrival times;
        a workload object has its own, and takes the default or ``None`` alone
    :param too_large: ``"clip"`` or ``"drop"`` recorded jobs that can never fit (synthetic run times above
        the horizon are always clipped)
    :raises ValueError: for an unknown name, a log that cannot be read or of which no job fits, a value out
        of range, or a workload object that lacks a member, is given an offered load, or has another number
        of resource types
    """
    if isinstance(spec, str) and spec in WORKLOADS:
        if offered_load is None:
            raise ValueError(
                f"offered_load=None: must be a number for workload {spec!r} (only logs have their own)"
            )
        if spec in ("lublin", "hpc"):
            return lublin_workload(
                units=units,
                resource_types=resource_types,
                horizon=horizon,
                step_hours=step_hours,
                offered_load=offered_load,
                too_large=too_large,
                other_demand=spec == "hpc",
            )
        arrivals = "poisson" if spec == "synthetic" else spec
        return SyntheticWorkload(units, resource_types, horizon, offered_load, arrivals)
    if isinstance(spec, Path) or (isinstance(spec, str) and _names_a_file(spec)):
        spec = read_log(spec)
    if isinstance(spec, JobLog):
        return log_workload(
            spec,
            units=units,
            resource_types=resource_types,
            horizon=horizon,
            step_hours=step_hours,
            offered_load=offered_load,
            too_large=too_large,
        )
    if not isinstance(spec, Workload):
        _require_all_members(spec)
        allowed = f"{', '.join(map(repr, WORKLOADS))}, the path of a job log, a job log or a workload"
        raise ValueError(f"workload={spec!r}: must be {allowed}{nearest(str(spec), WORKLOADS)}")
    own = offered_load is None or offered_load == 1.0
    allowed = "None (or 1.0, the default) with a workload object, which has a load of its own"
    require(own, "offered_load", offered_load, allowed)
    types = len(spec.mean_units)
    require(types == resource_types, "workload", spec, f"for {resource_types} resource types, not {types}")
    return spec


def _require_all_members(spec: object) -> None:
    """Name what is missing in an object that has some of a workload's members, but not all."""
    lacking = [name for name in MEMBERS if not hasattr(spec, name)]
    if len(lacking) < len(MEMBERS):
        raise ValueError(
            f"workload={type(spec).__name__}: lacks {', '.join(lacking)}; a workload has {', '.join(MEMBERS)}"
        )


def _names_a_file(spec: str) -> bool:
    """Tell a path from a misspelled name: there is a file, or it looks like one."""
    return Path(spec).is_file() or spec.endswith((".swf", ".swf.gz"))
