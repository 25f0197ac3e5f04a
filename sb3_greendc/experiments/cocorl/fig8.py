"""CoCoRL, Fig. 8: value, completion and utilization side by side."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.cocorl.loads import LOADS
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.figures import grouped_bars

SHOWN = {
    "total_job_value_ratio": "value earned",
    "completion_ratio": "jobs completed",
    "utilization": "units in use",
}


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the sweep's tables, and bars: a panel for each load, a group for each objective."""
    analysis = LOADS.analyze(results, budget)
    table = analysis.tables["results"]
    chosen = table[table["metric"].isin(SHOWN)]
    objectives = chosen.assign(
        series=chosen["x"].map("offered load {:g}".format), x=chosen["metric"].map(SHOWN), metric="share"
    )
    policies = list(chosen["policy"].unique())
    figure = grouped_bars(objectives, "share", policies, "", "share")
    return dataclasses.replace(analysis, figures={"figure": figure})


EXPERIMENT = Experiment("cocorl-fig8", "value, completion and utilization together", LOADS.items, analyze)
