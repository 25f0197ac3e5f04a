"""Registered resource-pool ids and the keyword arguments behind them."""

from __future__ import annotations

from typing import Any

GREEN: dict[str, Any] = {"power": "trace"}
"""Sun, wind, battery, and the grid for the critical load only: the default site."""

LARGE: dict[int, dict[str, Any]] = {300: {"horizon": 72, "ready_pool_size": 25}}
"""Sizes that look further ahead, at more jobs."""


def presets() -> dict[str, dict[str, Any]]:
    """Return every id of the family with its keyword arguments; all can be overridden by keyword."""
    ids: dict[str, dict[str, Any]] = {"ResourcePool-v0": {}}
    for units in (10, 20, 50, 100, 300):
        ids[f"ResourcePool-{units}-v0"] = {"units": units, **LARGE.get(units, {})}
    ids["ResourcePoolGreen-10-v0"] = {"units": 10, **GREEN}
    ids["ResourcePoolHPC-10-v0"] = {"units": 10, "workload": "hpc", **GREEN}
    ids["ResourcePoolSuspend-10-v0"] = {"units": 10, "suspend": True, "reward": "dense"}
    return ids
