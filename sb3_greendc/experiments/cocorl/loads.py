"""What CoCoRL's figures over the load share: the scenarios, the limits, the policies."""

from __future__ import annotations

import dataclasses

import pandas as pd

from sb3_greendc.experiments import curricula
from sb3_greendc.experiments.constrained import DELAY, JOB_STEPS, pid_ppo
from sb3_greendc.experiments.distilled_start import distilled_pid_ppo
from sb3_greendc.experiments.experiment import MODELLED_LOG, Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.printed import COCORL_LIMITS, COCORL_NOTE, cocorl
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import PRINTED, SYNTHETIC, Scenario
from sb3_greendc.experiments.training import Learner

LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)

LIMITS = {0.2: 0.1, 0.4: 0.8, 0.6: 4.0, 0.8: 20.0, 1.0: 55.0, 1.2: 110.0}
"""Loads, and the limit on delay of our learner at each, in hundreds of job-steps: about three quarters of
what ``hvf`` costs there. The paper has one limit for all loads, and so has its learner as printed."""

LOG_LIMITS = {0.2: 0.8, 0.4: 7.0, 0.6: 40.0, 0.8: 145.0, 1.0: 400.0, 1.2: 770.0}
"""The same for jobs of the modelled log, which wait for longer."""

KEPT = {SYNTHETIC: LIMITS, MODELLED_LOG: LOG_LIMITS}

QUICK_LOG_KEEPERS = (0.6, 1.0)
"""Loads at which the quick budget trains our learner on the modelled log."""

QUICK_PRINTED, QUICK_LOG_PRINTED = (0.6, 0.8, 1.0), (0.2, 0.8, 1.2)
"""Loads at which the quick budget trains CoCoRL as printed."""

PAPERS = ("sjf", "qos", "edf", "hvf", "fcfs")
"""CoCoRL's QoS policy is said to behave like earliest deadline first, so both are here, and margins are
against the better."""

STEPS = 500
"""Steps of training and test episodes: a limit on the cost of an episode is a matter of its length."""


def points(budget: Budget, series: str = SYNTHETIC, workload: str = SYNTHETIC) -> list[Point]:
    """Return the loads on ten units with full power, each with the learners that keep its limit."""
    training_tasks = curricula.synthetic() if workload == SYNTHETIC else curricula.log(workload)
    return [
        Point(
            series,
            load,
            Scenario("ResourcePool-10", _settings(load, workload)),
            _keepers(budget, load, series),
            training_tasks,
            _printed(budget, load, workload != SYNTHETIC),
        )
        for load in LOADS
    ]


def _keepers(budget: Budget, load: float, series: str) -> list[Learner]:
    """Return the learners that keep a limit, in the quick budget that from a distilled policy alone.

    A user's log has none: what the heuristics cost there, which limits are made from, is not known.
    """
    if series not in KEPT or (budget.quick and series == MODELLED_LOG and load not in QUICK_LOG_KEEPERS):
        return []
    limit = KEPT[series][load]
    return [distilled_pid_ppo(limit, budget.quick), *budget.pick([], [pid_ppo(limit)])]


def _printed(budget: Budget, load: float, log: bool) -> list[Learner]:
    """Return CoCoRL's learner as printed: limit 2000 on the log, 7000 on synthetic jobs."""
    chosen = QUICK_LOG_PRINTED if log else QUICK_PRINTED
    if budget.quick and load not in chosen:
        return []
    return [cocorl(COCORL_LIMITS[1] if log else COCORL_LIMITS[0])]


def _settings(load: float, workload: str) -> dict[str, object]:
    return {"offered_load": load, **DELAY, **({} if workload == SYNTHETIC else {"workload": workload})}


def in_job_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with every cost in job-steps, which only the learner as printed has from the start."""
    scale = rows["policy"].str.contains(PRINTED, regex=False).map({True: 1, False: JOB_STEPS})
    return rows.assign(accrued_cost=rows["accrued_cost"] * scale)


SWEEP = Sweep(
    points,
    pool_learners,
    "offered load",
    style="lines",
    papers=PAPERS,
    test_steps=STEPS,
    rollouts=True,
    notes=(COCORL_NOTE,),
    in_one_unit=in_job_steps,
)
"""All of its figures over the load of synthetic jobs show the same runs."""


def levels_experiment(name: str, title: str, metric: str, ylabel: str) -> Experiment:
    """Return the same sweep about another metric, with its level for each policy.

    :param name: name of the experiment
    :param title: what it shows
    :param metric: of figure and margins
    :param ylabel: its meaning
    """
    sweep = dataclasses.replace(
        SWEEP, shown=metric, ylabel=ylabel, metric=metric, named=("sjf", "qos", "hvf", "fcfs")
    )

    def analyze(results: Results, budget: Budget) -> Analysis:
        analysis = sweep.analyze(results, budget)
        table = levels(analysis.tables["results"], metric)
        return dataclasses.replace(analysis, tables={**analysis.tables, "levels": table})

    return Experiment(name, title, sweep.items, analyze)


def levels(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a metric of each policy at each load, in per cent.

    :param table: results of the sweep
    :param metric: a share
    """
    ours = table[table["metric"] == metric]
    found = ours[["series", "x", "policy", "metric"]].reset_index(drop=True)
    ends = {"level_percent": "estimate", "low": "low", "high": "high"}
    return found.assign(**{name: 100 * ours[column].to_numpy() for name, column in ends.items()})
