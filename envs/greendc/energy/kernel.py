# mypy: warn-return-any=False
"""Compiled energy balance of a site: one step's dispatch, and a two-state chain of power levels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled

SITE = np.dtype(
    [
        (name, np.float64)
        for name in (
            "critical_kw",
            "pool_kw",
            "idle_fraction",
            "battery_min_kwh",
            "battery_max_kwh",
            "charge_kw",
            "discharge_kw",
            "efficiency",
            "grid_kw",
            "grid_pool_kw",
        )
    ]
)
"""A site, as :meth:`greendc.energy.SiteConfig.to_record` makes it."""


AUTO, HOLD, CHARGE = 0, 1, 2
"""What the battery is told: to serve and to store what sun and wind leave over; to serve nothing; to serve
nothing and take from the grid what it lacks to charge at full power."""


@compiled
def dispatch(
    site: Any,
    stored: float,
    generation: float,
    demand: float,
    brown: float,
    step_hours: float,
) -> tuple[float, float, float, float, float, float, float]:
    """Balance one step of a site whose battery is left to itself; see :func:`dispatch_under`."""
    return dispatch_under(site, stored, generation, demand, brown, step_hours, AUTO)


@compiled
def dispatch_under(
    site: Any,
    stored: float,
    generation: float,
    demand: float,
    brown: float,
    step_hours: float,
    mode: int,
) -> tuple[float, float, float, float, float, float, float]:
    """Balance one step of a site.

    The critical load is served before the pool; sun and wind before the battery, the battery before the
    grid. What sun and wind leave over charges the battery, the rest is curtailed. The balance holds to
    rounding: ``generation + discharge + grid = critical + pool + charge + curtailed`` and ``stored' = stored
    + (efficiency * charge - discharge) * step_hours``.

    Given the same generation, neither the pool power that can be served nor the energy stored afterwards
    falls when ``stored`` is raised, nor the latter when ``demand`` is lowered, the battery left to itself.
    Exact forecasts rest on that.

    :param site: a record, see :meth:`greendc.energy.SiteConfig.to_record`
    :param stored: energy in the battery, kWh
    :param generation: power from sun and wind, kW
    :param demand: power that the pool asks for, kW
    :param brown: further power for the pool that only the grid may serve, whatever its limits, kW
    :param step_hours: length of the step, h
    :param mode: of the battery, ``AUTO``, ``HOLD`` or ``CHARGE``
    :return: power served to the critical load and to the pool, charge, discharge, grid, curtailed (all mean
        kW over the step), and the energy stored afterwards in kWh
    """
    critical = site.critical_kw
    critical_green = min(generation, critical)
    pool_green = min(generation - critical_green, demand)
    surplus = max(generation - critical_green - pool_green, 0.0)
    room = max(site.battery_max_kwh - stored, 0.0) / (site.efficiency * step_hours)
    charge = min(min(surplus, site.charge_kw), room)

    dischargeable = 0.0
    if mode == AUTO:
        dischargeable = min(site.discharge_kw, max(stored - site.battery_min_kwh, 0.0) / step_hours)
    critical_stored = min(critical - critical_green, dischargeable)
    pool_stored = min(demand - pool_green, dischargeable - critical_stored)
    discharge = critical_stored + pool_stored

    critical_grid = min(critical - critical_green - critical_stored, site.grid_kw)
    pool_lacks = demand - pool_green - pool_stored
    pool_grid = min(min(pool_lacks, site.grid_pool_kw), site.grid_kw - critical_grid)
    grid, curtailed = critical_grid + pool_grid + brown, surplus - charge
    if mode == CHARGE:
        bought = max(min(min(site.charge_kw, room) - charge, site.grid_kw - grid), 0.0)
        charge += bought
        grid += bought
    return (
        critical_green + critical_stored + critical_grid,
        pool_green + pool_stored + pool_grid + brown,
        charge,
        discharge,
        grid,
        curtailed,
        stored + (site.efficiency * charge - discharge) * step_hours,
    )


@compiled
def markov_levels(
    levels: NDArray[np.float64],
    uniforms: NDArray[np.float64],
    high: float,
    low: float,
    stay_high: float,
    stay_low: float,
) -> None:
    """Write a two-state Markov chain of power levels that starts high.

    :param levels: ``(T,)``, overwritten
    :param uniforms: ``(T,)``, uniform on [0, 1); entry ``t`` decides the move from step ``t`` to ``t + 1``
    :param stay_high: probability that a high step is followed by a high one
    :param stay_low: probability that a low step is followed by a low one
    :raises ValueError: if there is not a random number for each level
    """
    if uniforms.shape[0] < levels.shape[0]:
        raise ValueError("uniforms: must be one for each of levels")
    is_high = True
    for t in range(levels.shape[0]):
        levels[t] = high if is_high else low
        stays = uniforms[t] < (stay_high if is_high else stay_low)
        if not stays:
            is_high = not is_high
