"""RARE, Fig. 7: what the length of the planning horizon is worth, against SJF."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments import curricula, printed
from sb3_greendc.experiments.experiment import Form
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Problem
from sb3_greendc.experiments.training import Learner

HORIZONS = (36, 48, 60, 72)
DEFAULT_HORIZON = 48
GAMMA = 0.99
QUICK_PRINTED = (("synthetic", 36), ("synthetic", 72))


def points(form: Form) -> list[Point]:
    """Return each horizon on ten units with full power, for synthetic jobs and the HPC log."""
    return [_point(form, hpc, horizon) for hpc in (False, True) for horizon in HORIZONS]


def _point(form: Form, hpc: bool, horizon: int) -> Point:
    """Return a point, whose teacher looks as far as the horizon: one that looks less far could not use it."""
    series = f"HPC log ({form.hpc_name})" if hpc else "synthetic"
    workload = form.hpc_workload if hpc else "synthetic"
    settings = {} if horizon == DEFAULT_HORIZON else {"horizon": horizon}
    lessons = curricula.log(workload, **settings) if hpc else curricula.synthetic(**settings)
    problem = Problem("ResourcePool-10", {"workload": workload, "horizon": horizon})
    learner = printed.rare_at(form, (series, horizon), QUICK_PRINTED)
    return Point(series, horizon, problem, lessons=lessons, printed=learner, depth=horizon)


def learners(form: Form) -> list[Learner]:
    """Return the learners with the figure's discount."""
    return [
        dataclasses.replace(
            learner,
            hyperparameters={**learner.hyperparameters, "gamma": GAMMA},
            choice={**learner.choice, "shaping_gamma": GAMMA},
        )
        for learner in pool_learners(form)
    ]


EXPERIMENT = Sweep(points, learners, "horizon in steps").experiment(
    "rare-fig7", "total job value by planning horizon, against SJF (10 units, γ = 0.99)"
)
