"""Colours of the pictures of a resource pool."""

from __future__ import annotations

FREE_COLOR, DARK_COLOR = (0.93, 0.94, 0.95), (0.08, 0.08, 0.10)
INK, SOFT_INK, ALARM = "#22262b", "#6b7480", "#c0392b"
SOLAR_COLOR, WIND_COLOR, BATTERY_COLOR = "#f2b134", "#4f94c4", "#4c9f70"
GRID_COLOR, CARBON_COLOR, UNITS_COLOR = "#8d6e63", "#7b3fa0", "#f7dc8c"
