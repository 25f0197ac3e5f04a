"""The tiny pools."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from greendc.baselines.resource_pool.exact import ExactPool, Played
from greendc.baselines.resource_pool.job_classes import ClassWorkload, JobClass
from greendc.resource_pool import ResourcePoolConfig
from sb3_greendc.experiments.rollouts import DEPTH
from sb3_greendc.experiments.tasks import Scenario

ENV_ID = "ResourcePool-10"
"""Whose settings are all replaced but the reward's."""

STEPS = 100

VIEW: dict[str, Any] = {"skip_forced": True, "mask": "now_on_time", "lookahead": DEPTH}
"""How networks act in a pool. Under its rules the mask leaves out nothing that the ordinary one allows."""

USUAL_RULES: dict[str, Any] = {"placement": "earliest", "late_jobs": "demote"}
"""The environment's ordinary rules, under which jobs can be reserved for later, and started late."""


@dataclass(frozen=True)
class TinyPool:
    """A pool.

    :param units: of the one resource type
    :param workload: its jobs
    """

    units: int
    workload: ClassWorkload

    @property
    def load(self) -> float:
        """Work that arrives in a step, over what the pool can do."""
        jobs = self.workload.of_each()
        return float(
            self.workload.probability * self.workload.shares @ (jobs.duration * jobs.units[:, 0]) / self.units
        )

    def scenario(self, **more: Any) -> Scenario:
        """Return the environment.

        :param more: further keyword arguments
        """
        settings = {
            "units": self.units,
            "resource_types": 1,
            "horizon": 8,
            "ready_pool_size": int(self.workload.slack.max()) + 1,
            "episode_steps": STEPS,
            "workload": self.workload,
            "placement": "now",
            "late_jobs": "leave",
        }
        return Scenario(ENV_ID, {**settings, **more})


def _pool(units: int, probability: float, *classes: tuple[int, int, float]) -> TinyPool:
    return TinyPool(units, ClassWorkload(tuple(JobClass(*one) for one in classes), probability))


POOLS = {
    "A": _pool(3, 0.56, (4, 1, 0.53), (1, 3, 0.55), (4, 2, 0.49), (2, 3, 0.95)),
    "B": _pool(3, 0.78, (2, 1, 0.49), (4, 1, 0.53), (2, 2, 0.49), (3, 3, 0.63)),
    "C": _pool(4, 0.55, (3, 1, 0.58), (2, 4, 0.33), (3, 2, 0.72), (3, 4, 0.63)),
}
"""Loads of 0.98, 1.24 and 1.00. Each pool has small jobs that stand in the way of wide ones."""


@functools.lru_cache(maxsize=1)
def solved(name: str) -> tuple[ExactPool, Played]:
    """Return a pool's exact model and its optimum.

    :param name: of one of :data:`POOLS`
    """
    pool = ExactPool(ResourcePoolConfig(**POOLS[name].scenario().env_kwargs))
    return pool, pool.optimum()
