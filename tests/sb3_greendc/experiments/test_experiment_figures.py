from __future__ import annotations

from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.cocorl.loads import points
from sb3_greendc.experiments.comparison import BEST_MASKED
from sb3_greendc.experiments.controls import UNIFORM_MASKED
from sb3_greendc.experiments.distilled import NAME, SEARCHED
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.figures import color_of
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
