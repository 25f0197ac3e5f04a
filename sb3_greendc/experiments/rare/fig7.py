"""RARE, Fig. 7: what the length of the planning horizon is worth, against SJF."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments import curricula, printed
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import SYNTHETIC, Scenario
from sb3_greendc.experiments.training import Learner

HORIZONS = (36, 48, 60, 72)
DEFAULT_HORIZON = 48
GAMMA = 0.99
PRINTED_HORIZONS = (36, 72)
"""Of logs the paper prints no others."""
QUICK_PRINTED = tuple((SYNTHETIC, horizon) for horizon in PRINTED_HORIZONS)


def points(budget: Budget) -> list[Point]:
    """Return each horizon on ten units with full power, for synthetic jobs and the HPC log."""
    found = [_point(budget, SYNTHETIC, SYNTHETIC, horizon) for horizon in HORIZONS]
    horizons = budget.pick(PRINTED_HORIZONS, HORIZONS)
    return [*found, *(_point(budget, *log, horizon) for log in budget.logs.items() for horizon in horizons)]


def _point(budget: Budget, series: str, workload: str, horizon: int) -> Point:
    """Return a point, whose teacher looks as far as the horizon: one that looks less far could not use it."""
    settings = {} if horizon == DEFAULT_HORIZON else {"horizon": horizon}
    synthetic = workload == SYNTHETIC
    training_tasks = curricula.synthetic(**settings) if synthetic else curricula.log(workload, **settings)
    scenario = Scenario("ResourcePool-10", {"workload": workload, "horizon": horizon})
    learner = printed.rare_at(budget, (series, horizon), QUICK_PRINTED)
    return Point(series, horizon, scenario, training_tasks=training_tasks, printed=learner, depth=horizon)


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


EXPERIMENT = Sweep(points, learners, "horizon in steps", named=("sjf",)).experiment(
    "rare-fig7", "total job value by planning horizon, against SJF (10 units, γ = 0.99)"
)
