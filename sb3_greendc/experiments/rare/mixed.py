"""RARE's experiment on mixed data: one learner on the data of four heuristics (50 units)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.claims import MIXED_AGREEMENT
from sb3_greendc.experiments.comparison import summary
from sb3_greendc.experiments.controls import UNIFORM_VALID
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import color_of, panels
from sb3_greendc.experiments.rare.agreement import (
    HEURISTICS,
    PRINTED,
    agreement_levels,
    gain_table,
    judged,
    trainings,
)
from sb3_greendc.experiments.rare.bars import bars, printed_bars
from sb3_greendc.experiments.tasks import Item

UNITS = 50
SERIES = "data of four heuristics, 50 units"


def items(budget: Budget) -> list[Item]:
    """Return the heuristics, chance, and clone and CRR from the data of all."""
    found = labelled(judged(budget, UNITS, HEURISTICS), series=SERIES, x="")
    for seed in budget.seeds_of("CRR"):
        found += labelled(trainings(budget, UNITS, HEURISTICS, seed), series=SERIES, x="")
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return CRR's gain over clone and heuristics, agreement with each heuristic, and the values as bars.

    The printed agreement is the offline learner's, not the clone's.
    """
    rows = results.table()
    table = summary(rows, ("total_job_value", "total_job_value_ratio"))
    levels = agreement_levels(results.table("agreement"))
    tables = {"comparison": gain_table(rows), "levels": levels, "results": table}
    return Analysis(tables, {"figure": _figure(levels, table)})


def _figure(levels: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """Draw the agreement with each heuristic, the printed one in grey, and what all policies earn."""
    figure, (agreement, value) = panels(["agrees with the heuristic", "share of the arrived value"])
    named = levels.rename(columns={"level_percent": "margin_percent"}).assign(series=levels["teacher"])
    ours = {name: named[named["policy"] == name] for name in (PRINTED, "CRR", "BC")}
    bars(agreement, {"printed": printed_bars(MIXED_AGREEMENT), **ours})
    of = table[table["metric"] == "total_job_value_ratio"].set_index("policy")
    of = of.reindex([UNIFORM_VALID, *HEURISTICS, "BC", PRINTED, "CRR"])
    spread = abs(of[["low", "high"]].to_numpy().T - of["estimate"].to_numpy())
    colors = [color_of(str(name), []) for name in of.index]
    drawn = value.barh(list(of.index), of["estimate"], xerr=spread, color=colors, error_kw={"lw": 0.8})
    value.bar_label(drawn, fmt="%.2f", fontsize="small", padding=2)
    value.grid(axis="y", visible=False)
    value.margins(x=0.12)
    return figure


EXPERIMENT = Experiment("rare-mixed", "one learner on the data of four heuristics", items, analyze)
