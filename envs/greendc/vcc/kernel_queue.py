"""The waiting jobs of a class, in order, with quick search for the next that fits (compiled).

A job keeps the position that it got at submission, so that an evicted one returns to its place. A flat
int32 array holds, one after another, the slot at each position, its CPU (``NO_JOB`` where none waits),
the least CPU of each block of 64 positions, and of each block of 64 blocks; a search skips whole blocks
in which nothing fits.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.vcc.layout import BLOCK, NO_JOB

Queue = NDArray[np.int32]


def queue_size(positions: int) -> int:
    """Return the length of the flat array for so many positions."""
    blocks = -(-positions // BLOCK)
    upper = -(-blocks // BLOCK)
    return upper * BLOCK * BLOCK * 2 + upper * BLOCK + upper


@njit(cache=True, forceinline=True)
def offsets(queue: Queue) -> tuple[int, int, int]:
    """Return where CPU, block minima and upper minima begin."""
    upper = queue.shape[0] // (2 * BLOCK * BLOCK + BLOCK + 1)
    return upper * BLOCK * BLOCK, 2 * upper * BLOCK * BLOCK, (2 * BLOCK + 1) * BLOCK * upper


@njit(cache=True, forceinline=True)
def extend(queue: Queue, position: int) -> None:
    """Make room for a new last position; blocks are emptied when the first of their positions is."""
    cpus, block, upper = offsets(queue)
    if position % (BLOCK * BLOCK) == 0:
        u = position // (BLOCK * BLOCK)
        queue[upper + u] = NO_JOB
        queue[block + u * BLOCK : block + (u + 1) * BLOCK] = NO_JOB
    if position % BLOCK == 0:
        queue[cpus + position : cpus + position + BLOCK] = NO_JOB


@njit(cache=True, forceinline=True)
def insert(queue: Queue, position: int, slot: int, cpu: int) -> None:
    """Let the job in ``slot`` wait at ``position``."""
    cpus, block, upper = offsets(queue)
    queue[position] = slot
    queue[cpus + position] = cpu
    b = block + position // BLOCK
    u = upper + position // (BLOCK * BLOCK)
    queue[b] = min(queue[b], cpu)
    queue[u] = min(queue[u], cpu)


@njit(cache=True, forceinline=True)
def remove(queue: Queue, position: int) -> None:
    """Take the job at ``position`` out."""
    cpus, block, upper = offsets(queue)
    cpu = queue[cpus + position]
    queue[cpus + position] = NO_JOB
    b = position // BLOCK
    if queue[block + b] == cpu:
        queue[block + b] = least(queue, cpus + b * BLOCK)
        u = b // BLOCK
        if queue[upper + u] == cpu:
            queue[upper + u] = least(queue, block + u * BLOCK)


@njit(cache=True, forceinline=True)
def least(queue: Queue, first: int) -> int:
    """Return the least of the 64 entries from ``first`` on."""
    smallest = queue[first]
    for k in range(first + 1, first + BLOCK):
        smallest = min(smallest, queue[k])
    return smallest


@njit(cache=True, forceinline=True)
def next_fit(queue: Queue, position: int, end: int, room: int) -> int:
    """Return the first waiting position from ``position`` on, before ``end``, whose CPU is at most ``room``.

    Return ``end`` if there is none.
    """
    cpus, block, upper = offsets(queue)
    while position < end:
        if position % (BLOCK * BLOCK) == 0 and queue[upper + position // (BLOCK * BLOCK)] > room:
            position += BLOCK * BLOCK
        elif position % BLOCK == 0 and queue[block + position // BLOCK] > room:
            position += BLOCK
        elif queue[cpus + position] > room:
            position += 1
        else:
            return position
    return end
