"""Baselines for the resource pool."""

from greendc.baselines.registry import BaselineFamily
from greendc.baselines.resource_pool.foresight import Foresight
from greendc.baselines.resource_pool.policy import Heuristic
from greendc.baselines.resource_pool.power_halves import PowerHalves
from greendc.baselines.resource_pool.power_plan import PowerPlan
from greendc.baselines.resource_pool.power_rules import POWER_RULES, PowerRule
from greendc.baselines.resource_pool.rolling import RollingPlan
from greendc.baselines.resource_pool.rollout import Rollout
from greendc.baselines.resource_pool.rules import (
    DeadlineLast,
    DeadlineNever,
    DensestFirst,
    EarliestDeadlineFirst,
    FirstComeFirstServed,
    HighestQosFirst,
    HighestValueFirst,
    RandomOrder,
    ShortestJobFirst,
)
from greendc.baselines.resource_pool.work_conserving import WorkConserving
from greendc.resource_pool import ResourcePoolSimulator

HEURISTICS: dict[str, type[Heuristic]] = {
    "sjf": ShortestJobFirst,
    "qos": HighestQosFirst,
    "hvf": HighestValueFirst,
    "fcfs": FirstComeFirstServed,
    "random": RandomOrder,
    "edf": EarliestDeadlineFirst,
    "density": DensestFirst,
    "deadline_last": DeadlineLast,
    "deadline_never": DeadlineNever,
}
"""Those that take the waiting jobs in some order; the other baselines plan."""

BASELINES = BaselineFamily(
    name="resource_pool",
    simulator=ResourcePoolSimulator,
    policies={
        **HEURISTICS,
        "plan": RollingPlan,
        "rollout": Rollout,
        "foresight": Foresight,
        **POWER_RULES,
        "power_plan": PowerPlan,
        "power_halves": PowerHalves,
    },
    hindsight=frozenset({"foresight"}),
    commands=frozenset({*POWER_RULES, "power_plan", "power_halves"}),
)

__all__ = [
    "BASELINES",
    "HEURISTICS",
    "DeadlineLast",
    "DeadlineNever",
    "DensestFirst",
    "EarliestDeadlineFirst",
    "FirstComeFirstServed",
    "Foresight",
    "Heuristic",
    "HighestQosFirst",
    "HighestValueFirst",
    "PowerHalves",
    "PowerPlan",
    "PowerRule",
    "RandomOrder",
    "RollingPlan",
    "Rollout",
    "ShortestJobFirst",
    "WorkConserving",
]
