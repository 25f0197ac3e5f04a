"""CRR and cloning on data of known quality, and distillation of planners."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
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
from sb3_greendc.experiments.known.players import RANDOM
from sb3_greendc.experiments.known.problems import (
    CARTPOLE,
    HALF_CHEETAH,
    JOB_SHOP,
    JOB_SHOP_LARGE,
    PENDULUM,
    Problem,
)
from sb3_greendc.experiments.known.tasks import BATCH, Distilled, OnData, Played, tested_in
from sb3_greendc.experiments.tasks import Item, Task

_OF_RULES = ("most work left", "earliest start", RANDOM)

DATA: dict[str, dict[str, tuple[str, ...]]] = {
    CARTPOLE.name: {
        "random": (RANDOM,),
        "medium": ("weak controller",),
        "expert": ("good controller",),
        "mixed": (RANDOM, "weak controller", "good controller"),
    },
    **{
        problem.name: {
            "rules'": _OF_RULES,
            "rollouts'": (ROLLOUTS,),
            "OR-Tools'": (OR_TOOLS,),
            "mixed": (*_OF_RULES, OR_TOOLS),
        }
        for problem in (JOB_SHOP, JOB_SHOP_LARGE)
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

DISTILLATION = {"loss": "divergence", "logit_scale": 10.0}
"""Options of distillation, found on generated job shops of ten jobs: there are many actions, of which few are
good, and plans that differ by one unit of time in a hundred are not level."""


PASSES = 30
"""Of distillation over the data; with three times as many it learns them by heart."""


def items(budget: Budget) -> list[Item]:
    """Return the learners on every kind of data, in the quick budget of some problems alone."""
    return [
        item
        for problem in asked_for(budget, QUICK, DATA)
        for data, sources in DATA[problem.name].items()
        for item in labelled(tasks(problem, data, sources, budget), series=f"{problem.name}, {data} data")
    ]


def tasks(problem: Problem, data: str, sources: tuple[str, ...], budget: Budget) -> list[Task]:
    """Return the learners on one kind of data, and what does not learn: chance, rules, planners."""
    transitions, steps = budget.pick((12_000, 4_000), (60_000, 30_000))
    tested = tested_in(problem)
    planners = [name for name in sources if name in PLANNERS]
    learners: list[OnData] = [
        OnData(name, problem, data, sources, transitions, steps, 0, EPISODES, options)
        for name, options in (("CRR", {}), ("cloning", {"weight_mode": "bc"}))
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
    shops = table["series"].str.partition(",")[0]
    table = pd.concat([table, references(shops.unique())], ignore_index=True)
    return Analysis({"results": table}, {}, left_out(budget, QUICK, DATA))


EXPERIMENT = Experiment(
    "learners-offline", "CRR, cloning and distillation on data of known quality", items, analyze, True
)
