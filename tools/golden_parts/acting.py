"""Pseudo-random valid actions, which need no policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

IDLE_SHARE = 0.1
"""How often the last valid action, which lets time pass in the resource pool, is taken in any case."""


def random_action(space: spaces.Space[Any], mask: NDArray[Any] | None, rng: np.random.Generator) -> Any:
    """Return a valid action of a space; the generator alone decides which.

    :param space: ``Discrete`` or ``Box``
    :param mask: ``(n,)`` which actions are valid, or ``None`` for all
    :param rng: random generator
    """
    if isinstance(space, spaces.Discrete):
        valid = np.arange(space.n) if mask is None else np.flatnonzero(mask)
        return valid[-1] if rng.random() < IDLE_SHARE else valid[rng.integers(len(valid))]
    assert isinstance(space, spaces.Box)
    return rng.uniform(space.low, space.high).astype(space.dtype)


def random_actions(
    space: spaces.Space[Any], masks: NDArray[Any] | None, count: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Return a valid action for each environment of a batch.

    :param space: of one environment
    :param masks: ``(count, n)``, or ``None``
    :param count: number of environments
    :param rng: random generator
    """
    rows = [random_action(space, None if masks is None else masks[i], rng) for i in range(count)]
    return np.stack(rows)


def masks_of(env: Any) -> NDArray[np.bool_] | None:
    """Return the action masks of an environment or a batch of ``greendc``, ``None`` where all is valid."""
    try:
        masks: NDArray[np.bool_] = env.action_masks()
    except AttributeError:
        return None
    return masks
