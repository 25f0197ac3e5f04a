"""Registered VCC ids and the keyword arguments behind them."""

from __future__ import annotations

from typing import Any

PAGE: dict[str, Any] = {
    "observation": "page",
    "normalize": False,
    "forecast": "oracle",
    "slo": "page",
    "charge": "day_end",
    "reward_baseline": "none",
}
"""Version 0: observation, reward and SLO of SustainGym's page. Version 1 is the defaults of
:class:`~greendc.vcc.config.VCCConfig`."""

MONTHS = {"VCC": {}, **{f"VCC-{year}": {"month": f"{year}-05"} for year in (2019, 2020, 2021)}}
"""What each name says of the month: the one without a year takes any."""


def presets() -> dict[str, dict[str, Any]]:
    """Return every id of the family with its keyword arguments."""
    ids: dict[str, dict[str, Any]] = {}
    for prefix, discrete in (("", {}), ("Discrete", {"discrete_actions": 11})):
        for name, month in MONTHS.items():
            ids[f"{prefix}{name}-v0"] = {**month, **PAGE, **discrete}
            ids[f"{prefix}{name}-v1"] = {**month, **discrete}
    return ids
