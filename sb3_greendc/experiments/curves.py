"""DiscreteSAC, MaskablePPO and DQN on ten units: learning curves over decisions and over seconds."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from sb3_greendc.experiments.bounds import BOUND
from sb3_greendc.experiments.comparison import VALUE, best_form, compare, final, summary
from sb3_greendc.experiments.controls import UNIFORM_MASKED, UniformPlay
from sb3_greendc.experiments.episodes import HEURISTICS, PAPER, Baselines
from sb3_greendc.experiments.experiment import ON_TIME, Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import curves, panels
from sb3_greendc.experiments.learners import DISCRETE_SAC, DQN, MASKABLE_PPO
from sb3_greendc.experiments.line_names import name_lines
from sb3_greendc.experiments.sweep import METRICS
from sb3_greendc.experiments.tasks import Item, Scenario, Task
from sb3_greendc.experiments.training import Training

PROBLEM = Scenario("ResourcePool-10", {"offered_load": 1.0})
LABELS = {"series": "ResourcePool-10, load 1.0", "x": 10}
STEPS, EPISODES = 500, (32, 128)
SHOWN = "total_job_value_ratio"
BUDGETS = ((DISCRETE_SAC, 100_000), (MASKABLE_PPO, 500_000), (DQN, 100_000))
"""Learners, with their decisions in the full budget: MaskablePPO has about the seconds of DiscreteSAC; its
curve begins with the same number of decisions. All three act in the same environment."""

LEVELS = (UNIFORM_MASKED, "hvf", "deadline_last", "deadline_never", "rollout")


def items(budget: Budget) -> list[Item]:
    """Return the heuristics and, for each learner, its runs."""
    tasks = budget.baselines(PROBLEM, STEPS, rollouts=True)
    for shared, decisions in BUDGETS:
        learner = replace(shared, choice=ON_TIME, decisions=decisions)
        tasks += budget.trainings(PROBLEM, learner, budget.pick(4, 6), full_seeds=5, test_steps=STEPS)
    return labelled([_judged(task, budget.episodes_of(*EPISODES)) for task in tasks], **LABELS)


def _judged(task: Task, episodes: int) -> Task:
    """Return a task with so many test episodes, of learners at every point: the curve is the result."""
    if isinstance(task, Training):
        return replace(task, episodes=episodes, episodes_along=None)
    return replace(task, episodes=episodes) if isinstance(task, Baselines | UniformPlay) else task


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return curves, the comparison at their ends, and the first decision that passes each level."""
    rows = results.table()
    trained, baselines = rows[rows["train_seed"].notna()], rows[rows["train_seed"].isna()]
    learners = [str(name) for name in trained["policy"].unique()]
    levels = {name: level(baselines, name) for name in LEVELS}
    figure, axes = panels(["over decisions", "over seconds of training"])
    for panel, over in zip(axes, ("trained_decisions", "trained_seconds"), strict=True):
        curves(trained, SHOWN, over, panel, levels)
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_ylabel("share of the arrived value")
    name_lines(figure)
    tables = {
        "comparison": compare(rows, learners, VALUE),
        "results": summary(final(rows[rows["policy"] != BOUND]), METRICS),
        "passing": passing(trained, levels),
    }
    return Analysis(tables, {"figure": figure})


def level(baselines: pd.DataFrame, name: str) -> float:
    """Return the value ratio of a policy; of a heuristic, as in the papers, in the better of its forms."""
    papers_way = {"dispatch": "skip"} if name in HEURISTICS else {}
    variant = best_form(baselines, [name], SHOWN, **papers_way)
    return float(baselines.loc[baselines["policy"] == variant, SHOWN].mean())


def passing(trained: pd.DataFrame, levels: dict[str, float]) -> pd.DataFrame:
    """Return for each learner and level the first checkpoint at which the mean over seeds exceeds it."""
    found = []
    for policy, rows in trained.groupby("policy", sort=False):
        means = rows.groupby("trained_decisions").agg(
            value=(SHOWN, "mean"), seconds=("trained_seconds", "mean")
        )
        for name, height in {**levels, "best of the papers' + 18 %": 1.18 * _best(levels)}.items():
            above = means[means["value"] > height].reset_index()
            first = above.iloc[0] if len(above) else None
            found.append(
                {
                    "learner": policy,
                    "level": name,
                    "value": height,
                    "decisions": None if first is None else int(first["trained_decisions"]),
                    "seconds": None if first is None else float(first["seconds"]),
                }
            )
    return pd.DataFrame(found)


def _best(levels: dict[str, float]) -> float:
    """Return the best of the papers' among some levels."""
    return max(height for name, height in levels.items() if name in PAPER)


EXPERIMENT = Experiment(
    "discrete-sac-curves",
    "learning curves of DiscreteSAC, MaskablePPO and DQN (10 units, load 1.0)",
    items,
    analyze,
)
