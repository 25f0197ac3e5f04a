"""Experiments of one pattern: learners and heuristics on a problem with a parameter that is varied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from sb3_greendc.experiments.claims import Claim
from sb3_greendc.experiments.comparison import VALUE, best_form, compare, final, summary
from sb3_greendc.experiments.episodes import HEURISTICS, PAPER
from sb3_greendc.experiments.experiment import (
    LONG_QUEUES,
    Analysis,
    Experiment,
    Form,
    Results,
    labelled,
    taught_choice,
)
from sb3_greendc.experiments.figures import grouped_bars, lines
from sb3_greendc.experiments.tasks import Item, Problem
from sb3_greendc.experiments.training import Learner

METRICS = (
    "total_job_value",
    "total_job_value_ratio",
    "completion_ratio",
    "on_time_ratio",
    "utilization",
    "mean_slowdown",
    "accrued_cost",
)
BEST, ROLLOUTS = "best heuristic", "rollouts"
_STYLES = {"bars": grouped_bars, "lines": lines}


@dataclass(frozen=True)
class Point:
    """A problem, and where it stands in the figure.

    :param series: the panel
    :param x: the value of the parameter
    :param problem: the problem
    :param learners: learners with settings for this point alone
    :param lessons: what the network that rollouts teach is taught on; default: the problem itself
    """

    series: str
    x: float
    problem: Problem
    learners: Sequence[Learner] = ()
    lessons: Sequence[Problem] = ()


@dataclass(frozen=True)
class Sweep:
    """A comparison over a parameter; :meth:`experiment` makes an experiment of it.

    :param points: gives the points in a form
    :param learners: gives the learners in a form
    :param xlabel: meaning of the parameter
    :param claims: the margins that the paper prints
    :param metric: what margins are about, the higher the better
    :param shown: metric of the figure
    :param ylabel: its meaning
    :param style: ``"bars"`` or ``"lines"``
    :param checkpoints: how often learners are judged in training
    :param test_steps: steps of a test episode, in place of the form's own number
    :param full_seeds: training seeds of the full form
    :param rollouts: whether rollouts compete, by themselves and on top of the taught network
    :param papers: heuristics that the paper has
    :param notes: for the results page
    """

    points: Callable[[Form], Sequence[Point]]
    learners: Callable[[Form], Sequence[Learner]]
    xlabel: str
    claims: Sequence[Claim] = ()
    metric: str = VALUE
    shown: str = "total_job_value_ratio"
    ylabel: str = "share of the arrived value"
    style: str = "bars"
    checkpoints: int = 1
    test_steps: int | None = None
    full_seeds: int = 10
    rollouts: bool = False
    papers: Sequence[str] = PAPER
    notes: Sequence[str] = ()

    def experiment(self, name: str, title: str) -> Experiment:
        """Return the experiment."""
        return Experiment(name, title, self.items, self.analyze)

    def items(self, form: Form) -> list[Item]:
        """Return tasks for heuristics and bound, and one for each training and each taught network."""
        items: list[Item] = []
        for point in self.points(form):
            labels = {"series": point.series, "x": point.x}
            steps = self.test_steps or form.test_steps
            items += labelled(form.baselines(point.problem, steps, self.rollouts), **labels)
            for learner in (*self.learners(form), *point.learners):
                runs = form.trainings(point.problem, learner, self.checkpoints, self.full_seeds, steps)
                items += labelled(runs, **labels)
            taught = form.taught(point.problem, point.lessons, steps, search=self.rollouts)
            items += labelled(taught, **labels)
        return items

    def analyze(self, results: Results, form: Form) -> Analysis:
        """Return the comparison, the table of all policies, and the figure."""
        rows = results.table()
        learners = list(rows["policy"][rows["baseline"].isna()].unique())
        comparison = compare(rows, learners, self.claims, self.metric, self.papers)
        shown = show_best_forms(rows, self.papers, learners, self.metric)
        table = summary(shown, METRICS)
        policies = [
            name for name in (*self.papers, BEST, ROLLOUTS, *learners) if name in set(table["policy"])
        ]
        draw = _STYLES[self.style]
        figure = draw(table, self.shown, policies, self.xlabel, self.ylabel)
        notes = [*self.notes, *wider_choices(self.points(form))]
        return Analysis({"comparison": comparison, "results": table}, {"figure": figure}, notes)


def wider_choices(points: Sequence[Point]) -> list[str]:
    """Return a note on the points whose taught network chooses among more jobs than the ready pool has."""
    wider = {point.series for point in points if set(LONG_QUEUES) <= set(taught_choice(point.problem))}
    seen = f"the first {LONG_QUEUES['ready_pool_size']} jobs"
    return [
        f"{series}: the taught network chooses among {seen}, heuristics among the first ten or "
        "the whole queue, in whichever they are better. Jobs and power are the same."
        for series in sorted(wider)
    ]


def show_best_forms(
    rows: pd.DataFrame, papers: Sequence[str], learners: Sequence[str], metric: str
) -> pd.DataFrame:
    """Return a figure's rows: the papers' heuristics in their better form, the best of all, the learners."""
    parts = []
    for _, at_point in rows.groupby(["series", "x"], sort=False):
        last = final(at_point)
        for name in papers:
            variant = best_form(last, [name], metric, dispatch="skip")
            parts.append(last[last["policy"] == variant].assign(policy=name, form=variant))
        for name, of in ((BEST, HEURISTICS), (ROLLOUTS, ("rollout",))):
            best = best_form(last, of, metric)
            parts.append(last[last["policy"] == best].assign(policy=name, form=best))
        parts += [last[last["policy"] == learner] for learner in learners]
    return pd.concat(parts, ignore_index=True)
