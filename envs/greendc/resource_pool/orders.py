"""Orders of the waiting jobs: the codes by which compiled heuristics know them, and what they sort by.

The codes of rules for late jobs and of dispatch variants stand beside them.
"""

from __future__ import annotations

from greendc.compiled import internal

SJF, QOS, HVF, FCFS, RANDOM, EDF, DENSITY = range(7)

LATE_ALIKE, LATE_LAST, LATE_NEVER = range(3)
"""Jobs that would finish late: like all others, only when nothing else will do, not at all."""

DISPATCHES = ("skip", "block", "reserve", "easy")
SKIP, BLOCK, RESERVE, EASY = range(4)


@internal
def sort_key(
    order: int,
    age: float,
    duration: float,
    remaining: float,
    left: float,
    value: float,
    qos: float,
    width: float,
    draw: float,
) -> float:
    """Return what an order sorts by, least first. Any positive multiple of a quantity will do.

    :param age: steps since the job arrived
    :param left: steps until its latest finish
    :param width: the most that it needs of any resource type
    :param draw: a random number
    """
    if order == SJF:
        return remaining
    if order == QOS:
        return -qos
    if order == HVF:
        return -value
    if order == FCFS:
        return -age
    if order == EDF:
        return left
    if order == DENSITY:
        return -value / (duration * width)
    return draw
