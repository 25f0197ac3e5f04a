"""A pool small enough to be solved in a second, and what the tests play in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from greendc.baselines.resource_pool.job_classes import ClassWorkload, JobClass
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator

CLASSES = (JobClass(1, 3, 0.9), JobClass(3, 1, 0.7), JobClass(2, 2, 0.6, 2.0), JobClass(4, 1, 0.6))


def tiny_config(**options: Any) -> ResourcePoolConfig:
    """Three units of one type, four classes, 40 steps."""
    return ResourcePoolConfig(
        **{
            "units": 3,
            "resource_types": 1,
            "horizon": 8,
            "ready_pool_size": 6,
            "episode_steps": 40,
            "workload": ClassWorkload(CLASSES, 0.5),
            "placement": "now",
            "late_jobs": "leave",
            **options,
        }
    )


def play(policy: Any, simulator: ResourcePoolSimulator, first_seed: int = 0) -> np.ndarray:
    """Play an episode in each environment, seeded from ``first_seed`` on; return what each earned.

    Those that are done before the others begin another one, which does not count.
    """
    envs = simulator.num_envs
    for i in range(envs):
        simulator.reset_env(i, np.random.default_rng(first_seed + i))
    out = simulator.empty_observations()
    simulator.observe(out)
    earned = np.full(envs, np.nan)
    while np.isnan(earned).any():
        simulator.step(policy.predict(out)[0], out)
        for i in np.flatnonzero(simulator.truncated):
            if np.isnan(earned[i]):
                earned[i] = simulator.episode_metrics(i)["total_job_value"]
            simulator.reset_env(i, np.random.default_rng(0))
        simulator.observe(out)
    return earned
