"""Where the energy of one step comes from and goes to, in plain Python."""

from __future__ import annotations

import math

from greendc.energy.site import SiteConfig


def dispatch(
    site: SiteConfig,
    hours: float,
    stored: float,
    generation: float,
    demand: float,
    brown: float,
    mode: str = "auto",
) -> dict[str, float]:
    """Sun and wind first, then the battery, then the grid; the critical load before the pool.

    A battery that holds serves nothing; one that charges takes from the grid, too.
    """
    battery = site.battery
    grid_limit = {"off": 0.0, "capped": site.grid_cap_kw}.get(site.grid, math.inf)
    green_critical = min(generation, site.critical_kw)
    green_pool = min(generation - green_critical, demand)
    surplus = max(generation - green_critical - green_pool, 0.0)
    room = max(battery.max_charge * battery.energy_kwh - stored, 0.0)
    charge = min(surplus, battery.charge_kw, room / (battery.efficiency * hours))
    above_minimum = max(stored - battery.min_charge * battery.energy_kwh, 0.0)
    discharge_limit = min(battery.discharge_kw, above_minimum / hours) if mode == "auto" else 0.0
    battery_critical = min(site.critical_kw - green_critical, discharge_limit)
    battery_pool = min(demand - green_pool, discharge_limit - battery_critical)
    grid_critical = min(site.critical_kw - green_critical - battery_critical, grid_limit)
    grid_pool = 0.0
    if site.grid == "capped":
        grid_pool = min(demand - green_pool - battery_pool, site.grid_cap_kw, grid_limit - grid_critical)
    elif site.grid == "open":
        grid_pool = demand - green_pool - battery_pool
    discharge = battery_critical + battery_pool
    grid, curtailed = grid_critical + grid_pool + brown, surplus - charge
    if mode == "charge":
        full = min(battery.charge_kw, room / (battery.efficiency * hours))
        bought = max(min(full - charge, grid_limit - grid), 0.0)
        charge += bought
        grid += bought
    return {
        "critical": green_critical + battery_critical + grid_critical,
        "pool": green_pool + battery_pool + grid_pool + brown,
        "charge": charge,
        "discharge": discharge,
        "grid": grid,
        "curtailed": curtailed,
        "stored": stored + (battery.efficiency * charge - discharge) * hours,
    }
