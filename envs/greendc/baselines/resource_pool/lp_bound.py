"""Upper bounds by linear programming: more than any policy can earn in a recorded episode."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.linear import Bound, Programme
from greendc.baselines.resource_pool.instance import Floats, Instance, Ints
from greendc.lazy import LazyModule

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = LazyModule("scipy.sparse")


MOST_ENTRIES = 4_000_000
"""Above so many coefficients, the programme of starts gives way to that of work, which has fewer."""


def lp_bound(instance: Instance, time_limit: float = 120.0) -> Bound:
    """Bound what any policy can earn, by a linear relaxation solved with HiGHS.

    Where nothing can be suspended, the programme is indexed by starts: job ``j`` starts to the share
    ``s[j, t]`` at ``t``, at most once in all, and in no step do the jobs need more units of a type than are
    powered. Where jobs can be suspended, by the action or because a forecast was wrong, it is indexed by
    work: job ``j`` runs to the share ``x[j, t] <= y[j]`` in step ``t``, ``length[j] * y[j]`` steps in all.
    Every schedule of the environment is a solution of the one that applies, with the value that it earns.

    At a site with a battery the powered units depend on what was used before. The programme then holds
    the battery too: what the pool draws comes from sun and wind, from what was stored, or from the grid where
    that is allowed. With an open grid energy binds nothing, and the battery is left out.

    :param instance: the episode
    :param time_limit: seconds for the solver
    :raises NoBoundError: if the solver does not finish
    """
    began = time.perf_counter()
    if len(instance) == 0:
        return Bound(0.0, "lp", 0.0)
    by_starts = not instance.may_suspend and _entries(instance) <= MOST_ENTRIES
    programme = starts_programme(instance) if by_starts else work_programme(instance)
    if instance.site is not None:
        programme = _with_site(programme, instance)
    value = programme.bound(time_limit)
    return Bound(value, "lp", time.perf_counter() - began)


@dataclass(frozen=True, eq=False)
class PoolProgramme(Programme):
    """What jobs are worth under the units that there are.

    :param limit: ends with the units of each type in each step (twice, where some jobs may use brown energy:
        powered ones, then all)
    :param used: ``(R * T, variables)`` green units in use by type and step, for what is built on top
    """

    used: sparse.csr_matrix


def _entries(instance: Instance) -> int:
    starts = instance.due - instance.release - instance.length + 1
    return int((starts * (instance.length * np.count_nonzero(instance.need, axis=1) + 1)).sum())


def _ranges(first: Ints, counts: Ints) -> Ints:
    """Concatenate ``arange(first[i], first[i] + counts[i])``."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)


def starts_programme(instance: Instance) -> PoolProgramme:
    """One variable for each job and start, by job. Of a job that goes on after the end a share counts."""
    counts = instance.due - instance.release - instance.length + 1
    of_job = np.repeat(np.arange(len(instance)), counts)
    start = _ranges(instance.release, counts)
    n_variables = len(of_job)
    length = instance.length[of_job]
    inside = np.minimum(length, instance.steps - start)
    variable = np.repeat(np.arange(n_variables), inside)
    running = (of_job[variable], _ranges(start, inside), variable)
    once = sparse.csr_matrix((np.ones(n_variables), (of_job, np.arange(n_variables))))
    profit = instance.value[of_job] * (inside / length)
    return _programme(instance, profit, running, [once], [np.ones(len(instance))])


def work_programme(instance: Instance) -> PoolProgramme:
    """Variables for the share of each job that is done, and then for what of it runs in each step."""
    n_jobs, counts = len(instance), instance.due - instance.release
    of_job = np.repeat(np.arange(n_jobs), counts)
    n_cells = len(of_job)
    cells = n_jobs + np.arange(n_cells)
    ones, order = np.ones(n_cells), np.arange(n_cells)
    shape = n_jobs + n_cells
    no_faster = sparse.csr_matrix(
        (np.concatenate([ones, -ones]), (np.tile(order, 2), np.concatenate([cells, of_job]))),
        (n_cells, shape),
    )
    jobs = np.arange(n_jobs)
    all_work = sparse.csr_matrix(
        (np.concatenate([instance.length, -ones]), (np.append(jobs, of_job), np.append(jobs, cells))),
        (n_jobs, shape),
    )
    profit = np.concatenate([instance.value, np.zeros(n_cells)])
    running = (of_job, _ranges(instance.release, counts), cells)
    rows, limits = [no_faster, all_work], [np.zeros(n_cells), np.zeros(n_jobs)]
    return _programme(instance, profit, running, rows, limits)


def _programme(
    instance: Instance,
    profit: Floats,
    running: tuple[Ints, Ints, Ints],
    rows: list[sparse.csr_matrix],
    limits: list[Floats],
) -> PoolProgramme:
    """Add that the units suffice.

    :param running: for each entry the job, the step in which it runs, and the variable that says so
    """
    job, step, variable = running
    types, steps = instance.need.shape[1], instance.steps

    def units_in_use(chosen: NDArray[np.bool_]) -> sparse.csr_matrix:
        parts = []
        for k in range(types):
            need = instance.need[job, k]
            kept = chosen & (need > 0)
            entries = (need[kept].astype(np.float64), (step[kept], variable[kept]))
            parts.append(sparse.csr_matrix(entries, (steps, len(profit))))
        return sparse.vstack(parts, format="csr")

    green = ~instance.brown[job]
    used = units_in_use(green)
    rows, limits = [*rows, used], [*limits, np.tile(instance.level, types).astype(np.float64)]
    if not green.all():
        rows.append(units_in_use(np.ones_like(green)))
        limits.append(np.full(types * steps, float(instance.units)))
    return PoolProgramme(
        profit, np.ones(len(profit)), sparse.vstack(rows, format="csr"), np.concatenate(limits), used
    )


def _with_site(programme: PoolProgramme, instance: Instance) -> PoolProgramme:
    """Add the battery: energy before each step, charge, and discharge for the pool.

    With ``e[t]`` the energy above the lower limit, ``c`` charge and ``d`` discharge for the pool in kW:
    ``e[t+1] <= e[t] + (efficiency * c[t] - d[t] - drain) * hours``. The critical load drains the battery
    first, by a concave function of ``e[t]``; the programme takes the chord below it, from no energy to the
    most that can be there. Idle draw is left out, as are whole units: both only make the bound larger.
    """
    site, steps = instance.site, instance.steps
    assert site is not None
    types, n = instance.need.shape[1], len(programme.profit)
    hours = site.step_hours
    stored = site.stored[:-1]
    chord = np.divide(site.drain, stored, out=np.zeros(steps), where=stored > 0.0)
    identity, nothing = sparse.identity(steps, format="csr"), sparse.csr_matrix((steps, steps))
    pool = sparse.hstack([identity] * types) @ programme.used * site.unit_kw
    no_jobs = sparse.csr_matrix((steps, n))
    later = sparse.eye(steps, k=-1, format="csr")  # row t picks the energy before step t - 1
    kept = sparse.diags(1.0 - chord * hours)

    def moved(matrix: sparse.spmatrix) -> sparse.spmatrix:
        return later @ matrix

    # Columns: the jobs, e, c, d. First energy: e[0] is bounded by what is there.
    energy = sparse.hstack(
        [
            no_jobs,
            identity - moved(kept),
            moved(identity * (-site.efficiency * hours)),
            moved(identity * hours),
        ]
    )
    first = np.zeros(steps)
    first[0] = stored[0]
    discharge = sparse.hstack(
        [no_jobs, sparse.diags(chord - 1.0 / hours), nothing, identity]
    )  # d + drain <= e / hours
    power = sparse.hstack([no_jobs, sparse.diags(chord), nothing, identity])  # d + drain <= discharge_kw
    balance = sparse.hstack([pool, nothing, identity, -identity])
    rows = [sparse.hstack([programme.rows, sparse.csr_matrix((programme.rows.shape[0], 3 * steps))])]
    limits = [programme.limit]
    for row, limit in (
        (energy, first),
        (discharge, np.zeros(steps)),
        (power, np.full(steps, site.discharge_kw)),
        (balance, site.surplus + site.grid_kw),
    ):
        rows.append(row)
        limits.append(limit)
    upper = np.concatenate(
        [
            programme.upper,
            stored,
            np.minimum(site.charge_kw, site.surplus),
            np.full(steps, site.discharge_kw),
        ]
    )
    matrix = sparse.vstack(rows, format="csr")
    profit = np.concatenate([programme.profit, np.zeros(3 * steps)])
    return PoolProgramme(profit, upper, matrix, np.concatenate(limits), programme.used)
