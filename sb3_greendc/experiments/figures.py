"""Figures in the papers' forms: bars by group, lines over a parameter, curves over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from sb3_greendc.experiments.comparison import matrix, mean_interval
from sb3_greendc.experiments.line_names import name_lines
from sb3_greendc.experiments.tasks import ALL_WAITING, without_form

COLORS = {
    "sjf": "#9ecae1",
    "qos": "#6baed6",
    "hvf": "#3182bd",
    "fcfs": "#c6c6c6",
    "edf": "#8c8c8c",
    "density": "#74a9cf",
    "deadline_last": "#fdae6b",
    "deadline_never": "#e6842a",
    "best of the papers'": "#3182bd",
    "best of the papers', masked": "#08306b",
    "uniformly random, masked": "#555555",
    "uniformly random, valid": "#b5b5b5",
    "random order, masked": "#8c8c8c",
    "best heuristic": "#e6842a",
    "rollouts": "#a04a00",
    "rollout": "#a04a00",
    "DiscreteSAC as printed": "#d4a017",
    "A2C as printed": "#d4a017",
    "CoCoRL as printed": "#d4a017",
    "CRR as printed": "#d4a017",
    "printed": "#c6c6c6",
    "ours": "#17808c",
    "BC": "#17808c",
    "CRR": "#2a9d5c",
    "distilled policy": "#c0392b",
    "guided rollouts": "#6b0f1a",
    "PID-PPO, distilled start": "#17becf",
    "MaskablePPO": "#2a9d5c",
    "DiscreteSAC": "#7b3fa0",
    "DQN": "#c2569f",
}
"""Heuristics in blue and grey, those beyond the papers in orange, learners in red, green and violet."""

_OTHERS = (*("#2a9d5c", "#c0392b", "#17808c", "#8a6d00", "#e0a030", "#5b8def", "#a0522d", "#7fb800"),)
WIDTH, HEIGHT = 4.6, 3.4
MOST_SERIES = 8
"""More bars or lines than that cannot be told apart at the width of a page."""


def color_of(name: str, names: Sequence[str]) -> str:
    """Return the color of a policy: its own, or one that no other policy of the figure has."""
    if without_form(name) in COLORS:
        return COLORS[without_form(name)]
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
    summary: pd.DataFrame,
    metric: str,
    policies: Sequence[str],
    xlabel: str,
    ylabel: str,
    budgets: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a panel for each series, in it a group of bars for each point, a bar for each policy.

    :param summary: of :func:`~sb3_greendc.experiments.comparison.summary`
    :param metric: the metric that is drawn
    :param policies: in the order of the bars
    :param xlabel: meaning of the points
    :param ylabel: meaning of the bars
    :param budgets: what stands below the names of policies
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
            color, below = color_of(policy, policies), (budgets or {}).get(policy)
            label = f"{policy}\n({below})" if below else policy
            panel.bar(places, heights, width, yerr=spread, color=color, label=label, error_kw={"lw": 0.8})
        panel.set_xticks(range(len(points)), [_short(point) for point in points])
        panel.set_xlabel(xlabel)
        panel.set_ylabel(ylabel)
    outer_legend(figure, axes[0])
    return figure


def lines(
    summary: pd.DataFrame,
    metric: str,
    policies: Sequence[str],
    xlabel: str,
    ylabel: str,
    budgets: Mapping[str, str] | None = None,
    differences: pd.DataFrame | None = None,
    differing: str = "value",
    scale: str = "linear",
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Draw a panel for each series, in it a line with its interval for each policy over the points.

    :param summary: as for :func:`grouped_bars`, whose other parameters these are, too
    :param budgets: what stands once below the names of policies
    :param differences: rows of a comparison with one rival; they get a second panel, where lines that lie
        one on another in the first are apart
    :param differing: what the comparison is about
    :param scale: of the first panels' vertical axis, ``"linear"`` or ``"log"``
    :param levels: horizontal lines in the first panels, by name
    """
    of_metric = summary[summary["metric"] == metric]
    series = list(of_metric["series"].unique())
    titles = [title for name in series for title in ((name,) if differences is None else (name, ""))]
    figure, axes = panels(titles)
    places = iter(axes)
    for name in series:
        panel = next(places)
        of_series = of_metric[of_metric["series"] == name]
        points = of_series["x"].nunique()
        for policy in policies:
            rows = of_series[of_series["policy"] == policy]
            _line(panel, rows, "estimate", color_of(policy, policies), policy, len(rows) == points)
        panel.set_yscale(scale)
        for level, height in (levels or {}).items():
            panel.axhline(height, color="black", lw=0.9, ls="--", label=level)
        panel.set_xlabel(xlabel)
        panel.set_ylabel(ylabel)
        if differences is not None:
            below = next(places)
            at = differences[differences["series"] == name]
            for policy in policies:
                of_policy = at[at["learner"] == policy]
                everywhere = len(of_policy) == points
                _line(below, of_policy, "margin_percent", color_of(policy, policies), policy, everywhere)
            below.axhline(0, color="#555555", lw=0.8)
            _spread_around_zero(below)
            below.set_xlabel(xlabel)
            rival = at["against"].iloc[0] if len(at) else ""
            over = f"{differing} over\n{rival},\nper cent (logarithmic beyond ±5)"
            below.set_ylabel(over if len(at) else "", fontsize="small")
    name_lines(figure, budgets)
    return figure


def _line(panel: Axes, rows: pd.DataFrame, middle: str, color: str, label: str, joined: bool) -> None:
    """Draw one line with its interval; or its points alone, where it has not all of them."""
    if rows.empty:
        return
    rows = rows.sort_values("x")
    if not joined:
        spread = np.abs(rows[["low", "high"]].to_numpy(dtype=float).T - rows[middle].to_numpy(dtype=float))
        size = max(7.0 - 1.5 * len(panel.containers), 2.5)  # points of one place lie around each other
        drawn = panel.errorbar(rows["x"], rows[middle], spread, fmt="o", lw=1, color=color, label=label)
        drawn.lines[0].set(markersize=size, markerfacecolor="none")
        return
    panel.plot(rows["x"], rows[middle], "o-", ms=3.5, lw=1.5, color=color, label=label)
    panel.fill_between(rows["x"], rows["low"], rows["high"], color=color, alpha=0.15, lw=0)


def _spread_around_zero(panel: Axes) -> None:
    """Draw what is further than 5 from 0 to a logarithmic scale, so that curves near 0 can be told apart."""
    panel.set_yscale("symlog", linthresh=5)
    panel.yaxis.set_major_locator(FixedLocator([-100, -50, -20, -10, -5, 0, 5, 10, 20, 50, 100]))
    panel.yaxis.set_minor_locator(FixedLocator([]))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda margin, _: f"{margin:+.0f}" if margin else "0"))


def curves(
    rows: pd.DataFrame,
    metric: str,
    over: str,
    axes: Axes,
    levels: Mapping[str, float] | None = None,
    by: str = "policy",
    among: Sequence[str] = (),
) -> None:
    """Draw learning curves: the mean over seeds and episodes at each checkpoint, with its interval.

    :param rows: episodes with ``train_seed`` and ``trained_decisions``
    :param metric: the metric that is drawn
    :param over: ``"trained_decisions"``, or ``"trained_seconds"`` (averaged over the seeds)
    :param axes: the panel
    :param levels: horizontal lines: policies that do not learn
    :param by: the column whose values are the curves
    :param among: the curves of all panels, so that one has the same color in each; default: the panel's own
    """
    own = [str(name) for name in rows[by].unique()]
    names = list(among or own)
    for name in own:
        of_name = rows[rows[by].astype(str) == name]
        found = []
        for _, at in of_name.groupby("trained_decisions"):
            interval = mean_interval(matrix(at, metric))
            found.append((at[over].mean(), interval.estimate, interval.low, interval.high))
        x, middle, low, high = np.array(found).T
        axes.plot(x, middle, "o-", ms=3, lw=1.5, color=color_of(name, names), label=name)
        axes.fill_between(x, low, high, color=color_of(name, names), alpha=0.15, lw=0)
    for name, level in (levels or {}).items():
        color = COLORS.get(without_form(name), "#555555")
        style = ":" if name.endswith(ALL_WAITING) else "--"
        axes.axhline(level, color=color, lw=1.2, ls=style, label=name)
    axes.set_xlabel(over.replace("trained_", ""))


def outer_legend(figure: Figure, axes: Axes) -> None:
    """Put a panel's legend beside all panels."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize="small", frameon=False)


def _short(point: object) -> str:
    return f"{point:g}" if isinstance(point, int | float) else str(point)
