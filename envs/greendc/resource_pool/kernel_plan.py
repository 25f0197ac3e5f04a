# mypy: warn-return-any=False
"""Compiled plans: what is free from now on, and jobs placed in it.

The simulator's state carries more than a rollout needs (cells, energies, metrics). Here a pool is its *plan*
alone: for each row from now on and each resource type the units that are not taken.

==========  ===================================  =========================================================
array       shape                                holds
==========  ===================================  =========================================================
``plans``   ``(3, D + H + 1, R*kinds*words)``    bitmaps: as it is, after the first action, in a rollout.
                                                 Kind 0: free and powered; kind 1, only where jobs may use
                                                 brown energy: not occupied. The last row is scratch
``table``   ``(jobs, NEEDS + R)``                a row a job: the jobs of all futures, then the waiting ones
``worth``   ``(jobs, 2)``                        the key that the order sorts by, least first (infinite: the
                                                 heuristic never starts the job); the value
==========  ===================================  =========================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.bits import lowest_bit
from greendc.compiled import compiled, inlined
from greendc.resource_pool.kernel_rows import first_run, run_starts, span

Ints = NDArray[np.int64]

# --- columns of `table`; the units needed of each type follow them --------------------------------------
ARRIVAL = 0  # steps from the beginning of its future; of waiting jobs, the first step in which it may start
LATEST = 1  # latest finish, on the same clock
LENGTH = 2  # steps that a placement occupies
IS_BROWN = 3  # 1 if it may use units that green power does not carry
NO_PLACE_BEFORE = 4  # scratch of a rollout: rows before this one are known to have no place for it
NEEDS = 5

KEY, VALUE = 0, 1

# --- `shape`: whole numbers of a planner -----------------------------------------------------------------
TYPES = 0
WORDS = 1
KINDS = 2
UNITS = 3
DEPTH = 4
ROWS = 5
SAMPLED = 6  # jobs in all futures together
DAY = 7  # rows after which power is taken to repeat, beyond the forecast
BACKFILL = 8  # whether a job without a place holds one for later, and others only start around it
SHAPE = 9

NOW, CHANGED, WORK = 0, 1, 2  # the plans


@inlined
def copy_plan(plans: Ints, to: int, source: int) -> None:
    """Copy one plan over another."""
    for row in range(plans.shape[1]):
        for c in range(plans.shape[2]):
            plans[to, row, c] = plans[source, row, c]


@compiled
def take(shape: Ints, plans: Ints, p: int, k: int, block: int, need: int, first: int, last: int) -> None:
    """Take a block in rows ``first .. last - 1`` of plan ``p``."""
    words, kinds = shape[WORDS], shape[KINDS]
    for w in range(words):
        units = span(block, block + need, w)
        if units != 0:
            for kind in range(kinds):
                column = (k * kinds + kind) * words + w
                for row in range(first, last):
                    plans[p, row, column] &= ~units


@inlined
def steady_from(shape: Ints, plans: Ints) -> int:
    """Return the row from which on no unit that is free becomes taken or dark any more.

    From there on a block that is free in a row is free for as long as a job needs.
    """
    for row in range(shape[ROWS] - 1, 0, -1):
        if more_free(plans, CHANGED, row - 1, row):
            return row
    return 0


@inlined
def share_inside(shape: Ints, start: int, length: int) -> float:
    """Return the share of a placement's steps that a rollout sees."""
    return min(max(shape[DEPTH] - start, 0) / length, 1.0)


@inlined
def more_free(plans: Ints, p: int, row: int, other: int) -> bool:
    """Return whether a unit is free in ``row`` that is not in the other row."""
    more = 0
    for c in range(plans.shape[2]):
        more |= plans[p, row, c] & ~plans[p, other, c]
    return more != 0


@compiled
def hold(shape: Ints, t: int, last: int, steady: int, plans: Ints, table: Ints, i: int) -> int:
    """Take a job's blocks from the first row after ``t`` in which it fits, and return that row.

    The blocks are noted in the scratch row of plan ``NOW``. What is free only becomes less as time goes on in
    a rollout, so rows that had no place need not be looked at again.

    :param last: the last row in which it would be on time
    :return: -1, and nothing taken, if there is none
    """
    note = plans.shape[1] - 1
    for row in range(max(t + 1, table[i, NO_PLACE_BEFORE]), min(last + 1, shape[DEPTH])):
        if not more_free(plans, WORK, row, row - 1):
            continue
        fits = True
        for k in range(shape[TYPES]):
            if fits and table[i, NEEDS + k] > 0:
                plans[NOW, note, k] = lowest_block(shape, row, steady, plans, WORK, table, i, k)
                fits = plans[NOW, note, k] >= 0
        if fits:
            for k in range(shape[TYPES]):
                need, block = table[i, NEEDS + k], plans[NOW, note, k]
                if need > 0:
                    take(shape, plans, WORK, k, block, need, row, row + table[i, LENGTH])
            return row
    return -1


@compiled
def release(shape: Ints, row: int, plans: Ints, table: Ints, i: int) -> None:
    """Give back what :func:`hold` has taken from ``row`` on: units that were free on green power."""
    words, kinds, note = shape[WORDS], shape[KINDS], plans.shape[1] - 1
    for k in range(shape[TYPES]):
        need, block = table[i, NEEDS + k], plans[NOW, note, k]
        for w in range(words):
            units = span(block, block + need, w) if need > 0 else 0
            for kind in range(kinds):
                column = (k * kinds + kind) * words + w
                for h in range(row, row + table[i, LENGTH]):
                    plans[WORK, h, column] |= units


@compiled
def try_start(shape: Ints, t: int, steady: int, plans: Ints, p: int, table: Ints, i: int) -> bool:
    """Place a job from row ``t`` on, of each type on its lowest block, if there is one."""
    for k in range(shape[TYPES]):
        if table[i, NEEDS + k] > 0 and lowest_block(shape, t, steady, plans, p, table, i, k) < 0:
            return False
    for k in range(shape[TYPES]):
        need = table[i, NEEDS + k]
        if need > 0:
            block = lowest_block(shape, t, steady, plans, p, table, i, k)
            take(shape, plans, p, k, block, need, t, t + table[i, LENGTH])
    return True


@compiled
def lowest_block(shape: Ints, t: int, steady: int, plans: Ints, p: int, table: Ints, i: int, k: int) -> int:
    """Return the lowest block of type ``k`` that is free for all of the job from row ``t``, or -1."""
    words, need = shape[WORDS], table[i, NEEDS + k]
    column = (k * shape[KINDS] + table[i, IS_BROWN]) * words
    last = min(t + table[i, LENGTH] - 1, max(steady, t))
    if words == 1:
        common = plans[p, t, column]
        if run_starts(common, need) == 0:
            return -1
        for row in range(t + 1, last + 1):
            common &= plans[p, row, column]
        starts = run_starts(common, need)
        return lowest_bit(starts) if starts != 0 else -1
    scratch = plans.shape[1] - 1
    for w in range(words):
        common = plans[p, t, column + w]
        for row in range(t + 1, last + 1):
            common &= plans[p, row, column + w]
        plans[p, scratch, w] = common
    return first_run(plans[p, scratch], 0, words, need)
