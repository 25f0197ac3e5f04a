"""Summaries as tables in the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

_POLICY_WIDTH = 24
_GAP = 3  # characters between columns
_EDGE = 2  # at each side
_MOST_DECIMALS = 6


def summary_tables(summary: pd.DataFrame, title: str, width: int) -> list[Table]:
    """Lay out a summary of one environment: a row per policy, a column per metric.

    A cell is the estimate and, below it, its interval. A summary made with a reference is followed by the
    paired differences to it in tables of the same form.

    :param summary: what :func:`~sb3_greendc.evaluation.statistics.summarize` returns
    :param title: the first table's title
    :param width: characters in a line of the terminal; metrics that do not fit go into further tables
    """
    tables = _tables(summary, ("estimate", "low", "high"), title, width)
    if "difference" in summary and len(summary):
        reference = summary["reference"].iloc[0]
        others = summary[summary["policy"] != reference]
        columns = ("difference", "difference_low", "difference_high")
        tables += _tables(others, columns, f"Δ: less {reference} on the same episode, mean", width)
    return tables


def _tables(summary: pd.DataFrame, columns: Sequence[str], title: str, width: int) -> list[Table]:
    """Lay out estimates with their intervals, whose names are given."""
    policies = [str(policy) for policy in summary["policy"].unique()]
    if not policies:
        return []
    cells = {
        (row["policy"], row["metric"]): (number(row[columns[0]]), interval(row[columns[1]], row[columns[2]]))
        for row in summary.to_dict("records")
    }
    lines: dict[str, list[Sequence[str]]] = {}
    for metric in map(str, summary["metric"].unique()):
        of_metric = [cells[policy, metric] for policy in policies]
        widest = max(len(line) for cell in of_metric for line in cell)
        lines[metric] = [_fold(metric, widest), *of_metric]
    widths = {metric: max(len(line) for cell in column for line in cell) for metric, column in lines.items()}
    policy_width = min(_POLICY_WIDTH, max(len("policy"), *map(len, policies)))
    tables: list[Table] = []
    for shown in _pack(widths, width - policy_width - 2 * _EDGE):
        heading = None if tables else Text(title)  # names may look like rich's markup
        table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("policy", min_width=policy_width, max_width=policy_width, overflow="fold")
        for metric in shown:
            table.add_column(Text("\n".join(lines[metric][0])), justify="right", no_wrap=True)
        for i, policy in enumerate(policies, 1):
            estimates = (lines[metric][i] for metric in shown)
            table.add_row(Text(policy), *(f"{estimate}\n[dim]{ends}[/dim]" for estimate, ends in estimates))
        tables.append(table)
    return tables


def number(value: float) -> str:
    """Write a number with four significant digits, thousands separated; NaN as a dash."""
    if math.isnan(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def interval(low: float, high: float) -> str:
    """Write an interval to two digits of its width: what lies beyond them says nothing."""
    width = high - low
    if not width > 0 or math.isinf(width):
        return f"{number(low)}…{number(high)}"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    if decimals > _MOST_DECIMALS:
        return f"{low:.2e}…{high:.2e}"
    low, high = (round(end, decimals) + 0.0 for end in (low, high))  # adding 0 makes -0 to 0
    return f"{low:,.{decimals}f}…{high:,.{decimals}f}"


def _fold(metric: str, width: int) -> list[str]:
    """Break a metric's name behind underscores, into lines of a width where that can be."""
    lines = [""]
    for part in re.findall(r"[^_]+_?|_", metric):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return lines


def _pack(widths: Mapping[str, int], room: int) -> Iterator[list[str]]:
    """Yield the metrics of each table: as many as there is room for, at least one."""
    shown: list[str] = []
    used = 0
    for metric, width in widths.items():
        if shown and used + width + _GAP > room:
            yield shown
            shown, used = [], 0
        shown.append(metric)
        used += width + _GAP
    yield shown
