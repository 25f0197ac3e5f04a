"""Advice for a live queue: a snapshot of a cluster or a resource pool in, a decision out.

Nothing is kept between calls. :class:`Snapshot` and :class:`Decision` are plain records with a JSON form, of
a resource pool :class:`PoolSnapshot` and :class:`PoolDecision`; :class:`Scheduler` turns one into the other
with the heuristics and planners of :mod:`greendc.baselines` and with trained networks.
"""

from greendc.json_records import SnapshotError
from greendc.live.cluster_scheduler import ClusterScheduler
from greendc.live.decision import Decision, PassedOver, Place, PoolDecision
from greendc.live.pool_scheduler import PoolScheduler
from greendc.live.scheduler import Scheduler, read_snapshot
from greendc.live.snapshot import (
    CapacityChange,
    FinishedJob,
    RunningJob,
    Snapshot,
    WaitingJob,
)
from greendc.resource_pool.snapshot import PoolJob, PoolPower, PoolSnapshot

__all__ = [
    "CapacityChange",
    "ClusterScheduler",
    "Decision",
    "FinishedJob",
    "PassedOver",
    "Place",
    "PoolDecision",
    "PoolJob",
    "PoolPower",
    "PoolScheduler",
    "PoolSnapshot",
    "RunningJob",
    "Scheduler",
    "Snapshot",
    "SnapshotError",
    "WaitingJob",
    "read_snapshot",
]
