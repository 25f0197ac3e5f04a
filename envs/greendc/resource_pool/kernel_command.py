# mypy: warn-return-any=False
"""Compiled power commands of the resource pool: units ordered, the battery's mode, and what energy costs.

Command ``3 * level + mode`` orders the units of a level for the next step and tells the battery what to do
in this one. Where ``commands`` is 1, the agent commands nothing, and power follows sun and wind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import internal
from greendc.energy.kernel import AUTO, CHARGE, HOLD
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import MODES
from greendc.resource_pool.layout import Pool

Singles = NDArray[np.float32]

SETTLED_SHARE = 0.6
"""Of the energy that the battery lacks at the end of an episode, the share that is taken to come from the
grid when it is refilled; the rest comes from sun and wind."""


@internal
def command(pool: Pool, number: int, valid: bool) -> None:
    """Note what is commanded; an invalid one leaves the battery to itself, and no command keeps the order.

    :param number: of the command; below 0 for an action that is none
    """
    if number >= 0:
        pool.env.units_ordered = pool.config.command_units[number // MODES]
    else:
        pool.env.units_ordered = pool.env.units_next
    pool.env.battery_mode = number % MODES if valid else AUTO


@internal
def allow_commands(pool: Pool) -> None:
    """Write which commands are valid: a battery holds if there is something in it, and charges if it can."""
    first = pool.config.ready_pool_size + 1
    if pool.config.commands == 1:
        pool.mask[first] = 1
        return
    stored, site = pool.env.stored_kwh, pool.config.site
    may_hold = stored > site.battery_min_kwh and site.discharge_kw > 0.0
    may_charge = stored < site.battery_max_kwh and site.charge_kw > 0.0
    for p in range(pool.config.commands):
        mode = p % MODES
        pool.mask[first + p] = mode == AUTO or (mode == HOLD and may_hold) or (mode == CHARGE and may_charge)


@internal
def switch_units(pool: Pool) -> None:
    """Switch units as ordered, at the beginning of a step; with a delay, those that start are on later."""
    ordered, before = pool.env.units_ordered, pool.env.units_next
    pool.env.units_starting = max(ordered - before, 0)
    pool.env.units_on = min(ordered, before) if pool.config.switch_delay else ordered
    pool.env.units_next = ordered


@internal
def commanded_levels(pool: Pool) -> None:
    """Write the levels that were ordered: of the units that are on, and of those in the next step."""
    units = pool.config.units
    pool.env.available_kw = np.inf
    pool.forecast[0] = pool.env.units_on / units
    for h in range(1, pool.config.horizon):
        pool.forecast[h] = pool.env.units_next / units


@internal
def switching_kw(pool: Pool, unit_kw: float) -> float:
    """Return what the units that start in this step draw for that, count both, and charge their switching."""
    started = pool.env.units_starting * pool.config.types
    if started == 0:
        return 0.0
    kwh = unit_kw * pool.config.switch_hours * started
    pool.env.switched_units += started
    pool.env.switching_kwh += kwh
    pool.env.reward -= pool.config.charge_switching * started
    return kwh / pool.config.step_hours


@internal
def pay_energy(pool: Pool, kwh: float, carbon: float, price: float) -> None:
    """Charge for grid energy that was bought, in the reward and in the cost.

    :param carbon: kg/kWh
    :param price: money for a kWh
    """
    config = pool.config
    worth = config.charge_carbon * carbon + config.charge_brown + config.charge_price * price
    pool.env.reward -= kwh * worth
    cost = kwh * (config.cost_carbon * carbon + config.cost_brown)
    pool.env.cost += cost
    pool.env.accrued_cost += cost


@internal
def settle_battery(pool: Pool) -> None:
    """Settle the end of the episode: energy that the battery had at its beginning and lacks now is bought.

    A share of it is, at the episode's mean emission and price: emptying the battery would be free otherwise.
    """
    steps = pool.config.episode_steps
    carbon, price = 0.0, 0.0
    for t in range(steps):
        carbon += pool.series[t, at.CARBON]
        price += pool.series[t, at.PRICE]
    pool.env.shortfall_kwh = max(pool.config.initial_kwh - pool.env.stored_kwh, 0.0)
    bought = SETTLED_SHARE * pool.env.shortfall_kwh
    pool.env.settled_carbon_kg = bought * (carbon / steps)
    if pool.config.prices_energy:
        pay_energy(pool, bought, carbon / steps, price / steps)


@internal
def write_outlook(pool: Pool, out: Singles, place: int) -> None:
    """Write the units on and on in the next step, and carbon, price and green share of the next rows."""
    now, rows = pool.env.now, pool.config.outlook_rows
    error, walk = pool.config.forecast_error, pool.series[now, at.WALK]
    unit = 1.0 / pool.config.units
    out[place] = pool.env.units_on * unit
    out[place + 1] = pool.env.units_next * unit
    place += 2
    for h in range(rows):
        row = pool.series[now + h]
        factor = max(0.0, 1.0 + error * (row[at.WALK] - walk))
        green = (row[at.SOLAR] + row[at.WIND]) * factor
        out[place + h] = min(row[at.CARBON], 1.0)
        price, mean = row[at.PRICE], pool.config.mean_price
        out[place + rows + h] = price / (price + mean) if mean > 0.0 else 0.0
        out[place + 2 * rows + h] = green / (green + pool.config.total_kw)
