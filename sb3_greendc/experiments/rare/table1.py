"""RARE, Table 1: how well heuristics are cloned, and what offline learning adds (20 units)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.claims import RARE_AGREEMENT, RARE_OFFLINE_GAIN
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import outer_legend, panels
from sb3_greendc.experiments.rare.agreement import HEURISTICS, agreement_table, gain_table, trainings
from sb3_greendc.experiments.tasks import Item, Scenario

UNITS = 20


def items(budget: Budget) -> list[Item]:
    """Return, for each heuristic, itself, its clones and CRR on its data."""
    found: list[Item] = []
    for heuristic in HEURISTICS:
        themselves = Baselines(Scenario(f"ResourcePool-{UNITS}"), (Variant(heuristic),), budget.pick(32, 128))
        found += labelled([themselves], series=heuristic)
        for seed in budget.seeds_of("CRR"):
            found += labelled(trainings(budget, UNITS, (heuristic,), seed), series=heuristic)
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return agreement and gain beside the printed ones, as table and bars."""
    agreement = agreement_table(results.table("agreement"))
    agreement["printed_percent"] = agreement["teacher"].map(RARE_AGREEMENT)
    gains = gain_table(results.table())
    over_clone = gains["against"] == "BC"
    gains.loc[over_clone, "printed_percent"] = gains.loc[over_clone, "series"].map(RARE_OFFLINE_GAIN)
    figure = _figure(agreement, gains[over_clone])
    return Analysis({"agreement": agreement, "comparison": gains}, {"figure": figure})


def _figure(agreement: pd.DataFrame, gains: pd.DataFrame) -> Figure:
    figure, axes = panels(["BC agrees with the heuristic", "CRR's value over BC's"])
    columns = ("agreement_percent", "agreement_low", "agreement_high")
    parts = (
        (axes[0], agreement, "teacher", columns),
        (axes[1], gains, "series", ("gain_percent", "low", "high")),
    )
    for panel, table, names, (middle, low, high) in parts:
        heights = table[middle].to_numpy()
        spread = abs(table[[low, high]].to_numpy().T - heights)
        places = range(len(table))
        panel.bar([k - 0.2 for k in places], table["printed_percent"], 0.4, color="#c6c6c6", label="printed")
        panel.bar([k + 0.2 for k in places], heights, 0.4, yerr=spread, color="#2a9d5c", label="ours")
        panel.set_xticks(list(places), list(table[names]))
        panel.set_ylabel("per cent")
    outer_legend(figure, axes[0])
    return figure


EXPERIMENT = Experiment(
    "rare-table1", "clones of heuristics and offline improvement (20 units)", items, analyze
)
