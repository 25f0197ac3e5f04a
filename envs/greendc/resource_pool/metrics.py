"""Metrics of a resource-pool episode: names, meanings, and how they are read from the kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
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
    "qos_violations",  # jobs that finished late, left, or are unfinished past their latest finish
    "mean_slowdown",  # (finish - arrival) / duration over finished jobs, SC20 eq. 4; 0 if none finished
    "mean_wait",  # finish - arrival - duration over finished jobs, in steps; 0 if none finished
)

ENERGY_METRICS = {
    "solar_kwh": at.SOLAR_KWH,
    "wind_kwh": at.WIND_KWH,
    "critical_kwh": at.CRITICAL_KWH,
    "pool_kwh": at.POOL_KWH,
    "battery_charged_kwh": at.CHARGED_KWH,
    "battery_discharged_kwh": at.DISCHARGED_KWH,
    "brown_kwh": at.GRID_KWH,
    "curtailed_kwh": at.CURTAILED_KWH,
    "critical_unserved_kwh": at.UNSERVED_KWH,
    "carbon_kg": at.CARBON_KG,
}
"""Present with ``power="trace"``."""


def episode_metrics(
    config: ResourcePoolConfig,
    env: NDArray[np.int64],
    env_f: NDArray[np.float64],
    jobs: NDArray[np.int64],
    jobs_f: NDArray[np.float64],
) -> dict[str, float]:
    """Return the metrics of one environment's episode so far.

    Those of jobs are explained in :data:`JOB_METRICS`; ``utilization`` is unit-steps in use over all in the
    pool, ``utilization_powered`` over those that were powered; energies are in kWh.
    """
    by_job = np.empty(len(JOB_METRICS))
    job_metrics(by_job, env, jobs, jobs_f)
    metrics: dict[str, float] = dict(zip(JOB_METRICS, by_job.tolist(), strict=True))
    steps = int(env[at.NOW])
    used, powered = int(env[at.USED_UNIT_STEPS]), int(env[at.POWERED_UNIT_STEPS])
    accrued = float(env_f[at.ACCRUED_COST])
    metrics["utilization"] = used / max(steps * config.units * config.resource_types, 1)
    metrics["utilization_powered"] = used / max(powered, 1)
    metrics["accrued_cost"] = accrued
    metrics["accrued_cost_per_step"] = accrued / max(steps, 1)
    metrics["accrued_reward"] = float(env_f[at.ACCRUED_REWARD])
    metrics["time_steps"] = float(steps)
    metrics["decisions"] = float(env[at.DECISIONS])
    metrics["invalid_actions"] = float(env[at.INVALID])
    metrics["agent_suspensions"] = float(env[at.SWAPS])
    metrics["power_suspensions"] = float(env[at.POWER_SUSPENSIONS])
    metrics["broken_reservations"] = float(env[at.BROKEN])
    metrics["left_jobs"] = float(env[at.LEFT_COUNT])
    if config.power == "trace":
        for name, column in ENERGY_METRICS.items():
            metrics[name] = float(env_f[column])
    return metrics
