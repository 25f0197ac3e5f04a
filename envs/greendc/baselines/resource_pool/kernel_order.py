# mypy: warn-return-any=False
"""Compiled table of the jobs that a heuristic chooses from, and their order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import internal
from greendc.resource_pool import orders

ROW = np.dtype(
    [
        ("key", np.float64),
        ("rank", np.int64),
        ("may_start", np.int64),
        ("length", np.int64),
        ("brown", np.int64),
    ]
)
"""A job to choose: what the order sorts by, least first; its rank; 0 if it is known not to have a place; the
steps that a placement occupies; 1 if it may use units that green power does not carry."""


class Rules(NamedTuple):
    """What kind of heuristic it is, by the codes of :mod:`greendc.resource_pool.orders`."""

    order: int
    late_rule: int
    dispatch: int


class Scratch(NamedTuple):
    """Memory of a heuristic, for ``n`` jobs.

    :param ids: ``(n,)`` of the jobs
    :param table: ``(n,)`` of :data:`ROW`
    :param needs: ``(n, R)`` units of each type
    :param widest: ``(1 or 2, R, H)``, see :func:`~greendc.baselines.resource_pool.kernel.measure_blocks`
    :param runs: ``(1 or 2, H, R * M)``, see :mod:`~greendc.baselines.resource_pool.kernel_choose`; the first
        axis is of length 1 where no job may use brown energy
    """

    ids: NDArray[np.int64]
    table: Any
    needs: NDArray[np.int64]
    widest: NDArray[np.int64]
    runs: NDArray[np.int64]


OUT, FIRST, LAST = -1, 0, 1
"""Ranks: jobs that do not take part; those that come first; those that come only after them."""


@internal
def rank_of(late_rule: int, late: bool) -> int:
    """Return the rank of a job that would finish late, or would not."""
    if not late or late_rule == orders.LATE_ALIKE:
        return FIRST
    return LAST if late_rule == orders.LATE_LAST else OUT


@internal
def first_of(table: Any, count: int, startable: bool) -> int:
    """Return the first of ``count`` jobs by rank, key and place, or -1.

    :param startable: only among those that may have a place
    """
    best = -1
    for i in range(count):
        if table[i].rank == OUT or (startable and not table[i].may_start):
            continue
        if best < 0 or precedes(table, i, best):
            best = i
    return best


@internal
def precedes(table: Any, i: int, j: int) -> bool:
    """Return whether job ``i`` comes before job ``j`` by rank and key."""
    if table[i].rank != table[j].rank:
        return table[i].rank < table[j].rank
    return table[i].key < table[j].key
