"""The figure: value against load under the bound, and what lies between policies and the bound."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.evaluation.plots import PALETTE, TEXT_WIDTH, styled
from sb3_greendc.experiments.planners.common import LEARNED, REFERENCE, ROLLOUTS
from sb3_greendc.experiments.planners.divisible import LABEL
from sb3_greendc.experiments.planners.loads import BOUND
from sb3_greendc.experiments.planners.optimum import shares

PAPERS = ("sjf", "qos", "hvf", "fcfs")
LINES = {
    BOUND: ("bound (linear programme)", "0.25", "--"),
    ROLLOUTS: ("rollouts over 512 futures", PALETTE[0], "-"),
    LEARNED: ("distilled: one network call", PALETTE[2], "-"),
    "plan": ("plan", PALETTE[4], "-"),
    REFERENCE: (REFERENCE, PALETTE[1], "-"),
}
SHARES = {
    "optimum": ("whole jobs, arrivals known", "0.25", "-"),
    LABEL: ("divisible jobs, arrivals unknown", PALETTE[4], "--"),
    ROLLOUTS: ("rollouts over 512 futures", PALETTE[0], "-"),
    LEARNED: ("distilled: one network call", PALETTE[2], "-"),
    REFERENCE: (REFERENCE, PALETTE[1], "-"),
}
"""Lines below the bound: three of policies, and what lies between."""


@styled
def draw(loads: pd.DataFrame, optimum: pd.DataFrame, divided: pd.DataFrame) -> Figure:
    """Draw both panels.

    :param loads: what :func:`~sb3_greendc.experiments.planners.loads.study` returns
    :param optimum: what :func:`~sb3_greendc.experiments.planners.optimum.study` returns
    :param divided: what :func:`~sb3_greendc.experiments.planners.divisible.study` returns, of as many steps
    """
    figure = Figure(figsize=(TEXT_WIDTH, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_values(left, loads)
    _draw_shares(right, shares(optimum, divided))
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


def _draw_shares(axes: Axes, table: pd.DataFrame) -> None:
    """Draw lines over load, in per cent of the bound."""
    axes.axhline(100.0, color="0.25", linestyle=":", label="divisible jobs, arrivals known (the bound)")
    for policy, (title, color, dash) in SHARES.items():
        rows = table[table["policy"] == policy].sort_values("load")
        if rows.empty:
            continue
        axes.errorbar(
            rows["load"],
            rows["mean"],
            [rows["mean"] - rows["low"], rows["high"] - rows["mean"]],
            color=color,
            linestyle=dash,
            marker=".",
            elinewidth=0.6,
            label=title,
        )
    axes.set_ylim(float(table["low"].min()) - 22.0, 101.5)  # room for the legend
    axes.set_xticks(sorted(table["load"].unique()))
    axes.set_xlabel("offered load (episodes of 100 steps)")
    axes.set_ylabel("% of the bound")
    axes.legend(loc="lower left")
