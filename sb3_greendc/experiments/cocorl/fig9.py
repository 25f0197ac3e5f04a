"""CoCoRL, Fig. 9: total job value by load, jobs of the HPC log."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.cocorl.loads import SWEEP, points
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.sweep import Point


def hpc_points(budget: Budget) -> list[Point]:
    """Return the loads with the jobs of the logs."""
    return [point for series, workload in budget.logs.items() for point in points(budget, series, workload)]


EXPERIMENT = dataclasses.replace(SWEEP, points=hpc_points, rollouts=False).experiment(
    "cocorl-fig9", "total job value at loads of 20 to 120 %, HPC log"
)
