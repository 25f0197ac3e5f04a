"""What SC20's figures over training share: A2C as printed from its first step on, judged along the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.experiments.comparison import compare, final, summary
from sb3_greendc.experiments.controls import controls
from sb3_greendc.experiments.episodes import Baselines, all_variants
from sb3_greendc.experiments.experiment import ON_TIME, Budget, Results, labelled
from sb3_greendc.experiments.figures import curves, panels
from sb3_greendc.experiments.line_names import name_lines
from sb3_greendc.experiments.printed import SC20
from sb3_greendc.experiments.sweep import METRICS
from sb3_greendc.experiments.tasks import Item, Scenario, Task
from sb3_greendc.experiments.training import Learner

ARRIVALS = (0.2, 0.4, 0.6, 0.8, 1.0)
ALL_ARRIVALS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FULL_SEEDS = 3
PAPER = ("fcfs", "hvf")
SHOWN_DECISIONS = 200_000
"""How far the first panel of a curve goes: the paper's learning is in the first 100,000 steps."""

TITLES = {
    "accrued_reward": "reward of an episode",
    "mean_slowdown": "mean slowdown of the jobs that finished",
}


@dataclass(frozen=True)
class Arm:
    """A learner at an arrival rate and a level of power.

    :param series: the panel
    :param curve: name of its curve
    :param arrivals: probability of a job in a step
    :param learner: the learner
    :param power_level: share of the units that have power
    """

    series: str
    curve: str
    arrivals: float
    learner: Learner = SC20
    power_level: float = 1.0


def scenario(arrivals: float, power_level: float = 1.0) -> Scenario:
    """Return SC20's scenario."""
    settings = {"workload": "bernoulli", "offered_load": arrivals}
    if power_level != 1.0:
        settings["power_level"] = power_level
    return Scenario("ResourcePoolSuspend-10", settings)


def items(budget: Budget, arms: Sequence[Arm]) -> list[Item]:
    """Return the runs, and at each arrival rate the paper's heuristics and chance."""
    found: list[Item] = []
    for arm in arms:
        at = scenario(arm.arrivals, arm.power_level)
        tested = at.with_kwargs(episode_steps=budget.test_steps, reward=arm.learner.choice["reward"])
        tasks: list[Task] = [Baselines(tested, all_variants(PAPER, dispatches=("skip",)), budget.episodes)]
        tasks += controls(tested, dict(ON_TIME), budget.episodes)
        tasks += budget.trainings(at, arm.learner, full_seeds=FULL_SEEDS)
        found += labelled(tasks, series=arm.series, x=arm.arrivals, curve=arm.curve, power=arm.power_level)
    return found


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return the comparison at the end of training, all means there, and the curves as numbers."""
    rows = results.table()
    # One arrival rate under two levels of power is two points.
    points = rows.assign(series=rows["series"] + ", " + rows["curve"])
    comparison = compare(points, [SC20.name], papers=PAPER)
    return {
        "comparison": comparison,
        "results": summary(final(points), (*METRICS, "accrued_reward")),
        "curves": along(rows[rows["train_seed"].notna()]),
    }


def along(trained: pd.DataFrame) -> pd.DataFrame:
    """Return reward, slowdown and value at each judgement, averaged over seeds and episodes."""
    metrics = ["accrued_reward", "mean_slowdown", "total_job_value_ratio", "agent_suspensions"]
    by = ["series", "curve", "trained_decisions"]
    return trained.groupby(by, sort=False)[metrics].mean().reset_index()


def curves_figure(results: Results, metric: str) -> Figure:
    """Draw a metric over training: for each series the first steps and all of them, to one scale."""
    rows = results.table()
    rows = rows[rows["train_seed"].notna()]
    steps = rows.groupby("series", sort=False)["trained_decisions"].max()
    names = [str(name) for name in steps.index]
    known = [str(name) for name in rows["curve"].unique()]
    longer = steps.max() > SHOWN_DECISIONS
    ends = (SHOWN_DECISIONS, None) if longer else (None,)
    parts = [(name, end) for name in names for end in ends]
    figure, axes = panels([f"{name}{_part(end, steps[name]) if longer else ''}" for name, end in parts])
    for panel, (name, end) in zip(axes, parts, strict=True):
        of_name = rows[rows["series"] == name]
        if longer and end is not None:
            of_name = of_name[of_name["trained_decisions"] <= end]
        curves(of_name, metric, "trained_decisions", panel, by="curve", among=known)
        panel.set_ylabel(TITLES[metric])
        panel.locator_params(axis="x", nbins=5)
        panel.set_xlim(left=0)
    for k in range(0, len(axes), len(ends)):
        share_height(axes[k : k + len(ends)])
    name_lines(figure)
    return figure


def _part(end: int | None, steps: int) -> str:
    """Return how a title goes on that says which steps a panel shows."""
    return f", all {steps / 1e6:.3g} million steps" if end is None else f", first {end // 1000} k steps"


def share_height(axes: Sequence[Axes]) -> None:
    """Give panels that are read side by side the same axis."""
    limits = [panel.get_ylim() for panel in axes]
    for panel in axes:
        panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def budget(results: Results) -> str:
    """Return a note on what the learner had."""
    rows = results.table()
    rows = rows[rows["train_seed"].notna()]
    seeds = rows["train_seed"].nunique()
    steps = rows.groupby("series", sort=False)["trained_decisions"].max() / 1e6
    most = f"{steps.max():.3g}"
    less = "".join(f" ({name}: {number:.3g})" for name, number in steps.items() if number < steps.max())
    return (
        f"A2C as printed: {most} million of the paper's 2.5 million decisions{less}, "
        f"{seeds} training seed(s), no mask but `valid`."
    )
