from __future__ import annotations

import pandas as pd

from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.cocorl.loads import points
from sb3_greendc.experiments.comparison import BEST_MASKED
from sb3_greendc.experiments.controls import UNIFORM_MASKED
from sb3_greendc.experiments.distilled import NAME, SEARCHED
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.figures import color_of, curves, panels
from sb3_greendc.experiments.sc20.fig6 import learners
from sb3_greendc.experiments.sweep import BEST, ROLLOUTS


def test_no_two_policies_of_a_figure_share_a_color():
    for quick in (True, False):
        budget = Budget(quick=quick)
        own = [learner.name for point in points(budget)[-2:] for learner in (*point.printed, *point.learners)]
        drawn = {*own, *(learner.name for learner in learners(budget))}
        baselines = [BEST_OF_PAPER, BEST_MASKED, UNIFORM_MASKED, BEST, ROLLOUTS]
        names = [*baselines, *sorted(drawn), NAME, SEARCHED]
        assert len({color_of(name, names) for name in names}) == len(names) >= 8


def test_a_curve_has_its_color_in_every_panel():
    _, axes = panels(["all", "two of them"])
    rows = pd.DataFrame(
        [
            {
                "curve": curve,
                "train_seed": seed,
                "trained_decisions": at,
                "episode": k,
                "seed": k,
                "value": 1.0,
            }
            for curve in ("20%", "40%", "60%")
            for seed in (0, 1)
            for at in (0, 100)
            for k in range(3)
        ]
    )
    for panel, shown in zip(axes, (rows, rows[rows["curve"] != "40%"]), strict=True):
        curves(shown, "value", "trained_decisions", panel, by="curve", among=["20%", "40%", "60%"])
    colors = [{line.get_label(): line.get_color() for line in panel.get_lines()} for panel in axes]
    assert len(set(colors[0].values())) == 3
    assert colors[1] == {name: colors[0][name] for name in ("20%", "60%")}
