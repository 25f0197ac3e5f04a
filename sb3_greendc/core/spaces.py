"""Comparisons of observation and action spaces, and what a `Box` of actions must have."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def same_kind(a: spaces.Space[Any], b: spaces.Space[Any]) -> bool:
    """Tell whether two spaces are of one kind, shape and dtype, whatever their bounds."""
    if isinstance(a, spaces.Dict) and isinstance(b, spaces.Dict):
        return a.keys() == b.keys() and all(same_kind(a[key], b[key]) for key in a)
    if isinstance(a, spaces.Box) and isinstance(b, spaces.Box):
        return a.shape == b.shape and a.dtype == b.dtype
    return bool(a == b)


def require_bounds(space: spaces.Box, why: str = "") -> None:
    """Raise a ``ValueError`` unless actions can be scaled to [-1, 1].

    :param space: of the actions
    :param why: what the message says of the reason, and of what can be done
    """
    if not (space.is_bounded("both") and bool((space.low < space.high).all())):
        raise ValueError(f"action space {space}: must have finite bounds, the lower below the upper{why}")
    with np.errstate(over="ignore"):
        width = space.high.astype(np.float32) - space.low.astype(np.float32)
    if not bool(((width > 0) & np.isfinite(width)).all()):
        raise ValueError(f"action space {space}: its bounds are too close or too far apart for float32{why}")
