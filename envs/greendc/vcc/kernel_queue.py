"""The waiting jobs, in order, with quick search for those that fit (compiled).

A job keeps its place for good, so that an evicted one returns to it. A flat int32 array holds the CPU of
each job that waits (``NO_JOB`` in other places), then the least CPU of each block of 64 places, and of
each block of 64 blocks; a search for jobs that fit skips whole blocks in which nothing does, and
after taking jobs out of a block brings its least up to date.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import inlined
from greendc.vcc.layout import BLOCK, NO_JOB

Keys = NDArray[np.int32]
UNIT = BLOCK * BLOCK
"""Stretches of places begin at multiples of this."""


def keys_size(places: int) -> int:
    """Return the length of the flat array for so many places, a multiple of :data:`UNIT`."""
    return places // UNIT * (UNIT + BLOCK + 1)


@inlined
def offsets(keys: Keys) -> tuple[int, int]:
    """Return where the least of blocks, and of blocks of blocks, begin."""
    units = keys.shape[0] // (UNIT + BLOCK + 1)
    return units * UNIT, units * (UNIT + BLOCK)


@inlined
def extend(keys: Keys, j: int) -> None:
    """Make room for place ``j``, the next of its stretch; a block is emptied before its first is used."""
    block, upper = offsets(keys)
    if j % UNIT == 0:
        u = j // UNIT
        keys[upper + u] = NO_JOB
        for k in range(block + u * BLOCK, block + (u + 1) * BLOCK):
            keys[k] = NO_JOB
    if j % BLOCK == 0:
        for k in range(j, j + BLOCK):
            keys[k] = NO_JOB


@inlined
def insert(keys: Keys, j: int, cpu: int) -> None:
    """Let job ``j`` wait."""
    block, upper = offsets(keys)
    keys[j] = cpu
    b = block + j // BLOCK
    u = upper + j // UNIT
    keys[b] = min(keys[b], cpu)
    keys[u] = min(keys[u], cpu)


@inlined
def fitting(keys: Keys, b: int, room: int) -> int:
    """Return the bits of the places of block ``b`` in which a job of at most ``room`` waits."""
    block = keys[b * BLOCK : (b + 1) * BLOCK]
    bits = 0
    for k in range(block.shape[0]):  # with a constant length it would be unrolled, and not vectorized
        bits |= np.int64(block[k] <= room) << k  # type: ignore[assignment]  # an int once compiled
    return bits


@inlined
def waiting(keys: Keys, b: int) -> int:
    """Return the bits of the places of block ``b`` in which a job waits."""
    return fitting(keys, b, NO_JOB - 1)


@inlined
def renew(keys: Keys, first: int, target: int) -> None:
    """Bring ``keys[target]`` up to date, the least of the 64 entries from ``first`` on."""
    block = keys[first : first + BLOCK]
    smallest = np.int32(NO_JOB)
    for k in range(block.shape[0]):
        smallest = min(smallest, block[k])
    keys[target] = smallest
