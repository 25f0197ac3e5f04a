"""CoCoRL, Fig. 12: what the limit on the cost does."""

from __future__ import annotations

import math

from sb3_greendc.experiments.cocorl.control import ends, keeper, runs, training_figure
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.tasks import Item

LOAD = 1.0
LIMITS = {"limit 20": 20.0, "limit 40": 40.0, "limit 55": 55.0, "limit 70": 70.0}
"""CoCoRL's 2,000 and 7,000, and two between: in hundreds of delayed job-steps."""


def items(budget: Budget) -> list[Item]:
    """Return the runs at each limit, and those without one."""
    limits = {**LIMITS, "no limit": math.inf}
    return runs(budget, [keeper(budget, limit, name) for name, limit in limits.items()], LOAD)


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return return, cost and multiplier over training, and their ends."""
    table = ends(results)
    table["limit"] = table["x"].map(LIMITS)
    figure = training_figure(results.table("progress"), LIMITS)
    return Analysis({"results": table}, {"figure": figure})


EXPERIMENT = Experiment("cocorl-fig12", "limits on the cost of delay (load 1.0)", items, analyze)
