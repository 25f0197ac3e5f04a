"""CoCoRL, Fig. 11: what the controller's gains do."""

from __future__ import annotations

from sb3_greendc.experiments.cocorl.control import ends, keeper, runs, training_figure
from sb3_greendc.experiments.cocorl.loads import LIMITS
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.tasks import Item

LOAD = 1.0
LIMIT = LIMITS[LOAD]
GAINS = {
    "P, I and D (1, .4, .5)": {},
    "I alone (0, .4, 0)": {"kp": 0.0, "kd": 0.0},
    "P alone (1, 0, 0)": {"ki": 0.0, "kd": 0.0},
    "CoCoRL's (2, 1, 1)": {"kp": 2.0, "ki": 1.0, "kd": 1.0},
}


def items(budget: Budget) -> list[Item]:
    """Return the runs with each set of gains."""
    return runs(budget, [keeper(budget, LIMIT, name, **gains) for name, gains in GAINS.items()], LOAD)


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return return, cost and multiplier over training, and their ends."""
    figure = training_figure(results.table("progress"), dict.fromkeys(GAINS, LIMIT))
    return Analysis({"results": ends(results).assign(limit=LIMIT)}, {"figure": figure})


EXPERIMENT = Experiment("cocorl-fig11", "gains of the PID controller (load 1.0, one limit)", items, analyze)
