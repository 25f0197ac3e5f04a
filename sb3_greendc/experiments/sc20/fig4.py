"""SC20, Fig. 4: reward over training at full arrivals, with 90 and with 50 % of the power."""

from __future__ import annotations

import pandas as pd

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.printed import SC20
from sb3_greendc.experiments.sc20.training import Arm, along, budget, curves_figure, items, tables

HIGH, LOW = "90 % power", "50 % power"
ARMS = [Arm("100 % arrivals", HIGH, 1.0, power_level=0.9), Arm("100 % arrivals", LOW, 1.0, power_level=0.5)]


def reward_share(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the reward at the end of training with 50 % of the power, in per cent of that with 90 %."""
    last = curves.groupby("curve")["trained_decisions"].idxmax()
    reward = curves.loc[last].set_index("curve")["accrued_reward"]
    share = 100 * reward[LOW] / reward[HIGH]
    about = {"series": "100 % arrivals", "x": "", "policy": SC20.name, "metric": "reward_share"}
    return pd.DataFrame([{**about, "level_percent": share}])


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return both curves, what their ends earn, and the share of the reward that half of the power leaves."""
    rows = results.table()
    levels = reward_share(along(rows[rows["train_seed"].notna()]))
    figures = {"figure": curves_figure(results, "accrued_reward")}
    return Analysis({**tables(results), "levels": levels}, figures, [budget(results)])


EXPERIMENT = Experiment(
    "sc20-fig4",
    "A2C's reward over training with 90 and 50 % of the power",
    lambda budget: items(budget, ARMS),
    analyze,
)
