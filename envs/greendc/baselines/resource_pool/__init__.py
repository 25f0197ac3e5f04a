"""Baselines for the resource pool."""

from greendc.baselines.registry import BaselineFamily
from greendc.baselines.resource_pool.policy import Heuristic
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
from greendc.resource_pool import ResourcePoolSimulator

BASELINES = BaselineFamily(
    name="resource_pool",
    simulator=ResourcePoolSimulator,
    policies={
        "sjf": ShortestJobFirst,
        "qos": HighestQosFirst,
        "hvf": HighestValueFirst,
        "fcfs": FirstComeFirstServed,
        "random": RandomOrder,
        "edf": EarliestDeadlineFirst,
        "density": DensestFirst,
        "deadline_last": DeadlineLast,
        "deadline_never": DeadlineNever,
    },
)

__all__ = [
    "BASELINES",
    "DeadlineLast",
    "DeadlineNever",
    "DensestFirst",
    "EarliestDeadlineFirst",
    "FirstComeFirstServed",
    "Heuristic",
    "HighestQosFirst",
    "HighestValueFirst",
    "RandomOrder",
    "ShortestJobFirst",
]
