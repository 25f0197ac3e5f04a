"""A lower bound on the total cost of any policy in a month, by duration classes of the flexible work."""

from __future__ import annotations

import hashlib
import time

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from greendc.baselines.linear import Bound, NoBoundError, Programme
from greendc.baselines.vcc.policy import require_simulator
from greendc.vcc import VCCSimulator, layout

Floats = NDArray[np.float64]

CLASS_ENDS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48, 72, 120)
"""Longest run time, in hours, of each class of jobs but the last."""
DAY = layout.DAY
TOLERATED = 0.03
"""Share of a day's demand that may be overdue without charge."""


def cost_bound(simulator: VCCSimulator, index: int = 0, time_limit: float = 120.0) -> Bound:
    """Return a ``total_cost`` (carbon and overdue work by their weights) that no policy undercuts.

    The flexible jobs are taken by classes of run time. Of class ``g``, ``N[g, t]`` is the work that would
    be done by hour ``t`` if nothing were delayed, ``A[g, t]`` the CPU that has arrived, ``X[g, t]`` the work
    done.
    Under every policy

    - ``X[g, t] <= N[g, t]``, and an hour adds between 0 and ``A[g, t]``;
    - an hour adds at most ``C`` less the inflexible load, which nothing delays, over all classes;
    - the work that is overdue at a day's end is at least ``sum_g max(0, N[g, t - 24] - X[g, t])``, since that
      is the sum over jobs of what each is behind, less what others are ahead;
    - the work undone at the end is ``sum_g N[g, T] - X[g, T]``.

    The programme minimizes the cost under these alone. ``docs/planners.md`` has the proof in full.

    :param simulator: its environment ``index`` must be in an episode, at any hour
    :param index: the environment
    :param time_limit: seconds for the solver
    :raises NoBoundError: if evictions lose work (work done is then no longer what was executed), or if the
        solver does not finish
    """
    require_simulator(simulator)
    began = time.perf_counter()
    config, hours = simulator.config, simulator.hours
    if config.eviction_loss_hours > 0:
        raise NoBoundError(
            f"eviction_loss_hours={config.eviction_loss_hours}: the bound holds only where it is 0"
        )
    moer = simulator.world.moer[simulator.month(index)][:hours]
    hour, duration, cpu, flexible = _jobs_of(simulator, index)
    price = config.carbon_weight * config.kw_per_unit * moer
    load = _load(hour[~flexible], duration[~flexible], cpu[~flexible], hours)[DAY:]
    room = np.maximum(simulator.capacity / layout.MICRO - load, 0.0)
    if not config.evict:  # what runs goes on when inflexible jobs come; the machines have an end
        room = np.full(hours, float(np.ceil(simulator.capacity / layout.MICRO)))
    demand = simulator.world.no_delay[index] / layout.MICRO
    classes = np.searchsorted(CLASS_ENDS, duration)
    done_at_once, arrived = [], []
    for g in np.unique(classes[flexible]):
        chosen = flexible & (classes == g)
        running = _load(hour[chosen], duration[chosen], cpu[chosen], hours)
        done_at_once.append(np.append(0.0, running.cumsum()))  # by hour, from a day before t = 0 on
        came = np.bincount(hour[chosen] + DAY, cpu[chosen], hours + DAY).cumsum()
        arrived.append(came[DAY:])
    if not done_at_once:
        return Bound(float(price @ load), "lp", time.perf_counter() - began)
    work = np.array(done_at_once)
    programme = _programme(work, np.array(arrived), room, price, demand, config.slo_weight)
    idle = float(price @ load + config.slo_weight * (work[:, -1] - work[:, DAY]).sum())
    return Bound(idle - programme.bound(time_limit), "lp", time.perf_counter() - began)


def digest(simulator: VCCSimulator, index: int = 0) -> str:
    """Return a hash of all that the bound of an episode depends on."""
    require_simulator(simulator)
    config = simulator.config
    moer = simulator.world.moer[simulator.month(index)]
    numbers = (
        *(config.carbon_weight, config.slo_weight, config.kw_per_unit),
        *(config.evict, config.eviction_loss_hours, simulator.capacity),
    )
    found = hashlib.sha256()
    for part in (*_jobs_of(simulator, index), moer, np.array(numbers, dtype=np.float64)):
        found.update(part.tobytes())
    return found.hexdigest()


def _jobs_of(
    simulator: VCCSimulator, index: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, NDArray[np.bool_]]:
    """Return hour of submission (from -24 on), run time, CPU and flexibility of the episode's jobs."""
    world, days = simulator.world, simulator.world.days[index]
    parts, hours = [], []
    for d in range(0 if simulator.config.warm_start else 1, len(days)):
        first = DAY * int(days[d])
        offsets = world.hour_offsets[first : first + DAY + 1]
        parts.append(world.trace[offsets[0] : offsets[-1]])
        hours.append(np.repeat(DAY * (d - 1) + np.arange(DAY), np.diff(offsets)))
    trace = np.concatenate(parts)
    flexible = trace["job_class"] >= layout.FIRST_FLEXIBLE_CLASS
    duration = trace["duration"].astype(np.int64)
    return np.concatenate(hours), duration, trace["cpu"] / layout.MICRO, flexible


def _load(hour: NDArray[np.int64], duration: NDArray[np.int64], cpu: Floats, hours: int) -> Floats:
    """Return ``(hours + 24,)``: the load from hour -24 on, if nothing is delayed."""
    change = np.zeros(hours + DAY + 1)
    np.add.at(change, hour + DAY, cpu)
    np.add.at(change, np.minimum(hour + DAY + duration, hours + DAY), -cpu)
    load: Floats = np.maximum(change.cumsum()[:-1], 0.0)
    return load


def _programme(
    done_at_once: Floats, arrived: Floats, room: Floats, price: Floats, demand: Floats, slo_weight: float
) -> Programme:
    """Return the programme of what a policy can save against running no flexible work.

    Columns: ``X[g, t]`` for ``t = 1 .. T``, above what was done at ``t = 0``, class by class; then for each
    day what is overdue of each class, and what is charged.

    :param done_at_once: ``(G, T + 25)``: ``N`` from hour -24 on
    :param arrived: ``(G, T)``: ``A`` at the end of each hour
    """
    n_classes, hours = arrived.shape
    n_days = hours // DAY
    begun = done_at_once[:, DAY]
    most = done_at_once[:, DAY + 1 :] - begun[:, None]  # X <= N
    size = n_classes * hours
    step = sparse.identity(hours) - sparse.eye(hours, k=-1)  # what an hour adds
    steps = sparse.block_diag([step] * n_classes, format="csr")
    overdue_size = n_days * n_classes
    no_overdue = sparse.csr_matrix((size, overdue_size + n_days))
    rows = [sparse.hstack([steps, no_overdue]), sparse.hstack([-steps, no_overdue])]
    limits = [arrived.ravel(), np.zeros(size)]
    together = sparse.hstack([step] * n_classes)
    rows.append(sparse.hstack([together, sparse.csr_matrix((hours, overdue_size + n_days))]))
    limits.append(room)
    # u[d, g] >= N[g, 24 d - 24] - X[g, 24 d], and z[d] >= sum_g u[d, g] - tolerance.
    day_end = DAY * np.arange(1, n_days + 1)
    due = done_at_once[:, day_end] - begun[:, None]  # N by 24 hours before, above what was done at t = 0
    day, group = np.divmod(np.arange(overdue_size), n_classes)
    picks = sparse.csr_matrix(
        (np.ones(overdue_size), (np.arange(overdue_size), group * hours + day_end[day] - 1)),
        (overdue_size, size),
    )
    rows.append(
        sparse.hstack([-picks, -sparse.identity(overdue_size), sparse.csr_matrix((overdue_size, n_days))])
    )
    limits.append(-due[group, day])
    sums = sparse.csr_matrix((np.ones(overdue_size), (day, np.arange(overdue_size))), (n_days, overdue_size))
    rows.append(sparse.hstack([sparse.csr_matrix((n_days, size)), sums, -sparse.identity(n_days)]))
    limits.append(TOLERATED * demand.reshape(n_days, DAY).sum(axis=1))
    # Carbon: an hour's work at its price. X[t] appears in hours t - 1 and t. The last X is charged if undone.
    profit = np.tile(np.append(price[1:], 0.0) - price, n_classes)
    last = hours * np.arange(1, n_classes + 1) - 1
    profit[last] += slo_weight
    profit = np.concatenate([profit, np.zeros(overdue_size), np.full(n_days, -slo_weight)])
    most_overdue = np.maximum(due, 0.0)
    upper = np.concatenate([most.ravel(), most_overdue.T.ravel(), most_overdue.sum(axis=0)])
    matrix = sparse.vstack(rows, format="csr")
    return Programme(profit, upper, matrix, np.concatenate(limits))
