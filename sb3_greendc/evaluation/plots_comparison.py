"""Figures that compare policies: performance profiles, probability of improvement, trade-off curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sb3_greendc.evaluation.metrics import LOWER_IS_BETTER, label
from sb3_greendc.evaluation.plots import (
    arrow,
    by_policy,
    colors_of,
    dashes_of,
    heading,
    legend_columns,
    panels_of,
    plain,
    readable_ticks,
    short_names,
    styled,
    ticks_of,
)

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_COLUMNS = 3


@styled
def draw_profiles(profiles: pd.DataFrame, lower_is_better: frozenset[str] = LOWER_IS_BETTER) -> Figure:
    """Draw the share of episodes better than each value, a line with its interval for each policy.

    A line above another at every value is the better policy throughout; where lines cross, one is better
    in bad episodes and the other in good ones.

    :param profiles: what :func:`~sb3_greendc.evaluation.comparisons.profiles` returns
    """
    policies = [str(policy) for policy in profiles["policy"].unique()]
    colors, dashes = colors_of(policies), dashes_of(policies)
    panels = list(profiles.groupby(["env_id", "metric"], sort=False))
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    names = short_names(policies)
    legend_rows = math.ceil(len(policies) / legend_columns(list(names.values())))
    figure, grid = panels_of(0.25 + 0.16 * legend_rows + 1.75 * rows, rows, columns, sharey=True)
    for unused in list(grid.flat)[len(panels) :]:
        unused.set_axis_off()
    several_envs = profiles["env_id"].nunique() > 1
    for panel, ((env_id, metric), table) in zip(grid.flat, panels, strict=False):
        for policy, line in table.groupby("policy", sort=False):
            name = str(policy)
            panel.plot(line["threshold"], line["share"], color=colors[name], linestyle=dashes[name])
            panel.fill_between(
                line["threshold"], line["low"], line["high"], color=colors[name], alpha=0.15, lw=0
            )
        of_env = f"{plain(env_id)}\n" if several_envs else ""
        panel.set_title(of_env + heading(str(metric), lower_is_better))
        panel.set_xlabel(f"τ{_unit(str(metric))}")
        panel.set_ylim(-0.02, 1.02)
        readable_ticks(panel)
        panel.grid()
        if metric in lower_is_better:
            panel.invert_xaxis()  # better is to the right in every panel
    for row in grid:
        row[0].set_ylabel("share of episodes\nbetter than τ")
    handles = [
        Line2D([], [], color=colors[name], linestyle=dashes[name], label=plain(names[name]))
        for name in policies
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=legend_columns(list(names.values())))
    return figure


@styled
def draw_improvements(
    improvements: pd.DataFrame, reference: str, lower_is_better: frozenset[str] = LOWER_IS_BETTER
) -> Figure:
    """Draw how probably each policy does better than a reference on the same episode.

    :param improvements: what :func:`~sb3_greendc.evaluation.comparisons.improvements` returns
    :param reference: the policy that they were compared with
    """

    def draw(panel: Axes, rows: pd.DataFrame, policies: Sequence[str]) -> None:
        places = np.arange(len(policies))
        panel.axvline(0.5, color="#333333", linewidth=0.6, linestyle="--")
        panel.hlines(places, rows["low"], rows["high"], color="#e0b394", linewidth=3.5)
        panel.plot(rows["estimate"], places, "o", color="#D55E00", markersize=3.5)
        panel.set_yticks(places, ticks_of(policies))
        panel.set_xlim(-0.03, 1.03)
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1])

    figure = by_policy(improvements, draw, lambda metric: heading(metric, lower_is_better))
    figure.subfigs[-1].supxlabel(f"P(better than {plain(reference)} on the same episode)", fontsize=8)
    return figure


@styled
def draw_trade_off(
    summary: pd.DataFrame, objective: str, cost: str, lower_is_better: frozenset[str] = LOWER_IS_BETTER
) -> Figure:
    """Draw the objective against the cost: a point with both intervals for each policy.

    Policies called ``NAME@LIMIT``, with a number for a limit, are points of one curve in the order of
    their limits, which are written beside them.

    :param summary: what :func:`~sb3_greendc.evaluation.statistics.summarize` returns, with both metrics
    :param objective: on the vertical axis
    :param cost: on the horizontal axis
    """
    both = summary[summary["metric"].isin((objective, cost))]
    points = both.pivot_table(
        index=["env_id", "policy"], columns="metric", values=["estimate", "low", "high"], sort=False
    ).dropna()
    env_ids = list(points.index.unique("env_id"))  # which have them
    policies = [str(policy) for policy in summary["policy"].unique()]
    curves = curves_of(policies)
    names = short_names(list(curves))
    colors = colors_of(list(curves))
    markers = {name: _MARKERS[i % len(_MARKERS)] for i, name in enumerate(curves)}
    columns = min(2, len(env_ids))
    rows = math.ceil(len(env_ids) / columns)
    figure, grid = panels_of(3.4 * rows, rows, columns)
    for unused in list(grid.flat)[len(env_ids) :]:
        unused.set_axis_off()
    for panel, env_id in zip(grid.flat, env_ids, strict=False):
        of_env = points.loc[env_id]
        for name, members in curves.items():
            there = [(limit, of_env.loc[policy]) for limit, policy in members if policy in of_env.index]
            _draw_curve(panel, there, objective, cost, colors[name], markers[name])
        panel.set_xlabel(plain(label(cost)) + arrow(cost, lower_is_better))
        panel.set_ylabel(plain(label(objective)) + arrow(objective, lower_is_better))
        panel.set_title(plain(env_id))
        panel.grid()
    handles = [
        Line2D(
            [],
            [],
            color=colors[name],
            marker=markers[name],
            markersize=4,
            label=plain(names[name]),
            lw=1.2 * (len(members) > 1),
        )
        for name, members in curves.items()
    ]
    figure.legend(handles=handles, loc="outside right center")
    return figure


def _unit(metric: str) -> str:
    """Return the unit of a metric in brackets, empty if it has none."""
    name, bracket, unit = label(metric).rpartition(" (")
    return f"{bracket}{unit}" if name else ""


def curves_of(policies: Sequence[str]) -> dict[str, list[tuple[float | None, str]]]:
    """Return the policies of each curve with their limits: ``ppo@5`` and ``ppo@10`` are of ``ppo``."""
    curves: dict[str, list[tuple[float | None, str]]] = {}
    for policy in policies:
        name, separator, text = policy.rpartition("@")
        try:
            limit = float(text) if separator else None
        except ValueError:
            limit = None
        curves.setdefault(policy if limit is None else name, []).append((limit, policy))
    for members in curves.values():
        members.sort(key=lambda member: -math.inf if member[0] is None else member[0])
    return curves


def _draw_curve(
    panel: Axes,
    members: Sequence[tuple[float | None, pd.Series[float]]],
    objective: str,
    cost: str,
    color: str,
    marker: str,
) -> None:
    x = [point["estimate", cost] for _, point in members]
    y = [point["estimate", objective] for _, point in members]
    panel.plot(x, y, color=color, marker=marker, markersize=4, linestyle="-" if len(members) > 1 else "")
    for limit, point in members:
        at = point["estimate", cost], point["estimate", objective]
        panel.hlines(at[1], point["low", cost], point["high", cost], color=color, linewidth=0.7)
        panel.vlines(at[0], point["low", objective], point["high", objective], color=color, linewidth=0.7)
        if limit is not None:
            panel.annotate(
                f"{limit:g}", at, xytext=(4, 4), textcoords="offset points", fontsize=6, color=color
            )
