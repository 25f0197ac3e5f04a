"""Compiled energy balance of a site: one step's dispatch, and the pool levels that a forecast carries."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

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

# Columns of a flow array. Powers in kW, the mean over the step; the last one in kWh.
CRITICAL_SERVED = 0
POOL_SERVED = 1
CHARGE = 2
DISCHARGE = 3
GRID = 4
CURTAILED = 5
CRITICAL_UNSERVED = 6
STORED = 7
FLOW_COLUMNS = 8


@njit(cache=True)
def dispatch(
    flows: NDArray[np.float64],
    site: NDArray[np.float64],
    stored: float,
    generation: float,
    demand: float,
    brown: float,
    step_hours: float,
) -> None:
    """Balance one step of a site and write the flows.

    The critical load is served before the pool; sun and wind before the battery, the battery before the
    grid. What sun and wind leave over charges the battery, the rest is curtailed. The balance holds to
    rounding: ``generation + discharge + grid = critical served + pool served + charge + curtailed`` and
    ``stored' = stored + (efficiency * charge - discharge) * step_hours``.

    Given the same generation, the pool power that could be served and the energy stored afterwards never
    fall when ``stored`` is raised or ``demand`` lowered; exact forecasts rest on that.

    :param flows: ``(FLOW_COLUMNS,)``, overwritten
    :param site: ``(SITE_COLUMNS,)``
    :param stored: energy in the battery, kWh
    :param generation: power from sun and wind, kW
    :param demand: power that the pool asks for, kW
    :param brown: further power for the pool that only the grid may serve, whatever its limits, kW
    :param step_hours: length of the step, h
    """
    critical = site[CRITICAL_KW]
    critical_green = min(generation, critical)
    pool_green = min(generation - critical_green, demand)
    surplus = max(generation - critical_green - pool_green, 0.0)
    room = max(site[BATTERY_MAX_KWH] - stored, 0.0) / (site[EFFICIENCY] * step_hours)
    charge = min(min(surplus, site[CHARGE_KW]), room)

    dischargeable = min(site[DISCHARGE_KW], max(stored - site[BATTERY_MIN_KWH], 0.0) / step_hours)
    critical_stored = min(critical - critical_green, dischargeable)
    pool_stored = min(demand - pool_green, dischargeable - critical_stored)

    critical_grid = min(critical - critical_green - critical_stored, site[GRID_KW])
    pool_grid = min(
        min(demand - pool_green - pool_stored, site[GRID_POOL_KW]),
        site[GRID_KW] - critical_grid,
    )
    discharge = critical_stored + pool_stored
    flows[CRITICAL_SERVED] = critical_green + critical_stored + critical_grid
    flows[POOL_SERVED] = pool_green + pool_stored + pool_grid + brown
    flows[CHARGE] = charge
    flows[DISCHARGE] = discharge
    flows[GRID] = critical_grid + pool_grid + brown
    flows[CURTAILED] = surplus - charge
    flows[CRITICAL_UNSERVED] = max(critical - flows[CRITICAL_SERVED], 0.0)
    flows[STORED] = stored + (site[EFFICIENCY] * charge - discharge) * step_hours


@njit(cache=True)
def project(
    available: NDArray[np.float64],
    flows: NDArray[np.float64],
    site: NDArray[np.float64],
    stored: float,
    generation: NDArray[np.float64],
    step_hours: float,
) -> None:
    """Write the power that each coming step can give the pool, if the pool draws all of it.

    Actual use is never more, and :func:`dispatch` is monotone, so with an exact forecast each later
    projection is at least this one: what has been reserved on it is never broken. The whole available
    power is taken to be drawn, not just that of whole units: a projection in whole units would not be
    monotone, since a little more charge may light one more unit, whose draw then empties the battery.

    :param available: ``(rows,)``, overwritten, kW
    :param flows: scratch, as in :func:`dispatch`
    :param stored: energy in the battery at the first step's start, kWh
    :param generation: ``(rows,)``, forecast power from sun and wind, kW
    """
    for row in range(available.shape[0]):
        dispatch(flows, site, stored, generation[row], site[POOL_KW], 0.0, step_hours)
        available[row] = flows[POOL_SERVED]
        stored = flows[STORED]


@njit(cache=True)
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
    """
    is_high = True
    for t in range(levels.shape[0]):
        levels[t] = high if is_high else low
        stays = uniforms[t] < (stay_high if is_high else stay_low)
        if not stays:
            is_high = not is_high
