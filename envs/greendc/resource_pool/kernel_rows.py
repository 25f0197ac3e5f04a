# mypy: warn-return-any=False
"""Compiled image of the resource pool: rows as bitmaps and as cells, and the first-fit search over them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.bits import count_bits, lowest_bit
from greendc.compiled import compiled, internal
from greendc.resource_pool import layout as at
from greendc.resource_pool.layout import Pool

Ints = NDArray[np.int64]
Cells = NDArray[Any]


@internal
def ring(head: int, offset: int, horizon: int) -> int:
    """Return the ring row of the image's row ``offset``, given that of row 0."""
    row = head + offset
    return row - horizon if row >= horizon else row


@internal
def bits_below(count: int) -> int:
    """Return a word whose lowest ``count`` (0 to 63) bits are set."""
    return (1 << count) - 1


@internal
def span(first: int, last: int, word: int) -> int:
    """Return the bits of ``word`` that stand for units ``first .. last - 1``."""
    low = min(max(first - word * at.WORD_BITS, 0), at.WORD_BITS)
    high = min(max(last - word * at.WORD_BITS, 0), at.WORD_BITS)
    return bits_below(high) - bits_below(low) if high > low else 0


@internal
def run_starts(word: int, need: int) -> int:
    """Return the bits at which a run of ``need`` set bits begins, for a pool of one word."""
    have = 1
    while have < need and word != 0:
        step = min(have, need - have)
        word &= word >> step
        have += step
    return word


@internal
def first_run(bitmaps: Ints, column: int, words: int, need: int) -> int:
    """Return the lowest unit at which ``need`` contiguous bits are set in ``words`` words, or -1.

    :param bitmaps: ``(words or more,)``, from ``column`` on
    """
    start, run = 0, 0
    for w in range(words):
        word = bitmaps[column + w]
        position = 0
        while position < at.WORD_BITS:
            rest = word >> position
            if rest == 0:
                run = 0
                break
            gap = lowest_bit(rest)
            if gap > 0:
                run = 0
                position += gap
                rest = rest >> gap
            ones = min(lowest_bit(~rest), at.WORD_BITS - position)
            if run == 0:
                start = w * at.WORD_BITS + position
            run += ones
            if run >= need:
                return start
            position += ones
    return -1


@compiled
def longest_run(bitmaps: Ints, column: int, words: int) -> int:
    """Return the length of the longest run of set bits in ``words`` words."""
    if words == 1:
        word, length = bitmaps[column], 0
        while word != 0:
            word &= word >> 1
            length += 1
        return length
    longest, run = 0, 0
    for w in range(words):
        word = bitmaps[column + w]
        position = 0
        while position < at.WORD_BITS:
            rest = word >> position
            if rest == 0:
                run = 0
                break
            gap = lowest_bit(rest)
            if gap > 0:
                run = 0
                position += gap
                rest = rest >> gap
            ones = min(lowest_bit(~rest), at.WORD_BITS - position)
            run += ones
            longest = max(longest, run)
            position += ones
    return longest


@internal
def column_of(resource: int, words: int, unoccupied: bool) -> int:
    """Return the first column of a type's bitmap: of unoccupied units, or of free (and powered) ones."""
    return at.BITS + (2 * resource + (0 if unoccupied else 1)) * words


@internal
def summary_of(resource: int, types: int, words: int) -> int:
    """Return the column of a type's number of free units; that of its largest free block follows."""
    return at.BITS + 2 * types * words + 2 * resource


@compiled
def summarize(pool: Pool, row: int, resource: int) -> None:
    """Write the number of free units of a ring row, and its largest block."""
    types, words = pool.config.types, pool.config.words
    summary, free = summary_of(resource, types, words), column_of(resource, words, False)
    count = 0
    for w in range(words):
        count += count_bits(pool.rows[row, free + w])
    pool.rows[row, summary] = count
    pool.rows[row, summary + 1] = longest_run(pool.rows[row], free, words)


@internal
def keep_common(pool: Pool, scratch: int, row: int, column: int, words: int) -> bool:
    """Keep, in the scratch row, the units that are set in another row too; return whether any fell away."""
    fewer = False
    for w in range(words):
        common = pool.rows[scratch, at.BITS + w]
        kept = common & pool.rows[row, column + w]
        if kept != common:
            pool.rows[scratch, at.BITS + w] = kept
            fewer = True
    return fewer


@internal
def blocked_row(pool: Pool, head: int, first: int, length: int, column: int, need: int) -> int:
    """Look for ``need`` contiguous units that are set in all of ``length`` rows from row ``first``.

    The rows are looked through from the last to the first: when the units common to rows ``h ..`` no longer
    hold the block, no start up to ``h`` can, so the search goes on at ``h + 1``. The units common to all
    rows are left in the scratch row.

    :return: the row that rules the window out, or -1 if there is such a block
    """
    horizon, words = pool.config.horizon, pool.config.words
    if words == 1:
        common = bits_below(at.WORD_BITS)
        for h in range(first + length - 1, first - 1, -1):
            kept = common & pool.rows[ring(head, h, horizon), column]
            if kept != common:
                common = kept
                if run_starts(common, need) == 0:
                    return h
        pool.rows[horizon, at.BITS] = common
        return -1
    for w in range(words):
        pool.rows[horizon, at.BITS + w] = bits_below(at.WORD_BITS)
    for h in range(first + length - 1, first - 1, -1):
        fewer = keep_common(pool, horizon, ring(head, h, horizon), column, words)
        if fewer and first_run(pool.rows[horizon], at.BITS, words, need) < 0:
            return h
    return -1


@internal
def find_start(pool: Pool, job: int, head: int, length: int, brown: bool, first: int, last: int) -> int:
    """Return the earliest row in ``first .. last`` where the job fits for ``length`` rows, or -1.

    The job's cached block of each type is set to the lowest one there; a type that it does not need gets
    block 0.

    :param brown: whether the job may use units that green power does not carry
    """
    types, words, horizon = pool.config.types, pool.config.words, pool.config.horizon
    start = first
    while start <= last:
        blocked = -1
        for k in range(types):
            need = pool.needs[job, k]
            block = 0
            if need > 0:
                column = column_of(k, words, brown)
                blocked = blocked_row(pool, head, start, length, column, need)
                if blocked >= 0:
                    break
                if words == 1:
                    block = lowest_bit(run_starts(pool.rows[horizon, at.BITS], need))
                else:
                    block = first_run(pool.rows[horizon], at.BITS, words, need)
            pool.found_blocks[job, k] = block
        if blocked < 0:
            return start
        start = blocked + 1
    return -1


@internal
def fits_at_once(pool: Pool, job: int, head: int, length: int, brown: bool) -> bool:
    """Return whether the job fits from row 0 on, leaving its cached block alone."""
    words = pool.config.words
    for k in range(pool.config.types):
        need = pool.needs[job, k]
        column = column_of(k, words, brown)
        if need > 0 and blocked_row(pool, head, 0, length, column, need) >= 0:
            return False
    return True


@internal
def is_free(pool: Pool, job: int, head: int, first: int, last: int, brown: bool) -> bool:
    """Return whether no job has the job's blocks in rows ``first .. last - 1``, and they have power.

    :param brown: whether the job may use units that green power does not carry
    """
    words = pool.config.words
    for k in range(pool.config.types):
        need, block = pool.needs[job, k], pool.blocks[job, k]
        column = column_of(k, words, brown)
        for w in range(words):
            units = span(block, block + need, w) if need > 0 else 0
            for h in range(first, last):
                if pool.rows[ring(head, h, pool.config.horizon), column + w] & units != units:
                    return False
    return True


@internal
def mark(pool: Pool, job: int, head: int, first: int, last: int, occupied: bool) -> None:
    """Take the job's blocks in rows ``first .. last - 1``, or give them back, in the bitmaps alone."""
    types, words = pool.config.types, pool.config.words
    for k in range(types):
        need, block = pool.needs[job, k], pool.blocks[job, k]
        if need == 0:
            continue
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        summary = summary_of(k, types, words)
        for w in range(words):
            units = span(block, block + need, w)
            if units == 0:
                continue
            for h in range(first, last):
                row = ring(head, h, pool.config.horizon)
                pool.rows[row, summary] = -1
                if occupied:
                    pool.rows[row, unoccupied + w] &= ~units
                    pool.rows[row, free + w] &= ~units
                else:
                    pool.rows[row, unoccupied + w] |= units
                    pool.rows[row, free + w] |= units & span(0, pool.levels[row], w)


@internal
def fill(pool: Pool, row: int, first: int, last: int, value: float) -> None:
    """Set cells ``first .. last - 1`` of a row."""
    # Unsigned counters spare the test for negative indices.
    for c in range(np.uint64(first), np.uint64(last)):
        pool.image[row, c] = value


@internal
def paint(pool: Pool, job: int, scale: float, head: int, first: int, last: int, code: int) -> None:
    """Show the job's cells in rows ``first .. last - 1`` as ``code``, or as what they are without the job.

    :param code: a job's code, or ``CELL_FREE``
    """
    types, units = pool.config.types, pool.config.units
    for k in range(types):
        need, block = pool.needs[job, k], pool.blocks[job, k]
        cell = k * units + block
        for h in range(first, last):
            row = ring(head, h, pool.config.horizon)
            fill(pool, row, cell, cell + need, code * scale)
            if code == at.CELL_FREE:
                lit = min(max(pool.levels[row] - block, 0), need)
                fill(pool, row, cell + lit, cell + need, at.CELL_DARK * scale)


@internal
def set_level(pool: Pool, scale: float, row: int, level: int) -> None:
    """Power units ``0 .. level - 1`` of ring row ``row``; jobs keep their cells."""
    types, words, units = pool.config.types, pool.config.words, pool.config.units
    before = pool.levels[row]
    pool.levels[row] = level
    cell = (at.CELL_FREE if level > before else at.CELL_DARK) * scale
    for k in range(types):
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        pool.rows[row, summary_of(k, types, words)] = -1
        for w in range(words):
            pool.rows[row, free + w] = pool.rows[row, unoccupied + w] & span(0, level, w)
        for u in range(min(level, before), max(level, before)):
            word, bit = u // at.WORD_BITS, u % at.WORD_BITS
            if (pool.rows[row, unoccupied + word] >> bit) & 1:
                pool.image[row, k * units + u] = cell


@internal
def clear_row(pool: Pool, scale: float, row: int, level: int) -> None:
    """Make ring row ``row`` a new one: no job, units ``0 .. level - 1`` powered."""
    types, words, units = pool.config.types, pool.config.words, pool.config.units
    pool.levels[row] = level
    for k in range(types):
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        summary = summary_of(k, types, words)
        pool.rows[row, summary] = level
        pool.rows[row, summary + 1] = level
        for w in range(words):
            pool.rows[row, unoccupied + w] = span(0, units, w)
            pool.rows[row, free + w] = span(0, level, w)
        fill(pool, row, k * units, k * units + level, at.CELL_FREE * scale)
        fill(pool, row, k * units + level, (k + 1) * units, at.CELL_DARK * scale)


@compiled
def powered_units(level: float, units: int) -> int:
    """Return how many units of each type a power level in [0, 1] carries."""
    return int(np.floor(level * units + 1e-9))


@internal
def job_code(job: int) -> int:
    """Return the cell code of a job: the same for its whole life, far from that of the jobs next to it."""
    return at.CELL_JOB + (job * at.CELL_STRIDE) % at.CELL_JOBS
