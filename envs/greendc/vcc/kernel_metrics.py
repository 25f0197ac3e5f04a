"""What is unfinished, for the metrics of an episode (compiled)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled
from greendc.vcc.layout import (
    CPU,
    DELAY,
    END_PLACES,
    FINISH,
    FIRST_PLACES,
    FIXED_JOBS,
    FLEXIBLE_GROUPS,
    HOUR,
    LEFT,
    NO_JOB,
    ORIGIN,
    STACK_TOP,
)

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]


@compiled
def count_unfinished(
    delays: Ints,
    places: Ints32,
    keys: Ints32,
    stack: Ints32,
    fixed: Ints32,
    counters: Ints,
    switches: Ints,
) -> tuple[int, int]:
    """Return what is unfinished in one environment, in millionths of a machine-unit-hour.

    That is: the work that all jobs have left, and the flexible work that the no-delay schedule would have
    done by now.

    :param delays: ``(T + 49,)``: the waiting jobs are added to it, by their delay so far
    """
    now = counters[HOUR]
    left_over, undone = 0, 0
    for group in range(FLEXIBLE_GROUPS):
        for j in range(switches[FIRST_PLACES + group], counters[END_PLACES + group]):
            if keys[j] != NO_JOB:
                cpu, left, delay = int(keys[j]), places[j, LEFT], now - places[j, ORIGIN]
                left_over += cpu * left
                undone += cpu * min(left, delay)
                delays[delay] += 1
    for index in range(counters[STACK_TOP]):
        cpu, left = int(stack[index, CPU]), max(stack[index, FINISH] - now, 0)
        left_over += cpu * left
        undone += cpu * min(left, stack[index, DELAY])
    for index in range(counters[FIXED_JOBS]):
        left_over += int(fixed[index, CPU]) * max(fixed[index, FINISH] - now, 0)
    return left_over, undone
