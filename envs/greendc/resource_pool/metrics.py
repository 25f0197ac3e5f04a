"""Metrics of a resource-pool episode: names, meanings, and how they are read from the kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.kernel_metrics import job_metrics

JOB_METRICS = (
    "total_job_value",  # of the jobs that finished on time
    "total_job_value_ratio",  # over the value of all jobs that arrived
    "total_job_value_ratio_inside",  # both over the jobs whose latest finish lies inside the episode
    "arrived_jobs",
    "completed_jobs",
    "completion_ratio",  # finished, late or not, over arrived
    "on_time_ratio",  # finished on time over arrived
    # jobs that finished late, left, or are unfinished past their latest finish; not those that are unfinished
    # right at it, which count as inside the episode, above, and can no longer be on time
    "qos_violations",
    "mean_slowdown",  # (finish - arrival) / duration over finished jobs, SC20 eq. 4; 0 if none finished
    "mean_wait",  # finish - arrival - duration over finished jobs, in steps; 0 if none finished
)

ENERGY_METRICS = {
    "solar_kwh": "solar_kwh",
    "wind_kwh": "wind_kwh",
    "critical_kwh": "critical_kwh",
    "pool_kwh": "pool_kwh",
    "battery_charged_kwh": "charged_kwh",
    "battery_discharged_kwh": "discharged_kwh",
    "brown_kwh": "grid_kwh",
    "curtailed_kwh": "curtailed_kwh",
    "critical_unserved_kwh": "unserved_kwh",
    "carbon_kg": "carbon_kg",
}
"""Present with ``power="trace"``."""


COMMAND_METRICS = {
    "grid_cost": "grid_cost",  # price times grid energy
    "switched_units": "switched_units",  # units that started: not those that the last step ordered
    "switching_kwh": "switching_kwh",
    "battery_shortfall_kwh": "shortfall_kwh",  # what the battery had at the beginning and lacks at the end
    "settled_carbon_kg": "settled_carbon_kg",  # what refilling it would emit; not in ``carbon_kg``
}
"""Present where power is commanded, too."""


def episode_metrics(
    config: ResourcePoolConfig,
    env: np.void,
    jobs: NDArray[np.void],
) -> dict[str, float]:
    """Return the metrics of one environment's episode so far.

    Those of jobs are explained in :data:`JOB_METRICS`; ``utilization`` is unit-steps in use over all in the
    pool, ``utilization_powered`` over those that were powered; energies are in kWh.
    """
    by_job = np.empty(len(JOB_METRICS))
    job_metrics(by_job, env, jobs)
    metrics: dict[str, float] = dict(zip(JOB_METRICS, by_job.tolist(), strict=True))
    steps = int(env["now"])
    used, powered = int(env["used_unit_steps"]), int(env["powered_unit_steps"])
    accrued = float(env["accrued_cost"])
    metrics["utilization"] = used / max(steps * config.units * config.resource_types, 1)
    metrics["utilization_powered"] = used / max(powered, 1)
    metrics["accrued_cost"] = accrued
    metrics["accrued_cost_per_step"] = accrued / max(steps, 1)
    metrics["accrued_reward"] = float(env["accrued_reward"])
    metrics["time_steps"] = float(steps)
    metrics["decisions"] = float(env["decisions"])
    metrics["invalid_actions"] = float(env["invalid"])
    metrics["agent_suspensions"] = float(env["agent_suspensions"])
    metrics["power_suspensions"] = float(env["power_suspensions"])
    metrics["broken_reservations"] = float(env["broken_reservations"])
    metrics["left_jobs"] = float(env["left"])
    if config.power == "trace":
        for name, column in ENERGY_METRICS.items():
            metrics[name] = float(env[column])
    if config.power_levels is not None:
        for name, column in COMMAND_METRICS.items():
            metrics[name] = float(env[column])
    return metrics
