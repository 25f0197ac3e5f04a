"""The configuration of the resource pool as compiled code sees it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.energy.kernel import SITE
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import (
    ENERGY_COST_UNIT,
    LATE_JOBS,
    MASKS,
    MOST_LEVELS,
    ResourcePoolConfig,
)
from greendc.resource_pool.observation import battery_kwh


def config_record(
    config: ResourcePoolConfig, words: int, mean_value: float, mean_price: float
) -> NDArray[np.void]:
    """Return the configuration, ``(1,)`` of :data:`~greendc.resource_pool.layout.CONFIG`.

    :param words: how many words hold the bits of one type's units
    :param mean_value: of the workload's jobs
    :param mean_price: of grid energy
    """
    weights = config.weights
    site = config.site_config if config.power == "trace" else None
    brown_above = None if site is None else site.grid_qos_above
    levels = config.power_levels or ()
    fields = {
        "site": np.zeros((), SITE) if site is None else site.to_record(),
        "units": config.units,
        "types": config.resource_types,
        "horizon": config.horizon,
        "ready_pool_size": config.ready_pool_size,
        "episode_steps": config.episode_steps,
        "late_rule": LATE_JOBS.index(config.late_jobs),
        "by_latest_start": config.queue_order == "latest_start",
        "place_now": config.placement == "now",
        "may_suspend": config.suspend,
        "mask_rule": MASKS.index(config.mask),
        "skip_forced": config.skip_forced,
        "start_delay": config.start_delay,
        "end_delay": config.end_delay,
        "words": words,
        "has_site": site is not None,
        "exact_levels": site is None and config.forecast_error == 0.0,
        "context_rows": config.summary_rows,
        "commands": config.commands,
        "switch_delay": config.switch_delay,
        "pausing": config.pausing,
        "outlook_rows": config.outlook_rows,
        "prices_energy": any(weights.of_energy) or config.cost in ("carbon", "brown"),
        "command_units": [*levels, *[0] * (MOST_LEVELS - len(levels))],
        "step_hours": config.step_hours,
        "mean_value": mean_value,
        "gamma": config.shaping_gamma,
        "pay_executed": weights.executed,
        "pay_on_time": weights.on_time,
        "charge_suspension": weights.suspension,
        "pay_resumption": weights.resumption,
        "charge_lateness": weights.lateness,
        "lateness_cap": weights.lateness_cap,
        "pay_potential": weights.potential,
        "cost_delayed": config.cost_pair[0],
        "cost_waiting": config.cost_pair[1],
        "forecast_error": config.forecast_error,
        "brown_above": np.inf if brown_above is None else brown_above,
        "cell_scale": 1.0 if config.cell_dtype == "uint8" else 1.0 / 255.0,
        "battery_kwh": battery_kwh(config),
        "initial_kwh": 0.0 if site is None else site.battery.initial_kwh,
        "total_kw": 0.0 if site is None else site.total_kw,
        "switch_hours": config.switch_hours,
        "mean_price": mean_price,
        "charge_carbon": weights.carbon,
        "charge_brown": weights.brown,
        "charge_price": weights.price,
        "charge_switching": weights.switching,
        "cost_carbon": 1.0 / ENERGY_COST_UNIT if config.cost == "carbon" else 0.0,
        "cost_brown": 1.0 / ENERGY_COST_UNIT if config.cost == "brown" else 0.0,
    }
    record = np.zeros(1, at.CONFIG)
    for name in at.CONFIG.fields or ():
        record[name] = fields[name]
    return record
