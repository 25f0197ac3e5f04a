"""Experiments of one pattern: learners and heuristics on a scenario with a parameter that is varied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.comparison import (
    BEST_MASKED,
    BEST_OF_ALL,
    VALUE,
    best_form,
    compare,
    final,
    papers_forms,
    summary,
)
from sb3_greendc.experiments.controls import CONTROLS, UNIFORM_MASKED, masked
from sb3_greendc.experiments.episodes import HEURISTICS, PAPER
from sb3_greendc.experiments.experiment import (
    Analysis,
    Budget,
    Experiment,
    Results,
    labelled,
    student_choice,
)
from sb3_greendc.experiments.figures import MOST_SERIES, grouped_bars, lines
from sb3_greendc.experiments.rollouts import DEPTH
from sb3_greendc.experiments.tasks import PRINTED, Item, Scenario
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


@dataclass(frozen=True)
class Point:
    """A scenario, and where it stands in the figure.

    :param series: the panel
    :param x: the value of the parameter
    :param scenario: the scenario
    :param learners: learners with settings for this point alone
    :param depth: steps that the teacher looks ahead
    :param planned: whether planners compete here, where the sweep has them
    :param printed: the paper's learner as printed, where it is run at this point
    :param training_tasks: what the network is distilled on; default: the scenario itself
    """

    series: str
    x: float
    scenario: Scenario
    learners: Sequence[Learner] = ()
    training_tasks: Sequence[Scenario] = ()
    printed: Sequence[Learner] = ()
    depth: int = DEPTH
    planned: bool = True


@dataclass(frozen=True)
class Sweep:
    """A comparison over a parameter; :meth:`experiment` makes an experiment of it.

    :param points: gives the points in a budget
    :param learners: gives the learners in a budget
    :param xlabel: meaning of the parameter
    :param metric: what margins are about, the higher the better
    :param shown: metric of the figure
    :param ylabel: its meaning
    :param style: ``"bars"`` or ``"lines"``
    :param checkpoints: how often learners are judged in training
    :param test_steps: steps of a test episode, in place of the budget's own number
    :param full_seeds: training seeds of the full budget
    :param rollouts: whether rollouts compete, by themselves and on top of the distilled policy
    :param papers: heuristics that the paper has
    :param named: of these, the ones that the figure shows by name, in place of the best
    :param notes: for the results page
    :param in_one_unit: brings the rows of all policies to the same units
    """

    points: Callable[[Budget], Sequence[Point]]
    learners: Callable[[Budget], Sequence[Learner]]
    xlabel: str
    metric: str = VALUE
    shown: str = "total_job_value_ratio"
    ylabel: str = "share of the arrived value"
    style: str = "bars"
    checkpoints: int = 1
    test_steps: int | None = None
    full_seeds: int = 10
    rollouts: bool = False
    papers: Sequence[str] = PAPER
    named: Sequence[str] = ()
    notes: Sequence[str] = ()
    in_one_unit: Callable[[pd.DataFrame], pd.DataFrame] | None = None

    def experiment(self, name: str, title: str) -> Experiment:
        """Return the experiment."""
        return Experiment(name, title, self.items, self.analyze)

    def items(self, budget: Budget) -> list[Item]:
        """Return tasks for heuristics and bound, and one for each training and each distilled policy."""
        items: list[Item] = []
        for point in self.points(budget):
            labels = {"series": point.series, "x": point.x}
            steps = self.test_steps or budget.test_steps
            rollouts = self.rollouts and point.planned
            items += labelled(budget.baselines(point.scenario, steps, rollouts), **labels)
            for learner in (*point.printed, *self.learners(budget), *point.learners):
                runs = budget.trainings(point.scenario, learner, self.checkpoints, self.full_seeds, steps)
                items += labelled(runs, **labels)
            distilled = budget.distilled(point.scenario, point.training_tasks, steps, rollouts, point.depth)
            items += labelled(distilled, **labels)
        return items

    def analyze(self, results: Results, budget: Budget) -> Analysis:
        """Return the comparison, the table of all policies, and the figure."""
        rows = results.table()
        if self.in_one_unit is not None:
            rows = self.in_one_unit(rows)
        names = rows["policy"][rows["baseline"].isna()].unique()
        learners = sorted(names, key=lambda name: PRINTED not in name)  # the paper's own first
        comparison = compare(rows, learners, self.metric, self.papers)
        shown = show_best_forms(rows, self.papers, learners, self.metric)
        table = summary(shown, METRICS)
        policies = drawn(table, learners, self.named)
        what = (table, self.shown, policies, self.xlabel, self.ylabel, budgets(rows, learners))
        if self.style == "bars":
            figure = grouped_bars(*what)
        else:
            about_value = self.metric == VALUE and self.shown != "accrued_cost"
            # Rollouts are the best baseline where they are; a line's rival must be at all points.
            plans = rows.groupby(["series", "x"])["baseline"].agg(lambda names: "rollout" in set(names))
            rival = BEST_OF_ALL if plans.all() or not plans.any() else BEST
            against = comparison[(comparison["against"] == rival) & (comparison["kind"] == "learner")]
            figure = lines(*what, against if about_value else None)
        notes = [*self.notes, *wider_choices(self.points(budget))]
        return Analysis({"comparison": comparison, "results": table}, {"figure": figure}, notes)


def drawn(table: pd.DataFrame, learners: Sequence[str], named: Sequence[str] = ()) -> list[str]:
    """Return the policies of a figure, no more than can be told apart; the tables have all.

    :param named: heuristics that are shown in place of the best of the papers'
    """
    known = set(table["policy"])
    learners = sorted(learners, key=lambda name: PRINTED not in name)  # the last ones are left out first
    baselines = (*named, UNIFORM_MASKED) if named else (BEST_OF_PAPER, BEST_MASKED, UNIFORM_MASKED, BEST)
    wanted = (*baselines, ROLLOUTS, *learners)
    found = [name for name in wanted if name in known]
    for spare in ("MaskablePPO", BEST_MASKED, *found[::-1]):
        if len(found) > MOST_SERIES and spare in found:
            found.remove(spare)
    return found


def budgets(rows: pd.DataFrame, learners: Sequence[str]) -> dict[str, str]:
    """Return what a figure says of each learner: its decisions, its training seeds."""
    found = {}
    for name in learners:
        of_name = rows[rows["policy"] == name]
        seeds, most = of_name["train_seed"].nunique(), of_name["trained_decisions"].max()
        counted = f"{seeds} seed{'s' if seeds > 1 else ''}"
        found[name] = f"{most / 1000:,.0f} k decisions, {counted}"
    return found


def wider_choices(points: Sequence[Point]) -> list[str]:
    """Return a note on the points whose distilled policy chooses among other jobs than the ready pool has."""
    seen = {}
    for point in points:
        choice = student_choice(point.scenario)
        if "queue_order" in choice:
            many = choice.get("ready_pool_size")
            seen[point.series] = f"the {many} jobs" if many else "as many jobs as the ready pool has, those"
    return [
        f"{series}: the distilled policy chooses among {jobs} that must start soonest. Heuristics choose "
        "among the ready pool or the whole queue, whichever is better for them. Jobs and power are the same."
        for series, jobs in sorted(seen.items())
    ]


def show_best_forms(
    rows: pd.DataFrame, papers: Sequence[str], learners: Sequence[str], metric: str
) -> pd.DataFrame:
    """Return a figure's rows: the papers' heuristics in both forms, the best of all, the learners."""
    parts = []
    for _, at_point in rows.groupby(["series", "x"], sort=False):
        last = final(at_point)
        kinds = [
            *papers_forms(last, papers, metric),
            (BEST_MASKED, best_form(last, masked(tuple(papers)), metric)),
            (BEST, best_form(last, (*HEURISTICS, *masked(HEURISTICS)), metric)),
            (ROLLOUTS, best_form(last, ("rollout",), metric)),
        ]
        parts += [last[last["policy"] == best].assign(policy=name) for name, best in kinds]
        parts += [last[last["policy"] == one] for one in (*CONTROLS, *learners)]
    return pd.concat(parts, ignore_index=True)
