"""SC20, Fig. 2: reward over training, by arrival rate, under two readings of "a small cost of delay"."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.printed import LARGE_DELAY, SC20
from sb3_greendc.experiments.sc20.training import ARRIVALS, Arm, budget, curves_figure, items, tables

LARGE = dataclasses.replace(SC20, choice={**SC20.choice, "reward": LARGE_DELAY})
OTHER_RATES = (0.2, 1.0)
ARMS = [
    *(Arm("small cost of delay", f"{rate:.0%} arrivals", rate) for rate in ARRIVALS),
    *(Arm("up to a job's whole value", f"{rate:.0%} arrivals", rate, LARGE) for rate in OTHER_RATES),
]
NOTE = (
    "The paper prints no coefficients. Under the first reading a late job costs 0.5 % of its value a step, "
    "and 2 % at most; under the second, this package's earlier preset, 5 % a step and all of it at most."
)


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return the curves of both readings, and what their ends earn."""
    return Analysis(
        tables(results), {"figure": curves_figure(results, "accrued_reward")}, [budget(results), NOTE]
    )


EXPERIMENT = Experiment(
    "sc20-fig2",
    "A2C's reward over training at 20 to 100 % arrivals",
    lambda budget: items(budget, ARMS),
    analyze,
)
