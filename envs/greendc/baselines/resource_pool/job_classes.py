"""Jobs of a few classes: the workload of pools that are small enough to be solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.resource_pool.jobs import JobArrays, job_values, latest_finish


@dataclass(frozen=True)
class JobClass:
    """Jobs that are all alike.

    :param duration: run time in steps
    :param units: units that a job needs, of the one resource type
    :param qos: QoS value in (0, 1]
    :param weight: how often the class comes, relative to the others
    """

    duration: int
    units: int
    qos: float
    weight: float = 1.0


@dataclass(frozen=True)
class ClassWorkload:
    """Bernoulli arrivals: in each step one job comes with a fixed probability, of a class that is drawn.

    A :class:`~greendc.resource_pool.workloads.Workload` for pools of one resource type.

    :param classes: the classes, no two of them alike
    :param probability: that a job comes in a step, in [0, 1]
    :raises ValueError: for no classes, two that are alike, or a number out of range
    """

    classes: tuple[JobClass, ...]
    probability: float

    def __post_init__(self) -> None:
        require(len(self.classes) >= 1, "classes", self.classes, "at least one")
        require(0.0 <= self.probability <= 1.0, "probability", self.probability, "in [0, 1]")
        for k, one in enumerate(self.classes):
            require(one.weight > 0.0, f"classes[{k}].weight", one.weight, "above 0")
        kinds = [(one.duration, one.units, one.qos) for one in self.classes]
        require(len(set(kinds)) == len(kinds), "classes", kinds, "different from each other")
        self.of_each()  # refuses jobs that are none

    @property
    def counts(self) -> dict[str, int]:
        """Jobs that were changed or left out: none ever are."""
        return {}

    @property
    def shares(self) -> NDArray[np.float64]:
        """``(K,)``: the probability of each class, given that a job comes."""
        weights = np.array([one.weight for one in self.classes])
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    @property
    def mean_duration(self) -> float:
        """Mean run time of a job in steps."""
        return float(self.shares @ [one.duration for one in self.classes])

    @property
    def mean_units(self) -> tuple[float, ...]:
        """Mean units that a job needs."""
        return (float(self.shares @ [one.units for one in self.classes]),)

    def mean_value(self, prices: Sequence[float]) -> float:
        """Return the mean value of a job."""
        return float(self.shares @ job_values(self.of_each(), prices))

    def of_each(self) -> JobArrays:
        """Return one job of each class, all arriving in step 0."""
        count = len(self.classes)
        return self._jobs(np.zeros(count, np.int64), np.arange(count))

    @property
    def slack(self) -> NDArray[np.int64]:
        """``(K,)``: how many steps a job of each class can wait and still be on time."""
        jobs = self.of_each()
        return latest_finish(jobs) - jobs.duration

    def sample(self, rng: np.random.Generator, steps: int) -> JobArrays:
        """Draw the jobs that arrive in steps ``0 .. steps - 1``."""
        arrival = np.flatnonzero(rng.random(steps) < self.probability).astype(np.int64)
        kind = rng.choice(len(self.classes), len(arrival), p=self.shares)
        return self._jobs(arrival, kind)

    def _jobs(self, arrival: NDArray[np.int64], kind: NDArray[np.int64]) -> JobArrays:
        duration = np.array([one.duration for one in self.classes], np.int64)
        units = np.array([[one.units] for one in self.classes], np.int64)
        qos = np.array([one.qos for one in self.classes], np.float64)
        return JobArrays(arrival, duration[kind], units[kind], qos[kind])
