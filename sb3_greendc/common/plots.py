"""Figures of evaluation results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.common.files import atomic_write


def bars(summary: pd.DataFrame) -> Figure:
    """Draw a summary: panels by environment (rows) and metric, a bar with its interval for each policy.

    :param summary: what :func:`~sb3_greendc.common.statistics.summarize` returns
    """
    env_ids, metrics = summary["env_id"].unique(), summary["metric"].unique()
    policies = [str(policy) for policy in summary["policy"].unique()]
    size = (1.5 + 2.6 * len(metrics), (0.8 + 0.32 * len(policies)) * len(env_ids) + 0.4)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    panels = figure.subplots(len(env_ids), len(metrics), squeeze=False, sharey=True)
    for env_id, of_env in zip(env_ids, panels, strict=True):
        for metric, axes in zip(metrics, of_env, strict=True):
            rows = summary[(summary["env_id"] == env_id) & (summary["metric"] == metric)]
            rows = rows.set_index("policy").reindex(policies)
            estimates = rows["estimate"].to_numpy()
            spread = np.abs(rows[["low", "high"]].to_numpy().T - estimates)
            axes.barh(policies, estimates, xerr=spread, color="#4c9f70", ecolor="#333333", capsize=2)
            axes.set_title(f"{env_id}: {metric}", fontsize="small")
            axes.tick_params(labelsize="small")
        of_env[0].invert_yaxis()
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, atomically."""
    with atomic_write(path) as file:
        figure.savefig(file, format="png")
