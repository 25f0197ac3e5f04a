"""CRR and cloning on data of known quality, and distillation of planners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import color_of, panels
from sb3_greendc.experiments.known.common import (
    EPISODES,
    asked_for,
    at_the_end,
    left_out,
    references,
    without_learning,
)
from sb3_greendc.experiments.known.planned import Planned
from sb3_greendc.experiments.known.plans import OR_TOOLS, PLANNERS, ROLLOUTS
from sb3_greendc.experiments.known.players import LANDERS, RANDOM, RULES
from sb3_greendc.experiments.known.problems import (
    CARTPOLE,
    HALF_CHEETAH,
    JOB_SHOP,
    JOB_SHOPS,
    LUNAR_LANDER,
    PENDULUM,
    Problem,
)
from sb3_greendc.experiments.known.tasks import BATCH, BY_CRITICS, Distilled, OnData, Played, tested_in
from sb3_greendc.experiments.tasks import Item, Task

_OF_RULES = ("most work left", "earliest start", RANDOM)
_GOOD_LANDER, _WEAK_LANDER = LANDERS

DATA: dict[str, dict[str, tuple[str, ...]]] = {
    CARTPOLE.name: {
        "random": (RANDOM,),
        "medium": ("weak controller",),
        "expert": ("good controller",),
        "mixed": (RANDOM, "weak controller", "good controller"),
    },
    LUNAR_LANDER.name: {
        "random": (RANDOM,),
        "medium": (_WEAK_LANDER,),
        "expert": (_GOOD_LANDER,),
        "mixed": (RANDOM, _WEAK_LANDER, _GOOD_LANDER),
    },
    **{
        problem.name: {
            "rules'": _OF_RULES,
            "rollouts'": (ROLLOUTS,),
            "OR-Tools'": (OR_TOOLS,),
            "mixed": (*_OF_RULES, OR_TOOLS),
        }
        for problem in JOB_SHOPS
    },
    **{
        problem.name: {
            "random": (RANDOM,),
            "medium": ("SAC, early",),
            "expert": ("SAC, late",),
            "mixed": (RANDOM, "SAC, early", "SAC, late"),
        }
        for problem in (PENDULUM, HALF_CHEETAH)
    },
}
"""What is recorded, by problem and name of the data; each player an equal share."""

QUICK = (CARTPOLE.name, JOB_SHOP.name, PENDULUM.name)
"""Problems of the quick budget."""

CLONING = {"weight_mode": "bc", "cql_alpha": 0.0}
"""Options of CRR that make it cloning, with any block of the file."""

DISTILLATION = {"loss": "divergence", "logit_scale": 10.0}
"""Options of distillation, found on generated job shops of ten jobs: there are many actions, of which few are
good, and plans that differ by one unit of time in a hundred are not level."""


PASSES = 30
"""Of distillation over the data; with three times as many it learns them by heart."""


def items(budget: Budget) -> list[Item]:
    """Return the learners on every kind of data, in the quick budget of some problems alone."""
    return [
        item
        for problem in asked_for(budget, QUICK, DATA, missing)
        for data, sources in DATA[problem.name].items()
        for item in labelled(tasks(problem, data, sources, budget), series=f"{problem.name}, {data} data")
    ]


def missing(problem: Problem) -> str | None:
    """Return what is missing to record data of a problem, ``None`` if nothing is."""
    reason = problem.missing()
    if reason is None and problem.env_id == "LunarLander-v2":
        return f"{problem.name}: states of LunarLander-v2 lie outside its observation space: gymnasium>=1"
    return reason


def tasks(problem: Problem, data: str, sources: tuple[str, ...], budget: Budget) -> list[Task]:
    """Return the learners on one kind of data, and what does not learn: chance, rules, planners."""
    transitions, steps = budget.pick((12_000, 4_000), (60_000, 30_000))
    tested = tested_in(problem)
    planners = [name for name in sources if name in PLANNERS]
    learners: list[OnData] = [
        OnData(name, problem, data, sources, transitions, steps, 0, EPISODES, options)
        for name, options in (("CRR", {}), ("cloning", CLONING))
    ]
    if planners == [*sources]:
        updates = PASSES * transitions // BATCH
        learners.append(
            Distilled("distillation", problem, data, sources, transitions, updates, 0, EPISODES, DISTILLATION)
        )
    return [
        *(Played(problem.name, tested, name, EPISODES) for name in without_learning(problem)),
        *(Planned(tested, name, EPISODES, TEST_SEED) for name in planners),
        *(replace(one, seed=seed) for one in learners for seed in budget.seeds_of(one.name, 1, 5)),
    ]


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the means of the learners beside those of the data, and what is published."""
    quality = results.table("data").groupby("series", sort=False)["data_return"].mean()
    table = at_the_end(results.table())
    table.insert(3, "return of the data", table["series"].map(quality))
    of_problems = table["series"].str.partition(",")[0]
    written = pd.concat([table, references(of_problems.unique())], ignore_index=True)
    return Analysis({"results": written}, {"figure": draw(table)}, left_out(budget, QUICK, DATA, missing))


LEARNERS = ("CRR", *BY_CRITICS.values(), "cloning", "distillation")
LEVELS = ("return of the data", "chance", "the best rule")
"""What the figure shows, in the order of its legend."""


def draw(table: pd.DataFrame) -> Figure:
    """Draw the learners' returns by kind of data, a panel for each problem.

    A black bar is the return of the data, a dashed line what chance has, a dotted one what the best rule of a
    job shop has.

    :param table: of :func:`~sb3_greendc.experiments.known.common.at_the_end`, with ``return of the data``
    """
    named = table["series"].str.split(", ", n=1, expand=True)
    table = table.assign(problem=named[0], data=named[1].str.removesuffix(" data"))
    names = [str(name) for name in table["problem"].unique()]
    learners = [name for name in LEARNERS if name in set(table["policy"])]
    figure, axes = panels(names)
    drawn: dict[str, Any] = {}
    for panel, name in zip(axes, names, strict=True):
        _draw_problem(panel, table[table["problem"] == name], learners)
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            drawn[label] = handle
    shown = sorted(drawn, key=lambda label: (*learners, *LEVELS).index(label))
    handles = [drawn[label] for label in shown]
    figure.legend(handles, shown, loc="outside right upper", fontsize="small", frameon=False)
    return figure


def _draw_problem(panel: Axes, rows: pd.DataFrame, learners: Sequence[str]) -> None:
    kinds = [str(kind) for kind in rows["data"].unique()]
    places = np.arange(len(kinds))
    here = [learner for learner in learners if learner in set(rows["policy"])]
    for k, learner in enumerate(here):
        mine = rows[rows["policy"] == learner].set_index("data").reindex(kinds)
        middle, low, high = (mine[column].to_numpy(dtype=float) for column in ("return", "low", "high"))
        beside = places + 0.18 * (k - (len(here) - 1) / 2)
        color, spread = color_of(learner, learners), (middle - low, high - middle)
        panel.errorbar(beside, middle, spread, fmt="o", ms=4, lw=1.2, color=color, label=learner)
    quality = rows.groupby("data")["return of the data"].first().reindex(kinds)
    ends = (places - 0.36, places + 0.36)
    of_data, by_chance, by_rule = LEVELS
    panel.hlines(quality, *ends, color="black", lw=1.4, label=of_data)
    still = rows.groupby("policy")["return"].first()
    panel.axhline(still[RANDOM], color="0.5", lw=1.0, ls="--", label=by_chance)
    rules = still[still.index.isin(RULES)]
    if len(rules):
        panel.axhline(rules.max(), color="0.5", lw=1.2, ls=":", label=by_rule)
    panel.set_xticks(places, kinds)
    panel.set_xlim(-0.6, len(kinds) - 0.4)
    panel.set_xlabel("data")
    panel.set_ylabel("return")


EXPERIMENT = Experiment(
    "learners-offline", "CRR, cloning and distillation on data of known quality", items, analyze, True
)
