"""RARE's experiment on mixed data: one learner from the data of four heuristics (50 units)."""

from __future__ import annotations

from sb3_greendc.experiments.comparison import summary
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import grouped_bars
from sb3_greendc.experiments.rare.agreement import HEURISTICS, agreement_table, gain_table, trainings
from sb3_greendc.experiments.tasks import Item, Scenario

UNITS = 50
SERIES = "data of four heuristics, 50 units"


def items(budget: Budget) -> list[Item]:
    """Return the heuristics, and clone and CRR from the data of all."""
    variants = tuple(Variant(name) for name in HEURISTICS)
    themselves = Baselines(Scenario(f"ResourcePool-{UNITS}"), variants, budget.pick(32, 128))
    found = labelled([themselves], series=SERIES, x="")
    for seed in budget.seeds_of("CRR"):
        found += labelled(trainings(budget, UNITS, HEURISTICS, seed), series=SERIES, x="")
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return CRR's gain over clone and heuristics, and the values as bars."""
    rows = results.table()
    table = summary(rows, ("total_job_value", "total_job_value_ratio"))
    policies = [*HEURISTICS, "BC", "CRR"]
    figure = grouped_bars(table, "total_job_value_ratio", policies, "", "share of the arrived value")
    tables = {"comparison": gain_table(rows), "agreement": agreement_table(results.table("agreement"))}
    return Analysis({**tables, "results": table}, {"figure": figure})


EXPERIMENT = Experiment("rare-mixed", "one learner from the data of four heuristics", items, analyze)
