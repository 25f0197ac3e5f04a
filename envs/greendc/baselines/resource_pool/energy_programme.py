"""Linear programmes of a pool whose power is commanded: jobs, units, battery, grid, and a price of carbon."""

from __future__ import annotations

import dataclasses
import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.linear import Bound, Programme
from greendc.baselines.resource_pool.instance import Floats, Instance, recorded_instance
from greendc.baselines.resource_pool.lp_bound import work_programme
from greendc.config import require
from greendc.lazy import LazyModule
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ENERGY_COST_UNIT
from greendc.resource_pool.kernel_command import SETTLED_SHARE

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = LazyModule("scipy.sparse")


class Columns(NamedTuple):
    """Where the variables of a programme lie, each a slice of ``T`` steps."""

    jobs: slice
    grid: slice
    charge: slice
    discharge: slice
    stored: slice
    units: slice
    started: slice


@dataclass(frozen=True, eq=False)
class EnergyProgramme(Programme):
    """A programme whose solution says what runs, and on which energy.

    :param columns: where its variables are
    """

    columns: Columns


def energy_programme(
    config: ResourcePoolConfig,
    instance: Instance,
    generation: Floats,
    kg: Floats,
    kg_price: float,
    stored: float,
    units_on: int,
    last_kg: float,
) -> EnergyProgramme:
    """Maximize the value of the jobs less the price of what the grid energy emits.

    A job runs to a share in each step, as in :func:`~greendc.baselines.resource_pool.lp_bound.lp_bound`. No
    fewer units are on than run; those that start draw their switching energy, in the step before if they
    start late. The battery may end a step with less than the balance says, and units and flows need not be
    whole: every schedule that the environment allows is a solution.

    :param config: of the pool
    :param instance: the jobs, over ``T`` steps
    :param generation: ``(T,)`` sun and wind, kW
    :param kg: ``(T,)`` emissions of grid energy, kg/kWh
    :param kg_price: value of a kg
    :param stored: energy in the battery above its lower limit, kWh
    :param units_on: units that are on in the first step
    :param last_kg: kg that each kWh stands for that the battery lacks at the end of what it had at the
        beginning of an episode
    """
    site, battery, hours = config.site_config, config.site_config.battery, config.step_hours
    types, steps = config.resource_types, len(generation)
    jobs = work_programme(dataclasses.replace(instance, site=None, may_suspend=True))
    unit_kw = site.pool_kw / (config.units * types)
    switching_kw = unit_kw * types * config.switch_hours / hours
    energy = _energy_rows(
        steps,
        types,
        hours,
        battery.efficiency,
        unit_kw * site.idle_fraction * types,
        switching_kw,
        bool(config.switch_delay),
    )
    n_jobs = len(jobs.profit)
    drawn = sparse.hstack([sparse.identity(steps, format="csr")] * types) @ jobs.used
    of_jobs = sparse.vstack(
        [
            drawn * (unit_kw * (1.0 - site.idle_fraction)),
            sparse.csr_matrix((steps, n_jobs)),
            jobs.used,
            sparse.csr_matrix((energy.shape[0] - (2 + types) * steps, n_jobs)),
        ]
    )
    # Whether the units on in the first step are known, or those that start in it are paid for.
    on_first = np.append(float(units_on), np.zeros(steps - 1))
    first = [np.zeros(steps), on_first] if config.switch_delay else [on_first]
    kept = max(battery.initial_kwh - battery.min_charge * battery.energy_kwh, 0.0)
    limits = [
        jobs.limit,
        generation - site.critical_kw,
        np.append(stored, np.zeros(steps - 1)),
        np.zeros(types * steps),
        *first,
        np.array([-kept]),
    ]
    room = (battery.max_charge - battery.min_charge) * battery.energy_kwh
    most_kw = site.total_kw + battery.charge_kw + switching_kw * config.units
    top = most_units(config)
    most = [most_kw, battery.charge_kw, battery.discharge_kw, room, top, top]
    upper = np.concatenate([jobs.upper, np.repeat(np.array(most, np.float64), steps), [kept]])
    profit = np.concatenate([jobs.profit, -kg_price * hours * kg, np.zeros(5 * steps), [-kg_price * last_kg]])
    matrix = sparse.bmat([[jobs.rows, None], [of_jobs, energy]], format="csr")
    columns = Columns(
        slice(0, n_jobs), *[slice(n_jobs + i * steps, n_jobs + (i + 1) * steps) for i in range(6)]
    )
    return EnergyProgramme(profit, upper, matrix, np.concatenate(limits), columns)


@functools.lru_cache(maxsize=8)
def _energy_rows(
    steps: int,
    types: int,
    hours: float,
    efficiency: float,
    idle_kw: float,
    switching_kw: float,
    starts_late: bool,
) -> sparse.csr_matrix:
    """Return what is the same in every programme of a pool: rows over the six series and the last column.

    For each step the balance of power, that of the battery, and for each type that the units suffice; then
    what starts, and the battery's end. A plan an hour would otherwise spend half of its time on these.

    :param steps: ``T``
    :param types: of resources
    :param hours: of a step
    :param efficiency: of the battery
    :param idle_kw: draw of a unit of each type that is on
    :param switching_kw: and of those that start, for a step
    :param starts_late: whether units start in the step after the one for which they were ordered
    """
    identity, before = sparse.identity(steps, format="csr"), sparse.eye(steps, k=-1, format="csr")
    rows: list[dict[str, sparse.spmatrix]] = [
        {
            "grid": -identity,
            "charge": identity,
            "discharge": -identity,
            "units": identity * idle_kw,
            "started": identity * switching_kw,
        },
        {
            "charge": identity * (-efficiency * hours),
            "discharge": identity * hours,
            "stored": identity - before,
        },
        *({"units": -identity} for _ in range(types)),
    ]
    if starts_late:
        after, rise = sparse.eye(steps, k=1, format="csr"), sparse.diags(np.append(np.ones(steps - 1), 0.0))
        first = sparse.csr_matrix(([1.0], ([0], [0])), (steps, steps))
        rows += [{"units": after - rise, "started": -identity}, {"units": first}]
    else:
        rows.append({"units": identity - before, "started": -identity})
    nothing, last = sparse.csr_matrix((steps, steps)), sparse.csr_matrix((steps, 1))
    blocks = [
        sparse.hstack([*(row.get(name, nothing) for name in Columns._fields[1:]), last]) for row in rows
    ]
    end = np.zeros(6 * steps + 1)
    end[[4 * steps - 1, -1]] = -1.0
    return sparse.vstack([*blocks, sparse.csr_matrix(end)], format="csr")


def carbon_bound(
    simulator: ResourcePoolSimulator, kg_price: float, index: int = 0, time_limit: float = 300.0
) -> Bound:
    """Return more than any policy's value less ``kg_price`` times its carbon in an episode.

    That is ``total_job_value - kg_price * (carbon_kg + settled_carbon_kg)``. For several prices the bounds
    together are the upper envelope of value against carbon: at ``c`` kg no policy has more value than the
    least of ``bound + kg_price * c``.

    :param simulator: in an episode, which need not have been played
    :param kg_price: value of a kg, at least 0
    :param index: the environment
    :param time_limit: seconds for the solver
    :raises ValueError: for a price out of range, or a pool whose power is not commanded
    :raises NoBoundError: if the solver does not finish
    """
    began, config = time.perf_counter(), simulator.config
    require(0.0 <= kg_price < np.inf, "kg_price", kg_price, "finite and at least 0")
    require(config.power_levels is not None, "power_levels", None, "given, for a bound on carbon")
    instance, steps = recorded_instance(simulator, index), config.episode_steps
    idle = no_jobs(config, steps)
    series = simulator.power_series(index)[0][:steps]
    battery = config.site_config.battery
    programme = energy_programme(
        config,
        dataclasses.replace(instance, level=np.full(steps, most_units(config))) if len(instance) else idle,
        series[:, at.SOLAR] + series[:, at.WIND],
        series[:, at.CARBON],
        kg_price,
        battery.initial_kwh - battery.min_charge * battery.energy_kwh,
        most_units(config),
        SETTLED_SHARE * float(series[:, at.CARBON].mean()),
    )
    return Bound(programme.bound(time_limit), "carbon_lp", time.perf_counter() - began)


def least_kg(simulator: ResourcePoolSimulator, index: int = 0) -> float:
    """Return the least that the critical load alone emits in an episode, the battery used at its best.

    A limit of carbon below it cannot be kept by any policy.

    :param simulator: in an episode
    :param index: the environment
    """
    series = simulator.power_series(index)[0][: simulator.config.episode_steps]
    return _least(simulator.config, series, series[:, at.CARBON])


def least_cost(config: ResourcePoolConfig, episodes: int) -> float | None:
    """Return the mean least ``info["cost"]`` of an episode that the critical load alone causes.

    A limit on the cost of an episode below it cannot be kept by any policy.

    :param config: of the pool
    :param episodes: number of episodes, with the seeds 0, 1, ...
    :return: ``None`` for a pool whose power is not commanded, or whose cost is not of energy
    """
    if config.power_levels is None or config.cost not in ("carbon", "brown"):
        return None
    simulator, found = ResourcePoolSimulator(config), []
    for seed in range(episodes):
        simulator.reset_env(0, np.random.default_rng(seed))
        series = simulator.power_series(0)[0][: config.episode_steps]
        counted = series[:, at.CARBON] if config.cost == "carbon" else np.ones(len(series))
        found.append(_least(config, series, counted) / ENERGY_COST_UNIT)
    return float(np.mean(found))


def _least(config: ResourcePoolConfig, series: Floats, counted: Floats) -> float:
    """Return the least of what the grid's energy counts, by step, that the critical load alone takes."""
    steps = len(series)
    battery = config.site_config.battery
    programme = energy_programme(
        config,
        no_jobs(config, steps),
        series[:, at.SOLAR] + series[:, at.WIND],
        counted,
        1.0,
        battery.initial_kwh - battery.min_charge * battery.energy_kwh,
        0,
        SETTLED_SHARE * float(counted.mean()),
    )
    return max(-programme.bound(300.0), 0.0)


def most_units(config: ResourcePoolConfig) -> int:
    """Return the most units of each type that can be on."""
    return config.power_levels[-1] if config.power_levels else config.units


def no_jobs(config: ResourcePoolConfig, steps: int) -> Instance:
    """Return an instance with nothing to do: one job of no size and no worth."""
    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    return Instance(
        units=config.units,
        steps=steps,
        job=none - 1,
        release=none,
        due=one,
        length=one,
        need=np.zeros((1, config.resource_types), np.int64),
        value=np.zeros(1),
        brown=np.zeros(1, np.bool_),
        level=np.full(steps, most_units(config)),
        site=None,
        may_suspend=True,
    )


def running_shares(solution: NDArray[np.float64], instance: Instance) -> Floats:
    """Return what of each job runs in each step, ``(J, T)``, from a solution of its programme."""
    counts = instance.due - instance.release
    shares = np.zeros((len(instance), instance.steps))
    place = len(instance)
    for j, count in enumerate(counts.tolist()):
        first = int(instance.release[j])
        shares[j, first : first + count] = solution[place : place + count]
        place += count
    return shares
