"""Figures of evaluation results."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sb3_greendc.common.files import atomic_write

_COLUMNS = 3


def bars(summary: pd.DataFrame) -> Figure:
    """Draw a summary: a panel for each environment and metric, in it a bar with its interval per policy.

    :param summary: what :func:`~sb3_greendc.common.statistics.summarize` returns
    """
    env_ids, metrics = summary["env_id"].unique(), summary["metric"].unique()
    policies = summary["policy"].unique()
    columns = min(_COLUMNS, len(metrics))
    rows_per_env = math.ceil(len(metrics) / columns)
    height = (0.9 + 0.28 * len(policies)) * rows_per_env * len(env_ids)
    figure = Figure(figsize=(1.5 + 2.8 * columns, height), dpi=150, layout="constrained")
    panels = figure.subplots(rows_per_env * len(env_ids), columns, squeeze=False, sharey=True)
    panels[0, 0].invert_yaxis()  # the first policy on top, in every panel
    for of_env, env_id in zip(np.split(panels, len(env_ids)), env_ids, strict=True):
        axes = list(of_env.flat)
        for unused in axes[len(metrics) :]:
            unused.set_axis_off()
        for panel, metric in zip(axes, metrics, strict=False):
            rows = summary[(summary["env_id"] == env_id) & (summary["metric"] == metric)]
            _draw(panel, rows.set_index("policy").reindex(policies))
            panel.set_title(f"{env_id}: {metric}", fontsize="small")
    return figure


def _draw(panel: Axes, rows: pd.DataFrame) -> None:
    estimates = rows["estimate"].to_numpy()
    spread = np.abs(rows[["low", "high"]].to_numpy().T - estimates)
    panel.barh([str(policy) for policy in rows.index], estimates, xerr=spread, color="#4c9f70", capsize=2)
    panel.axvline(0.0, color="#333333", linewidth=0.8)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.grid(axis="x", linewidth=0.4, alpha=0.5)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize="small")
    panel.spines[["top", "right"]].set_visible(False)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, atomically."""
    with atomic_write(path) as file:
        figure.savefig(file, format="png")
