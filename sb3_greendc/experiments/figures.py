"""Figures in the papers' forms: bars by group, lines over a parameter, curves over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.experiments.comparison import matrix, mean_interval

COLORS = {
    "sjf": "#9ecae1",
    "qos": "#6baed6",
    "hvf": "#3182bd",
    "fcfs": "#c6c6c6",
    "edf": "#8c8c8c",
    "density": "#74a9cf",
    "deadline_last": "#fdae6b",
    "deadline_never": "#e6842a",
    "best heuristic": "#e6842a",
    "rollouts": "#a04a00",
    "rollout": "#a04a00",
    "distilled policy": "#c0392b",
    "guided rollouts": "#6b0f1a",
    "PID-PPO, taught start": "#2a9d5c",
    "MaskablePPO": "#2a9d5c",
    "DiscreteSAC": "#7b3fa0",
    "DQN": "#c2569f",
}
"""Heuristics in blue and grey, those beyond the papers in orange, learners in red, green and violet."""

_OTHERS = (
    *("#2a9d5c", "#c0392b", "#17808c", "#8a6d00", "#444444", "#e0a030", "#5b8def", "#a0522d", "#7fb800"),
)
WIDTH, HEIGHT = 4.6, 3.4


def color_of(name: str, names: Sequence[str]) -> str:
    """Return the color of a policy: its own, or one that no other policy of the figure has."""
    if name in COLORS:
        return COLORS[name]
    taken = {COLORS.get(other) for other in names}
    free = [color for color in _OTHERS if color not in taken]
    others = [other for other in names if other not in COLORS]
    return free[others.index(name) % len(free)]


def panels(titles: Sequence[str], columns: int = 2) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each title, and the panels."""
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    width = WIDTH * columns + 2.1
    figure = Figure(figsize=(width, HEIGHT * rows), dpi=130, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[len(titles) :]:
        unused.set_axis_off()
    for panel, title in zip(axes, titles, strict=False):
        panel.set_title(title, fontsize="medium")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", linewidth=0.4, alpha=0.5)
        panel.set_axisbelow(True)
    return figure, axes[: len(titles)]


def grouped_bars(
    summary: pd.DataFrame, metric: str, policies: Sequence[str], xlabel: str, ylabel: str
) -> Figure:
    """Draw a panel for each series, in it a group of bars for each point, a bar for each policy.

    :param summary: of :func:`~sb3_greendc.experiments.comparison.summary`
    :param metric: the metric that is drawn
    :param policies: in the order of the bars
    :param xlabel: meaning of the points
    :param ylabel: meaning of the bars
    """
    of_metric = summary[summary["metric"] == metric]
    series = list(of_metric["series"].unique())
    figure, axes = panels(series, columns=1)
    for panel, name in zip(axes, series, strict=True):
        rows = of_metric[of_metric["series"] == name]
        points = list(rows["x"].unique())
        width = 0.84 / len(policies)
        for k, policy in enumerate(policies):
            of_policy = rows[rows["policy"] == policy].set_index("x").reindex(points)
            heights = of_policy["estimate"].to_numpy(dtype=float)
            spread = np.abs(of_policy[["low", "high"]].to_numpy(dtype=float).T - heights)
            places = np.arange(len(points)) + (k - (len(policies) - 1) / 2) * width
            color = color_of(policy, policies)
            panel.bar(places, heights, width, yerr=spread, color=color, label=policy, error_kw={"lw": 0.8})
        panel.set_xticks(range(len(points)), [_short(point) for point in points])
        panel.set_xlabel(xlabel)
        panel.set_ylabel(ylabel)
    outer_legend(figure, axes[0])
    return figure


def lines(summary: pd.DataFrame, metric: str, policies: Sequence[str], xlabel: str, ylabel: str) -> Figure:
    """Draw a panel for each series, in it a line with its interval for each policy over the points.

    The parameters are those of :func:`grouped_bars`.
    """
    of_metric = summary[summary["metric"] == metric]
    series = list(of_metric["series"].unique())
    figure, axes = panels(series)
    for panel, name in zip(axes, series, strict=True):
        for policy in policies:
            rows = of_metric[(of_metric["series"] == name) & (of_metric["policy"] == policy)].sort_values("x")
            if rows.empty:
                continue
            color = color_of(policy, policies)
            panel.plot(rows["x"], rows["estimate"], "o-", ms=3.5, lw=1.5, color=color, label=policy)
            panel.fill_between(rows["x"], rows["low"], rows["high"], color=color, alpha=0.15, lw=0)
        panel.set_xlabel(xlabel)
        panel.set_ylabel(ylabel)
    outer_legend(figure, axes[0])
    return figure


def curves(
    rows: pd.DataFrame,
    metric: str,
    over: str,
    axes: Axes,
    levels: Mapping[str, float] | None = None,
    by: str = "policy",
    legend: bool = True,
) -> None:
    """Draw learning curves: the mean over seeds and episodes at each checkpoint, with its interval.

    :param rows: episodes with ``train_seed`` and ``trained_decisions``
    :param metric: the metric that is drawn
    :param over: ``"trained_decisions"``, or ``"trained_seconds"`` (averaged over the seeds)
    :param axes: the panel
    :param levels: horizontal lines: policies that do not learn
    :param by: the column whose values are the curves
    :param legend: whether the panel gets its own
    """
    names = [str(name) for name in rows[by].unique()]
    for name in names:
        of_name = rows[rows[by].astype(str) == name]
        found = []
        for _, at in of_name.groupby("trained_decisions"):
            interval = mean_interval(matrix(at, metric))
            found.append((at[over].mean(), interval.estimate, interval.low, interval.high))
        x, middle, low, high = np.array(found).T
        axes.plot(x, middle, "o-", ms=3, lw=1.5, color=color_of(name, names), label=name)
        axes.fill_between(x, low, high, color=color_of(name, names), alpha=0.15, lw=0)
    for name, level in (levels or {}).items():
        color = COLORS.get(name, "#555555")
        axes.axhline(level, color=color, lw=1.2, ls="--", label=name)
    axes.set_xlabel(over.replace("trained_", ""))
    if legend:
        axes.legend(fontsize="x-small", frameon=False)


def outer_legend(figure: Figure, axes: Axes) -> None:
    """Put a panel's legend beside all panels."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize="small", frameon=False)


def _short(point: object) -> str:
    return f"{point:g}" if isinstance(point, int | float) else str(point)
