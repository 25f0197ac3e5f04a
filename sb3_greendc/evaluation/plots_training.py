"""Figures of training: learning curves, and reward, cost and multiplier of constrained training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from sb3_greendc.evaluation.metrics import label
from sb3_greendc.evaluation.plots import (
    Dash,
    colors_of,
    dashes_of,
    legend_columns,
    panels_of,
    plain,
    short_names,
    styled,
)
from sb3_greendc.evaluation.progress import COST, MULTIPLIER, REWARD, TrainingRun, curve

_NAMES = {
    REWARD: "return of an episode",
    COST: "cost of an episode",
    MULTIPLIER: "multiplier λ",
    "eval/mean_reward": "return in evaluation",
}
_COLUMNS = 3
_LINE_OF_TEXT = 0.08  # height of a line of text, as a share of a panel's
_SHOW_EACH = 10  # runs, up to which each one is drawn faintly


@styled
def draw_learning_curves(groups: Mapping[str, Sequence[TrainingRun]], columns: Sequence[str]) -> Figure:
    """Draw logged quantities over training: for each group of runs the mean and its interval over runs.

    :param groups: the runs of each algorithm
    :param columns: of their logs, a panel each
    """
    colors, dashes = colors_of(list(groups)), dashes_of(list(groups))
    columns_of_panels = min(_COLUMNS, len(columns))
    rows = math.ceil(len(columns) / columns_of_panels)
    figure, grid = panels_of(0.3 + _legend_height(list(groups)) + 1.9 * rows, rows, columns_of_panels)
    for unused in list(grid.flat)[len(columns) :]:
        unused.set_axis_off()
    for panel, column in zip(grid.flat, columns, strict=False):
        _draw_groups(panel, groups, column, colors, dashes)
    _add_legend(figure, list(groups), colors, dashes)
    return figure


@styled
def draw_constrained_training(
    groups: Mapping[str, Sequence[TrainingRun]], cost_limit: float | None = None
) -> Figure:
    """Draw return, cost against its limit, and the multiplier, over training.

    Groups whose logs have no ``rollout/ep_cost_mean`` are left out, and from the multiplier's panel those
    without ``train/lagrange_multiplier``; colors and dashes are those of :func:`draw_learning_curves`.

    :param groups: the runs of each algorithm
    :param cost_limit: default: that of each group's records
    """
    colors, dashes = colors_of(list(groups)), dashes_of(list(groups))
    constrained = having(groups, COST)
    figure, grid = panels_of(2.4 + _legend_height(list(constrained)), 1, 3)
    rewards, costs, multipliers = grid[0]
    _draw_groups(rewards, constrained, REWARD, colors, dashes)
    _draw_groups(costs, constrained, COST, colors, dashes)
    _draw_groups(multipliers, having(constrained, MULTIPLIER), MULTIPLIER, colors, dashes)
    limits = {
        name: {cost_limit} if cost_limit is not None else _limits(runs) for name, runs in constrained.items()
    }
    for name, of_group in limits.items():
        shared = sum(of_group == other for other in limits.values()) > 1
        for limit in of_group:
            costs.axhline(limit, color="#333333" if shared else colors[name], linewidth=0.8, linestyle="--")
    _name_limits(costs, sorted(set().union(*limits.values())))
    _add_legend(figure, list(constrained), colors, dashes)
    return figure


def having(groups: Mapping[str, Sequence[TrainingRun]], column: str) -> dict[str, Sequence[TrainingRun]]:
    """Return the groups of which every run has a column."""
    return {name: runs for name, runs in groups.items() if all(column in run.table for run in runs)}


def _name_limits(panel: Axes, limits: Sequence[float]) -> None:
    """Write the limits beside their lines; those that lie too close for that together, beside the highest."""
    low, high = panel.get_ylim()
    together: list[list[float]] = []
    for limit in limits:
        if together and limit - together[-1][-1] < _LINE_OF_TEXT * (high - low):
            together[-1].append(limit)
        else:
            together.append([limit])
    for group in together:
        panel.annotate(
            f"limit {', '.join(f'{limit:g}' for limit in group)}",
            (1.0, group[-1]),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            fontsize=6,
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5},
        )


def _limits(runs: Sequence[TrainingRun]) -> set[float]:
    return {run.cost_limit for run in runs if run.cost_limit is not None}


def _draw_groups(
    panel: Axes,
    groups: Mapping[str, Sequence[TrainingRun]],
    column: str,
    colors: Mapping[str, str],
    dashes: Mapping[str, Dash],
) -> None:
    for name, runs in groups.items():
        found = curve(runs, column)
        if 1 < len(runs) <= _SHOW_EACH:
            panel.plot(found.steps, found.each.T, color=colors[name], linewidth=0.4, alpha=0.35)
        panel.fill_between(found.steps, found.low, found.high, color=colors[name], alpha=0.18, linewidth=0)
        marker = "o" if found.steps[0] == found.steps[-1] else None  # a line of one point cannot be seen
        (line,) = panel.plot(found.steps, found.mean, color=colors[name], marker=marker, markersize=3)
        line.set_linestyle(dashes[name])
    panel.set_title(plain(_title(column)))
    panel.set_xlabel("environment steps")
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.grid()
    panel.margins(x=0.01)


def _title(column: str) -> str:
    if column.startswith("env/"):
        return label(column.removeprefix("env/"))
    return _NAMES.get(column, column)


def _legend_height(names: Sequence[str]) -> float:
    """Return the inches that a legend of groups needs."""
    return 0.16 * math.ceil(len(names) / legend_columns(list(short_names(names).values())))


def _add_legend(
    figure: Figure, names: Sequence[str], colors: Mapping[str, str], dashes: Mapping[str, Dash]
) -> None:
    labels = short_names(names)
    handles = [
        Line2D([], [], color=colors[name], linestyle=dashes[name], label=plain(labels[name]))
        for name in names
    ]
    columns = min(len(names), legend_columns(list(labels.values())))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)
