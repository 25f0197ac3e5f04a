"""RARE, Table 1: how well heuristics are cloned, and what offline learning adds (20 units)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
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
    _bars(agreement, {"printed": _printed(AGREEMENT), "ours": clones})
    _bars(gain, {"printed": _printed(OFFLINE_GAIN), **by_learner})
    return figure


def _printed(heights: Mapping[str, float]) -> pd.DataFrame:
    """Return what the paper prints, without intervals."""
    values = list(heights.values())
    return pd.DataFrame({"series": list(heights), "margin_percent": values, "low": values, "high": values})


COLORS = {"printed": "#c6c6c6", "ours": "#17808c", PRINTED: "#d4a017", "CRR": "#2a9d5c"}


def _bars(panel: Axes, groups: Mapping[str, pd.DataFrame]) -> None:
    """Draw a bar of each group for each heuristic, its height written beside it."""
    width = 0.8 / len(groups)
    for place, (name, rows) in enumerate(groups.items()):
        of = rows.set_index("series").reindex(HEURISTICS)
        height = of["margin_percent"]
        spread = abs(of[["low", "high"]].to_numpy().T - height.to_numpy())
        at = [k + (place - (len(groups) - 1) / 2) * width for k in range(len(HEURISTICS))]
        bars = panel.bar(at, height, width, yerr=spread, color=COLORS[name], label=name, error_kw={"lw": 0.8})
        panel.bar_label(bars, fmt="%.0f", fontsize="small", padding=2)
    panel.set_xticks(range(len(HEURISTICS)), [f"{name}'s data" for name in HEURISTICS])
    panel.set_ylabel("per cent")
    panel.axhline(0, color="#555555", lw=0.8)
    panel.margins(y=0.12)
    panel.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)


EXPERIMENT = Experiment(
    "rare-table1", "clones of heuristics and offline improvement (20 units)", items, analyze
)
