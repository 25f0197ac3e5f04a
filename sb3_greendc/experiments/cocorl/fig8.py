"""CoCoRL, Fig. 8: value, completion and utilization side by side, at 80 and at 100 % of the load."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.cocorl.loads import PAPERS, SWEEP
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.figures import grouped_bars
from sb3_greendc.experiments.sweep import budgets

SHOWN = {
    "total_job_value_ratio": "value earned",
    "completion_ratio": "jobs completed",
    "utilization": "units in use",
}
PANELS = {0.8: "(a) arrival rate 80 %", 1.0: "(b) arrival rate 100 %"}
POLICIES = (
    "sjf",
    "qos",
    "hvf",
    "fcfs",
    "uniformly random, masked",
    "CoCoRL as printed",
    "PID-PPO, distilled start",
)


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the sweep's tables, and bars: a panel for each load, a group for each objective."""
    analysis = SWEEP.analyze(results, budget)
    table = analysis.tables["results"]
    chosen = table[table["metric"].isin(SHOWN) & table["x"].isin(PANELS)]
    objectives = chosen.assign(series=chosen["x"].map(PANELS), x=chosen["metric"].map(SHOWN), metric="share")
    rows = results.table()
    learners = [name for name in rows["policy"][rows["baseline"].isna()].unique() if name in POLICIES]
    policies = [name for name in POLICIES if name in PAPERS or name in set(table["policy"])]
    figure = grouped_bars(objectives, "share", policies, "", "share", budgets(rows, learners))
    return dataclasses.replace(analysis, figures={"figure": figure})


EXPERIMENT = Experiment(
    "cocorl-fig8", "value, completion and utilization together, 80 and 100 %", SWEEP.items, analyze
)
