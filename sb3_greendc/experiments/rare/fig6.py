"""RARE, Fig. 6: total job value when power varies: its level is drawn anew at every step."""

from __future__ import annotations

from sb3_greendc.experiments import curricula
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Scenario

SIZES = (10, 20, 50, 300)
LEVELS = (1.0, 0.9, 0.8)


def points(_form: Budget) -> list[Point]:
    """Return the pools at each mean level."""
    return [
        Point(f"mean power {level:.0%}", size, _scenario(size, level), training_tasks=curricula.of_size(size))
        for level in LEVELS
        for size in SIZES
    ]


def _scenario(size: int, level: float) -> Scenario:
    full = Scenario(f"ResourcePool-{size}")
    return full if level == 1.0 else full.with_kwargs(power="random", power_level=level)


EXPERIMENT = Sweep(points, pool_learners, "resources of each type", rollouts=True).experiment(
    "rare-fig6", "total job value under power drawn anew at every step, mean 100, 90 and 80 %"
)
