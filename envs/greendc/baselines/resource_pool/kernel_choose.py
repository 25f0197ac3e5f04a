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

from greendc.baselines.resource_pool.kernel_order import (
    BROWN,
    LENGTH,
    MAY_START,
    NEEDS,
    first_of,
)
from greendc.compiled import compiled
from greendc.resource_pool import layout as at
from greendc.resource_pool import orders

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]

NOBODY = -1
BEYOND = 1 << 40  # more rows than any job needs
LARGEST_JOB_CELL = at.CELL_JOB + at.CELL_JOBS


@compiled
def choose(
    dispatch: int,
    keys: Floats,
    table: Ints,
    count: int,
    config: Ints,
    scale: float,
    image: Cells,
    b: int,
    head: int,
    runs: Ints,
) -> int:
    """Return which of ``count`` jobs to place now, or ``NOBODY``.

    A job's ``MAY_START`` may be too hopeful: then the caller finds that the job has no place, clears the
    column and asks again.

    :param image: ``(B, H, R * M)`` the resource image; its row of now is ``head``
    :param runs: ``(1, H, R * M)`` scratch, ``(2, H, R * M)`` where some jobs may use brown energy
    """
    first = first_of(keys, table, count, dispatch == orders.SKIP or dispatch == orders.RESERVE)
    if first < 0 or table[first, MAY_START]:
        return first
    if dispatch == orders.BLOCK:
        return NOBODY
    candidate = first_of(keys, table, count, True)
    if candidate < 0:
        return NOBODY
    for brown in range(runs.shape[0]):
        measure_runs(config, scale, image, b, head, brown, runs)
    start = earliest_start(config, table, first, runs)
    while candidate >= 0:
        if keeps_guarantee(config, table, first, start, candidate, runs):
            return candidate
        table[candidate, MAY_START] = 0
        candidate = first_of(keys, table, count, True)
    return NOBODY


@compiled
def measure_runs(config: Ints, scale: float, image: Cells, b: int, head: int, brown: int, runs: Ints) -> None:
    """Write how long each cell stays free, for jobs on green power or for those that may use brown."""
    horizon = config[at.HORIZON]
    largest_job = LARGEST_JOB_CELL * scale
    for h in range(horizon - 1, -1, -1):
        row = (head + h) % horizon
        for c in range(config[at.TYPES] * config[at.UNITS]):
            cell = image[b, row, c]
            if cell == at.CELL_FREE or (brown and cell > largest_job):
                runs[brown, h, c] = (runs[brown, h + 1, c] if h + 1 < horizon else BEYOND) + 1
            else:
                runs[brown, h, c] = 0


@compiled
def block_at(
    config: Ints, table: Ints, job: int, resource: int, row: int, first: int, last: int, runs: Ints
) -> int:
    """Return the lowest block that a job could have of a type from ``row`` on, or -1.

    :param first: units ``first .. last - 1`` are not to be used
    """
    need, units, found = table[job, NEEDS + resource], config[at.UNITS], 0
    if need == 0:
        return 0
    for u in range(units):
        free = runs[table[job, BROWN], row, resource * units + u] >= table[job, LENGTH]
        found = found + 1 if free and not first <= u < last else 0
        if found == need:
            return u + 1 - need
    return -1


@compiled
def earliest_start(config: Ints, table: Ints, job: int, runs: Ints) -> int:
    """Return the earliest row at which a job could start, or the horizon if it could at none."""
    for row in range(config[at.HORIZON]):
        fits = True
        for k in range(config[at.TYPES]):
            fits = fits and block_at(config, table, job, k, row, 0, 0, runs) >= 0
        if fits:
            return row
    return config[at.HORIZON]


@compiled
def keeps_guarantee(config: Ints, table: Ints, first: int, start: int, candidate: int, runs: Ints) -> bool:
    """Return whether the first job could still start at ``start`` if the candidate started now."""
    if table[candidate, LENGTH] <= start or start == config[at.HORIZON]:
        return True
    for k in range(config[at.TYPES]):
        block = block_at(config, table, candidate, k, 0, 0, 0, runs)
        if block < 0:
            return False
        last = block + table[candidate, NEEDS + k]
        if block_at(config, table, first, k, start, block, last, runs) < 0:
            return False
    return True
