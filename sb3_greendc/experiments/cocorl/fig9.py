"""CoCoRL, Fig. 9: total job value by load, jobs of the HPC log."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.cocorl.loads import LOADS, points
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.sweep import Point


def hpc_points(budget: Budget) -> list[Point]:
    """Return the loads with the HPC log's jobs."""
    return points(budget, budget.hpc_workload)


EXPERIMENT = dataclasses.replace(LOADS, points=hpc_points, rollouts=False).experiment(
    "cocorl-fig9", "total job value at loads of 20 to 120 %, HPC log"
)
