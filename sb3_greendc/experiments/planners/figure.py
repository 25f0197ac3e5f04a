"""The figure: value against load under the bound, and what the gap to the bound is made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.evaluation.plots import PALETTE, TEXT_WIDTH, styled
from sb3_greendc.experiments.planners.loads import BOUND, LEARNED
from sb3_greendc.experiments.planners.optimum import parts_of_the_gap

PAPERS = ("sjf", "qos", "hvf", "fcfs")
LINES = {
    BOUND: ("bound (linear programme)", "0.25", "--"),
    "rollout": ("rollouts over 100 futures", PALETTE[0], "-"),
    LEARNED: ("distilled: one network call", PALETTE[2], "-"),
    "plan": ("plan", PALETTE[4], "-"),
    "deadline_never": ("deadline_never", PALETTE[1], "-"),
}
PARTS = {
    "deadline_never": ("deadline_never", "0.85"),
    "search": ("search: rollouts", PALETTE[0]),
    "information": ("information: the optimum, clairvoyant", PALETTE[4]),
    "relaxation": ("relaxation: the bound", PALETTE[3]),
}


@styled
def draw(loads: pd.DataFrame, optimum: pd.DataFrame) -> Figure:
    """Draw both panels.

    :param loads: what :func:`~sb3_greendc.experiments.planners.loads.study` returns
    :param optimum: what :func:`~sb3_greendc.experiments.planners.optimum.study` returns
    """
    figure = Figure(figsize=(TEXT_WIDTH, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_values(left, loads)
    _draw_parts(right, parts_of_the_gap(optimum))
    return figure


def _draw_values(axes: Axes, loads: pd.DataFrame) -> None:
    for policy, (title, color, dash) in LINES.items():
        rows = loads[loads["policy"] == policy].sort_values("load")
        if rows.empty:
            continue
        axes.plot(rows["load"], rows["mean"], color=color, linestyle=dash, marker=".", label=title)
    papers = loads[loads["policy"].isin(PAPERS)].groupby("load")["mean"].max()
    if not papers.empty:
        axes.plot(papers.index, papers, color=PALETTE[6], linestyle=":", label="best of SJF, QoS, HVF, FCFS")
    axes.set_xlabel("offered load")
    axes.set_ylabel("value on time / value of all jobs")
    axes.legend(loc="lower left")


def _draw_parts(axes: Axes, parts: pd.DataFrame) -> None:
    """Stack the parts up to the bound; a mark shows where the network stands."""
    position = np.arange(len(parts))
    below = np.zeros(len(parts))
    for part, (title, color) in PARTS.items():
        axes.bar(position, parts[part], bottom=below, width=0.7, color=color, label=title)
        below += parts[part].to_numpy()
    if "learning" in parts:
        reached = parts["deadline_never"] + parts["search"] - parts["learning"]
        axes.plot(position, reached, "_", color="black", markersize=14, label="learning: the network")
    axes.set_ylim(float(parts["deadline_never"].min()) - 35.0, 100.0)  # room for the legend
    axes.set_xticks(position, [f"{load:g}" for load in parts.index])
    axes.set_xlabel("offered load (episodes of 100 steps)")
    axes.set_ylabel("% of the bound")
    axes.legend(loc="lower left", frameon=True, framealpha=1.0)
