"""RARE, Fig. 5: total job value on an HPC log and green power with a battery, without the grid."""

from __future__ import annotations

from sb3_greendc.experiments import printed
from sb3_greendc.experiments.curricula import UNITS
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Scenario

SIZES = (10, 20, 30)
GREEN = {"power": "trace", "site": {"grid": "off"}}
"""The GLEAMM-like site: 150 kW of photovoltaics, three turbines, a battery of 1 MWh, no grid."""


def points(budget: Budget) -> list[Point]:
    """Return the pools, at an offered load of 1 (of a pool that always has power)."""
    sites = {
        f"{name}, sun, wind and battery": Scenario("ResourcePool", {"workload": workload, **GREEN})
        for name, workload in budget.logs.items()
    }
    return [
        Point(
            series,
            size,
            site.with_kwargs(units=size),
            training_tasks=(site.with_kwargs(units=UNITS),),
            printed=printed.rare_at(budget, size, (10,)),
        )
        for series, site in sites.items()
        for size in SIZES
    ]


EXPERIMENT = Sweep(points, pool_learners, "resources of each type").experiment(
    "rare-fig5", "total job value on an HPC log and green power with battery, grid off"
)
