# mypy: warn-return-any=False
"""Compiled power of the resource pool: forecasts as levels of rows, and the energy of each step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import internal
from greendc.energy.kernel import dispatch, dispatch_under
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_command import commanded_levels, pay_energy, settle_battery, switching_kw
from greendc.resource_pool.kernel_rows import clear_row, powered_units, ring, set_level
from greendc.resource_pool.layout import Pool

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]


@internal
def forecast_levels(pool: Pool) -> None:
    """Write the share of the pool that each row can power, as it is foreseen now, into ``forecast``.

    At a site the projection takes it that the pool draws all the power that is available in every row.
    Actual use is never more, and :func:`~greendc.energy.kernel.dispatch` is monotone in the energy stored,
    so with an exact forecast each later projection is at least this one: what was reserved on it is never
    broken. All available power is meant, not just that of whole units: a projection in whole units would
    not be monotone, since a little more charge may light one more unit, whose draw then empties the battery.

    Where power is commanded, the levels are what was ordered, and the grid serves whatever that draws.
    """
    if pool.config.commands > 1:
        commanded_levels(pool)
        return
    now, hours = pool.env.now, pool.config.step_hours
    error, walk = pool.config.forecast_error, pool.series[now, at.WALK]
    stored = pool.env.stored_kwh
    for h in range(pool.config.horizon):
        factor = max(0.0, 1.0 + error * (pool.series[now + h, at.WALK] - walk))
        if pool.config.has_site:
            generation = (pool.series[now + h, at.SOLAR] + pool.series[now + h, at.WIND]) * factor
            flows = dispatch(pool.config.site, stored, generation, pool.config.site.pool_kw, 0.0, hours)
            stored = flows[6]
            level = flows[1] / pool.config.site.pool_kw
            if h == 0:
                pool.env.available_kw = flows[1]
        else:
            level = min(pool.series[now + h, at.SOLAR] * factor, 1.0)
        # Kilowatts near the largest float may overflow, and make NaN of a level: no power, then.
        pool.forecast[h] = level if level >= 0.0 else 0.0


@internal
def refresh_levels(pool: Pool) -> bool:
    """Move the image up to now: clear its new last row and give every row its newest level.

    :return: whether the level of any row fell
    """
    horizon, units, now = pool.config.horizon, pool.config.units, pool.env.now
    head, scale = pool.env.head, pool.config.cell_scale
    last = ring(head, horizon - 1, horizon)
    if pool.config.exact_levels:
        level = powered_units(pool.series[now + horizon - 1, at.SOLAR], units)
        clear_row(pool, scale, last, level)
        return False
    forecast_levels(pool)
    level = powered_units(pool.forecast[horizon - 1], units)
    clear_row(pool, scale, last, level)
    changed, fell = False, False
    for h in range(horizon - 1):
        row = ring(head, h, horizon)
        level, before = powered_units(pool.forecast[h], units), pool.levels[row]
        if level != before:
            changed = True
            fell = fell or level < before
            set_level(pool, scale, row, level)
    if changed:
        pool.env.epoch += 1
    return fell


@internal
def dark_units_in_use(pool: Pool, level: int) -> int:
    """Return how many units above the powered ones are running jobs on brown energy."""
    types, dark = pool.config.types, 0
    for i in range(pool.env.n_placed):
        job = pool.placed[i]
        if pool.jobs[job].status == at.RUNNING:
            for k in range(types):
                block, need = pool.blocks[job, k], pool.needs[job, k]
                dark += min(max(block + need - level, 0), need)
    return dark


@internal
def account_energy(pool: Pool, used: int, idle: int) -> None:
    """Dispatch the step that ends and add its energies up.

    :param used: units in use, of all types together
    :param idle: units that green power carries and no job uses
    """
    now, hours = pool.env.now, pool.config.step_hours
    solar, wind = pool.series[now, at.SOLAR], pool.series[now, at.WIND]
    unit_kw = pool.config.site.pool_kw / (pool.config.units * pool.config.types)
    draw = unit_kw * (used + pool.config.site.idle_fraction * idle) + switching_kw(pool, unit_kw)
    demand = min(draw, pool.env.available_kw)
    brown = draw - demand if pool.config.brown_above < np.inf else 0.0
    critical, served, charge, discharge, grid, curtailed, stored = dispatch_under(
        pool.config.site, pool.env.stored_kwh, solar + wind, demand, brown, hours, pool.env.battery_mode
    )
    pool.env.stored_kwh = stored
    pool.env.solar_kwh += solar * hours
    pool.env.wind_kwh += wind * hours
    pool.env.critical_kwh += critical * hours
    pool.env.pool_kwh += served * hours
    pool.env.charged_kwh += charge * hours
    pool.env.discharged_kwh += discharge * hours
    pool.env.grid_kwh += grid * hours
    pool.env.curtailed_kwh += curtailed * hours
    pool.env.unserved_kwh += max(pool.config.site.critical_kw - critical, 0.0) * hours
    pool.env.carbon_kg += grid * hours * pool.series[now, at.CARBON]
    pool.env.grid_cost += grid * hours * pool.series[now, at.PRICE]
    if pool.config.prices_energy:
        pay_energy(pool, grid * hours, pool.series[now, at.CARBON], pool.series[now, at.PRICE])
    if now + 1 == pool.config.episode_steps:
        settle_battery(pool)
