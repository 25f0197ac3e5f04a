"""SC20, Fig. 6: total job value against FCFS and HVF, by arrival rate."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.experiment import LONG_QUEUES, Budget
from sb3_greendc.experiments.learners import SC20_A2C, SC20_A2C_JOBS, pool_learners
from sb3_greendc.experiments.printed import SC20
from sb3_greendc.experiments.sc20.training import ALL_ARRIVALS, ARRIVALS, PAPER, scenario
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.training import Learner

TRAINING_ARRIVALS = (0.2, 0.6, 1.0)
FULL_SEEDS = 5
_CHOICES = LONG_QUEUES["ready_pool_size"]
NOTES = (
    f"A2C with our mask and the distilled policy choose among {_CHOICES} jobs, A2C as printed "
    "among the first ten. The paper's heuristics choose among the first ten or the whole queue, whichever is "
    "better for them. Jobs and power are the same.",
    "Heuristics that suspend jobs choose among as many as the distilled policy.",
)


def points(budget: Budget) -> list[Point]:
    """Return the ten arrival rates at full power; A2C as printed is at the even ones in the quick budget."""
    training_tasks = [scenario(rate) for rate in TRAINING_ARRIVALS]
    with_printed = budget.pick(ARRIVALS, ALL_ARRIVALS)
    return [
        Point(
            "full power, Bernoulli arrivals",
            rate,
            scenario(rate),
            training_tasks=training_tasks,
            printed=(SC20,) if rate in with_printed else (),
            planned=rate in budget.pick(TRAINING_ARRIVALS, ALL_ARRIVALS),
        )
        for rate in ALL_ARRIVALS
    ]


def learners(budget: Budget) -> list[Learner]:
    """Return A2C with our mask and discount, and learners that do without suspension; in full alone."""
    ours = [
        dataclasses.replace(learner, choice={**learner.choice, "suspend": False, "reward": "potential"})
        for learner in pool_learners(budget)
    ]
    return [*budget.pick([], [SC20_A2C, SC20_A2C_JOBS]), *ours]


EXPERIMENT = Sweep(
    points,
    learners,
    "arrivals (probability of a job in a step)",
    style="lines",
    papers=PAPER,
    full_seeds=FULL_SEEDS,
    rollouts=True,
    notes=NOTES,
).experiment("sc20-fig6", "total job value against FCFS and HVF at 10 to 100 % arrivals")
