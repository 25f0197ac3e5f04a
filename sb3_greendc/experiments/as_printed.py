"""The papers' learners with their whole budgets, and what one change at a time does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.comparison import (
    VALUE,
    compare,
    final,
    papers_forms,
    summary,
)
from sb3_greendc.experiments.controls import UNIFORM_MASKED, UNIFORM_VALID
from sb3_greendc.experiments.episodes import PAPER
from sb3_greendc.experiments.experiment import ON_TIME, Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import curves, panels
from sb3_greendc.experiments.line_names import name_lines
from sb3_greendc.experiments.printed import COCORL_LIMITS, RARE, SC20, SMALL_DELAY, cocorl
from sb3_greendc.experiments.sc20.training import scenario as sc20_scenario
from sb3_greendc.experiments.sweep import METRICS
from sb3_greendc.experiments.tasks import ALL_WAITING, PRINTED, Item, Scenario
from sb3_greendc.experiments.training import Learner, Training

SHOWN = "total_job_value_ratio"
MASK, REWARD, TIME, NETWORK = "our mask", "shaped reward", "discount by time", "network that scores jobs"
ARMS = (PRINTED, MASK, REWARD, TIME, NETWORK)
STAY = "late jobs stay"
SHARE_OF_CHANGED, SHARE_OF_QUICK = 10, 80
"""One change has a tenth of the learner's budget, and in the quick budget all have an eightieth."""
JUDGED_AT = tuple(digit * 10**power for power in (3, 4, 5, 6) for digit in (1, 2, 5))

_SET: Mapping[str, Any] = {
    "features_extractor_kwargs": {"job_dim": 64, "context_dim": 64},
    "net_arch": [64, 64],
}
_BY_TIME = {"callback": "DiscountByTime"}


@dataclass(frozen=True)
class Case:
    """A paper's learner at one of its points.

    :param name: what the figure calls it
    :param x: the point, as the paper's own figure has it
    :param scenario: the scenario
    :param learner: as printed
    :param papers: the paper's heuristics
    :param hyperparameters: what an arm changes in the learner's
    :param choice: what an arm changes in what it sees, chooses from and is paid for
    :param algorithms: arms that need another algorithm
    :param whole: whether the learner as printed has its whole budget, and is changed, one thing at a time;
        otherwise it stands alone, with a tenth
    :param quick: whether the quick budget has it by itself; otherwise it does with ``--problems`` alone
    """

    name: str
    x: float
    scenario: Scenario
    learner: Learner
    papers: tuple[str, ...]
    hyperparameters: Mapping[str, Mapping[str, Any]]
    choice: Mapping[str, Mapping[str, Any]]
    algorithms: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    quick: bool = True

    @property
    def learners(self) -> tuple[Learner, ...]:
        """The learner as printed, and once with each change."""
        printed, decisions = self.learner, self.learner.decisions
        quick = decisions // SHARE_OF_QUICK
        if not self.whole:
            return (replace(printed, decisions=decisions // SHARE_OF_CHANGED, quick_decisions=quick),)
        changed = [
            replace(
                printed,
                name=f"{printed.name.removesuffix(PRINTED)}with {arm}",
                algorithm=self.algorithms.get(arm, printed.algorithm),
                hyperparameters={**printed.hyperparameters, **self.hyperparameters.get(arm, {})},
                choice={**printed.choice, **self.choice.get(arm, {})},
                decisions=decisions // SHARE_OF_CHANGED,
                quick_decisions=quick,
            )
            for arm in ARMS[1:]
        ]
        return (replace(printed, quick_decisions=quick), *changed)

    @property
    def with_late_jobs(self) -> Case:
        """The case where jobs that can no longer be on time keep their place in the queue.

        That is the papers' text, which has no rule for them; the other cases send them behind all others.
        """
        at = self.scenario.with_kwargs(late_jobs="stay")
        return replace(self, name=f"{self.name}, {STAY}", scenario=at, whole=False)


_DEMOTED = (
    Case(
        "RARE, 10 units",
        10,
        Scenario("ResourcePool-10"),
        RARE,
        PAPER,
        {TIME: _BY_TIME, NETWORK: {"policy_kwargs": {"features_extractor": "job_set", **_SET}}},
        {MASK: ON_TIME, REWARD: {"reward": "potential"}},
    ),
    Case(
        "SC20, 60 % arrivals",
        0.6,
        sc20_scenario(0.6),
        SC20,
        ("fcfs", "hvf"),
        {TIME: _BY_TIME, NETWORK: {"policy": "JobSetPolicy", "policy_kwargs": dict(_SET)}},
        {MASK: ON_TIME, REWARD: {"reward": {**SMALL_DELAY, "potential": 1.0}}},
    ),
    Case(
        "CoCoRL, load 100 %",
        1.0,
        Scenario("ResourcePool-10", {"offered_load": 1.0}),
        cocorl(COCORL_LIMITS[0]),
        (*PAPER, "edf"),
        {
            TIME: _BY_TIME,
            NETWORK: {
                "policy": "CostJobSetPolicy",
                "policy_kwargs": {"features_extractor": "job_set", "share_cost_features_extractor": False},
            },
        },
        {MASK: ON_TIME, REWARD: {"reward": "potential"}},
        {NETWORK: "pid_ppo"},
    ),
)
CASES = tuple(rule for case in _DEMOTED for rule in (case, case.with_late_jobs))
"""Each paper's problem as everywhere in the results, and beside it with late jobs as in the paper's text."""

_NOTES = (
    "Of the numbers of decisions SC20's alone is printed (2.5 million). RARE and CoCoRL print none: 200,000 "
    "and 400,000 are ours.",
    "CoCoRL's learner has no LSTM with the network that scores jobs.",
    "Late jobs stay: jobs that can no longer be on time keep their places in the queue, which is the papers' "
    "text. The learners as printed have a tenth of their decisions there. In the other panels such jobs go "
    "behind all others.",
)


@dataclass(frozen=True)
class AsPrinted:
    """Learners as printed, and with one change at a time, on some of the papers' problems.

    :param cases: the problems
    :param notes: what tables say of them
    """

    cases: tuple[Case, ...]
    notes: tuple[str, ...]

    def items(self, budget: Budget) -> list[Item]:
        """Return at each point the baselines, chance, the bound, and all arms."""
        found: list[Item] = []
        for case in self._wanted(budget):
            about = {"series": case.name, "x": case.x}
            found += labelled(budget.baselines(case.scenario), **about)
            for arm, learner in zip(ARMS, case.learners, strict=case.whole):
                found += labelled(_trainings(budget, case, learner), **about, curve=arm)
        return found

    def analyze(self, results: Results, budget: Budget) -> Analysis:
        """Return the margins at the end of training, all means there, the curves as numbers, their figure."""
        rows = results.table()
        cases = self._wanted(budget)
        parts = [
            compare(
                rows[rows["series"] == case.name],
                [learner.name for learner in case.learners],
                VALUE,
                case.papers,
            )
            for case in cases
        ]
        trained = rows[rows["train_seed"].notna()]
        tables = {
            "comparison": pd.concat(parts, ignore_index=True),
            "results": summary(final(rows), METRICS),
            "curves": _along(trained),
        }
        figure = _figure(rows, cases, budget.pick({}, dict.fromkeys(ARMS[1:], "a tenth of the decisions")))
        return Analysis(tables, {"figure": figure}, [*budget_notes(trained, cases), *self.notes])

    def experiment(self, name: str, title: str) -> Experiment:
        """Return the experiment."""
        return Experiment(name, title, self.items, self.analyze, by_problem=True)

    def _wanted(self, budget: Budget) -> list[Case]:
        of_budget = [case for case in self.cases if case.quick or budget.problems or not budget.quick]
        return [case for case in of_budget if budget.wants(case.name)]


def _trainings(budget: Budget, case: Case, learner: Learner) -> list[Training]:
    """Return a learner's runs, judged at the decisions that a figure to a logarithmic scale has."""
    found = budget.trainings(case.scenario, learner, full_seeds=3)
    judged_at = tuple(decisions for decisions in JUDGED_AT if decisions < found[0].decisions)
    return [replace(run, judged_at=judged_at, episodes_along=budget.pick(8, 32)) for run in found]


def _along(trained: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the value at each judgement, averaged over seeds and episodes."""
    by = ["series", "curve", "trained_decisions"]
    return trained.groupby(by, sort=False)[SHOWN].mean().reset_index()


def budget_notes(trained: pd.DataFrame, cases: Sequence[Case]) -> list[str]:
    """Say what each paper's learner had, of what is printed."""
    found = []
    for case in cases:
        had = trained[(trained["series"] == case.name) & (trained["policy"] == case.learner.name)]
        most, seeds = had["trained_decisions"].max(), had["train_seed"].nunique()
        seconds = had.groupby("train_seed")["trained_seconds"].max().mean()
        where = ", ".join(had["trained_on"].dropna().unique()) if "trained_on" in had else ""
        found.append(
            f"{case.name}: {case.learner.name} had {most:,.0f} of {case.learner.decisions:,} decisions, "
            f"{seeds} training seed(s), {seconds / 60:.0f} minutes each{where and f' on {where}'}."
        )
    return found


def _figure(rows: pd.DataFrame, cases: Sequence[Case], budgets: Mapping[str, str]) -> Figure:
    """Draw the share of the value over decisions, beside chance and the papers' best heuristic.

    The heuristic chooses among all waiting jobs (dotted), or is in its better form (dashed); the tables have
    the other forms and the other controls.
    """
    figure, axes = panels([case.name for case in cases])
    for panel, case in zip(axes, cases, strict=True):
        here = rows[rows["series"] == case.name]
        still = here[here["train_seed"].isna()]
        in_forms = dict(papers_forms(still, case.papers, VALUE))
        forms = {
            **{name: in_forms[name] for name in (BEST_OF_PAPER, BEST_OF_PAPER + ALL_WAITING)},
            UNIFORM_VALID: UNIFORM_VALID,
            UNIFORM_MASKED: UNIFORM_MASKED,
        }
        means = still.groupby("policy")[SHOWN].mean()
        levels = {
            name: float(means[form]) for name, form in forms.items() if form is not None and form in means
        }
        trained = here[here["train_seed"].notna()]
        curves(trained, SHOWN, "trained_decisions", panel, levels, "curve", among=ARMS)
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda decisions, _: f"{decisions:,.0f}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_ylabel("share of the arrived value")
    name_lines(figure, budgets)
    return figure


EXPERIMENT = AsPrinted(CASES, _NOTES).experiment(
    "as-printed", "the papers' learners with their whole budgets, and with one change at a time"
)
