"""Registered cluster ids and the keyword arguments behind them."""

from __future__ import annotations

from typing import Any

GREEN: dict[str, Any] = {
    "power": "green",
    "on_drop": "suspend",
    "forecast": "yesterday",
    "overestimate": 3.0,
    "min_qos": 0.2,
}
"""Sun and wind, half of the processors always with power; jobs are suspended where it falls short."""


def presets() -> dict[str, dict[str, Any]]:
    """Return every id of the family with its keyword arguments; all can be overridden by keyword."""
    return {
        "Cluster-v0": {},
        "Cluster-Lublin-v0": {"profile": "rlscheduler"},
        "ClusterGreen-v0": GREEN,
    }
