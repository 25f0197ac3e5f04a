"""SC20, Fig. 2: reward over training, by arrival rate, under two readings of "a small cost of delay"."""

from __future__ import annotations

import dataclasses

import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.controls import UNIFORM_MASKED, UNIFORM_VALID
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.figures import lines
from sb3_greendc.experiments.printed import LARGE_DELAY, SC20
from sb3_greendc.experiments.sc20.training import ARRIVALS, PAPER, Arm, budget, curves_figure, items, tables
from sb3_greendc.experiments.tasks import ALL_WAITING

LARGE = dataclasses.replace(SC20, choice={**SC20.choice, "reward": LARGE_DELAY}, decisions=500_000)
"""The reading that is not the paper's, at a fifth of the paper's decisions."""
OTHER_RATES = (0.2, 1.0)
REWARD = "accrued_reward"
ARMS = [
    *(Arm("small cost of delay", f"{rate:.0%} arrivals", rate) for rate in ARRIVALS),
    *(Arm("up to a job's whole value", f"{rate:.0%} arrivals", rate, LARGE) for rate in OTHER_RATES),
]
NOTE = (
    "The paper prints no coefficients. Under the first reading a late job costs 0.5 % of its value a step, "
    "and 2 % at most; under the second, this package's earlier preset, 5 % a step and all of it at most."
)


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return the curves of both readings, and what their ends, and heuristics, earn by the arrival rate."""
    found = tables(results)
    figures = {"figure": curves_figure(results, REWARD), "by_arrivals": by_arrivals(found["results"])}
    return Analysis(found, figures, [budget(results), NOTE])


def by_arrivals(table: pd.DataFrame) -> Figure:
    """Draw reward over the arrival rate: what the paper says rises.

    :param table: the means of all policies
    """
    rows = table[table["metric"] == REWARD]
    rows = rows.assign(
        series=rows["series"].str.rpartition(", ")[0],
        policy=rows["policy"].str.replace("/skip/queue", ALL_WAITING, regex=False),
    )
    shown = [SC20.name, *(name + ALL_WAITING for name in PAPER), UNIFORM_VALID, UNIFORM_MASKED]
    return lines(rows, REWARD, shown, "arrivals (probability of a job in a step)", "reward of an episode")


EXPERIMENT = Experiment(
    "sc20-fig2",
    "A2C's reward over training at 20 to 100 % arrivals",
    lambda budget: items(budget, ARMS),
    analyze,
)
