"""How far two policies agree, state by state (RARE, table 1): numbers from arrays of actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_greendc.core.masking import ACTION_MASK

JOBS = "jobs"


@dataclass(frozen=True)
class AgreementScores:
    """Shares of states.

    :param agreement: in which the two act alike
    :param agreement_free: the same, of the states that leave a choice: two valid actions or more
    :param agreement_tie: in which the policy's action ranks with the reference's
    :param agreement_tie_free: the same, of the states that leave a choice
    :param chance: expected of a policy that draws among the valid actions
    :param chance_free: the same, of the states that leave a choice
    :param n_states: number of states
    :param n_free: number of those that leave a choice
    """

    agreement: float
    agreement_free: float
    agreement_tie: float
    agreement_tie_free: float
    chance: float
    chance_free: float
    n_states: int
    n_free: int


def agreement_scores(
    actions: NDArray[Any], reference: NDArray[Any], masks: NDArray[Any], ties: NDArray[Any] | None = None
) -> AgreementScores:
    """Compare what a policy would do with what the reference did; NaN where there is no state of a kind.

    :param actions: ``(B,)``, the policy's
    :param reference: ``(B,)``, the heuristic's
    :param masks: ``(B, n_actions)``, non-zero where an action is valid
    :param ties: ``(B, n_actions)``, non-zero where an action ranks with the heuristic's; by default its own
    """
    sums = state_scores(actions, reference, masks, ties).sum(axis=0)
    n_states, n_free = int(sums[-2]), int(sums[-1])
    alike, alike_free, tied, tied_free, chance, chance_free = sums[:6]
    return AgreementScores(
        _share(alike, n_states),
        _share(alike_free, n_free),
        _share(tied, n_states),
        _share(tied_free, n_free),
        _share(chance, n_states),
        _share(chance_free, n_free),
        n_states,
        n_free,
    )


def state_scores(
    actions: NDArray[Any], reference: NDArray[Any], masks: NDArray[Any], ties: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Return eight numbers for each state, whose sums make :class:`AgreementScores`, in its order."""
    n_valid = np.maximum((masks != 0).sum(axis=1), 1)
    free = n_valid >= 2
    alike = actions == reference
    tied = alike if ties is None else ties[np.arange(len(actions)), actions] != 0
    chance = 1.0 / n_valid
    columns = (alike, alike & free, tied, tied & free, chance, chance * free, np.ones(len(free)), free)
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def tie_sets(
    choose: Callable[[dict[str, NDArray[Any]]], NDArray[Any]], observations: dict[str, NDArray[Any]]
) -> NDArray[np.bool_]:
    """Return the actions that a heuristic ranks with the one it chooses, ``(B, n_actions)``.

    Heuristics take the lowest slot of equals. So a job is among the equals if the heuristic takes it once it
    has been moved to the first slot.

    :param choose: what the heuristic does, ``(B,)``, for a batch of observations
    :param observations: of the resource pool, with ``jobs`` and ``action_mask``
    """
    jobs, masks = observations[JOBS], observations[ACTION_MASK]
    n_jobs = jobs.shape[1]
    chosen = choose(observations)
    ties = np.zeros(masks.shape, dtype=np.bool_)
    ties[np.arange(len(chosen)), chosen] = True
    for slot in range(1, n_jobs):
        order = np.concatenate([[slot], np.delete(np.arange(n_jobs), slot)])
        of_actions = np.concatenate([order, np.arange(n_jobs, masks.shape[1])])
        moved = {**observations, JOBS: jobs[:, order], ACTION_MASK: masks[:, of_actions]}
        ties[:, slot] |= (choose(moved) == 0) & (chosen < n_jobs)
    return ties


def _share(count: float, total: int) -> float:
    return float(count) / total if total else np.nan
