"""What an operator expects to arrive: the mean day of the job trace."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.traces.jobs import MICRO, JobTrace

SHORTEST = np.array([1, 2, 4, 8, 16, 25])
"""The fewest hours of work left in each duration class of flexible jobs; the last has no upper end."""
CLASSES = len(SHORTEST)


def duration_class(hours: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the class of jobs with so many hours of work left."""
    return np.searchsorted(SHORTEST, hours, side="right") - 1


class ExpectedArrivals:
    """Load and work of the jobs that are yet to come, in the mean over the days of a trace.

    The first axis of each array is the hour of the day from which one looks ahead, the last the hour
    looked at (0: this one). Units are machine units and machine-unit-hours.

    :param trace: the job trace, as history
    :param hours: how far to look
    """

    inflexible: NDArray[np.float64]
    """``(24, hours)``: load of inflexible jobs in that hour."""
    work: NDArray[np.float64]
    """``(24, CLASSES, hours)``: work of flexible jobs by the end of that hour, if none is delayed."""
    cpu: NDArray[np.float64]
    """``(24, CLASSES, hours)``: CPU of the flexible jobs that have come until then."""

    def __init__(self, trace: JobTrace, hours: int) -> None:
        flexible = ~trace.inflexible
        classes = duration_class(trace.duration)
        self.inflexible = _sum_of_hours(_load_by_age(trace, ~flexible, hours))
        loads = [_load_by_age(trace, flexible & (classes == c), hours) for c in range(CLASSES)]
        self.work = np.stack([_sum_of_hours(load.cumsum(axis=1)) for load in loads], axis=1)
        arriving = [np.repeat(load[:, :1], hours, axis=1) for load in loads]
        self.cpu = np.stack([_sum_of_hours(cpu) for cpu in arriving], axis=1)


def _load_by_age(trace: JobTrace, chosen: NDArray[np.bool_], hours: int) -> NDArray[np.float64]:
    """Return ``(24, hours)``: mean load, so many hours after, of the jobs submitted in an hour of the day."""
    ending = np.zeros((24, hours + 1))
    when = (trace.submit_hour[chosen] % 24, np.minimum(trace.duration[chosen], hours))
    np.add.at(ending, when, trace.cpu[chosen] / (MICRO * trace.days))
    return ending[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]


def _sum_of_hours(by_age: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up, seen from each hour of the day, what the jobs of this hour and of those that follow cause."""
    hours = by_age.shape[1]
    total = np.zeros((24, hours))
    for start in range(24):
        for k in range(hours):
            total[start, k:] += by_age[(start + k) % 24, : hours - k]
    return total
