"""A recorded episode as a scheduling problem: what there was to earn, and what there was to earn it with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.energy.kernel import dispatch
from greendc.resource_pool import ResourcePoolSimulator
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_rows import powered_units

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SitePower:
    """What a site can give the pool, for every policy at once: series of ``T`` steps, in kW and kWh.

    Energies count from the battery's lower limit. ``dispatch`` keeps no less energy if it began with no
    less and the pool asks for no more, so no policy ever stores more than one that runs nothing.

    :param stored: ``(T + 1,)`` energy before each step if the pool never draws: the most that there can be
    :param surplus: ``(T,)`` sun and wind beyond the critical load
    :param drain: ``(T,)`` discharge for the critical load if ``stored`` is in the battery, which comes first
    :param charge_kw: largest charging power
    :param discharge_kw: largest discharging power
    :param efficiency: of charging
    :param grid_kw: grid power that the pool may use, finite
    :param unit_kw: draw of a unit in use
    :param step_hours: length of a step
    """

    stored: Floats
    surplus: Floats
    drain: Floats
    charge_kw: float
    discharge_kw: float
    efficiency: float
    grid_kw: float
    unit_kw: float
    step_hours: float


@dataclass(frozen=True, eq=False)
class Instance:
    """The jobs and the power of one episode.

    A job earns its value if it occupies its units for ``length`` steps within ``release .. due - 1``. Jobs
    that cannot, even alone, are left out.

    :param units: units ``M`` of each type
    :param steps: time steps ``T`` of the episode
    :param job: ``(J,)`` ids
    :param release: ``(J,)`` first step in which the job may run
    :param due: ``(J,)`` the latest finish, or the end of the episode if that is earlier
    :param length: ``(J,)`` steps that it occupies, delays included
    :param need: ``(J, R)`` units of each type
    :param value: ``(J,)``
    :param brown: ``(J,)`` whether it may use units that green power does not carry
    :param level: ``(T,)`` units of each type that are powered; at a site, the most that any policy can have
    :param site: the site's energy, where the levels depend on what the policy does
    :param may_suspend: whether jobs can be suspended, by an action or because a forecast was wrong
    """

    units: int
    steps: int
    job: Ints
    release: Ints
    due: Ints
    length: Ints
    need: Ints
    value: Floats
    brown: NDArray[np.bool_]
    level: Ints
    site: SitePower | None
    may_suspend: bool

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.job)

    def digest(self) -> str:
        """Return a hash of everything in it."""
        digest = hashlib.sha256()
        for part in (self, self.site):
            for name, value in sorted(vars(part).items() if part is not None else ()):
                if name != "site":
                    digest.update(name.encode() + np.asarray(value).tobytes())
        return digest.hexdigest()


def recorded_instance(simulator: ResourcePoolSimulator, index: int = 0) -> Instance:
    """Return the episode that environment ``index`` is in, future and all.

    :raises ValueError: if there is no such environment
    :raises RuntimeError: if no episode has begun there
    """
    series, _ = simulator.power_series(index)
    config, state = simulator.config, simulator.state
    table = state.jobs[index, : int(state.env["n_jobs"][index])]
    length = table["duration"] + config.start_delay + config.end_delay
    due = np.minimum(table["latest"], config.episode_steps)
    kept = np.flatnonzero(table["arrival"] + length <= due)
    if config.power == "trace":
        level, site = _site_power(simulator, series)
    else:
        shares = series[: config.episode_steps, at.SOLAR]
        level = np.array([powered_units(min(share, 1.0), config.units) for share in shares], np.int64)
        site = None
    return Instance(
        units=config.units,
        steps=config.episode_steps,
        job=kept,
        release=table["arrival"][kept],
        due=due[kept],
        length=length[kept],
        need=state.units[index, at.NEEDS, kept],
        value=table["value"][kept],
        brown=table["qos"][kept] > state.config["brown_above"],
        level=level,
        site=site,
        may_suspend=config.suspend or config.forecast_error > 0.0,
    )


def _site_power(simulator: ResourcePoolSimulator, series: Floats) -> tuple[Ints, SitePower | None]:
    """Return the greatest levels, and the site where they depend on the policy.

    They do where there is a battery, unless the grid gives the pool what it asks for.
    """
    config, site = simulator.config, simulator.config.site_config.to_record()
    hours, steps, battery = config.step_hours, config.episode_steps, config.site_config.battery
    generation = series[:steps, at.SOLAR] + series[:steps, at.WIND]
    stored, level = np.empty(steps + 1), np.empty(steps, np.int64)
    drain = np.empty(steps)
    stored[0] = battery.initial_kwh
    for t in range(steps):
        at_work = dispatch(site, stored[t], generation[t], site["pool_kw"], 0.0, hours)
        level[t] = powered_units(at_work[1] / site["pool_kw"], config.units)
        at_rest = dispatch(site, stored[t], generation[t], 0.0, 0.0, hours)
        drain[t], stored[t + 1] = at_rest[3], at_rest[6]
    if battery.energy_kwh == 0.0 or np.isinf(site["grid_pool_kw"]):
        return level, None
    surplus = np.maximum(generation - site["critical_kw"], 0.0)
    return level, SitePower(
        stored=np.maximum(stored - site["battery_min_kwh"], 0.0),
        surplus=surplus,
        drain=drain,
        charge_kw=battery.charge_kw,
        discharge_kw=float(site["discharge_kw"]),
        efficiency=battery.efficiency,
        grid_kw=float(site["grid_pool_kw"]),
        unit_kw=float(site["pool_kw"]) / (config.units * config.resource_types),
        step_hours=hours,
    )
