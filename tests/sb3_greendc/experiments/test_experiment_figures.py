from __future__ import annotations

from sb3_greendc.experiments.distilled import NAME, SEARCHED
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.figures import color_of
from sb3_greendc.experiments.sc20.fig6 import learners
from sb3_greendc.experiments.sweep import BEST, ROLLOUTS


def test_no_two_policies_of_a_figure_share_a_color():
    for quick in (True, False):
        drawn = [learner.name for learner in learners(Budget(quick=quick))]
        names = ["fcfs", "hvf", BEST, ROLLOUTS, *drawn, NAME, SEARCHED]
        assert len({color_of(name, names) for name in names}) == len(names) >= 8
