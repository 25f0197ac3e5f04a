"""Looking into an environment and copying it: for planners and searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.vcc import layout
from greendc.vcc.layout import State


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


def unfinished_jobs(state: State, index: int, first_places: NDArray[np.int64]) -> UnfinishedJobs:
    """Return what the operator of environment ``index`` knows of its jobs."""
    cluster = state.cluster[index]
    now = int(cluster["now"])
    fixed = state.fixed[index, : cluster["fixed_jobs"]]
    stack = state.stack[index, : cluster["stack_top"]]
    fixed, stack = (jobs[jobs["finish"] > now] for jobs in (fixed, stack))
    pairs = zip(first_places, cluster["ends"], strict=True)
    taken = np.concatenate([np.arange(first, end) for first, end in pairs])
    taken = taken[state.keys[index, taken] != layout.NO_JOB]
    waiting, running = state.places[index, taken], np.concatenate([fixed, stack])
    flexible = np.ones(len(running) + len(waiting), dtype=np.bool_)
    flexible[: len(fixed)] = False
    return UnfinishedJobs(
        cpu=np.concatenate([running["cpu"], state.keys[index, taken]]).astype(np.int64),
        left=np.concatenate([running["finish"] - now, waiting["left"]]).astype(np.int64),
        delay=np.concatenate([running["delay"], now - waiting["origin"]]).astype(np.int64),
        flexible=flexible,
        running=np.arange(len(flexible)) < len(running),
    )


def copy_state(
    source: State, index: int, target: State, rows: Sequence[int], first_places: NDArray[np.int64]
) -> None:
    """Copy one environment's state into rows of another simulator's (of the same sizes).

    Lists are copied as far as they have been used: most of them never are.

    :param first_places: ``(FLEXIBLE_GROUPS,)``: first place of each group
    """
    cluster = source.cluster[index]
    top, fixed = cluster["stack_top"], cluster["fixed_jobs"]
    lists = ("places", "stack", "fixed")
    for row in rows:
        for first, end in zip(first_places, cluster["ends"], strict=True):
            target.places[row, first:end] = source.places[index, first:end]
        target.stack[row, :top] = source.stack[index, :top]
        target.fixed[row, :fixed] = source.fixed[index, :fixed]
        for name in State._fields:
            if name not in lists:
                getattr(target, name)[row] = getattr(source, name)[index]
