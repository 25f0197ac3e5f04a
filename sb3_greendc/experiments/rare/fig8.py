"""RARE, Fig. 8: what the size of the ready pool is worth."""

from __future__ import annotations

from sb3_greendc.experiments import curricula, printed
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import SYNTHETIC, Scenario

READY_POOLS = (5, 10, 15, 25, 35)
QUICK_PRINTED = ((SYNTHETIC, 15), (SYNTHETIC, 35))


def points(budget: Budget) -> list[Point]:
    """Return each ready pool on ten units with full power, for synthetic jobs and the HPC log."""
    workloads = {SYNTHETIC: (SYNTHETIC, curricula.synthetic())}
    workloads |= {series: (log, curricula.log(log)) for series, log in budget.logs.items()}
    return [
        Point(
            series,
            size,
            _scenario(workload, size),
            training_tasks=training_tasks,
            printed=printed.rare_at(budget, (series, size), QUICK_PRINTED),
        )
        for series, (workload, training_tasks) in workloads.items()
        for size in READY_POOLS
    ]


def _scenario(workload: str, size: int) -> Scenario:
    return Scenario("ResourcePool-10", {"workload": workload, "ready_pool_size": size})


EXPERIMENT = Sweep(points, pool_learners, "jobs in the ready pool", named=("sjf",)).experiment(
    "rare-fig8", "total job value by size of the ready pool (10 units)"
)
