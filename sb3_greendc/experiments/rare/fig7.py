"""RARE, Fig. 7: what the length of the planning horizon is worth, against SJF."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.experiment import Form
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Problem
from sb3_greendc.experiments.training import Learner

HORIZONS = (36, 48, 60, 72)
QUICK_HORIZONS = (36, 72)
GAMMA = 0.99


def points(form: Form) -> list[Point]:
    """Return each horizon on ten units with full power, for synthetic jobs and the HPC log."""
    workloads = {"synthetic": "synthetic", f"HPC log ({form.hpc_name})": form.hpc_workload}
    return [
        Point(series, horizon, Problem("ResourcePool-10", {"workload": workload, "horizon": horizon}))
        for series, workload in workloads.items()
        for horizon in form.pick(QUICK_HORIZONS, HORIZONS)
    ]


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
