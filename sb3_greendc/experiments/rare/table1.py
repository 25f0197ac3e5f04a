"""RARE, Table 1: how well heuristics are cloned, and what offline learning adds (20 units)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.claims import AGREEMENT, OFFLINE_GAIN
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import panels
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

UNITS = 20


def items(budget: Budget) -> list[Item]:
    """Return, for each heuristic, itself, chance, its clones, and CRR on its data."""
    found: list[Item] = []
    for heuristic in HEURISTICS:
        found += labelled(judged(budget, UNITS, (heuristic,)), series=heuristic)
        for seed in budget.seeds_of("CRR"):
            found += labelled(trainings(budget, UNITS, (heuristic,), seed), series=heuristic)
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return agreement and gain, as table and bars."""
    levels = agreement_levels(results.table("agreement"))
    gains = gain_table(results.table())
    return Analysis({"comparison": gains, "levels": levels}, {"figure": _figure(levels, gains)})


def _figure(levels: pd.DataFrame, gains: pd.DataFrame) -> Figure:
    """Draw both columns of the table with 95 % intervals, the printed ones in grey."""
    titles = ["the clone agrees with the heuristic", "CRR's value over the clone's"]
    figure, (agreement, gain) = panels(titles)
    clones = levels[levels["policy"] == "BC"].rename(columns={"level_percent": "margin_percent"})
    over = gains[gains["against"] == "BC"]
    by_learner = {learner: over[over["learner"] == learner] for learner in (PRINTED, "CRR")}
    bars(agreement, {"printed": printed_bars(AGREEMENT), "ours": clones})
    bars(gain, {"printed": printed_bars(OFFLINE_GAIN), **by_learner})
    return figure


EXPERIMENT = Experiment(
    "rare-table1", "clones of heuristics and offline improvement (20 units)", items, analyze
)
