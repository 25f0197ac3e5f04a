"""Summaries as tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from rich.table import Table


def summary_table(summary: pd.DataFrame, title: str) -> Table:
    """Lay out a summary of one environment: a row per policy, a column per metric.

    A cell is the estimate and, below it, its interval; a summary made with a reference adds the paired
    difference to it.

    :param summary: what :func:`~sb3_greendc.common.statistics.summarize` returns
    :param title: the table's title
    """
    table = Table(title=title, title_justify="left", row_styles=["", "on grey7"])
    table.add_column("policy")
    metrics = summary["metric"].unique()
    for metric in metrics:
        table.add_column(str(metric), justify="right")
    cells = {(row["policy"], row["metric"]): _cell(row) for row in summary.to_dict("records")}
    for policy in summary["policy"].unique():
        table.add_row(str(policy), *(cells[policy, metric] for metric in metrics))
    return table


def number(value: float) -> str:
    """Write a number with four significant digits, thousands separated; NaN as a dash."""
    if math.isnan(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _cell(row: Mapping[Hashable, Any]) -> str:
    lines = [number(row["estimate"]), _dim(row["low"], row["high"])]
    if "difference" in row:
        lines += [f"Δ {number(row['difference'])}", _dim(row["difference_low"], row["difference_high"])]
    return "\n".join(lines)


def _dim(low: float, high: float) -> str:
    return f"[dim]{number(low)} … {number(high)}[/dim]"
