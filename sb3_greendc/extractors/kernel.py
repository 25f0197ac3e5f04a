# mypy: warn-return-any=False
"""The compiled code behind :mod:`sb3_greendc.extractors.compiled_inputs`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled

_FULL = 255


@compiled
def summarize(image: NDArray[np.uint8], units: int, types: int, out: NDArray[Any]) -> None:
    """Write, of each row and type, the mean value and the shares of cells above 0 and at 255."""
    cells = image.reshape(-1)
    numbers = out.reshape(-1)
    share = np.float32(1.0 / units)
    mean = np.float32(1.0 / (_FULL * units))
    for row in range(image.shape[0] * image.shape[1]):
        for k in range(types):
            total, above, full = np.int32(0), np.int32(0), np.int32(0)
            start = (row * types + k) * units
            for u in range(start, start + units):
                value = np.int32(cells[u])
                total += value
                above += np.int32(value > 0)
                full += np.int32(value == _FULL)
            place = row * 3 * types + k
            numbers[place] = np.float32(total) * mean
            numbers[place + types] = np.float32(above) * share
            numbers[place + 2 * types] = np.float32(full) * share


@compiled
def find_present(table: NDArray[np.float32], slots: NDArray[np.int64]) -> int:
    """Write the slots that are not all zero, and return their number."""
    rows = table.reshape(-1, table.shape[2])
    n = 0
    for slot in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            if rows[slot, f] != 0:
                slots[n] = slot
                n += 1
                break
    return n


@compiled
def find_asked(
    mask: NDArray[np.bool_], slots: NDArray[np.int64], n_jobs: int, found: NDArray[np.int64]
) -> int:
    """Write which of the present jobs a mask allows, and return their number; -1 for an empty slot."""
    n, place = 0, 0
    for row in range(mask.shape[0]):
        for job in range(n_jobs):
            slot = row * n_jobs + job
            present = place < len(slots) and slots[place] == slot
            if mask[row, job]:
                if not present:
                    return -1
                found[n] = place
                n += 1
            place += present
    return n


@compiled
def pool(jobs: Any, owners: Any, mean: Any, maximum: Any, greatest: Any) -> None:
    """Write means, maxima and the jobs that have them; rows of owners without jobs are left alone."""
    width = jobs.shape[1]
    first = 0
    while first < len(owners):
        owner = owners[first]
        last = first + 1
        for f in range(width):
            mean[owner, f] = jobs[first, f]
            maximum[owner, f] = jobs[first, f]
            greatest[owner, f] = first
        while last < len(owners) and owners[last] == owner:
            for f in range(width):
                value = jobs[last, f]
                mean[owner, f] += value
                if value > maximum[owner, f]:
                    maximum[owner, f] = value
                    greatest[owner, f] = last
            last += 1
        if last > first + 1:
            share = np.float32(1.0 / (last - first))
            for f in range(width):
                mean[owner, f] *= share
        first = last


@compiled
def pool_backward(of_mean: Any, of_maximum: Any, owners: Any, greatest: Any, gradient: Any) -> None:
    """Write the gradient of each job from those of means and maxima."""
    width = gradient.shape[1]
    first = 0
    while first < len(owners):
        owner = owners[first]
        last = first + 1
        while last < len(owners) and owners[last] == owner:
            last += 1
        share = np.float32(1.0 / (last - first))
        for job in range(first, last):
            for f in range(width):
                of_max = of_maximum[owner, f] if greatest[owner, f] == job else np.float32(0.0)
                gradient[job, f] = of_mean[owner, f] * share + of_max
        first = last
