"""Comparisons of observation and action spaces."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces


def same_kind(a: spaces.Space[Any], b: spaces.Space[Any]) -> bool:
    """Tell whether two spaces are of one kind, shape and dtype, whatever their bounds."""
    if isinstance(a, spaces.Dict) and isinstance(b, spaces.Dict):
        return a.keys() == b.keys() and all(same_kind(a[key], b[key]) for key in a)
    if isinstance(a, spaces.Box) and isinstance(b, spaces.Box):
        return a.shape == b.shape and a.dtype == b.dtype
    return bool(a == b)
