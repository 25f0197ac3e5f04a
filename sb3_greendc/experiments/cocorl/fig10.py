"""CoCoRL, Fig. 10: the accrued cost of delay by load."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.cocorl.loads import LIMITS, LOADS, points
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results

UNIT = "cost of an episode (100 delayed job-steps)"


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the sweep's tables, and the cost of an episode with the limits, on a logarithmic axis."""
    sweep = dataclasses.replace(LOADS, shown="accrued_cost", ylabel=UNIT)
    analysis = sweep.analyze(results, budget)
    for panel in analysis.figures["figure"].axes:
        shown = {point.x: LIMITS[point.x] for point in points(budget)}
        (limits,) = panel.plot(list(shown), list(shown.values()), "k_", ms=14, mew=2)
        panel.set_yscale("log")
        panel.legend([limits], ["limit of PID-PPO"], fontsize="x-small", frameon=False)
    return analysis


EXPERIMENT = Experiment("cocorl-fig10", "accrued cost of delay at loads of 20 to 120 %", LOADS.items, analyze)
