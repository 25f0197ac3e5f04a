"""The jobs of one episode as flat arrays, and the two quantities that the papers derive from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import EntryPoint, compiled

MOST_STEPS = 2**53
"""The most steps that anything may take: float64 holds every whole number up to here."""


@dataclass(frozen=True, eq=False)
class JobArrays:
    """``J`` jobs in the order in which they arrive, checked when built.

    The id of a job is its index, so jobs that arrive in the same step are told apart by their order here.

    :param arrival: ``(J,)`` int64, the step in which the job enters the queue, >= 0 and non-decreasing
    :param duration: ``(J,)`` int64, run time in steps, >= 1
    :param units: ``(J, R)`` int64, units needed of each resource type; column 0 (CPU) >= 1, others >= 0
    :param qos: ``(J,)`` float64 in (0, 1], the share of wall-clock time that the job wants to be running;
        ``duration / qos`` is at most :data:`MOST_STEPS`
    :raises TypeError: if a field is not an array of the stated dtype
    :raises ValueError: if shapes disagree or a job breaks one of the rules; names the field and the job
    """

    arrival: NDArray[np.int64]
    duration: NDArray[np.int64]
    units: NDArray[np.int64]
    qos: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.check()

    def check(self, units: int = MOST_STEPS, horizon: int = MOST_STEPS) -> None:
        """Check everything again, as when it was built: the arrays may have been written to.

        :param units: that a job may need of each type
        :param horizon: steps that a job may run for
        :raises TypeError: as the class
        :raises ValueError: as the class, or if a job needs more than these limits
        """
        for name, dtype, ndim in _LAYOUT:
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                found = getattr(array, "dtype", type(array).__name__)
                raise TypeError(f"JobArrays.{name}: must be an array of {dtype}, not {found}")
            if array.ndim != ndim or len(array) != len(self.arrival):
                raise ValueError(
                    f"JobArrays.{name}: shape {array.shape} does not fit arrival's {self.arrival.shape}"
                )
        if self.units.shape[1] < 1:
            raise ValueError("JobArrays.units: needs at least one column (CPU)")
        if len(self) == 0:
            return
        # One pass over all: this runs at every reset, so the culprit is looked for only on failure.
        columns = (self.arrival, self.duration, self.units, self.qos)
        if not _all_valid(units, horizon, *(np.ascontiguousarray(column) for column in columns)):
            self._name_culprit(units, horizon)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.arrival)

    @property
    def resource_types(self) -> int:
        """Number of resource types, ``R``."""
        return int(self.units.shape[1])

    def _name_culprit(self, units: int, horizon: int) -> None:
        earlier = np.concatenate([[0], self.arrival[:-1]])
        rules = (
            ("arrival", self.arrival, self.arrival >= earlier, "at least 0 and that of the job before"),
            ("duration", self.duration, self.duration >= 1, "at least 1 step"),
            ("units", self.units, self.units[:, 0] >= 1, "at least 1 CPU unit (column 0)"),
            ("units", self.units, (self.units >= 0).all(axis=1), "at least 0"),
            ("qos", self.qos, (self.qos > 0.0) & (self.qos <= 1.0), "in (0, 1]"),
            ("arrival", self.arrival, self.arrival <= MOST_STEPS, "at most 2**53"),
            (
                "qos",
                self.qos,
                self.duration <= self.qos * MOST_STEPS,
                "larger: the job's latest finish, arrival + duration / qos, is beyond 2**53 steps",
            ),
        )
        for field, values, valid, allowed in rules:
            bad = np.flatnonzero(~valid)
            if len(bad):
                job = int(bad[0])
                raise ValueError(f"JobArrays.{field}[{job}]={values[job]}: must be {allowed}")
        for field, values, limit in (("units", self.units, units), ("duration", self.duration, horizon)):
            per_job = values.reshape(len(self), -1).max(axis=1)
            bad = np.flatnonzero(per_job > limit)
            if len(bad):
                job = int(bad[0])
                said = f"{field}[{job}]={values[job]}"
                raise ValueError(f"{said}: the job can never fit, must be at most {limit}")


@compiled
def _rules_hold(
    most_units: int,
    horizon: int,
    arrival: NDArray[np.int64],
    duration: NDArray[np.int64],
    units: NDArray[np.int64],
    qos: NDArray[np.float64],
) -> bool:
    """Return whether no job breaks a rule of :class:`JobArrays`; compiled, because reductions take longer."""
    earlier = 0
    for j in range(arrival.shape[0]):
        good = earlier <= arrival[j] <= MOST_STEPS and 1 <= duration[j] <= horizon
        good = good and 1 <= units[j, 0] <= most_units
        good = good and 0.0 < qos[j] <= 1.0 and duration[j] <= qos[j] * MOST_STEPS
        for k in range(1, units.shape[1]):
            good = good and 0 <= units[j, k] <= most_units
        if not good:
            return False
        earlier = arrival[j]
    return True


_all_valid = EntryPoint(_rules_hold)

_LAYOUT = (
    ("arrival", np.dtype(np.int64), 1),
    ("duration", np.dtype(np.int64), 1),
    ("units", np.dtype(np.int64), 2),
    ("qos", np.dtype(np.float64), 1),
)


def job_values(jobs: JobArrays, prices: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value of each job: ``duration * sum_k(price_k * units_k) * qos``.

    With unit prices this gives the example of RARE's Fig. 2: 4 CPU and 4 GPU units for 6 steps at a QoS
    value of 0.5 are worth 24.

    :param jobs: the jobs
    :param prices: ``(R,)``, price of one unit of each type for one step
    :return: ``(J,)``
    :raises ValueError: if there is not one price for each resource type
    """
    if len(prices) != jobs.resource_types:
        raise ValueError(
            f"prices={list(prices)!r}: must be one number for each of {jobs.resource_types} types"
        )
    worth = jobs.units @ np.asarray(prices, dtype=np.float64)
    values: NDArray[np.float64] = jobs.duration * worth * jobs.qos
    return values


def latest_finish(jobs: JobArrays) -> NDArray[np.int64]:
    """Return the step by whose start each job must be done to be on time, fixed at arrival.

    ``arrival + floor(duration / qos + 1e-9)``, the papers' QoS violation time: 10 steps at 0.95 must be
    done within 10 steps, 6 steps at 0.5 within 12. The small constant keeps quotients that are whole
    numbers whole in floating point.

    :param jobs: the jobs
    :return: ``(J,)``
    """
    result: NDArray[np.int64] = jobs.arrival + np.floor(jobs.duration / jobs.qos + 1e-9).astype(np.int64)
    return result


def arrival_rate(offered_load: float, units: int, mean_work: float) -> float:
    """Return the jobs per step, ``L * M / E[work]``, of an offered load ``L``.

    At ``L = 1`` the busiest resource type receives exactly as much work as the full pool can do. This
    reading of the papers' "arrival rate 100 %" is the one that reproduces their completion curves.

    :param offered_load: ``L``
    :param units: units ``M`` of each resource type
    :param mean_work: mean of duration times units of the busiest type, in unit-steps; if size and duration
        are independent it is ``E[duration] * max_k E[units_k]``
    """
    return offered_load * units / mean_work


def require_fit(jobs: object, units: int, horizon: int) -> JobArrays:
    """Return the jobs, checked once more: their arrays may have been written to.

    :param jobs: the jobs
    :param units: units of each resource type in the pool
    :param horizon: longest run time that can be reserved, in steps
    :raises TypeError: for anything but :class:`JobArrays`
    :raises ValueError: names the first job that no empty pool could ever hold, or what else is wrong
    """
    if not isinstance(jobs, JobArrays):
        raise TypeError(f"jobs: must be JobArrays, not {type(jobs).__name__}")
    jobs.check(units, horizon)
    return jobs
