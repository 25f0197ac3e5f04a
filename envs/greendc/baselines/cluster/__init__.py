"""Baselines for clusters in event time."""

from greendc.baselines.cluster.policy import (
    F1,
    F2,
    F3,
    F4,
    WFP3,
    Evolved,
    FirstComeFirstServed,
    Heuristic,
    RandomJob,
    ShortestJobFirst,
    SmallestAreaFirst,
    SmallestFirst,
    Unicep,
    WeightedShortestFirst,
)
from greendc.baselines.cluster.rollout import GuardedRollout
from greendc.baselines.registry import BaselineFamily
from greendc.cluster import ClusterSimulator

HEURISTICS: dict[str, type[Heuristic]] = {
    policy.rule: policy
    for policy in (
        FirstComeFirstServed,
        ShortestJobFirst,
        SmallestFirst,
        SmallestAreaFirst,
        WeightedShortestFirst,
        WFP3,
        Unicep,
        F1,
        F2,
        F3,
        F4,
        Evolved,
    )
}
"""Those that take the waiting jobs in some order."""

BASELINES = BaselineFamily(
    name="cluster",
    simulator=ClusterSimulator,
    policies={**HEURISTICS, "random": RandomJob, "rollout": GuardedRollout},
)

__all__ = ["BASELINES", "HEURISTICS", "GuardedRollout", "Heuristic", "RandomJob"]
