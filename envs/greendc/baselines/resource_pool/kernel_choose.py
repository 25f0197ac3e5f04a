# mypy: warn-return-any=False
"""Compiled dispatch: which job of an ordered table to place next, EASY's guarantee included.

EASY lets jobs overtake the first one, which has no place yet, if that does not delay it. Where and when the
first job would start is read off the resource image, as an agent sees it: ``runs[h, c]`` is the number of
rows from ``h`` on in which cell ``c`` stays free. Beyond the horizon nothing is planned, so the last row
is taken to go on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.resource_pool.kernel_order import Scratch, first_of
from greendc.compiled import compiled, internal
from greendc.resource_pool import layout as at
from greendc.resource_pool import orders
from greendc.resource_pool.layout import Record

Ints = NDArray[np.int64]
Cells = NDArray[Any]

NOBODY = -1
BEYOND = 1 << 40  # more rows than any job needs
LARGEST_JOB_CELL = at.CELL_JOB + at.CELL_JOBS


@compiled
def choose(
    dispatch: int, config: Record, scale: float, image: Cells, head: int, count: int, scratch: Scratch
) -> int:
    """Return which of ``count`` jobs to place now, or ``NOBODY``.

    A job's ``may_start`` may be too hopeful: then the caller finds that the job has no place, clears it
    and asks again.

    :param scale: what a cell of the image is multiplied with, 1 or 1/255
    :param image: ``(H, R * M)`` the resource image; its row of now is ``head``
    """
    table = scratch.table
    first = first_of(table, count, dispatch == orders.SKIP or dispatch == orders.RESERVE)
    if first < 0 or table[first].may_start:
        return first
    if dispatch == orders.BLOCK:
        return NOBODY
    candidate = first_of(table, count, True)
    if candidate < 0:
        return NOBODY
    for brown in range(scratch.runs.shape[0]):
        measure_runs(config, scale, image, head, brown, scratch.runs)
    start = earliest_start(config, first, scratch)
    while candidate >= 0:
        if keeps_guarantee(config, first, start, candidate, scratch):
            return candidate
        table[candidate].may_start = 0
        candidate = first_of(table, count, True)
    return NOBODY


@internal
def measure_runs(config: Record, scale: float, image: Cells, head: int, brown: int, runs: Ints) -> None:
    """Write how long each cell stays free, for jobs on green power or for those that may use brown."""
    horizon = config.horizon
    largest_job = LARGEST_JOB_CELL * scale
    for h in range(horizon - 1, -1, -1):
        row = (head + h) % horizon
        for c in range(config.types * config.units):
            cell = image[row, c]
            if cell == at.CELL_FREE or (brown and cell > largest_job):
                runs[brown, h, c] = (runs[brown, h + 1, c] if h + 1 < horizon else BEYOND) + 1
            else:
                runs[brown, h, c] = 0


@internal
def block_at(
    config: Record, job: int, resource: int, row: int, first: int, last: int, scratch: Scratch
) -> int:
    """Return the lowest block that a job could have of a type from ``row`` on, or -1.

    :param first: units ``first .. last - 1`` are not to be used
    """
    need, units, found = scratch.needs[job, resource], config.units, 0
    if need == 0:
        return 0
    brown, length = scratch.table[job].brown, scratch.table[job].length
    for u in range(units):
        free = scratch.runs[brown, row, resource * units + u] >= length
        found = found + 1 if free and not first <= u < last else 0
        if found == need:
            return u + 1 - need
    return -1


@internal
def earliest_start(config: Record, job: int, scratch: Scratch) -> int:
    """Return the earliest row at which a job could start, or the horizon if it could at none."""
    for row in range(config.horizon):
        fits = True
        for k in range(config.types):
            fits = fits and block_at(config, job, k, row, 0, 0, scratch) >= 0
        if fits:
            return row
    return config.horizon


@internal
def keeps_guarantee(config: Record, first: int, start: int, candidate: int, scratch: Scratch) -> bool:
    """Return whether the first job could still start at ``start`` if the candidate started now."""
    if scratch.table[candidate].length <= start or start == config.horizon:
        return True
    for k in range(config.types):
        block = block_at(config, candidate, k, 0, 0, 0, scratch)
        if block < 0:
            return False
        last = block + scratch.needs[candidate, k]
        if block_at(config, first, k, start, block, last, scratch) < 0:
            return False
    return True
