"""Advice for a live queue: a snapshot of a cluster in, a decision out.

Nothing is kept between calls. :class:`Snapshot` and :class:`Decision` are plain records with a JSON form;
:class:`Scheduler` turns one into the other with the heuristics and planners of :mod:`greendc.baselines`.
"""

from greendc.live.decision import Decision, PassedOver
from greendc.live.scheduler import Scheduler
from greendc.live.snapshot import (
    CapacityChange,
    FinishedJob,
    RunningJob,
    Snapshot,
    SnapshotError,
    WaitingJob,
)

__all__ = [
    "CapacityChange",
    "Decision",
    "FinishedJob",
    "PassedOver",
    "RunningJob",
    "Scheduler",
    "Snapshot",
    "SnapshotError",
    "WaitingJob",
]
