"""Summaries as tables in the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

_POLICY_WIDTH = 24
_WHOLE_WIDTH = 20  # of texts that are not wrapped, at most
_TEXT_WIDTH = 14  # of texts that are wrapped, at least
_WORD_WIDTH = 22  # of words that are not broken, at most
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
    if "difference" in summary and summary["reference"].notna().any():
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


def fitted_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, right: Collection[str] = ()
) -> tuple[Table, list[str]]:
    """Lay out cells as wide as there is room for, and return the table and the columns that had none.

    Long texts are wrapped; columns without any text are left out, and then those at the end that do not fit.

    :param title: of the table
    :param heads: of the columns, the most important first
    :param rows: their cells
    :param width: characters in a line of the terminal
    :param right: heads of the columns that are aligned to the right
    """
    cells = {head: column for head, column in zip(heads, zip(*rows, strict=True), strict=True) if any(column)}
    natural = {head: max(len(head), *map(len, column)) for head, column in cells.items()}
    least = {head: _least_width([head, *column]) for head, column in cells.items()}
    shown, used = list[str](), _EDGE
    for head in cells:
        if shown and used + least[head] + _GAP > width:
            break
        shown.append(head)
        used += least[head] + _GAP
    sizes = {head: least[head] for head in shown}
    for _ in range(width - used):  # what is left goes to the column that lacks most
        sizes[max(shown, key=lambda head: natural[head] - sizes[head])] += 1
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    for head in shown:
        size = min(sizes[head], natural[head])
        justify: Literal["left", "right"] = "right" if head in right else "left"
        table.add_column(Text(head), justify=justify, min_width=size, max_width=size, overflow="fold")
    for row in zip(*(cells[head] for head in shown), strict=True):
        table.add_row(*map(Text, row))
    return table, [head for head in cells if head not in shown]


def _least_width(texts: Sequence[str]) -> int:
    """Return how narrow a column may be: long words may be broken, short texts not at all."""
    whole = max(map(len, texts))
    longest = max(len(word) for text in texts for word in [*text.split(), ""])
    return whole if whole <= _WHOLE_WIDTH else max(_TEXT_WIDTH, min(longest, _WORD_WIDTH))


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
