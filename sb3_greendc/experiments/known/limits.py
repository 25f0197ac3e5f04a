"""PIDLagrangianPPO under a limit on a cost, and PPO with penalties that were tried out."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.known.common import EPISODES, asked_for, left_out, run
from sb3_greendc.experiments.known.players import RANDOM
from sb3_greendc.experiments.known.problems import CARTPOLE_COST, GRID, LAVA, LIMITS, Problem
from sb3_greendc.experiments.known.tasks import Played, tested_in
from sb3_greendc.experiments.tasks import Item, Task
from sb3_greendc.experiments.training import Learner

PENALTIES = (0.1, 0.3, 1.0)
"""Fixed penalties of PPO: as many trials as the controller has."""

GAINS: tuple[dict[str, float], ...] = ({}, {"ki": 0.3}, {"kp": 0.3, "ki": 0.03})
"""The controller's trials, in place of its defaults."""

QUICK = (GRID.name, CARTPOLE_COST.name, LAVA.name)
"""Problems of the quick budget; LunarLander is left to the full one, and to those who ask for it."""


def items(budget: Budget) -> list[Item]:
    """Return the trials of every problem with a limit."""
    return [
        item
        for problem in asked_for(budget, QUICK, LIMITS)
        for item in labelled(tasks(problem, budget), series=problem.name)
    ]


def tasks(problem: Problem, budget: Budget) -> list[Task]:
    """Return PPO under a limit and PPO with fixed penalties, as many trials of each, and chance.

    The recurrent form has one trial, its defaults: it takes longer.
    """
    limit = LIMITS[problem.name]
    trials = [
        Learner(
            f"PIDLagrangianPPO {said(gains)}",
            "pid_ppo",
            {"cost_limit": limit, **gains},
            deterministic=False,
            speed=2_000.0,
        )
        for gains in GAINS
    ]
    trials.append(
        Learner(
            "RecurrentPIDLagrangianPPO defaults",
            "recurrent_pid_ppo",
            {"cost_limit": limit},
            deterministic=False,
            speed=400.0,
        )
    )
    trials += [
        Learner(f"PPO penalty {one}", "ppo", {}, {"penalty": one}, deterministic=False, speed=2_500.0)
        for one in PENALTIES
    ]
    found: list[Task] = [Played(problem.name, tested_in(problem), RANDOM, 2 * EPISODES)]
    for learner in trials:
        for seed in budget.seeds_of(learner.name, 1, 5):
            found.append(run(problem, learner, seed, budget, checkpoints=1, episodes=2 * EPISODES))
    return found


def said(gains: dict[str, float]) -> str:
    """Return a trial's settings in words."""
    return " ".join(f"{name} {gain}" for name, gain in gains.items()) or "defaults"


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return reward and cost of every trial."""
    notes = left_out(budget, QUICK, LIMITS)
    return Analysis({"results": under_limits(results.table())}, {}, notes)


def under_limits(rows: pd.DataFrame) -> pd.DataFrame:
    """Return reward and cost of every trial on half of the episodes; the other half chose among trials.

    :param rows: episodes with ``series``, ``policy``, ``episode``, ``return``, ``cost``, ``train_seed``
    :return: a row for each trial; of each kind one is ``chosen``, see :func:`choose`
    """
    if rows.empty:
        return rows
    found = []
    for (series, policy), mine in rows.groupby(["series", "policy"], sort=False):
        choosing, judging = mine[mine["episode"] % 2 == 0], mine[mine["episode"] % 2 == 1]
        found.append(
            {
                "series": series,
                "policy": policy,
                "kind": str(policy).partition(" ")[0],
                "limit": LIMITS[str(series)],
                "seeds": int(mine["train_seed"].nunique()),
                "return": judging["return"].mean(),
                "cost": judging["cost"].mean(),
                "_return": choosing["return"].mean(),
                "_cost": choosing["cost"].mean(),
            }
        )
    table = pd.DataFrame(found)
    chosen = [choose(mine) for _, mine in table.groupby(["series", "kind"], sort=False)]
    return table.assign(chosen=table.index.isin(chosen)).drop(columns=["_return", "_cost", "kind"])


def choose(trials: pd.DataFrame) -> Any:
    """Return the index of the greatest reward within the limit, or of the least cost if none is within it."""
    within = trials[trials["_cost"] <= trials["limit"]]
    return within["_return"].idxmax() if len(within) else trials["_cost"].idxmin()


EXPERIMENT = Experiment(
    "learners-limits", "PIDLagrangianPPO and PPO with fixed penalties under limits", items, analyze, True
)
