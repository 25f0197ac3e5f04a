"""SC20, Fig. 5: slowdown over training at full arrivals, with 90 and with 50 % of the power."""

from __future__ import annotations

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.sc20.fig4 import ARMS as LESS_POWER
from sb3_greendc.experiments.sc20.training import Arm, budget, curves_figure, items, tables

ARMS = [Arm("100 % arrivals", "full power", 1.0), *LESS_POWER]
"""Full power beside the paper's two curves, since the text compares them with it."""


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return the curves, and what their ends earn."""
    return Analysis(tables(results), {"figure": curves_figure(results, "mean_slowdown")}, [budget(results)])


EXPERIMENT = Experiment(
    "sc20-fig5",
    "A2C's slowdown over training with 90 and 50 % of the power",
    lambda budget: items(budget, ARMS),
    analyze,
)
