"""RARE, Table 1: how well heuristics are cloned, and what offline learning adds (20 units)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.experiments.claims import AGREEMENT, OFFLINE_GAIN
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import outer_legend, panels
from sb3_greendc.experiments.rare.agreement import (
    HEURISTICS,
    PRINTED,
    agreement_levels,
    gain_table,
    judged,
    trainings,
)
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
    """Draw both columns of the table, the printed ones in grey."""
    figure, axes = panels(["the clone agrees with the heuristic", "CRR's value over the clone's"])
    clones = levels[levels["policy"] == "BC"].set_index("x").reindex(HEURISTICS)
    _bars(axes[0], 0, AGREEMENT, "printed", "#c6c6c6", 0.4)
    _bars(axes[0], 1, clones["level_percent"].to_dict(), "clone (network that scores jobs)", "#17808c", 0.4)
    over = gains[gains["against"] == "BC"]
    _bars(axes[1], 0, OFFLINE_GAIN, "printed", "#c6c6c6", 0.27)
    for k, (learner, color) in enumerate(((PRINTED, "#d4a017"), ("CRR", "#2a9d5c")), 1):
        at = over[over["learner"] == learner].set_index("series")["margin_percent"]
        _bars(axes[1], k, at.to_dict(), learner, color, 0.27)
    for panel in axes:
        panel.set_xticks(range(len(HEURISTICS)), list(HEURISTICS))
        panel.set_ylabel("per cent")
    outer_legend(figure, axes[1])
    return figure


def _bars(panel: Axes, place: int, heights: Mapping[Any, float], name: str, color: str, width: float) -> None:
    at = [k + (place - 0.5) * width for k in range(len(HEURISTICS))]
    panel.bar(at, [heights[one] for one in HEURISTICS], width, color=color, label=name)


EXPERIMENT = Experiment(
    "rare-table1", "clones of heuristics and offline improvement (20 units)", items, analyze
)
