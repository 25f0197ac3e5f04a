"""Bars for each of RARE's heuristics: what is printed beside ours."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from sb3_greendc.experiments.figures import color_of
from sb3_greendc.experiments.rare.agreement import HEURISTICS


def printed_bars(heights: Mapping[str, float]) -> pd.DataFrame:
    """Return what the paper prints, without intervals."""
    values = list(heights.values())
    return pd.DataFrame({"series": list(heights), "margin_percent": values, "low": values, "high": values})


def bars(panel: Axes, groups: Mapping[str, pd.DataFrame]) -> None:
    """Draw a bar of each group for each heuristic, its height written beside it.

    :param panel: where
    :param groups: rows with ``series`` (the heuristic), ``margin_percent``, ``low`` and ``high``, by name
    """
    width = 0.8 / len(groups)
    for place, (name, rows) in enumerate(groups.items()):
        of = rows.set_index("series").reindex(HEURISTICS)
        height = of["margin_percent"]
        spread = abs(of[["low", "high"]].to_numpy().T - height.to_numpy())
        at = [k + (place - (len(groups) - 1) / 2) * width for k in range(len(HEURISTICS))]
        drawn = panel.bar(
            at, height, width, yerr=spread, color=color_of(name, []), label=name, error_kw={"lw": 0.8}
        )
        panel.bar_label(drawn, fmt="%.0f", fontsize="small", padding=2)
    panel.set_xticks(range(len(HEURISTICS)), list(HEURISTICS))
    panel.set_ylabel("per cent")
    panel.axhline(0, color="#555555", lw=0.8)
    panel.margins(y=0.12)
    panel.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
