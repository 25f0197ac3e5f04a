# mypy: warn-return-any=False
"""Compiled table of the jobs that a heuristic chooses from, and their order.

The table is two arrays of one row a job: ``keys`` (what the order sorts by, least first) and ``table``,
whole numbers in the columns below, followed by the units needed of each resource type.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled
from greendc.resource_pool import orders

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

RANK = 0
MAY_START = 1  # 0 if the job is known not to have a place
LENGTH = 2  # steps that a placement occupies
BROWN = 3  # 1 if it may use units that green power does not carry
NEEDS = 4

OUT, FIRST, LAST = -1, 0, 1
"""Ranks: jobs that do not take part; those that come first; those that come only after them."""


@compiled
def rank_of(late_rule: int, late: bool) -> int:
    """Return the rank of a job that would finish late, or would not."""
    if not late or late_rule == orders.LATE_ALIKE:
        return FIRST
    return LAST if late_rule == orders.LATE_LAST else OUT


@compiled
def first_of(keys: Floats, table: Ints, count: int, startable: bool) -> int:
    """Return the first of ``count`` jobs by rank, key and place, or -1.

    :param startable: only among those that may have a place
    """
    best = -1
    for i in range(count):
        if table[i, RANK] == OUT or (startable and not table[i, MAY_START]):
            continue
        if best < 0 or precedes(keys, table, i, best):
            best = i
    return best


@compiled
def precedes(keys: Floats, table: Ints, i: int, j: int) -> bool:
    """Return whether job ``i`` comes before job ``j`` by rank and key."""
    if table[i, RANK] != table[j, RANK]:
        return table[i, RANK] < table[j, RANK]
    return keys[i] < keys[j]
