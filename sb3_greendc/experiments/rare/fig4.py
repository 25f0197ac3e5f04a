"""RARE, Fig. 4: total job value by the size of the pool, synthetic jobs, full power."""

from __future__ import annotations

from sb3_greendc.experiments import curricula, printed
from sb3_greendc.experiments.experiment import Form
from sb3_greendc.experiments.learners import DISCRETE_SAC, pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Problem
from sb3_greendc.experiments.training import Learner

SIZES = (10, 20, 50, 100, 300)
QUICK_PRINTED = (10, 100)
"""Sizes at which the quick form trains RARE's learner as printed, whose convolutions are slow on large
pools."""


def points(form: Form) -> list[Point]:
    """Return the pools, at an offered load of 1."""
    return [
        Point(
            "synthetic",
            size,
            Problem(f"ResourcePool-{size}"),
            lessons=curricula.of_size(size),
            printed=printed.rare_at(form, size, QUICK_PRINTED),
        )
        for size in SIZES
    ]


def learners(form: Form) -> list[Learner]:
    """Return the learners of most figures; the quick form has RARE's kind of them."""
    return form.pick([DISCRETE_SAC], pool_learners(form))


EXPERIMENT = Sweep(points, learners, "resources of each type", rollouts=True).experiment(
    "rare-fig4", "total job value on pools of 10 to 300 units (synthetic jobs, full power)"
)
