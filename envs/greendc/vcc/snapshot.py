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


def unfinished_jobs(state: State, index: int, first_places: NDArray[np.int64]) -> UnfinishedJobs:
    """Return what the operator of environment ``index`` knows of its jobs."""
    counters = state.counters[index]
    now = int(counters[layout.HOUR])
    fixed = state.fixed[index, : counters[layout.FIXED_JOBS]]
    stack = state.stack[index, : counters[layout.STACK_TOP]]
    fixed, stack = (jobs[jobs[:, layout.FINISH] > now] for jobs in (fixed, stack))
    ends = counters[layout.END_PLACES : layout.END_PLACES + layout.FLEXIBLE_GROUPS]
    taken = np.concatenate([np.arange(first, end) for first, end in zip(first_places, ends, strict=True)])
    taken = taken[state.keys[index, taken] != layout.NO_JOB]
    waiting = state.places[index, taken].astype(np.int64)
    running = np.concatenate([fixed, stack]).astype(np.int64)
    flexible = np.ones(len(running) + len(waiting), dtype=np.bool_)
    flexible[: len(fixed)] = False
    return UnfinishedJobs(
        cpu=np.concatenate([running[:, layout.CPU], state.keys[index, taken]]),
        left=np.concatenate([running[:, layout.FINISH] - now, waiting[:, layout.LEFT]]),
        delay=np.concatenate([running[:, layout.DELAY], now - waiting[:, layout.ORIGIN]]),
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
    counters = source.counters[index]
    ends = counters[layout.END_PLACES : layout.END_PLACES + layout.FLEXIBLE_GROUPS]
    top, fixed = counters[layout.STACK_TOP], counters[layout.FIXED_JOBS]
    for row in rows:
        for first, end in zip(first_places, ends, strict=True):
            target.places[row, first:end] = source.places[index, first:end]
        target.stack[row, :top] = source.stack[index, :top]
        target.fixed[row, :fixed] = source.fixed[index, :fixed]
        for name in ("keys", "machines", "waiting", "calendar", "counters", "lateness", "sums"):
            getattr(target, name)[row] = getattr(source, name)[index]
