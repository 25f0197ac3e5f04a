"""Registered resource-pool ids and the keyword arguments behind them."""

from __future__ import annotations

from typing import Any

GREEN: dict[str, Any] = {"power": "trace"}
"""Sun, wind, battery, and the grid for the critical load only: the default site."""

LARGE: dict[int, dict[str, Any]] = {300: {"horizon": 72, "ready_pool_size": 25}}
"""Sizes that look further ahead, at more jobs."""


CARBON: dict[str, Any] = {
    "offered_load": 0.8,
    "episode_steps": 720,
    "power": "trace",
    "site": {"grid": "open", "idle_fraction": 0.3, "wind_kw": 450.0},
    "carbon": "PGE-2021",
    "price": 0.07,
    "power_levels": (0, 2, 4, 6, 8, 10),
    "switch_delay": 1,
    "switch_hours": 0.5,
    "placement": "now",
    "mask": "now_on_time",
    "late_jobs": "leave",
    "suspend": True,
    "pausing": True,
    "cost": "carbon",
    "reward": "completion",
}
"""Power as a decision: machines, battery and grid under the marginal emissions of Pacific Gas and Electric.
The price is about what industry paid in the USA in 2021."""

TRAINING_CARBON = {"PGE-2021": "PGE-2019", "SCE-2021": "SCE-2019"}
"""The year to train on, by the year to test on."""


def presets() -> dict[str, dict[str, Any]]:
    """Return every id of the family with its keyword arguments; all can be overridden by keyword."""
    ids: dict[str, dict[str, Any]] = {"ResourcePool-v0": {}}
    for units in (10, 20, 50, 100, 300):
        ids[f"ResourcePool-{units}-v0"] = {"units": units, **LARGE.get(units, {})}
    ids["ResourcePoolGreen-10-v0"] = {"units": 10, **GREEN}
    ids["ResourcePoolHPC-10-v0"] = {"units": 10, "workload": "hpc", **GREEN}
    ids["ResourcePoolSuspend-10-v0"] = {"units": 10, "suspend": True, "reward": "dense"}
    ids["ResourcePoolCarbon-10-v0"] = {"units": 10, **CARBON}
    return ids
