# mypy: warn-return-any=False
"""Compiled energy balance of a site: one step's dispatch, and a two-state chain of power levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled

# Columns of a site array, made by `SiteConfig.to_array`.
CRITICAL_KW = 0
POOL_KW = 1
IDLE_FRACTION = 2
BATTERY_MIN_KWH = 3
BATTERY_MAX_KWH = 4
CHARGE_KW = 5
DISCHARGE_KW = 6
EFFICIENCY = 7
GRID_KW = 8
GRID_POOL_KW = 9
SITE_COLUMNS = 10


@compiled
def dispatch(
    site: NDArray[np.float64],
    stored: float,
    generation: float,
    demand: float,
    brown: float,
    step_hours: float,
) -> tuple[float, float, float, float, float, float, float]:
    """Balance one step of a site.

    The critical load is served before the pool; sun and wind before the battery, the battery before the
    grid. What sun and wind leave over charges the battery, the rest is curtailed. The balance holds to
    rounding: ``generation + discharge + grid = critical + pool + charge + curtailed`` and ``stored' = stored
    + (efficiency * charge - discharge) * step_hours``.

    Given the same generation, neither the pool power that can be served nor the energy stored afterwards
    falls when ``stored`` is raised, nor the latter when ``demand`` is lowered. Exact forecasts rest on that.

    :param site: begins with ``SITE_COLUMNS`` numbers, see :meth:`greendc.energy.SiteConfig.to_array`
    :param stored: energy in the battery, kWh
    :param generation: power from sun and wind, kW
    :param demand: power that the pool asks for, kW
    :param brown: further power for the pool that only the grid may serve, whatever its limits, kW
    :param step_hours: length of the step, h
    :return: power served to the critical load and to the pool, charge, discharge, grid, curtailed (all mean
        kW over the step), and the energy stored afterwards in kWh
    :raises ValueError: if ``site`` is shorter than that
    """
    if site.shape[0] < SITE_COLUMNS:
        raise ValueError("site: must begin with SITE_COLUMNS numbers, made by SiteConfig.to_array")
    critical = site[CRITICAL_KW]
    critical_green = min(generation, critical)
    pool_green = min(generation - critical_green, demand)
    surplus = max(generation - critical_green - pool_green, 0.0)
    room = max(site[BATTERY_MAX_KWH] - stored, 0.0) / (site[EFFICIENCY] * step_hours)
    charge = min(min(surplus, site[CHARGE_KW]), room)

    dischargeable = min(site[DISCHARGE_KW], max(stored - site[BATTERY_MIN_KWH], 0.0) / step_hours)
    critical_stored = min(critical - critical_green, dischargeable)
    pool_stored = min(demand - pool_green, dischargeable - critical_stored)
    discharge = critical_stored + pool_stored

    critical_grid = min(critical - critical_green - critical_stored, site[GRID_KW])
    pool_lacks = demand - pool_green - pool_stored
    pool_grid = min(min(pool_lacks, site[GRID_POOL_KW]), site[GRID_KW] - critical_grid)
    return (
        critical_green + critical_stored + critical_grid,
        pool_green + pool_stored + pool_grid + brown,
        charge,
        discharge,
        critical_grid + pool_grid + brown,
        surplus - charge,
        stored + (site[EFFICIENCY] * charge - discharge) * step_hours,
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
