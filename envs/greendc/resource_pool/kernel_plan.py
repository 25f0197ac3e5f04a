# mypy: warn-return-any=False
"""Compiled plans: what is free from now on, and jobs placed in it.

The simulator's state carries more than a rollout needs (cells, energies, metrics). Here a pool is its *plan*
alone: for each row from now on and each resource type the units that are not taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.bits import lowest_bit
from greendc.by_reference import by_reference
from greendc.compiled import compiled, expanded, internal
from greendc.resource_pool.kernel_rows import first_run, run_starts, span
from greendc.resource_pool.layout import Record

Ints = NDArray[np.int64]

LOOK = np.dtype(
    [
        *((name, np.int64) for name in (
            "types", "words", "kinds", "units", "depth", "rows", "sampled", "day", "backfill", "order",
        )),
        ("min_qos", np.float64),
    ]
)  # fmt: skip
"""What a planner is: ``depth`` steps are looked ahead, on plans of ``rows`` rows; ``sampled`` jobs are in all
futures together; after ``day`` rows power is taken to repeat, beyond the forecast; with ``backfill`` a job
without a place holds one for later, and others only start around it; the heuristic starts jobs in the order
of a code (:mod:`~greendc.resource_pool.orders`), those of a QoS value below ``min_qos`` not at all."""

JOB = np.dtype(
    [
        *((name, np.int64) for name in ("arrival", "latest", "length", "is_brown", "no_place_before")),
        *((name, np.float64) for name in ("key", "value")),
    ]
)  # fmt: skip
"""A job of a rollout. ``arrival`` counts from the beginning of its future; of a waiting job it is the first
step in which it may start. ``latest`` is its latest finish, on the same clock; ``length`` the steps that a
placement occupies; ``is_brown`` is 1 if it may use units that green power does not carry; rows before
``no_place_before`` are known to have no place for it. ``key`` is what the order sorts by, least first; the
heuristic never starts a job of an infinite one."""

NOW, CHANGED, WORK = 0, 1, 2  # the plans


class Memory(NamedTuple):
    """The arrays of a planner.

    :param look: ``(1,)`` of :data:`LOOK`
    :param plans: ``(3, D + H + 1, R * kinds * words)`` bitmaps: as it is, after the first action, in a
        rollout. Kind 0: free and powered; kind 1, only where jobs may use brown energy: not occupied. The
        last row is scratch
    :param table: ``(jobs,)`` of :data:`JOB`: the jobs of all futures, then the waiting ones
    :param needs: ``(jobs, R)`` units of each type
    :param bank: ``(K + 1,)``: the jobs of future ``k`` are rows ``bank[k] .. bank[k + 1] - 1``
    :param queue: ``(jobs,)`` scratch
    """

    look: NDArray[np.void]
    plans: Ints
    table: NDArray[np.void]
    needs: Ints
    bank: Ints
    queue: Ints


class Planner(NamedTuple):
    """A planner, as compiled code sees it; see :class:`Memory`."""

    look: Record
    plans: Ints
    table: Any
    needs: Ints


@expanded
def planner_of(memory: Memory) -> Planner:
    """Return the planner of these arrays."""
    return by_reference(Planner(memory.look[0], memory.plans, memory.table, memory.needs))


@internal
def copy_plan(planner: Planner, to: int, source: int) -> None:
    """Copy one plan over another."""
    for row in range(planner.plans.shape[1]):
        for c in range(planner.plans.shape[2]):
            planner.plans[to, row, c] = planner.plans[source, row, c]


@compiled
def take(planner: Planner, p: int, k: int, block: int, need: int, first: int, last: int) -> None:
    """Take a block in rows ``first .. last - 1`` of plan ``p``."""
    words, kinds = planner.look.words, planner.look.kinds
    for w in range(words):
        units = span(block, block + need, w)
        if units != 0:
            for kind in range(kinds):
                column = (k * kinds + kind) * words + w
                for row in range(first, last):
                    planner.plans[p, row, column] &= ~units


@internal
def steady_from(planner: Planner) -> int:
    """Return the row from which on no unit that is free becomes taken or dark any more.

    From there on a block that is free in a row is free for as long as a job needs.
    """
    for row in range(planner.look.rows - 1, 0, -1):
        if more_free(planner, CHANGED, row - 1, row):
            return row
    return 0


@internal
def share_inside(planner: Planner, start: int, length: int) -> float:
    """Return the share of a placement's steps that a rollout sees."""
    return min(max(planner.look.depth - start, 0) / length, 1.0)


@internal
def more_free(planner: Planner, p: int, row: int, other: int) -> bool:
    """Return whether a unit is free in ``row`` that is not in the other row."""
    more = 0
    for c in range(planner.plans.shape[2]):
        more |= planner.plans[p, row, c] & ~planner.plans[p, other, c]
    return more != 0


@compiled
def hold(planner: Planner, t: int, last: int, steady: int, i: int) -> int:
    """Take a job's blocks from the first row after ``t`` in which it fits, and return that row.

    The blocks are noted in the scratch row of plan ``NOW``. What is free only becomes less as time goes on in
    a rollout, so rows that had no place need not be looked at again.

    :param last: the last row in which it would be on time
    :return: -1, and nothing taken, if there is none
    """
    note = planner.plans.shape[1] - 1
    for row in range(max(t + 1, planner.table[i].no_place_before), min(last + 1, planner.look.depth)):
        if not more_free(planner, WORK, row, row - 1):
            continue
        fits = True
        for k in range(planner.look.types):
            if fits and planner.needs[i, k] > 0:
                planner.plans[NOW, note, k] = lowest_block(planner, row, steady, WORK, i, k)
                fits = planner.plans[NOW, note, k] >= 0
        if fits:
            for k in range(planner.look.types):
                need, block = planner.needs[i, k], planner.plans[NOW, note, k]
                if need > 0:
                    take(planner, WORK, k, block, need, row, row + planner.table[i].length)
            return row
    return -1


@compiled
def release(planner: Planner, row: int, i: int) -> None:
    """Give back what :func:`hold` has taken from ``row`` on: units that were free on green power."""
    words, kinds, note = planner.look.words, planner.look.kinds, planner.plans.shape[1] - 1
    for k in range(planner.look.types):
        need, block = planner.needs[i, k], planner.plans[NOW, note, k]
        for w in range(words):
            units = span(block, block + need, w) if need > 0 else 0
            for kind in range(kinds):
                column = (k * kinds + kind) * words + w
                for h in range(row, row + planner.table[i].length):
                    planner.plans[WORK, h, column] |= units


@internal
def try_start(planner: Planner, t: int, steady: int, p: int, i: int) -> bool:
    """Place a job from row ``t`` on, of each type on its lowest block, if there is one."""
    for k in range(planner.look.types):
        if planner.needs[i, k] > 0 and lowest_block(planner, t, steady, p, i, k) < 0:
            return False
    for k in range(planner.look.types):
        need = planner.needs[i, k]
        if need > 0:
            block = lowest_block(planner, t, steady, p, i, k)
            take(planner, p, k, block, need, t, t + planner.table[i].length)
    return True


@internal
def lowest_block(planner: Planner, t: int, steady: int, p: int, i: int, k: int) -> int:
    """Return the lowest block of type ``k`` that is free for all of the job from row ``t``, or -1."""
    words, need = planner.look.words, planner.needs[i, k]
    column = (k * planner.look.kinds + planner.table[i].is_brown) * words
    last = min(t + planner.table[i].length - 1, max(steady, t))
    if words == 1:
        common = planner.plans[p, t, column]
        if run_starts(common, need) == 0:
            return -1
        for row in range(t + 1, last + 1):
            common &= planner.plans[p, row, column]
        starts = run_starts(common, need)
        return lowest_bit(starts) if starts != 0 else -1
    scratch = planner.plans.shape[1] - 1
    for w in range(words):
        common = planner.plans[p, t, column + w]
        for row in range(t + 1, last + 1):
            common &= planner.plans[p, row, column + w]
        planner.plans[p, scratch, w] = common
    return first_run(planner.plans[p, scratch], 0, words, need)
