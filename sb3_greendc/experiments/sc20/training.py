"""What SC20's figures over training share: A2C with two networks, several arrival rates, a level of power."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.experiments.claims import BEST_OF_PAPER, Claim
from sb3_greendc.experiments.comparison import compare, final, summary
from sb3_greendc.experiments.episodes import Baselines, all_variants
from sb3_greendc.experiments.experiment import (
    LONG_QUEUES,
    Analysis,
    Budget,
    Experiment,
    Results,
    labelled,
)
from sb3_greendc.experiments.figures import curves, outer_legend, panels
from sb3_greendc.experiments.learners import SC20_A2C, SC20_A2C_JOBS
from sb3_greendc.experiments.sweep import METRICS
from sb3_greendc.experiments.tasks import Item, Scenario, Task

ARRIVALS = (0.2, 0.4, 0.6, 0.8, 1.0)
QUICK_ARRIVALS = (0.2, 0.6, 1.0)
CHECKPOINTS = 5
FULL_SEEDS = 5
PAPER = ("fcfs", "hvf")
LEARNERS = (SC20_A2C, SC20_A2C_JOBS)
CLAIMS = (
    Claim("hvf", 38.0, "SC20: 38 to 70 % above HVF beyond half load", points=(0.6, 0.7, 0.8, 0.9, 1.0)),
)
"""The lower end of what is printed."""

CHOOSES = (
    f"A2C chooses among the first {LONG_QUEUES['ready_pool_size']} jobs, the paper's heuristics among the "
    "first ten or the whole queue, in whichever they are better. Jobs and power are the same."
)
TITLES = {
    "accrued_reward": "reward of an episode",
    "mean_slowdown": "mean slowdown of the jobs that finished",
}


def arrivals_of(budget: Budget) -> tuple[float, ...]:
    """Return the arrival rates, as probabilities of a job in a step."""
    return budget.pick(QUICK_ARRIVALS, ARRIVALS)


def scenario(arrivals: float, power_level: float = 1.0) -> Scenario:
    """Return SC20's scenario."""
    settings = {"workload": "bernoulli", "offered_load": arrivals}
    if power_level != 1.0:
        settings["power_level"] = power_level
    return Scenario("ResourcePoolSuspend-10", settings)


def items(budget: Budget, power_level: float = 1.0) -> list[Item]:
    """Return the runs and the paper's heuristics at every arrival rate."""
    found: list[Item] = []
    for rate in arrivals_of(budget):
        at = scenario(rate, power_level)
        tested = at.with_kwargs(episode_steps=budget.test_steps)
        tasks: list[Task] = [Baselines(tested, all_variants(PAPER, dispatches=("skip",)), budget.episodes)]
        for learner in LEARNERS:
            tasks += budget.trainings(at, learner, CHECKPOINTS, FULL_SEEDS)
        found += labelled(tasks, series=f"power {power_level:.0%}", x=rate, arrivals=f"{rate:.0%} arrivals")
    return found


def figure_of(rows: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Draw metrics over training: a panel for each learner and metric, a curve for each arrival rate."""
    drawn = [(learner.name, metric) for metric in metrics for learner in LEARNERS]
    figure, axes = panels([name for name, _ in drawn])
    for panel, (name, metric) in zip(axes, drawn, strict=True):
        curves(rows[rows["policy"] == name], metric, "trained_decisions", panel, by="arrivals", legend=False)
        panel.set_ylabel(TITLES[metric])
        panel.locator_params(axis="x", nbins=5)
    for k in range(0, len(axes), len(LEARNERS)):
        share_height(axes[k : k + len(LEARNERS)])
    outer_legend(figure, axes[0])
    return figure


def share_height(axes: Sequence[Axes]) -> None:
    """Give panels that are read side by side the same axis."""
    limits = [panel.get_ylim() for panel in axes]
    for panel in axes:
        panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def over_training(name: str, title: str, metrics: Sequence[str], power_level: float = 1.0) -> Experiment:
    """Return an experiment that draws metrics over training, and compares its end with the heuristics."""

    def analyze(results: Results, budget: Budget) -> Analysis:
        rows = results.table()
        trained = rows[rows["baseline"].isna()]
        comparison = compare(rows, [learner.name for learner in LEARNERS], CLAIMS, papers=PAPER)
        tables = {
            "comparison": comparison[comparison["against"].isin((*PAPER, BEST_OF_PAPER))],
            "results": summary(final(rows), (*METRICS, "accrued_reward")),
        }
        return Analysis(tables, {"figure": figure_of(trained, metrics)}, [CHOOSES])

    return Experiment(name, title, lambda budget: items(budget, power_level), analyze)
