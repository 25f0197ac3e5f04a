"""What the networks distilled from rollouts are trained on: one network for each kind of jobs and power.

A network scores jobs one by one, so that it is trained on ten units and serves pools of every size, and ready
pools of every length. The horizon and the number of features, which a battery changes, must be the same.
"""

from __future__ import annotations

from greendc.resource_pool.presets import LARGE
from sb3_greendc.experiments.tasks import Scenario

UNITS = 10
LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
LOG_LOADS = (0.6, 1.0)
LOW_POWER = {"power": "random", "power_level": 0.8}


def synthetic(**settings: object) -> tuple[Scenario, ...]:
    """Return synthetic jobs at every load under full power, and under power that changes at every step.

    :param settings: keyword arguments of the environment that are not the default: a horizon
    """
    pool = Scenario(f"ResourcePool-{UNITS}", settings)
    return (*(pool.with_kwargs(offered_load=load) for load in LOADS), pool.with_kwargs(**LOW_POWER))


def log(workload: str, **settings: object) -> tuple[Scenario, ...]:
    """Return the jobs of a log at two loads under full power.

    :param workload: the log
    :param settings: further keyword arguments of the environment
    """
    pool = Scenario(f"ResourcePool-{UNITS}", {"workload": workload, **settings})
    return tuple(pool.with_kwargs(offered_load=load) for load in LOG_LOADS)


def of_size(units: int) -> tuple[Scenario, ...]:
    """Return synthetic jobs for a preset of this size, with its horizon.

    :param units: of ``ResourcePool-<units>``
    """
    horizon = LARGE.get(units, {}).get("horizon")
    return synthetic(**({"horizon": horizon} if horizon else {}))
