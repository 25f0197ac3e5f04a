"""RARE, Fig. 7: what the length of the planning horizon is worth, against SJF."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments import curricula
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.experiments.training import Learner

HORIZONS = (36, 48, 60, 72)
QUICK_HORIZONS = (48, 72)
DEFAULT_HORIZON = 48
GAMMA = 0.99


def points(budget: Budget) -> list[Point]:
    """Return each horizon on ten units with full power, for synthetic jobs and the HPC log."""
    horizons = budget.pick(QUICK_HORIZONS, HORIZONS)
    return [_point(budget, hpc, horizon) for hpc in (False, True) for horizon in horizons]


def _point(budget: Budget, hpc: bool, horizon: int) -> Point:
    series = f"HPC log ({budget.hpc_name})" if hpc else "synthetic"
    workload = budget.hpc_workload if hpc else "synthetic"
    settings = {} if horizon == DEFAULT_HORIZON else {"horizon": horizon}
    training_tasks = curricula.log(workload, **settings) if hpc else curricula.synthetic(**settings)
    scenario = Scenario("ResourcePool-10", {"workload": workload, "horizon": horizon})
    return Point(series, horizon, scenario, training_tasks=training_tasks)


def learners(budget: Budget) -> list[Learner]:
    """Return the learners with the figure's discount."""
    return [
        dataclasses.replace(
            learner,
            hyperparameters={**learner.hyperparameters, "gamma": GAMMA},
            choice={**learner.choice, "shaping_gamma": GAMMA},
        )
        for learner in pool_learners(budget)
    ]


EXPERIMENT = Sweep(points, learners, "horizon in steps").experiment(
    "rare-fig7", "total job value by planning horizon, against SJF (10 units, γ = 0.99)"
)
