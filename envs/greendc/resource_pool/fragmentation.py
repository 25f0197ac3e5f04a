"""What a start leaves of the free blocks, as a part of the observation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import EntryPoint, compiled, internal
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.kernel_queue import occupied_steps, ready_count, waiting_job
from greendc.resource_pool.kernel_rows import column_of, ring, span
from greendc.resource_pool.layout import Pool, PoolState, pool_at
from greendc.resource_pool.observation import fragmentation_rows

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]


class Fragmentation:
    """How much of the free blocks each start would take, for the observations of one simulator.

    A job takes contiguous units. What it leaves depends on where it is put: five free units in one piece
    hold a job of five, two pieces do not. The image shows the pieces as they are, not as they would be.

    For each ready job that can start now, each resource type, and some of the next steps
    (:data:`~greendc.resource_pool.observation.FRAGMENTATION_ROWS`) two columns of ``jobs`` say by how many
    units the largest free block shrinks if the job starts, and by how many the second largest does, over
    ``M``. The second grows where a start divides the largest. They are 0 for all other jobs.

    :param config: the simulator's
    """

    def __init__(self, config: ResourcePoolConfig) -> None:
        self._rows = np.array(fragmentation_rows(config), np.int64)
        self._columns = 2 * len(self._rows) * config.resource_types
        self._from_the_end = self._columns + (config.lookahead > 0)
        self._write_losses = EntryPoint(write_losses)

    def write(self, state: PoolState, first: int, last: int, jobs: Any, context: Any) -> None:
        """Write the columns of environments ``first .. last - 1`` into a batch of observations.

        :param state: of the simulator
        :param jobs: ``(B, ready_pool_size, columns)``
        :param context: is left alone
        """
        self._write_losses(state, first, last, jobs, jobs.shape[2] - self._from_the_end, self._rows)


@compiled
def write_losses(state: PoolState, first: int, last: int, jobs: Singles, column: int, rows: Ints) -> None:
    """Write by how much each start would shrink the two largest free blocks, from ``column`` on."""
    for i in range(first, last):
        pool = pool_at(state, i)
        width = 2 * rows.shape[0] * pool.config.types
        for slot in range(ready_count(pool)):
            job = waiting_job(pool, slot)
            starts = pool.mask[slot] and pool.jobs[job].found_start == pool.env.now
            if starts:
                write_loss(pool, job, jobs[i, slot, column : column + width], rows)
            else:
                jobs[i, slot, column : column + width] = 0.0


@internal
def write_loss(pool: Pool, job: int, out: Singles, rows: Ints) -> None:
    """Write by how much the start of one job would shrink the two largest free blocks."""
    words, horizon, head = pool.config.words, pool.config.horizon, pool.env.head
    length, unit = occupied_steps(pool, job), 1.0 / pool.config.units
    for k in range(pool.config.types):
        need, block = pool.needs[job, k], pool.found_blocks[job, k]
        free = column_of(k, words, False)
        for r in range(rows.shape[0]):
            place = 2 * (k * rows.shape[0] + r)
            if need == 0 or rows[r] >= length:
                out[place], out[place + 1] = 0.0, 0.0
                continue
            row = ring(head, rows[r], horizon)
            for w in range(words):
                pool.rows[horizon, at.BITS + w] = pool.rows[row, free + w] & ~span(block, block + need, w)
            before, second_before = two_longest_runs(pool.rows[row], free, words)
            after, second_after = two_longest_runs(pool.rows[horizon], at.BITS, words)
            out[place] = (before - after) * unit
            out[place + 1] = (second_before - second_after) * unit


@internal
def two_longest_runs(bitmaps: Ints, column: int, words: int) -> tuple[int, int]:
    """Return the lengths of the two longest runs of set bits in ``words`` words."""
    longest, second, run = 0, 0, 0
    for w in range(words):
        word = bitmaps[column + w]
        for _ in range(at.WORD_BITS):
            if word & 1:
                run += 1
            else:
                longest, second = max(longest, run), max(second, min(longest, run))
                run = 0
                if word == 0:
                    break
            word >>= 1
    return max(longest, run), max(second, min(longest, run))
