"""SC20, Fig. 6: total job value against FCFS and HVF, by arrival rate."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sc20.training import (
    CHECKPOINTS,
    CHOOSES,
    CLAIMS,
    FULL_SEEDS,
    LEARNERS,
    PAPER,
    QUICK_ARRIVALS,
    scenario,
)
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.training import Learner

ARRIVALS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def points(budget: Budget) -> list[Point]:
    """Return the arrival rates at full power."""
    rates = budget.pick(QUICK_ARRIVALS, ARRIVALS)
    training_tasks = [scenario(rate) for rate in QUICK_ARRIVALS]
    return [
        Point("full power, Bernoulli arrivals", rate, scenario(rate), training_tasks=training_tasks)
        for rate in rates
    ]


def learners(budget: Budget) -> list[Learner]:
    """Return SC20's learners, and ours, which do without suspension and see their credit at once."""
    ours = [
        dataclasses.replace(learner, choice={**learner.choice, "suspend": False, "reward": "potential"})
        for learner in pool_learners(budget)
    ]
    return [*LEARNERS, *ours]


EXPERIMENT = Sweep(
    points,
    learners,
    "arrivals (probability of a job in a step)",
    style="lines",
    papers=PAPER,
    claims=CLAIMS,
    checkpoints=CHECKPOINTS,
    full_seeds=FULL_SEEDS,
    rollouts=True,
    notes=(CHOOSES, "Heuristics that suspend jobs choose among as many."),
).experiment("sc20-fig6", "total job value against FCFS and HVF at 10 to 100 % arrivals")
