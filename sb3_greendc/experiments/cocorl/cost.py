"""What CoCoRL's figures on cost share: the accrued cost of delay by arrival rate, on the log.

The cost is the number of delayed jobs in each step, summed over an episode; limits and gains are those that
the paper prints, and the learner is the one that it describes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.cocorl.loads import LOADS, STEPS
from sb3_greendc.experiments.comparison import FORMS, best_form, final, margin, matrix, summary
from sb3_greendc.experiments.controls import CONTROLS, UNIFORM_MASKED, UNIFORM_VALID, controls
from sb3_greendc.experiments.episodes import Baselines, all_variants
from sb3_greendc.experiments.experiment import ON_TIME, Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import lines
from sb3_greendc.experiments.printed import COCORL_NOTE
from sb3_greendc.experiments.sweep import METRICS, budgets
from sb3_greendc.experiments.tasks import ALL_WAITING, Item, Scenario, Task
from sb3_greendc.experiments.training import Learner

COST = "accrued_cost"
UNIT = "accrued cost of an episode\n(delayed job-steps)"
PAPERS = ("sjf", "qos", "hvf", "fcfs")
RIVALS = tuple(name + ending for ending in ("", ALL_WAITING) for name in PAPERS)
QUICK_LOADS = (0.2, 0.8, 1.2)
FULL_SEEDS = 3


def scenario(workload: str, load: float) -> Scenario:
    """Return ten units on a log at a load; the cost is the environment's own: delayed jobs in each step."""
    return Scenario("ResourcePool-10", {"offered_load": load, "workload": workload})


def items(budget: Budget, learners: Sequence[Learner]) -> list[Item]:
    """Return on each log, at each load, the heuristics, chance, and the runs of each learner."""
    found: list[Item] = []
    for (series, workload), load in product(budget.logs.items(), budget.pick(QUICK_LOADS, LOADS)):
        at = scenario(workload, load)
        tested = at.with_kwargs(episode_steps=STEPS)
        tasks: list[Task] = [Baselines(tested, all_variants(PAPERS, dispatches=("skip",)), budget.episodes)]
        tasks += controls(tested, dict(ON_TIME), budget.episodes)
        for learner in learners:
            tasks += budget.trainings(at, learner, full_seeds=FULL_SEEDS, test_steps=STEPS)
        found += labelled(tasks, series=series, x=load)
    return found


def cheapest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the papers' heuristics in both forms (the better one earns more), chance, and the learners."""
    parts = []
    for _, at_point in rows.groupby(["series", "x"], sort=False):
        last = final(at_point)
        for ending in ("", ALL_WAITING):
            for name in PAPERS:
                form = best_form(last, [name], "total_job_value", **FORMS[ending])
                parts.append(last[last["policy"] == form].assign(policy=name + ending))
        parts.append(last[last["policy"].isin(CONTROLS) | last["baseline"].isna()])
    return pd.concat(parts, ignore_index=True)


def compare_costs(rows: pd.DataFrame, learners: Sequence[str]) -> pd.DataFrame:
    """Return by how many per cent each learner costs more than each heuristic, and than each other learner.

    :param rows: of :func:`cheapest`
    :param learners: their names
    """
    return pd.DataFrame(row for row in _compared(rows, learners))


def _compared(rows: pd.DataFrame, learners: Sequence[str]) -> Iterator[dict[str, Any]]:
    for (series, x), at in rows.groupby(["series", "x"], sort=False):
        costs = {str(name): matrix(of_name, COST) for name, of_name in at.groupby("policy", sort=False)}
        for k, learner in enumerate(learners):
            for rival in (*RIVALS, *CONTROLS, *learners[:k]):
                found = margin(costs[learner], costs[rival])
                yield {
                    "series": series,
                    "x": x,
                    "metric": COST,
                    "learner": learner,
                    "kind": "learner",
                    "seeds": len(costs[learner]),
                    "against": rival,
                    "ours": costs[learner].mean(),
                    "theirs": costs[rival].mean(),
                    "margin_percent": found.estimate,
                    "low": found.low,
                    "high": found.high,
                }


def draw(
    rows: pd.DataFrame, table: pd.DataFrame, comparison: pd.DataFrame, learners: Mapping[str, float]
) -> Figure:
    """Draw cost over the load on a logarithmic axis, with the limits; and the learners' over the first one's.

    :param rows: of :func:`cheapest`
    :param table: their summary
    :param comparison: of :func:`compare_costs`
    :param learners: the learners' names, and their limits
    """
    shown = [*PAPERS, UNIFORM_VALID, UNIFORM_MASKED, *learners]
    changes = comparison[comparison["against"] == next(iter(learners))] if len(learners) > 1 else None
    had = budgets(rows, list(learners))
    limits = {f"limit {limit:,.0f}": limit for limit in sorted(set(learners.values()) - {math.inf})}
    return lines(table, COST, shown, "offered load", UNIT, had, changes, "cost", "log", limits)


def cost_experiment(name: str, title: str, learners: Sequence[tuple[Learner, float]]) -> Experiment:
    """Return a figure of costs over the load.

    :param name: of the experiment
    :param title: what it shows
    :param learners: with their limits
    """
    limits = {learner.name: limit for learner, limit in learners}

    def analyze(results: Results, _form: Budget) -> Analysis:
        rows = cheapest(results.table())
        table = summary(rows, METRICS)
        comparison = compare_costs(rows, list(limits))
        figure = draw(rows, table, comparison, limits)
        return Analysis({"comparison": comparison, "results": table}, {"figure": figure}, [COCORL_NOTE])

    return Experiment(
        name, title, lambda budget: items(budget, [learner for learner, _ in learners]), analyze
    )
