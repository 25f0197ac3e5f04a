"""What SC20's figures over training share: A2C at several arrival rates and a level of power."""

from __future__ import annotations

from matplotlib.figure import Figure

from sb3_greendc.experiments.comparison import summary
from sb3_greendc.experiments.experiment import Analysis, Experiment, Form, Results, labelled
from sb3_greendc.experiments.figures import curves, outer_legend, panels
from sb3_greendc.experiments.learners import SC20_A2C
from sb3_greendc.experiments.sweep import METRICS
from sb3_greendc.experiments.tasks import Item, Problem

ARRIVALS = (0.2, 0.4, 0.6, 0.8, 1.0)
QUICK_ARRIVALS = (0.2, 0.6, 1.0)
CHECKPOINTS = 5
FULL_SEEDS = 5
TITLES = {
    "accrued_reward": "reward of an episode",
    "mean_slowdown": "mean slowdown of the jobs that finished",
}


def arrivals_of(form: Form) -> tuple[float, ...]:
    """Return the arrival rates, as probabilities of a job in a step."""
    return form.pick(QUICK_ARRIVALS, ARRIVALS)


def problem(arrivals: float, power_level: float = 1.0) -> Problem:
    """Return SC20's problem."""
    settings = {"workload": "bernoulli", "offered_load": arrivals}
    if power_level != 1.0:
        settings["power_level"] = power_level
    return Problem("ResourcePoolSuspend-10", settings)


def items(form: Form, power_level: float = 1.0) -> list[Item]:
    """Return the runs at every arrival rate."""
    found: list[Item] = []
    for rate in arrivals_of(form):
        runs = form.trainings(problem(rate, power_level), SC20_A2C, CHECKPOINTS, FULL_SEEDS)
        found += labelled(runs, series=f"power {power_level:.0%}", x=rate, arrivals=f"{rate:.0%} arrivals")
    return found


def figure_of(results: Results, metrics: tuple[str, ...]) -> Figure:
    """Draw metrics over training, a curve for each arrival rate."""
    rows = results.table()
    figure, axes = panels([TITLES[metric] for metric in metrics])
    for panel, metric in zip(axes, metrics, strict=True):
        curves(rows, metric, "trained_decisions", panel, by="arrivals", legend=False)
        panel.set_ylabel(metric.replace("_", " "))
    outer_legend(figure, axes[0])
    return figure


def over_training(name: str, title: str, metrics: tuple[str, ...], power_level: float = 1.0) -> Experiment:
    """Return an experiment that draws metrics over training."""

    def analyze(results: Results, form: Form) -> Analysis:
        table = summary(results.table(), (*METRICS, "accrued_reward"))
        return Analysis({"results": table}, {"figure": figure_of(results, metrics)})

    return Experiment(name, title, lambda form: items(form, power_level), analyze)
