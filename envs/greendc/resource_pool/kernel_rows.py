# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Compiled image of the resource pool: rows as bitmaps and as cells, and the first-fit search over them.

Everything here works on one environment. Numba's cache looks at each file on its own: after changing one of
the ``kernel_*`` modules, save ``kernel.py`` too, or run with an empty ``NUMBA_CACHE_DIR``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.resource_pool import layout as at

Ints = NDArray[np.int64]
Cells = NDArray[Any]


@njit(cache=True)
def ring(head: int, offset: int, horizon: int) -> int:
    """Return the ring row of the image's row ``offset``, given that of row 0."""
    row = head + offset
    return row - horizon if row >= horizon else row


@njit(cache=True)
def bits_below(count: int) -> int:
    """Return a word whose lowest ``count`` (0 to 63) bits are set."""
    return (1 << count) - 1


@njit(cache=True)
def span(first: int, last: int, word: int) -> int:
    """Return the bits of ``word`` that stand for units ``first .. last - 1``."""
    low = min(max(first - word * at.WORD_BITS, 0), at.WORD_BITS)
    high = min(max(last - word * at.WORD_BITS, 0), at.WORD_BITS)
    return bits_below(high) - bits_below(low) if high > low else 0


@njit(cache=True)
def count_bits(word: int) -> int:
    """Return how many bits are set."""
    x = word - ((word >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101) >> 56


@njit(cache=True)
def lowest_bit(word: int) -> int:
    """Return the index of the lowest bit that is set; ``word`` must not be 0."""
    return count_bits((word & -word) - 1)


@njit(cache=True)
def run_starts(word: int, need: int) -> int:
    """Return the bits at which a run of ``need`` set bits begins, for a pool of one word."""
    have = 1
    while have < need and word != 0:
        step = min(have, need - have)
        word &= word >> step
        have += step
    return word


@njit(cache=True)
def first_run(rows: Ints, row: int, column: int, words: int, need: int) -> int:
    """Return the lowest unit at which ``need`` contiguous bits are set in ``words`` words, or -1."""
    start, run = 0, 0
    for w in range(words):
        word = rows[row, column + w]
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


@njit(cache=True)
def longest_run(rows: Ints, row: int, column: int, words: int) -> int:
    """Return the length of the longest run of set bits in ``words`` words."""
    if words == 1:
        word, length = rows[row, column], 0
        while word != 0:
            word &= word >> 1
            length += 1
        return length
    longest, run = 0, 0
    for w in range(words):
        word = rows[row, column + w]
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


@njit(cache=True)
def column_of(resource: int, words: int, unoccupied: bool) -> int:
    """Return the first column of a type's bitmap: of unoccupied units, or of free (and powered) ones."""
    return at.BITS + (2 * resource + (0 if unoccupied else 1)) * words


@njit(cache=True)
def window(
    rows: Ints, config: Ints, head: int, first: int, length: int, column: int, need: int
) -> tuple[int, int]:
    """Look for ``need`` contiguous units that are set in all of ``length`` rows from row ``first``.

    The rows are looked through from the last to the first: when the units common to rows ``h ..`` no longer
    hold the block, no start up to ``h`` can, so the search goes on at ``h + 1``.

    :return: ``(-1, lowest such unit)``, or ``(row that rules the window out, -1)``
    """
    horizon, words = config[at.HORIZON], config[at.WORDS]
    if words == 1:
        common = bits_below(at.WORD_BITS)
        starts = common
        for h in range(first + length - 1, first - 1, -1):
            kept = common & rows[ring(head, h, horizon), column]
            if kept != common:
                common = kept
                starts = run_starts(common, need)
                if starts == 0:
                    return h, -1
        return -1, lowest_bit(starts)
    for w in range(words):
        rows[horizon, at.BITS + w] = bits_below(at.WORD_BITS)
    block = 0
    for h in range(first + length - 1, first - 1, -1):
        row = ring(head, h, horizon)
        changed = False
        for w in range(words):
            common = rows[horizon, at.BITS + w]
            kept = common & rows[row, column + w]
            if kept != common:
                rows[horizon, at.BITS + w] = kept
                changed = True
        if changed:
            block = first_run(rows, horizon, at.BITS, words, need)
            if block < 0:
                return h, -1
    return -1, block


@njit(cache=True)
def find_start(
    rows: Ints, config: Ints, head: int, job: Ints, length: int, brown: bool, first: int, last: int
) -> int:
    """Return the earliest row in ``first .. last`` where the job fits for ``length`` rows, or -1.

    The job's cached block of each type is set to the lowest one there; a type that it does not need gets
    block 0.

    :param job: ``(JOB_I + 3R,)``, the job's row of ``jobs_i``
    :param brown: whether the job may use units that green power does not carry
    """
    types, words = config[at.TYPES], config[at.WORDS]
    start = first
    while start <= last:
        blocked = -1
        for k in range(types):
            need = job[at.JOB_I + k]
            block = 0
            if need > 0:
                blocked, block = window(rows, config, head, start, length, column_of(k, words, brown), need)
                if blocked >= 0:
                    break
            job[at.JOB_I + 2 * types + k] = block
        if blocked < 0:
            return start
        start = blocked + 1
    return -1


@njit(cache=True)
def fits_at_once(rows: Ints, config: Ints, head: int, job: Ints, length: int, brown: bool) -> bool:
    """Return whether the job fits from row 0 on, leaving its cached block alone."""
    words = config[at.WORDS]
    for k in range(config[at.TYPES]):
        need = job[at.JOB_I + k]
        if need > 0 and window(rows, config, head, 0, length, column_of(k, words, brown), need)[0] >= 0:
            return False
    return True


@njit(cache=True)
def mark(rows: Ints, config: Ints, head: int, job: Ints, first: int, last: int, occupied: bool) -> None:
    """Take the job's blocks in rows ``first .. last - 1``, or give them back, in the bitmaps alone."""
    types, words = config[at.TYPES], config[at.WORDS]
    for k in range(types):
        need, block = job[at.JOB_I + k], job[at.JOB_I + types + k]
        if need == 0:
            continue
        for w in range(words):
            units = span(block, block + need, w)
            if units == 0:
                continue
            for h in range(first, last):
                row = ring(head, h, config[at.HORIZON])
                if occupied:
                    rows[row, column_of(k, words, True) + w] &= ~units
                    rows[row, column_of(k, words, False) + w] &= ~units
                else:
                    rows[row, column_of(k, words, True) + w] |= units
                    rows[row, column_of(k, words, False) + w] |= units & span(0, rows[row, at.LEVEL], w)


@njit(cache=True)
def paint(
    image: Cells,
    rows: Ints,
    config: Ints,
    scale: float,
    head: int,
    job: Ints,
    first: int,
    last: int,
    code: int,
) -> None:
    """Show the job's cells in rows ``first .. last - 1`` as ``code``, or as what they are without the job.

    :param code: a job's code, or ``CELL_FREE``
    """
    types, units = config[at.TYPES], config[at.UNITS]
    for k in range(types):
        need, block = job[at.JOB_I + k], job[at.JOB_I + types + k]
        if need == 0:
            continue
        for h in range(first, last):
            row = ring(head, h, config[at.HORIZON])
            level = rows[row, at.LEVEL]
            for u in range(block, block + need):
                cell = at.CELL_DARK if code == at.CELL_FREE and u >= level else code
                image[row, k * units + u] = cell * scale


@njit(cache=True)
def set_level(image: Cells, rows: Ints, config: Ints, scale: float, row: int, level: int) -> None:
    """Power units ``0 .. level - 1`` of ring row ``row``; jobs keep their cells."""
    words, units = config[at.WORDS], config[at.UNITS]
    before = rows[row, at.LEVEL]
    rows[row, at.LEVEL] = level
    cell = (at.CELL_FREE if level > before else at.CELL_DARK) * scale
    for k in range(config[at.TYPES]):
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        for w in range(words):
            rows[row, free + w] = rows[row, unoccupied + w] & span(0, level, w)
        for u in range(min(level, before), max(level, before)):
            word, bit = u // at.WORD_BITS, u % at.WORD_BITS
            if (rows[row, unoccupied + word] >> bit) & 1:
                image[row, k * units + u] = cell


@njit(cache=True)
def clear_row(image: Cells, rows: Ints, config: Ints, scale: float, row: int, level: int) -> None:
    """Make ring row ``row`` a new one: no job, units ``0 .. level - 1`` powered."""
    words, units = config[at.WORDS], config[at.UNITS]
    rows[row, at.LEVEL] = level
    for k in range(config[at.TYPES]):
        unoccupied, free = column_of(k, words, True), column_of(k, words, False)
        for w in range(words):
            rows[row, unoccupied + w] = span(0, units, w)
            rows[row, free + w] = span(0, level, w)
        for u in range(units):
            image[row, k * units + u] = (at.CELL_FREE if u < level else at.CELL_DARK) * scale


@njit(cache=True)
def powered_units(level: float, units: int) -> int:
    """Return how many units of each type a power level in [0, 1] carries."""
    return int(np.floor(level * units + 1e-9))


@njit(cache=True)
def job_code(job: int) -> int:
    """Return the cell code of a job: the same for its whole life, far from that of the jobs next to it."""
    return at.CELL_JOB + (job * at.CELL_STRIDE) % at.CELL_JOBS
