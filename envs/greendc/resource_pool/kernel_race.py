# mypy: warn-return-any=False
"""Compiled races: rollouts that try an action no further once it is clearly behind."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import internal, unlocked
from greendc.resource_pool.kernel_plan import CHANGED, WORK, Memory, copy_plan, planner_of, steady_from
from greendc.resource_pool.kernel_rollout import Floats, Ints, begin, read_plan, read_waiting, roll_out
from greendc.resource_pool.layout import PoolState, pool_at

FIRST_FUTURES = 16
"""After so many futures the first actions are left behind, others after twice, four times ... as many."""
ROUNDING = 1e-9
"""A relative difference that comes of the order in which values are added."""


@unlocked
def race_actions(
    values: Floats,
    candidates: NDArray[np.bool_],
    handicaps: Floats,
    futures: Ints,
    memory: Memory,
    state: PoolState,
    outcomes: Floats,
    margin: float,
) -> None:
    """Write the mean value of each candidate that is not left behind over the futures, NaN elsewhere.

    As :func:`~greendc.resource_pool.kernel_rollout.value_actions`, but an action whose mean, handicap
    included, is behind the best one's by more than ``margin`` standard errors of their difference in the same
    futures is tried no further.

    :param values: ``(B, n + 2)``
    :param candidates: ``(B, n + 2)``, valid actions; ``no_op`` is always one
    :param handicaps: ``(B, n + 2)``, added to the means where actions are compared
    :param futures: ``(B, F, 2)``: which future of the bank, and the step of it that comes next
    :param outcomes: ``(n + 2, F)`` scratch: what the heuristic earns after each action
    """
    planner = planner_of(memory)
    n_actions, count = values.shape[1], futures.shape[1]
    for b in range(values.shape[0]):
        left = 0
        for a in range(n_actions):
            values[b, a] = 0.0 if candidates[b, a] else np.nan
            left += candidates[b, a]
        if left <= 1:
            continue
        pool = pool_at(state, b)
        read_plan(planner, pool)
        waiting = read_waiting(planner, pool)
        tried = 0
        while tried < count and left > 1:
            upto = min(max(FIRST_FUTURES, 2 * tried), count)
            for a in range(n_actions):
                if np.isnan(values[b, a]):
                    continue
                first, jobs, left_out, gained = begin(planner, pool, a, waiting)
                steady, total = steady_from(planner), 0.0
                for f in range(tried, upto):
                    copy_plan(planner, WORK, CHANGED)
                    k, step = futures[b, f, 0], futures[b, f, 1]
                    outcomes[a, f] = roll_out(
                        planner, memory.bank, memory.queue, k, step, first, jobs, left_out, steady
                    )
                for f in range(upto):
                    total += outcomes[a, f]
                values[b, a] = gained + total / upto
            tried = upto
            left = leave_behind(values[b], handicaps[b], outcomes, tried, margin)


@internal
def leave_behind(values: Floats, handicaps: Floats, outcomes: Floats, tried: int, margin: float) -> int:
    """Write NaN for the actions that are clearly behind, and return how many are left.

    :param values: ``(n + 2,)`` means, NaN for actions that are out
    :param outcomes: ``(n + 2, F)``, in the first ``tried`` futures
    """
    best, most = 0, -np.inf
    for a in range(values.shape[0]):
        if values[a] + handicaps[a] > most:  # never of NaN
            best, most = a, values[a] + handicaps[a]
    left = 0
    for a in range(values.shape[0]):
        if np.isnan(values[a]):
            continue
        mean, squares = 0.0, 0.0
        for f in range(tried):
            mean += (outcomes[best, f] - outcomes[a, f]) / tried
        for f in range(tried):
            squares += (outcomes[best, f] - outcomes[a, f] - mean) ** 2
        error = math.sqrt(squares / (tried * max(tried - 1, 1)))
        if most - values[a] - handicaps[a] > margin * error + ROUNDING * abs(most):
            values[a] = np.nan
        else:
            left += 1
    return left
