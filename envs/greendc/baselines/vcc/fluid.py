"""Flexible work as a fluid: the linear programme behind ``day_ahead`` and ``rolling``.

Jobs are grouped by the hours of work that they have left. With x[c, t] the load of class c in hour t and
X its running sum,

    minimise    sum_t price[t] sum_c x[c, t]  +  overload_price sum_t z[t]  -  left_price sum_c X[c, T-1]
    subject to  lower <= X <= upper,   0 <= x <= rate,   sum_c x[c, t] <= room[t] + z[t],   z >= 0

``upper`` is the work done if nothing is delayed from now on, ``lower`` what deadlines demand, ``rate`` the
CPU of the jobs there are, ``room`` the capacity that inflexible jobs leave. Overload z keeps it feasible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.vcc.arrivals import CLASSES, ExpectedArrivals, duration_class
from greendc.baselines.vcc.policy import require_simulator
from greendc.lazy import LazyModule
from greendc.vcc import VCCSimulator, layout
from greendc.vcc.snapshot import UnfinishedJobs

if TYPE_CHECKING:
    from scipy import optimize, sparse
else:
    optimize = LazyModule("scipy.optimize")
    sparse = LazyModule("scipy.sparse")


Floats = NDArray[np.float64]


class Window(NamedTuple):
    """Bounds of the programme over T hours."""

    lower: Floats
    """``(CLASSES, T)``"""
    upper: Floats
    """``(CLASSES, T)``"""
    rate: Floats
    """``(CLASSES, T)``"""
    inflexible: Floats
    """``(T,)``: expected inflexible load, machine units."""


class Plan(NamedTuple):
    """A solution over T hours."""

    flexible: Floats
    """``(T,)``: flexible load, machine units."""
    capacity_price: Floats
    """``(T,)``: what one more machine unit in an hour would save, kg (the dual of ``room``)."""


class FluidModel:
    """The fluid view of one simulator's environments.

    :param simulator: whose trace and capacity to use
    :param hours: the longest horizon
    """

    def __init__(self, simulator: VCCSimulator, hours: int = 24) -> None:
        require_simulator(simulator)
        self.hours = hours
        self.capacity = simulator.capacity / layout.MICRO
        self._arrivals = ExpectedArrivals(simulator.trace, hours)
        self._programmes: dict[int, _Programme] = {}

    def window(
        self, jobs: UnfinishedJobs, hour_of_day: int, hours: int, slack: NDArray[np.integer]
    ) -> Window:
        """Return the bounds from known jobs and expected arrivals.

        :param jobs: all unfinished jobs
        :param hour_of_day: of the first hour
        :param hours: horizon, at most that of the model
        :param slack: ``(n,)`` hours that each flexible job may wait; beyond the horizon is all the same
        """
        flexible = jobs.flexible
        cpu, left = jobs.cpu / layout.MICRO, jobs.left
        inflexible = _work(np.zeros_like(left)[~flexible], left[~flexible], cpu[~flexible], None, hours)
        cpu, left = cpu[flexible], left[flexible]
        classes = duration_class(left)
        expected = self._arrivals
        upper = _work(np.zeros_like(left), left, cpu, classes, hours)
        lower = _work(slack, left, cpu, classes, hours)
        rate = np.bincount(classes, cpu, minlength=CLASSES)[:, None]
        return Window(
            lower=np.minimum(lower, upper),
            upper=upper + expected.work[hour_of_day, :, :hours],
            rate=rate + expected.cpu[hour_of_day, :, :hours],
            inflexible=np.diff(inflexible[0], prepend=0.0) + expected.inflexible[hour_of_day, :hours],
        )

    def arriving_load(self, hour_of_day: int) -> tuple[float, Floats]:
        """Return the CPU expected to arrive in an hour of the day: inflexible, and flexible by class."""
        expected = self._arrivals
        return float(expected.inflexible[hour_of_day, 0]), expected.cpu[hour_of_day, :, 0]

    def solve(self, window: Window, price: Floats, overload_price: float, left_price: float) -> Plan:
        """Solve the programme.

        :param window: its bounds
        :param price: ``(T,)`` kg for a machine-unit-hour
        :param overload_price: kg for a machine-unit-hour beyond the capacity
        :param left_price: kg for a machine-unit-hour of work left at the end
        """
        hours = len(price)
        if hours not in self._programmes:
            self._programmes[hours] = _Programme(hours)
        room = np.maximum(0.0, self.capacity - window.inflexible)
        return self._programmes[hours].solve(window, room, price, overload_price, left_price)


class _Programme:
    """The programme over T hours; variables are X, x and z in this order. Its matrices are built once."""

    def __init__(self, hours: int) -> None:
        self.hours = hours
        self.size = CLASSES * hours
        difference = sparse.diags([1.0, -1.0], [0, -1], shape=(hours, hours))
        one_class = sparse.identity(hours)
        self._balance = sparse.hstack(
            [
                sparse.block_diag([difference] * CLASSES),
                -sparse.identity(self.size),
                sparse.csc_matrix((self.size, hours)),
            ],
            format="csc",
        )
        self._load = sparse.hstack(
            [sparse.csc_matrix((hours, self.size)), *[one_class] * CLASSES, -one_class], format="csc"
        )
        self._zeros = np.zeros(self.size)

    def solve(
        self, window: Window, room: Floats, price: Floats, overload_price: float, left_price: float
    ) -> Plan:
        hours, size = self.hours, self.size
        cost = np.concatenate([self._zeros, np.tile(price, CLASSES), np.full(hours, overload_price)])
        cost[hours - 1 : size : hours] = -left_price
        bounds = np.zeros((len(cost), 2))
        bounds[:size, 0], bounds[:size, 1] = window.lower.ravel(), window.upper.ravel()
        bounds[size : 2 * size, 1] = window.rate.ravel()
        bounds[2 * size :, 1] = np.inf
        result = optimize.linprog(
            cost,
            A_ub=self._load,
            b_ub=room,
            A_eq=self._balance,
            b_eq=self._zeros,
            bounds=bounds,
            method="highs",
        )
        if result.x is None:
            raise RuntimeError(f"the planning programme has no solution: {result.message}")
        load = result.x[size : 2 * size].reshape(CLASSES, hours).sum(axis=0)
        return Plan(load, -result.ineqlin.marginals)


def _work(
    first: NDArray[np.integer],
    left: NDArray[np.integer],
    cpu: Floats,
    classes: NDArray[np.intp] | None,
    hours: int,
) -> Floats:
    """Return the work done by the end of each hour, by class, if each job starts at ``first`` and runs on."""
    rows = 1 if classes is None else CLASSES
    base = (hours + 1) * (np.zeros(len(left), dtype=np.intp) if classes is None else classes)
    starts = np.bincount(base + np.minimum(first, hours), cpu, minlength=rows * (hours + 1))
    ends = np.bincount(base + np.minimum(first + left, hours), cpu, minlength=rows * (hours + 1))
    load = (starts - ends).reshape(rows, hours + 1).cumsum(axis=1)[:, :hours]
    work: Floats = load.cumsum(axis=1)
    return work
