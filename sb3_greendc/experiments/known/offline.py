"""CRR and cloning on data of known quality."""

from __future__ import annotations

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.known.common import EPISODES, asked_for, at_the_end, left_out
from sb3_greendc.experiments.known.players import RANDOM
from sb3_greendc.experiments.known.problems import CARTPOLE, HALF_CHEETAH, JOB_SHOP, PENDULUM, Problem
from sb3_greendc.experiments.known.tasks import OnData, Played, tested_in
from sb3_greendc.experiments.tasks import Item, Task

DATA: dict[str, dict[str, tuple[str, ...]]] = {
    CARTPOLE.name: {
        "random": (RANDOM,),
        "medium": ("weak controller",),
        "expert": ("good controller",),
        "mixed": (RANDOM, "weak controller", "good controller"),
    },
    JOB_SHOP.name: {"rules": ("most work left", "earliest start", RANDOM)},
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

QUICK = (CARTPOLE.name, PENDULUM.name)
"""Problems of the quick budget."""


def items(budget: Budget) -> list[Item]:
    """Return both learners on every kind of data, of CartPole and Pendulum alone in the quick budget."""
    return [
        item
        for problem in asked_for(budget.pick(QUICK, tuple(DATA)), budget)
        for data, sources in DATA[problem.name].items()
        for item in labelled(tasks(problem, data, sources, budget), series=f"{problem.name}, {data} data")
    ]


def tasks(problem: Problem, data: str, sources: tuple[str, ...], budget: Budget) -> list[Task]:
    """Return CRR and cloning on one kind of data, and chance."""
    transitions, steps = budget.pick((12_000, 4_000), (60_000, 30_000))
    return [
        Played(problem.name, tested_in(problem), RANDOM, EPISODES),
        *(
            OnData(name, problem, data, sources, transitions, steps, seed, EPISODES, options)
            for name, options in (("CRR", {}), ("cloning", {"weight_mode": "bc"}))
            for seed in budget.seeds_of(name, 1, 5)
        ),
    ]


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the means of both learners beside those of the data."""
    quality = results.table("data").groupby("series", sort=False)["data_return"].mean()
    table = at_the_end(results.table())
    table.insert(3, "return of the data", table["series"].map(quality))
    return Analysis({"results": table}, {}, left_out(budget.pick(QUICK, tuple(DATA)), budget))


EXPERIMENT = Experiment("learners-offline", "CRR and cloning on data of known quality", items, analyze)
