"""SC20, Fig. 3: slowdown over training, by arrival rate."""

from __future__ import annotations

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.sc20.training import ARRIVALS, Arm, budget, curves_figure, items, tables

ARMS = [Arm("full power", f"{rate:.0%} arrivals", rate) for rate in ARRIVALS]


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return the curves, and what their ends earn."""
    return Analysis(tables(results), {"figure": curves_figure(results, "mean_slowdown")}, [budget(results)])


EXPERIMENT = Experiment(
    "sc20-fig3",
    "A2C's mean slowdown over training at 20 to 100 % arrivals",
    lambda budget: items(budget, ARMS),
    analyze,
)
