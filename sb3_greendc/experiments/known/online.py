"""DiscreteSAC beside SB3's algorithms on problems that others made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import curves, panels
from sb3_greendc.experiments.known.common import (
    EPISODES,
    asked_for,
    at_the_end,
    left_out,
    references,
    run,
    without_learning,
)
from sb3_greendc.experiments.known.problems import (
    ACROBOT,
    CARTPOLE,
    JOB_SHOP,
    JOB_SHOP_LARGE,
    JOB_SHOP_LARGEST,
    JOB_SHOPS,
    LUNAR_LANDER,
    MINATAR,
    PROBLEMS,
    Problem,
)
from sb3_greendc.experiments.known.tasks import Played, constructor_defaults, tested_in
from sb3_greendc.experiments.line_names import name_lines
from sb3_greendc.experiments.tasks import Item, Task
from sb3_greendc.experiments.training import Learner

DISCRETE_SAC = Learner("DiscreteSAC", "discrete_sac")
DEFAULTS = Learner("DiscreteSAC, defaults", "discrete_sac")
"""Without a settings file."""

PPO = Learner("PPO", "ppo")
DQN = Learner("DQN", "dqn")
QRDQN = Learner("QR-DQN", "qrdqn")
MASKABLE_PPO = Learner("MaskablePPO", "maskable_ppo")

QUICK: dict[str, tuple[Learner, ...]] = {
    CARTPOLE.name: (DISCRETE_SAC, DEFAULTS, PPO, DQN, QRDQN),
    ACROBOT.name: (DISCRETE_SAC, DEFAULTS, PPO, DQN, QRDQN),
    MINATAR[1].name: (DISCRETE_SAC, DQN),
    JOB_SHOP.name: (DISCRETE_SAC, MASKABLE_PPO),
}
"""Learners of the quick budget; other problems are left to the full one, and to those who ask for them."""

CLASSIC = (DISCRETE_SAC, DEFAULTS, PPO, DQN, QRDQN)
FULL: dict[str, tuple[Learner, ...]] = {
    **{problem.name: CLASSIC for problem in (CARTPOLE, ACROBOT, LUNAR_LANDER)},
    **{problem.name: (DISCRETE_SAC, PPO, DQN, QRDQN) for problem in MINATAR},
    JOB_SHOP.name: (DISCRETE_SAC, DEFAULTS, MASKABLE_PPO),
    JOB_SHOP_LARGE.name: (DISCRETE_SAC, MASKABLE_PPO),
    JOB_SHOP_LARGEST.name: (),
}
"""Learners of the full budget. On the largest job shop rules play alone: nobody has trained there."""


def _of_classic(*speeds: float) -> dict[str, float]:
    return {one.name: speed for one, speed in zip(CLASSIC, speeds, strict=True)}


_ON_MINATAR = {DISCRETE_SAC.name: 260.0, PPO.name: 2_450.0, DQN.name: 540.0, QRDQN.name: 440.0}
_ON_JOB_SHOPS = {DISCRETE_SAC.name: 450.0, DEFAULTS.name: 330.0, MASKABLE_PPO.name: 3_000.0}
SPEEDS: dict[str, dict[str, float]] = {
    CARTPOLE.name: _of_classic(900.0, 400.0, 2_500.0, 800.0, 650.0),
    ACROBOT.name: _of_classic(900.0, 400.0, 2_500.0, 250.0, 190.0),
    LUNAR_LANDER.name: _of_classic(365.0, 355.0, 2_400.0, 325.0, 220.0),
    **{problem.name: _ON_MINATAR for problem in MINATAR},
    **{problem.name: _ON_JOB_SHOPS for problem in JOB_SHOPS},
}
"""About how many steps a second one core trains on, by problem and learner."""


def items(budget: Budget) -> list[Item]:
    """Return learners, and what does not learn, on every problem."""
    learners = budget.pick({**FULL, **QUICK}, FULL)
    return [
        item
        for problem in asked_for(budget, QUICK, FULL)
        for item in labelled(tasks(problem, learners[problem.name], budget), series=problem.name)
    ]


def tasks(problem: Problem, learners: Sequence[Learner], budget: Budget) -> list[Task]:
    """Return learners, chance, and the rules of a job shop."""
    found: list[Task] = [
        Played(problem.name, tested_in(problem), name, EPISODES) for name in without_learning(problem)
    ]
    for learner in learners:
        chosen = learner
        if learner is DEFAULTS:
            own = constructor_defaults("discrete_sac", problem.env_id)
            chosen = replace(DEFAULTS, hyperparameters=own)
        chosen = replace(chosen, speed=SPEEDS[problem.name][learner.name])
        seeds = budget.seeds_of(learner.name, 1, 5)
        found += [run(problem, chosen, seed, budget, budget.pick(5, 20)) for seed in seeds]
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the means at the end beside what is published, and learning curves."""
    rows = results.table()
    published = references(rows["series"].unique())
    table = pd.concat([at_the_end(rows), published], ignore_index=True)
    learned = "trained_decisions" in rows  # rules alone have no curves
    return Analysis(
        {"results": table}, {"figure": draw(rows)} if learned else {}, left_out(budget, QUICK, FULL)
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a panel of learning curves for each problem.

    What does not learn is a dashed line, what is published a dotted one.
    """
    trained = rows[rows["trained_decisions"].notna()]
    names = [str(name) for name in trained["series"].unique()]
    figure, axes = panels(names)
    learners = [str(name) for name in trained["policy"].unique()]
    for panel, name in zip(axes, names, strict=True):
        mine = trained[trained["series"] == name]
        still = rows[(rows["series"] == name) & rows["trained_decisions"].isna()]
        levels = {str(policy): mean for policy, mean in still.groupby("policy")["return"].mean().items()}
        curves(mine, "return", "trained_decisions", panel, levels, among=learners)
        for one in next(problem.published for problem in PROBLEMS if problem.name == name):
            if "gap" not in one.learner:
                panel.axhline(one.value, color="0.5", linestyle=":", label=f"published: {one.learner}")
        panel.set_xlabel("steps")
        panel.locator_params(axis="x", nbins=5)
        panel.set_ylabel("return")
    name_lines(figure)
    return figure


EXPERIMENT = Experiment(
    "learners", "DiscreteSAC beside others on problems that others made", items, analyze, True
)
