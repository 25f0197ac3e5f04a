"""Numbers, intervals and tables as Markdown."""

from __future__ import annotations

import pandas as pd


def interval(row: pd.Series, mean: str = "margin_percent", low: str = "low", high: str = "high") -> str:
    """Return ``+1.0 [+0.5, +1.5]``, nothing where there is no estimate.

    :param row: of a table
    :param mean: the estimate's column
    :param low: the column of the interval's lower end
    :param high: that of its upper end
    """
    if pd.isna(row[mean]):
        return ""
    ends = f" [{row[low]:+.1f}, {row[high]:+.1f}]" if pd.notna(row[low]) and pd.notna(row[high]) else ""
    return f"{row[mean]:+.1f}{ends}"


def number(value: object) -> str:
    """Return a number in three digits, nothing for none."""
    return "" if value is None or value != value else f"{value:.3g}"


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    heads = [str(column) for column in table.columns]
    rows = [[str(value) for value in row] for row in table.itertuples(index=False)]
    lines = [heads, ["-"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
