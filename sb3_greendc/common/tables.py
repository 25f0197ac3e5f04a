"""Summaries as tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from rich.table import Table

_POLICY_WIDTH = 24
_CELL_WIDTH = 19  # "-0.01478…-0.01269" and the rules beside it


def summary_tables(summary: pd.DataFrame, title: str, width: int) -> list[Table]:
    """Lay out a summary of one environment: a row per policy, a column per metric.

    A cell is the estimate and, below it, its interval; a summary made with a reference adds the paired
    difference (Δ) and its interval.

    :param summary: what :func:`~sb3_greendc.common.statistics.summarize` returns
    :param title: the first table's title
    :param width: characters in a line of the terminal; metrics that do not fit go into further tables
    """
    metrics = [str(metric) for metric in summary["metric"].unique()]
    per_table = max(1, (width - _POLICY_WIDTH) // _CELL_WIDTH)
    cells = {(row["policy"], row["metric"]): _cell(row) for row in summary.to_dict("records")}
    tables = []
    for first in range(0, len(metrics), per_table):
        shown = metrics[first : first + per_table]
        table = Table(title=title if first == 0 else None, title_justify="left", show_lines=True)
        table.add_column("policy", max_width=_POLICY_WIDTH, overflow="fold")
        for metric in shown:
            table.add_column(metric, justify="right", no_wrap=True)
        for policy in summary["policy"].unique():
            table.add_row(str(policy), *(cells[policy, metric] for metric in shown))
        tables.append(table)
    return tables


def number(value: float) -> str:
    """Write a number with four significant digits, thousands separated; NaN as a dash."""
    if math.isnan(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _cell(row: Mapping[Hashable, Any]) -> str:
    lines = [number(row["estimate"]), _interval(row["low"], row["high"])]
    if "difference" in row:
        lines.append(f"Δ {number(row['difference'])}")
        lines.append(_interval(row["difference_low"], row["difference_high"]))
    return "\n".join(lines)


def _interval(low: float, high: float) -> str:
    return f"[dim]{number(low)}…{number(high)}[/dim]"
