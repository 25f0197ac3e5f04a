"""RARE's experiment on mixed data: one learner on the data of four heuristics (50 units)."""

from __future__ import annotations

from sb3_greendc.experiments.comparison import summary
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import grouped_bars
from sb3_greendc.experiments.rare.agreement import (
    HEURISTICS,
    PRINTED,
    agreement_levels,
    gain_table,
    judged,
    trainings,
)
from sb3_greendc.experiments.tasks import Item

UNITS = 50
SERIES = "data of four heuristics, 50 units"


def items(budget: Budget) -> list[Item]:
    """Return the heuristics, chance, and clone and CRR from the data of all."""
    found = labelled(judged(budget, UNITS, HEURISTICS), series=SERIES, x="")
    for seed in budget.seeds_of("CRR"):
        found += labelled(trainings(budget, UNITS, HEURISTICS, seed), series=SERIES, x="")
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return CRR's gain over clone and heuristics, agreement with each heuristic, and the values as bars.

    The printed agreement is the offline learner's, not the clone's.
    """
    rows = results.table()
    table = summary(rows, ("total_job_value", "total_job_value_ratio"))
    policies = [*HEURISTICS, "BC", "CRR", PRINTED]
    figure = grouped_bars(table, "total_job_value_ratio", policies, "", "share of the arrived value")
    tables = {"comparison": gain_table(rows), "levels": agreement_levels(results.table("agreement"))}
    return Analysis({**tables, "results": table}, {"figure": figure})


EXPERIMENT = Experiment("rare-mixed", "one learner on the data of four heuristics", items, analyze)
