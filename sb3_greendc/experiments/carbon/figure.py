"""The figure of value against carbon: few series, and the names of learners beside their points."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sb3_greendc.experiments.carbon.comparison import CARBON, VALUE
from sb3_greendc.experiments.carbon.distillation import STUDENT
from sb3_greendc.experiments.carbon.learners import PID
from sb3_greendc.experiments.carbon.lineup import CHANCE, GREEDY, RANDOM_ORDER, is_plan, is_rule, shown_plans
from sb3_greendc.experiments.controls import UNIFORM_VALID
from sb3_greendc.experiments.figures import outer_legend, panels

KG = np.linspace(2_000.0, 16_000.0, 60)
"""Carbon at which the bound is drawn."""
NAMES_KG, NAMES_VALUE = 12_900.0, 0.5
"""Where the names of learners stand, one below another: there is nothing else."""
ORANGE, GREEN, VIOLET = "#a04a00", "#2a9d5c", "#7b3fa0"


def frontier_figure(
    means: pd.DataFrame,
    bounds: Mapping[str, NDArray[np.float64]],
    learners: Mapping[str, str],
    limits: Mapping[float, float],
) -> Figure:
    """Draw a panel for each test; none has more series than can be told apart.

    :param means: of policies in tests
    :param bounds: by test, the share of the value that no policy exceeds at each of :data:`KG`
    :param learners: what those are called beside their points that have not seen the plan, by how their
        policies' names begin
    :param limits: in kg, by share of what every unit on emits
    """
    figure, axes = panels(list(bounds))
    for panel, (test, most) in zip(axes, bounds.items(), strict=True):
        of_test = means[means["test"] == test]
        _draw_planned(panel, of_test)
        _draw_learned(panel, of_test, learners)
        panel.plot(KG, np.minimum(most, 1.0), color="#333333", lw=1.0, ls="--", label="no policy is above")
        for share, kg in limits.items():
            panel.axvline(kg, color="#999999", lw=0.7, ls=":", zorder=0)
            panel.text(kg, 1.01, f"{share:.0%}", fontsize=6, color="#777777", ha="right")
        panel.set_xlabel("kg CO2 an episode of 30 days; dotted: limits")
        panel.set_ylabel("share of the value")
        panel.set_ylim(-0.03, 1.05)
    outer_legend(figure, axes[-1])  # which has the other forecasts
    return figure


def _draw_planned(panel: Axes, means: pd.DataFrame) -> None:
    """Draw rules, plans, and chance."""
    rules = means[is_rule(means)]
    panel.plot(rules[CARBON], rules[VALUE], "o", ms=3.5, color="#9aa7b0", label="rules")
    greedy = rules[rules["baseline"] == GREEDY]
    for kg, value in greedy[[CARBON, VALUE]].to_numpy():
        panel.annotate("every unit on", (kg, value), (3, 5), textcoords="offset points", fontsize=6.5)
    shown = shown_plans(means).sort_values(CARBON)
    panel.plot(shown[CARBON], shown[VALUE], "-s", color=ORANGE, ms=5, label="plan, exact forecasts")
    others = means[is_plan(means) & ~means["policy"].isin(shown["policy"])]
    if len(others):
        panel.plot(
            others[CARBON], others[VALUE], "d", color=ORANGE, mfc="w", ms=5, label="plan, other forecasts"
        )
    chance = means[means["baseline"].isin([CHANCE, RANDOM_ORDER, UNIFORM_VALID])]
    panel.plot(chance[CARBON], chance[VALUE], "kx", ms=6, label="chance")


def _draw_learned(panel: Axes, means: pd.DataFrame, learners: Mapping[str, str]) -> None:
    """Draw the distilled plan, what starts from it, and what has never seen it, by name."""
    students = means[means["baseline"] == STUDENT].sort_values(CARBON)
    panel.plot(students[CARBON], students[VALUE], "-^", color=GREEN, ms=5, label=STUDENT)
    started = means[means["policy"].str.startswith(PID)]
    if len(started):
        panel.plot(started[CARBON], started[VALUE], "*", color=GREEN, ms=9, label=PID)
    alone = [(means[means["policy"].str.startswith(start)], name) for start, name in learners.items()]
    points = [(float(row[CARBON]), float(row[VALUE]), name) for at, name in alone for _, row in at.iterrows()]
    if points:
        kg, value, _ = zip(*points, strict=True)
        panel.plot(kg, value, "P", color=VIOLET, ms=6, label="learners without the plan")
    points.sort(key=lambda point: -point[1] - point[0] / 20_000.0)  # so that no two lines cross
    for k, (at, earned, name) in enumerate(points):
        panel.annotate(
            name,
            (at, earned),
            (NAMES_KG, NAMES_VALUE - 0.06 * k),
            fontsize=6.5,
            color=VIOLET,
            va="center",
            arrowprops={"arrowstyle": "-", "color": VIOLET, "lw": 0.4, "relpos": (0.0, 0.5)},
        )
