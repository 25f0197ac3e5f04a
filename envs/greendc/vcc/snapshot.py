"""Looking into an environment and copying it: for planners and searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.vcc import layout
from greendc.vcc.kernel import State


class UnfinishedJobs(NamedTuple):
    """The jobs that have arrived and have work left, ``(n,)`` each, in the order of their claim to run.

    First the inflexible; then the running flexible jobs by start, of which the last is evicted first;
    then the waiting ones by class and submission.
    """

    cpu: NDArray[np.int64]
    """Millionths of a machine unit."""
    left: NDArray[np.int64]
    """Hours of work left."""
    delay: NDArray[np.int64]
    """Hours waited since submission, and work lost to evictions."""
    flexible: NDArray[np.bool_]
    running: NDArray[np.bool_]


def unfinished_jobs(state: State, index: int) -> UnfinishedJobs:
    """Return what the operator of environment ``index`` knows of its jobs."""
    counters = state.counters[index]
    now = counters[layout.HOUR]
    jobs = state.slots[index, : counters[layout.HIGH_WATER]].astype(np.int64)
    jobs = jobs[jobs[:, layout.STATE] != layout.VACANT]
    running = jobs[:, layout.STATE] == layout.RUNNING
    flexible = jobs[:, layout.CLASS] >= layout.FIRST_FLEXIBLE_CLASS
    place = np.where(running, jobs[:, layout.STACKED], jobs[:, layout.ID])
    order = np.lexsort((place, np.where(running, 0, jobs[:, layout.CLASS]), ~running, flexible))
    jobs, running, flexible = jobs[order], running[order], flexible[order]
    left = np.where(running, jobs[:, layout.FINISH] - now, jobs[:, layout.LEFT])
    delay = now - jobs[:, layout.SUBMIT] - jobs[:, layout.DURATION] + left
    return UnfinishedJobs(jobs[:, layout.CPU], left, delay, flexible, running)


def copy_state(source: State, index: int, target: State, rows: Sequence[int]) -> None:
    """Copy one environment's state into rows of another simulator's (of the same sizes).

    Slots and lists are copied as far as they have been used: most of them never are.
    """
    counters = source.counters[index]
    used = max(counters[layout.HIGH_WATER], counters[layout.STACK_TOP], source.lateness.shape[2])
    for row in rows:
        target.slots[row, :used] = source.slots[index, :used]
        target.lists[row, :, :used] = source.lists[index, :, :used]
        for name in ("queues", "machines", "counters", "lateness", "sums"):
            getattr(target, name)[row] = getattr(source, name)[index]
