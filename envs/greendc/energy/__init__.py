"""Energy of a datacenter site: battery, dispatch, grid modes and forecasts of what the pool can draw."""

from greendc.energy.site import GRID_MODES, BatteryConfig, SiteConfig

__all__ = ["GRID_MODES", "BatteryConfig", "SiteConfig"]
