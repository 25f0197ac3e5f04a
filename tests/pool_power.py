"""Options of a pool's power, of which each kind has its own."""

from __future__ import annotations

from typing import Any

from greendc.resource_pool.config import POWERS


def fitting(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options without those of other kinds of power than theirs."""
    others = {name for names in POWERS.values() for name in names} - {*POWERS[options["power"]]}
    return {name: value for name, value in options.items() if name not in others}
