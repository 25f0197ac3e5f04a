# mypy: warn-return-any=False
"""Compiled power of the resource pool: forecasts as levels of rows, and the energy of each step.

Everything here works on environment ``b``; the arrays are described in :mod:`greendc.resource_pool.layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.energy.kernel import CRITICAL_KW, IDLE_FRACTION, POOL_KW, dispatch
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_rows import clear_row, powered_units, ring, set_level

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]


@compiled
def forecast_levels(config: Ints, config_f: Floats, env: Ints, env_f: Floats, series: Floats, b: int) -> None:
    """Write the share of the pool that each row can power, as it is foreseen now, behind ``ENV_F``.

    At a site the projection takes it that the pool draws all the power that is available in every row.
    Actual use is never more, and :func:`~greendc.energy.kernel.dispatch` is monotone in the energy stored,
    so with an exact forecast each later projection is at least this one: what was reserved on it is never
    broken. All available power is meant, not just that of whole units: a projection in whole units would
    not be monotone, since a little more charge may light one more unit, whose draw then empties the battery.
    """
    now, hours = env[b, at.NOW], config_f[at.STEP_HOURS]
    error, walk = config_f[at.FORECAST_ERROR], series[b, now, at.WALK]
    stored = env_f[b, at.STORED_KWH]
    for h in range(config[at.HORIZON]):
        factor = max(0.0, 1.0 + error * (series[b, now + h, at.WALK] - walk))
        if config[at.HAS_SITE]:
            generation = (series[b, now + h, at.SOLAR] + series[b, now + h, at.WIND]) * factor
            flows = dispatch(config_f, stored, generation, config_f[POOL_KW], 0.0, hours)
            stored = flows[6]
            level = flows[1] / config_f[POOL_KW]
            if h == 0:
                env_f[b, at.AVAILABLE_KW] = flows[1]
        else:
            level = min(series[b, now + h, at.SOLAR] * factor, 1.0)
        # Kilowatts near the largest float may overflow, and make NaN of a level: no power, then.
        env_f[b, at.ENV_F + h] = level if level >= 0.0 else 0.0


@inlined
def refresh_levels(
    config: Ints,
    config_f: Floats,
    env: Ints,
    env_f: Floats,
    rows: Ints,
    image: Cells,
    series: Floats,
    b: int,
) -> bool:
    """Move the image up to now: clear its new last row and give every row its newest level.

    :return: whether the level of any row fell
    """
    horizon, units, now = config[at.HORIZON], config[at.UNITS], env[b, at.NOW]
    head, scale = env[b, at.HEAD], config_f[at.CELL_SCALE]
    last = ring(head, horizon - 1, horizon)
    if config[at.EXACT_LEVELS]:
        level = powered_units(series[b, now + horizon - 1, at.SOLAR], units)
        clear_row(config, rows, image, b, scale, last, level)
        return False
    forecast_levels(config, config_f, env, env_f, series, b)
    level = powered_units(env_f[b, at.ENV_F + horizon - 1], units)
    clear_row(config, rows, image, b, scale, last, level)
    changed, fell = False, False
    for h in range(horizon - 1):
        row = ring(head, h, horizon)
        level, before = powered_units(env_f[b, at.ENV_F + h], units), rows[b, row, at.LEVEL]
        if level != before:
            changed = True
            fell = fell or level < before
            set_level(config, rows, image, b, scale, row, level)
    if changed:
        env[b, at.EPOCH] += 1
    return fell


@compiled
def dark_units_in_use(config: Ints, env: Ints, jobs: Ints, lists: Ints, b: int, level: int) -> int:
    """Return how many units above the powered ones are running jobs on brown energy."""
    types, dark = config[at.TYPES], 0
    for i in range(env[b, at.N_PLACED]):
        job = lists[b, at.PLACED, i]
        if jobs[b, job, at.STATUS] == at.RUNNING:
            for k in range(types):
                block, need = jobs[b, job, at.JOB_I + types + k], jobs[b, job, at.JOB_I + k]
                dark += min(max(block + need - level, 0), need)
    return dark


@compiled
def account_energy(
    config: Ints, config_f: Floats, env: Ints, env_f: Floats, series: Floats, b: int, used: int, idle: int
) -> None:
    """Dispatch the step that ends and add its energies up.

    :param used: units in use, of all types together
    :param idle: units that green power carries and no job uses
    """
    now, hours = env[b, at.NOW], config_f[at.STEP_HOURS]
    solar, wind = series[b, now, at.SOLAR], series[b, now, at.WIND]
    unit_kw = config_f[POOL_KW] / (config[at.UNITS] * config[at.TYPES])
    draw = unit_kw * (used + config_f[IDLE_FRACTION] * idle)
    demand = min(draw, env_f[b, at.AVAILABLE_KW])
    brown = draw - demand if config_f[at.BROWN_ABOVE] < np.inf else 0.0
    critical, pool, charge, discharge, grid, curtailed, stored = dispatch(
        config_f, env_f[b, at.STORED_KWH], solar + wind, demand, brown, hours
    )
    env_f[b, at.STORED_KWH] = stored
    env_f[b, at.SOLAR_KWH] += solar * hours
    env_f[b, at.WIND_KWH] += wind * hours
    env_f[b, at.CRITICAL_KWH] += critical * hours
    env_f[b, at.POOL_KWH] += pool * hours
    env_f[b, at.CHARGED_KWH] += charge * hours
    env_f[b, at.DISCHARGED_KWH] += discharge * hours
    env_f[b, at.GRID_KWH] += grid * hours
    env_f[b, at.CURTAILED_KWH] += curtailed * hours
    env_f[b, at.UNSERVED_KWH] += max(config_f[CRITICAL_KW] - critical, 0.0) * hours
    env_f[b, at.CARBON_KG] += grid * hours * series[b, now, at.CARBON]
