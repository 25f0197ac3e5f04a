"""Advice for a live queue: a snapshot of a cluster in, a decision out.

Nothing is kept between calls. :class:`Snapshot` and :class:`Decision` are plain records with a JSON form;
:class:`Scheduler` turns one into the other with the heuristics and planners of :mod:`greendc.baselines`.
:class:`PoolSnapshot` is a resource pool, for :meth:`greendc.resource_pool.ResourcePoolSimulator.load`.
"""

from greendc.json_records import SnapshotError
from greendc.live.decision import Decision, PassedOver
from greendc.live.scheduler import Scheduler
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
    "Decision",
    "FinishedJob",
    "PassedOver",
    "PoolJob",
    "PoolPower",
    "PoolSnapshot",
    "RunningJob",
    "Scheduler",
    "Snapshot",
    "SnapshotError",
    "WaitingJob",
]
