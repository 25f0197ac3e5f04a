"""The scale of ``Box`` actions in a replay buffer: SB3's [-1, 1], or as the environment takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer

ACTIONS_SCALED = "actions_scaled"
"""Attribute of a buffer that says whether its ``Box`` actions are scaled to [-1, 1]; buffers of SB3, and of
CRR before it had this mark, lack it."""
ROUNDING = 1e-6


def has_scaled_actions(buffer: ReplayBuffer) -> bool:
    """Tell whether the actions of a buffer are on SB3's scale.

    The buffer's mark says so. Without it, the actions do: earlier versions of CRR kept them as the
    environment takes them. Actions that fit either scale count as SB3's where the space reaches beyond
    [-1, 1]: there those of a whole buffer seldom stay that small.

    :param buffer: with actions of any space
    :raises ValueError: if there is no mark, and neither scale can be excluded
    """
    space = buffer.action_space
    marked = getattr(buffer, ACTIONS_SCALED, None)
    if marked is not None or not isinstance(space, spaces.Box) or buffer.size() == 0:
        return marked is None or bool(marked)
    actions = buffer.actions[: buffer.size()]
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    if not _within(actions, np.full_like(low, -1.0), np.full_like(high, 1.0)):
        return False
    if bool((low <= -1.0).all() and (high >= 1.0).all()) or not _within(actions, low, high):
        return True
    raise ValueError(
        f"replay buffer: its actions may be in [-1, 1], as SB3 keeps them, or in {space}, as earlier "
        f"versions of CRR did: set its attribute {ACTIONS_SCALED} to True or to False"
    )


def scale_actions(buffer: ReplayBuffer) -> None:
    """Bring the actions of a buffer to SB3's scale, unless they are on it.

    :param buffer: is changed, and marked
    :raises ValueError: see :func:`has_scaled_actions`
    """
    space, n = buffer.action_space, buffer.size()
    if isinstance(space, spaces.Box) and not has_scaled_actions(buffer):
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        buffer.actions[:n] = 2.0 * (buffer.actions[:n] - low) / (high - low) - 1.0
    setattr(buffer, ACTIONS_SCALED, True)


def _within(actions: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> bool:
    return bool(((actions >= low - ROUNDING) & (actions <= high + ROUNDING)).all())
