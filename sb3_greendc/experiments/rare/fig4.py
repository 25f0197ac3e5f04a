"""RARE, Fig. 4: total job value by the size of the pool, synthetic jobs, full power."""

from __future__ import annotations

from sb3_greendc.experiments import curricula, printed
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import DISCRETE_SAC, pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import SYNTHETIC, Scenario
from sb3_greendc.experiments.training import Learner

SIZES = (10, 20, 50, 100, 300)
QUICK_TRAINED = (10, 100)
"""Sizes at which the quick budget trains learners, as printed and ours."""


def points(budget: Budget) -> list[Point]:
    """Return the pools, at an offered load of 1."""
    return [
        Point(
            SYNTHETIC,
            size,
            Scenario(f"ResourcePool-{size}"),
            training_tasks=curricula.of_size(size),
            learners=[DISCRETE_SAC] if budget.quick and size in QUICK_TRAINED else [],
            printed=printed.rare_at(budget, size, QUICK_TRAINED),
        )
        for size in SIZES
    ]


def learners(budget: Budget) -> list[Learner]:
    """Return the learners of most figures at every size, in the quick budget at none."""
    return budget.pick([], pool_learners(budget))


EXPERIMENT = Sweep(points, learners, "resources of each type", rollouts=True).experiment(
    "rare-fig4", "total job value on pools of 10 to 300 units (synthetic jobs, full power)"
)
