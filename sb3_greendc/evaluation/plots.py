"""Figures fit for a paper: their style, how they are saved, and estimates with intervals by policy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeAlias, cast

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sb3_greendc.core.files import atomic_write
from sb3_greendc.evaluation.metrics import LOWER_IS_BETTER, label

STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "pdf.fonttype": 42,  # letters stay letters, as publishers demand
    "svg.hashsalt": "sb3-greendc",  # the same figure is the same file
}
TEXT_WIDTH = 7.0
"""Inches across both columns of a page."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#8C6D31", "#555555")
"""Okabe and Ito's colors, which color-blind readers can tell apart, less yellow, and three more."""
Dash: TypeAlias = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
FORMATS = ("png", "pdf", "svg")

_COLUMNS = 3
_LINE = 30  # characters above a panel
_NAME = 28  # characters beside it
_LEGEND_LINE, _LEGEND_LETTER = 0.5, 0.06  # inches, with the gap beside them
_METADATA: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}

Parameters = ParamSpec("Parameters")
Draw: TypeAlias = Callable[[Axes, pd.DataFrame, Sequence[str]], None]


def in_style() -> AbstractContextManager[None]:
    """Apply :data:`STYLE` within a block."""
    return mpl.rc_context(cast("Any", STYLE))  # the type of its keys differs between versions


def styled(draw: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Let a function that draws a figure work under :data:`STYLE`."""

    @functools.wraps(draw)
    def draw_in_style(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Figure:
        with in_style():
            return draw(*args, **kwargs)

    return draw_in_style


@styled
def bars(summary: pd.DataFrame) -> Figure:
    """Draw a summary: a panel for each environment and metric, in it a bar with its interval per policy.

    :param summary: what :func:`~sb3_greendc.evaluation.statistics.summarize` returns
    """
    return by_policy(summary, _draw_bars, plain)


@styled
def intervals(
    summary: pd.DataFrame, lower_is_better: frozenset[str] = LOWER_IS_BETTER, unit: str | None = None
) -> Figure:
    """Draw the same as points with intervals, on axes that need not begin at 0.

    Use it where differences are small against the values themselves.

    :param summary: what :func:`~sb3_greendc.evaluation.statistics.summarize` returns
    :param lower_is_better: metrics of which less is better
    :param unit: of all metrics, in place of their own
    """
    return by_policy(summary, _draw_points, lambda metric: heading(metric, lower_is_better, unit))


def by_policy(summary: pd.DataFrame, draw: Draw, title: Callable[[str], str]) -> Figure:
    """Draw a panel for each environment and metric, with a row for each policy, the first on top.

    An environment has the panels of its own metrics, and in them the policies that were judged in it.

    :param summary: columns ``env_id``, ``metric``, ``policy``, ``estimate``, ``low``, ``high``
    :param draw: draws the rows of one panel, given in the order of the policies
    :param title: names a metric
    :raises ValueError: if no estimate is a number
    """
    there = summary[summary["estimate"].notna()]
    if there.empty:
        raise ValueError(f"no value to draw of {', '.join(map(str, summary['metric'].unique()))}")
    names = [str(policy) for policy in summary["policy"].unique()]
    parts = []
    for env_id, of_env in there.groupby("env_id", sort=False):
        present = set(of_env["policy"])
        parts.append((env_id, of_env["metric"].unique(), [name for name in names if name in present]))
    columns = min(_COLUMNS, max(len(metrics) for _, metrics, _ in parts))
    rows = [math.ceil(len(metrics) / columns) for _, metrics, _ in parts]
    heights = [
        0.3 + (0.65 + 0.19 * len(policies)) * n for (_, _, policies), n in zip(parts, rows, strict=True)
    ]
    figure = Figure(figsize=(TEXT_WIDTH, sum(heights)), dpi=200, layout="constrained")
    subfigures = figure.subfigures(len(parts), squeeze=False, height_ratios=heights)[:, 0]
    for part, n, (env_id, metrics, policies) in zip(subfigures, rows, parts, strict=True):
        part.suptitle(plain(env_id), fontsize=9)
        panels = list(part.subplots(n, columns, squeeze=False, sharey=True).flat)
        for unused in panels[len(metrics) :]:
            unused.set_axis_off()
        for panel, metric in zip(panels, metrics, strict=False):
            chosen = summary[(summary["env_id"] == env_id) & (summary["metric"] == metric)]
            readable_ticks(panel)
            draw(panel, chosen.set_index("policy").reindex(policies), policies)
            panel.set_ylim(len(policies) - 0.4, -0.6)  # the first policy on top
            panel.set_title(title(str(metric)))
            panel.grid(axis="x")
            panel.set_axisbelow(True)
    return figure


def panels_of(height: float, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    """Return a figure as wide as a page's text, and its panels ``(rows, columns)``.

    :param height: in inches
    :param options: of ``Figure.subplots``
    """
    figure = Figure(figsize=(TEXT_WIDTH, height), dpi=200, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def colors_of(names: Sequence[str]) -> dict[str, str]:
    """Return a color for each name; they repeat after :data:`PALETTE`."""
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def dashes_of(names: Sequence[str]) -> dict[str, Dash]:
    """Return a line style for each name, a different one for each pass through the colors."""
    return {name: DASHES[i // len(PALETTE) % len(DASHES)] for i, name in enumerate(names)}


def short_names(policies: Sequence[str]) -> dict[str, str]:
    """Return names that fit beside a panel; tables have the full ones.

    A saved model is called by its last folder, a baseline by the options that only it has of its kind;
    other long names lose their middle. Names that would no longer differ stay as they are.

    :param policies: names as they were given to ``evaluate``
    """
    short = {policy: _short(policy, policies) for policy in policies}
    taken = list(short.values())
    return {policy: name if taken.count(name) == 1 else policy for policy, name in short.items()}


def _short(policy: str, policies: Sequence[str]) -> str:
    if len(policy) <= _NAME:
        return policy
    baseline, separator, given = policy.partition(":")
    if separator and "/" not in baseline and "=" in given:
        options = given.split(",")
        rivals = [
            other.partition(":")[2].split(",")
            for other in policies
            if other != policy and other.startswith(baseline)
        ]
        own = [option for option in options if not rivals or any(option not in rival for rival in rivals)]
        policy = f"{baseline}: {', '.join(own)}" if rivals and own else baseline
        if len(policy) + 2 <= _NAME and (len(own) < len(options) or not rivals):
            policy += " …"
    elif "/" in policy:
        parts = [part for part in policy.split("/") if part]
        named = [part for part in parts if not part.endswith(".zip") and not set("*?[") & set(part)]
        policy = (named or parts)[-1]
    return policy if len(policy) <= _NAME else f"{policy[: _NAME - 10]}…{policy[-9:]}"


def ticks_of(policies: Sequence[str]) -> list[str]:
    """Return what stands beside the rows of policies."""
    names = short_names(policies)
    return [plain(names[policy]) for policy in policies]


def legend_columns(labels: Sequence[str]) -> int:
    """Return in how many columns a legend as wide as a page's text holds these labels, at most 4."""
    widest = _LEGEND_LINE + _LEGEND_LETTER * max(map(len, labels))
    return min(4, max(1, int(TEXT_WIDTH / widest)))


def readable_ticks(panel: Axes) -> None:
    """Give the horizontal axis few ticks, written out: ``12,000`` rather than ``1.2`` times ``1e4``."""
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def plain(text: object) -> str:
    """Return a text that Matplotlib shows as it is: dollar signs do not begin a formula."""
    return str(text).replace("$", r"\$")


def arrow(metric: str, lower_is_better: frozenset[str] = LOWER_IS_BETTER) -> str:
    """Return a sign that says which way a metric gets better."""
    return " ↓" if metric in lower_is_better else " ↑"


def heading(metric: str, lower_is_better: frozenset[str] = LOWER_IS_BETTER, unit: str | None = None) -> str:
    """Return a metric's name, unit and better side; the unit in a line of its own where both are long."""
    text = plain(label(metric, unit)) + arrow(metric, lower_is_better)
    return text if len(text) <= _LINE else text.replace(" (", "\n(")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, as PNG, PDF or SVG by the file's ending.

    :raises ValueError: for another ending
    """
    kind = path.suffix[1:]
    if kind not in FORMATS:
        raise ValueError(f"{path}: must end in {', '.join('.' + known for known in FORMATS)}")
    with atomic_write(path) as file, in_style():
        figure.savefig(file, format=kind, metadata=_METADATA[kind])


def _draw_bars(panel: Axes, rows: pd.DataFrame, policies: Sequence[str]) -> None:
    estimates = rows["estimate"].to_numpy()
    spread = np.abs(rows[["low", "high"]].to_numpy().T - estimates)
    places = np.arange(len(policies))
    panel.barh(places, estimates, xerr=spread, color="#4c9f70", capsize=2, error_kw={"elinewidth": 1})
    panel.set_yticks(places, ticks_of(policies))
    panel.axvline(0.0, color="#333333", linewidth=0.6)


def _draw_points(panel: Axes, rows: pd.DataFrame, policies: Sequence[str]) -> None:
    places = np.arange(len(policies))
    panel.hlines(places, rows["low"], rows["high"], color="#9bb8cc", linewidth=3.5)
    panel.plot(rows["estimate"], places, "o", color="#0072B2", markersize=3.5)
    panel.set_yticks(places, ticks_of(policies))
