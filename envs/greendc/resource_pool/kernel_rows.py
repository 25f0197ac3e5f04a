# mypy: warn-return-any=False
"""Compiled image of the resource pool: rows as bitmaps and as cells, and the first-fit search over them.

Everything here works on environment ``b``; the arrays are described in :mod:`greendc.resource_pool.layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.bits import count_bits, lowest_bit
from greendc.compiled import compiled, inlined
from greendc.resource_pool import layout as at

Ints = NDArray[np.int64]
Cells = NDArray[Any]


@inlined
def ring(head: int, offset: int, horizon: int) -> int:
    """Return the ring row of the image's row ``offset``, given that of row 0."""
    row = head + offset
    return row - horizon if row >= horizon else row


@inlined
def bits_below(count: int) -> int:
    """Return a word whose lowest ``count`` (0 to 63) bits are set."""
    return (1 << count) - 1


@inlined
def span(first: int, last: int, word: int) -> int:
    """Return the bits of ``word`` that stand for units ``first .. last - 1``."""
    low = min(max(first - word * at.WORD_BITS, 0), at.WORD_BITS)
    high = min(max(last - word * at.WORD_BITS, 0), at.WORD_BITS)
    return bits_below(high) - bits_below(low) if high > low else 0


@inlined
def run_starts(word: int, need: int) -> int:
    """Return the bits at which a run of ``need`` set bits begins, for a pool of one word."""
    have = 1
    while have < need and word != 0:
        step = min(have, need - have)
        word &= word >> step
        have += step
    return word


@compiled
def first_run(rows: Ints, b: int, row: int, column: int, words: int, need: int) -> int:
    """Return the lowest unit at which ``need`` contiguous bits are set in ``words`` words, or -1."""
    start, run = 0, 0
    for w in range(words):
        word = rows[b, row, column + w]
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
def longest_run(rows: Ints, b: int, row: int, column: int, words: int) -> int:
    """Return the length of the longest run of set bits in ``words`` words."""
    if words == 1:
        word, length = rows[b, row, column], 0
        while word != 0:
            word &= word >> 1
            length += 1
        return length
    longest, run = 0, 0
    for w in range(words):
        word = rows[b, row, column + w]
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


@inlined
def column_of(resource: int, words: int, unoccupied: bool) -> int:
    """Return the first column of a type's bitmap: of unoccupied units, or of free (and powered) ones."""
    return at.BITS + (2 * resource + (0 if unoccupied else 1)) * words


@inlined
def summary_of(resource: int, types: int, words: int) -> int:
    """Return the column of a type's number of free units; that of its largest free block follows."""
    return at.BITS + 2 * types * words + 2 * resource


@compiled
def summarize(config: Ints, rows: Ints, b: int, row: int, resource: int) -> None:
    """Write the number of free units of a ring row, and its largest block."""
    types, words = config[at.TYPES], config[at.WORDS]
    summary, free = summary_of(resource, types, words), column_of(resource, words, False)
    count = 0
    for w in range(words):
        count += count_bits(rows[b, row, free + w])
    rows[b, row, summary] = count
    rows[b, row, summary + 1] = longest_run(rows, b, row, free, words)


@inlined
def keep_common(rows: Ints, b: int, scratch: int, row: int, column: int, words: int) -> bool:
    """Keep, in the scratch row, the units that are set in another row too; return whether any fell away."""
    fewer = False
    for w in range(words):
        common = rows[b, scratch, at.BITS + w]
        kept = common & rows[b, row, column + w]
        if kept != common:
            rows[b, scratch, at.BITS + w] = kept
            fewer = True
    return fewer


@inlined
def blocked_row(
    config: Ints, rows: Ints, b: int, head: int, first: int, length: int, column: int, need: int
) -> int:
    """Look for ``need`` contiguous units that are set in all of ``length`` rows from row ``first``.

    The rows are looked through from the last to the first: when the units common to rows ``h ..`` no longer
    hold the block, no start up to ``h`` can, so the search goes on at ``h + 1``. The units common to all
    rows are left in the scratch row.

    :return: the row that rules the window out, or -1 if there is such a block
    """
    horizon, words = config[at.HORIZON], config[at.WORDS]
    if words == 1:
        common = bits_below(at.WORD_BITS)
        for h in range(first + length - 1, first - 1, -1):
            kept = common & rows[b, ring(head, h, horizon), column]
            if kept != common:
                common = kept
                if run_starts(common, need) == 0:
                    return h
        rows[b, horizon, at.BITS] = common
        return -1
    for w in range(words):
        rows[b, horizon, at.BITS + w] = bits_below(at.WORD_BITS)
    for h in range(first + length - 1, first - 1, -1):
        fewer = keep_common(rows, b, horizon, ring(head, h, horizon), column, words)
        if fewer and first_run(rows, b, horizon, at.BITS, words, need) < 0:
            return h
    return -1


@inlined
def find_start(
    config: Ints,
    jobs: Ints,
    rows: Ints,
    b: int,
    job: int,
    head: int,
    length: int,
    brown: bool,
    first: int,
    last: int,
) -> int:
    """Return the earliest row in ``first .. last`` where the job fits for ``length`` rows, or -1.

    The job's cached block of each type is set to the lowest one there; a type that it does not need gets
    block 0.

    :param brown: whether the job may use units that green power does not carry
    """
    types, words, horizon = config[at.TYPES], config[at.WORDS], config[at.HORIZON]
    start = first
    while start <= last:
        blocked = -1
        for k in range(types):
            need = jobs[b, job, at.JOB_I + k]
            block = 0
            if need > 0:
                column = column_of(k, words, brown)
                blocked = blocked_row(config, rows, b, head, start, length, column, need)
                if blocked >= 0:
                    break
                if words == 1:
                    block = lowest_bit(run_starts(rows[b, horizon, at.BITS], need))
                else:
                    block = first_run(rows, b, horizon, at.BITS, words, need)
            jobs[b, job, at.JOB_I + 2 * types + k] = block
        if blocked < 0:
            return start
        start = blocked + 1
    return -1


@compiled
def fits_at_once(
    config: Ints, jobs: Ints, rows: Ints, b: int, job: int, head: int, length: int, brown: bool
) -> bool:
    """Return whether the job fits from row 0 on, leaving its cached block alone."""
    words = config[at.WORDS]
    for k in range(config[at.TYPES]):
        need = jobs[b, job, at.JOB_I + k]
        column = column_of(k, words, brown)
        if need > 0 and blocked_row(config, rows, b, head, 0, length, column, need) >= 0:
            return False
    return True


@inlined
def mark(
    config: Ints, jobs: Ints, rows: Ints, b: int, job: int, head: int, first: int, last: int, occupied: bool
) -> None:
    """Take the job's blocks in rows ``first .. last - 1``, or give them back, in the bitmaps alone."""
    types, words = config[at.TYPES], config[at.WORDS]
    for k in range(types):
        need, block = jobs[b, job, at.JOB_I + k], jobs[b, job, at.JOB_I + types + k]
        if need == 0:
            continue
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        summary = summary_of(k, types, words)
        for w in range(words):
            units = span(block, block + need, w)
            if units == 0:
                continue
            for h in range(first, last):
                row = ring(head, h, config[at.HORIZON])
                rows[b, row, summary] = -1
                if occupied:
                    rows[b, row, unoccupied + w] &= ~units
                    rows[b, row, free + w] &= ~units
                else:
                    rows[b, row, unoccupied + w] |= units
                    rows[b, row, free + w] |= units & span(0, rows[b, row, at.LEVEL], w)


@inlined
def fill(image: Cells, b: int, row: int, first: int, last: int, value: float) -> None:
    """Set cells ``first .. last - 1`` of a row."""
    # Unsigned counters spare the test for negative indices.
    for c in range(np.uint64(first), np.uint64(last)):
        image[b, row, c] = value


@inlined
def paint(
    config: Ints,
    jobs: Ints,
    rows: Ints,
    image: Cells,
    b: int,
    job: int,
    scale: float,
    head: int,
    first: int,
    last: int,
    code: int,
) -> None:
    """Show the job's cells in rows ``first .. last - 1`` as ``code``, or as what they are without the job.

    :param code: a job's code, or ``CELL_FREE``
    """
    types, units = config[at.TYPES], config[at.UNITS]
    for k in range(types):
        need, block = jobs[b, job, at.JOB_I + k], jobs[b, job, at.JOB_I + types + k]
        cell = k * units + block
        for h in range(first, last):
            row = ring(head, h, config[at.HORIZON])
            fill(image, b, row, cell, cell + need, code * scale)
            if code == at.CELL_FREE:
                lit = min(max(rows[b, row, at.LEVEL] - block, 0), need)
                fill(image, b, row, cell + lit, cell + need, at.CELL_DARK * scale)


@compiled
def set_level(config: Ints, rows: Ints, image: Cells, b: int, scale: float, row: int, level: int) -> None:
    """Power units ``0 .. level - 1`` of ring row ``row``; jobs keep their cells."""
    types, words, units = config[at.TYPES], config[at.WORDS], config[at.UNITS]
    before = rows[b, row, at.LEVEL]
    rows[b, row, at.LEVEL] = level
    cell = (at.CELL_FREE if level > before else at.CELL_DARK) * scale
    for k in range(types):
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        rows[b, row, summary_of(k, types, words)] = -1
        for w in range(words):
            rows[b, row, free + w] = rows[b, row, unoccupied + w] & span(0, level, w)
        for u in range(min(level, before), max(level, before)):
            word, bit = u // at.WORD_BITS, u % at.WORD_BITS
            if (rows[b, row, unoccupied + word] >> bit) & 1:
                image[b, row, k * units + u] = cell


@inlined
def clear_row(config: Ints, rows: Ints, image: Cells, b: int, scale: float, row: int, level: int) -> None:
    """Make ring row ``row`` a new one: no job, units ``0 .. level - 1`` powered."""
    types, words, units = config[at.TYPES], config[at.WORDS], config[at.UNITS]
    rows[b, row, at.LEVEL] = level
    for k in range(types):
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        summary = summary_of(k, types, words)
        rows[b, row, summary] = level
        rows[b, row, summary + 1] = level
        for w in range(words):
            rows[b, row, unoccupied + w] = span(0, units, w)
            rows[b, row, free + w] = span(0, level, w)
        fill(image, b, row, k * units, k * units + level, at.CELL_FREE * scale)
        fill(image, b, row, k * units + level, (k + 1) * units, at.CELL_DARK * scale)


@compiled
def powered_units(level: float, units: int) -> int:
    """Return how many units of each type a power level in [0, 1] carries."""
    return int(np.floor(level * units + 1e-9))


@compiled
def job_code(job: int) -> int:
    """Return the cell code of a job: the same for its whole life, far from that of the jobs next to it."""
    return at.CELL_JOB + (job * at.CELL_STRIDE) % at.CELL_JOBS
