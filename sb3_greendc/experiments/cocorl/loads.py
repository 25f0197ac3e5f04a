"""What CoCoRL's figures over the load share: the scenarios, the limits, the policies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pandas as pd

from sb3_greendc.experiments import curricula
from sb3_greendc.experiments.constrained import DELAY, pid_ppo
from sb3_greendc.experiments.distilled_start import distilled_pid_ppo
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.experiments.training import Learner

LIMITS = {0.2: 0.1, 0.4: 0.8, 0.6: 4.0, 0.8: 20.0, 1.0: 55.0, 1.2: 110.0}
"""Loads, and the limit on delay at each: about three quarters of what ``hvf`` costs there."""

LOG_LIMITS = {0.2: 0.8, 0.4: 7.0, 0.6: 40.0, 0.8: 145.0, 1.0: 400.0, 1.2: 770.0}
"""The same for jobs of the modelled log, which wait for longer."""

QUICK_HPC_LOADS = (0.6, 1.0)
PAPERS = ("sjf", "qos", "edf", "hvf", "fcfs")
"""CoCoRL's QoS policy is said to behave like earliest deadline first, so both are here, and margins are
against the better."""

STEPS = 500
"""Steps of training and test episodes: a limit on the cost of an episode is a matter of its length."""


def points(budget: Budget, workload: str = "synthetic") -> list[Point]:
    """Return the loads on ten units with full power, each with the learners that keep its limit."""
    hpc = workload == budget.hpc_workload
    name = f"HPC log ({budget.hpc_name})" if hpc else workload
    training_tasks = curricula.log(workload) if hpc else curricula.synthetic()
    loads = budget.pick(QUICK_HPC_LOADS, tuple(LIMITS)) if hpc else tuple(LIMITS)
    limits = LOG_LIMITS if hpc else LIMITS
    scenarios = {load: Scenario("ResourcePool-10", _settings(load, workload)) for load in loads}
    return [
        Point(name, load, scenario, _keepers(budget, limits[load]), training_tasks)
        for load, scenario in scenarios.items()
    ]


def _keepers(budget: Budget, limit: float) -> list[Learner]:
    """Return the learners that keep a limit, in the quick budget that from a distilled policy alone."""
    return [distilled_pid_ppo(limit, budget.quick), *budget.pick([], [pid_ppo(limit)])]


def _settings(load: float, workload: str) -> dict[str, object]:
    return {"offered_load": load, **DELAY, **({} if workload == "synthetic" else {"workload": workload})}


LOADS = Sweep(
    points, pool_learners, "offered load", style="lines", papers=PAPERS, test_steps=STEPS, rollouts=True
)
"""All of its figures over the load of synthetic jobs show the same runs."""


def levels_experiment(
    name: str, title: str, metric: str, ylabel: str, printed: Mapping[float, tuple[float, float]]
) -> Experiment:
    """Return the same sweep about another metric, with the levels that the paper's curves have.

    :param name: name of the experiment
    :param title: what it shows
    :param metric: of figure and margins
    :param ylabel: its meaning
    :param printed: by load, the metric of the weakest and the best policy in per cent
    """
    sweep = dataclasses.replace(LOADS, shown=metric, ylabel=ylabel, metric=metric)

    def analyze(results: Results, budget: Budget) -> Analysis:
        analysis = sweep.analyze(results, budget)
        levels = printed_levels(analysis.tables["results"], metric, printed)
        return dataclasses.replace(analysis, tables={**analysis.tables, "levels": levels})

    return Experiment(name, title, sweep.items, analyze)


def printed_levels(
    table: pd.DataFrame, metric: str, printed: Mapping[float, tuple[float, float]]
) -> pd.DataFrame:
    """Return the range of a metric over the paper's heuristics at each load, beside the printed one."""
    ours = table[(table["metric"] == metric) & table["policy"].isin(PAPERS)]
    found = []
    for load, at in ours.groupby("x"):
        low, high = printed.get(float(str(load)), (None, None))
        ends = {"lowest_percent": 100 * at["estimate"].min(), "highest_percent": 100 * at["estimate"].max()}
        found.append({"load": load, "printed_lowest": low, "printed_highest": high, **ends})
    return pd.DataFrame(found)
