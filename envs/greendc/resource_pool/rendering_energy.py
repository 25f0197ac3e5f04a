"""Pictures of energy: the coming hours under the resource image, and a stacked plot of a week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.energy_record import EnergyRecord
from greendc.resource_pool.palette import (
    BATTERY_COLOR,
    CARBON_COLOR,
    GRID_COLOR,
    INK,
    SOFT_INK,
    SOLAR_COLOR,
    UNITS_COLOR,
    WIND_COLOR,
)
from greendc.resource_pool.record import last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_outlook(axes: Axes, series: NDArray[np.float64], total_kw: float) -> None:
    """Draw sun, wind and the emissions of the grid in the coming steps.

    :param axes: to draw on
    :param series: ``(rows, columns)`` of the layout's series, from now on
    :param total_kw: full draw of the site
    """
    edges = np.arange(len(series) + 1)
    solar, wind = series[:, at.SOLAR], series[:, at.WIND]
    axes.stairs(wind, edges, fill=True, color=WIND_COLOR, label="wind")
    axes.stairs(wind + solar, edges, baseline=wind, fill=True, color=SOLAR_COLOR, label="sun")
    axes.axhline(total_kw, color=INK, linewidth=0.8, linestyle=":", label="full draw")
    axes.set_xlim(0, len(series))
    axes.set_ylim(0, max(float((wind + solar).max()), total_kw) * 1.08)
    axes.set_ylabel("kW")
    axes.set_xlabel("steps from now")
    _emissions(axes, series[:, at.CARBON], edges)
    _legend(axes)


def power_figure(record: EnergyRecord, title: str = "", first: int = 0, last: int | None = None) -> Figure:
    """Draw who served the site in steps ``first .. last - 1``: power by source, battery, units on, emissions.

    :param record: what :class:`~greendc.resource_pool.energy_recording.EnergyRecorder` kept
    :param title: the figure's title
    :raises ValueError: if there are no such steps
    """
    from matplotlib.figure import Figure

    last = last_step(record.steps, first, last)
    part, edges, hours = slice(first, last), np.arange(first, last + 1), record.config.step_hours
    figure = Figure(figsize=(12.0, 7.2), dpi=100, layout="constrained")
    figure.suptitle(title, color=INK, fontsize=12)
    power, battery, units = figure.subplots(3, 1, sharex=True, height_ratios=[3.0, 1.1, 1.1])
    bottom = np.zeros(last - first)
    for label, kwh, color in _served(record):
        top = bottom + kwh[part] / hours
        power.stairs(top, edges, baseline=bottom, fill=True, color=color, label=label)
        bottom = top
    drawn = (record.of("critical") + record.of("pool"))[part] / hours
    power.stairs(drawn, edges, baseline=None, color=INK, linewidth=1.2, label="drawn (rest: charge)")
    power.set_ylabel("kW")
    power.set_ylim(0, max(float(bottom.max()), 1.0) * 1.08)
    _emissions(power, record.carbon[part], edges)
    _legend(power)
    capacity = record.config.site_config.battery.energy_kwh
    battery.stairs(record.stored_kwh[part], edges, fill=True, color=BATTERY_COLOR)
    battery.set_ylim(0, max(capacity, 1.0) * 1.05)
    battery.set_ylabel("battery\nkWh")
    units.stairs(record.units_on[part], edges, fill=True, color=UNITS_COLOR)
    units.set_ylim(0, record.config.units)
    units.set_ylabel("units\non")
    units.set_xlabel("step; a line a day" if _day(hours) else "step")
    units.set_xlim(first, last)
    for axes in (power, battery, units):
        soften(axes)
        if _day(hours):
            axes.set_xticks(range(-(-first // _day(hours)) * _day(hours), last + 1, _day(hours)))
            axes.grid(axis="x", color=INK, linewidth=0.4, alpha=0.25)
    return figure


def _day(step_hours: float) -> int:
    """Return how many steps a day has, 0 where that is no whole number."""
    steps = 24.0 / step_hours
    return int(steps) if steps.is_integer() else 0


def _served(record: EnergyRecord) -> list[tuple[str, NDArray[np.float64], str]]:
    """Return what came from where: sun and wind less what was curtailed, battery, grid."""
    made = np.maximum(record.of("solar") + record.of("wind"), 1e-12)
    kept = 1.0 - record.of("curtailed") / made
    return [
        ("wind", record.of("wind") * kept, WIND_COLOR),
        ("sun", record.of("solar") * kept, SOLAR_COLOR),
        ("battery", record.of("discharged"), BATTERY_COLOR),
        ("grid", record.of("grid"), GRID_COLOR),
    ]


def _emissions(axes: Axes, carbon: NDArray[np.float64], edges: NDArray[np.int64]) -> None:
    twin: Any = axes.twinx()
    twin.stairs(carbon, edges, baseline=None, color=CARBON_COLOR, linewidth=1.3)
    axes.plot([], [], color=CARBON_COLOR, linewidth=1.3, label="emissions of the grid, right")
    twin.set_ylim(0, max(float(carbon.max()), 0.1) * 1.15)
    twin.set_ylabel("kg CO2/kWh", color=CARBON_COLOR, fontsize=8)
    twin.spines[:].set_visible(False)
    twin.tick_params(length=2, labelsize=8, colors=CARBON_COLOR)
    soften(axes)


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.98), ncols=6, fontsize=7, frameon=False)


def soften(axes: Axes) -> None:
    """Let ticks and labels of axes be grey, and leave out the frame."""
    axes.tick_params(length=2, labelsize=8, colors=SOFT_INK)
    axes.xaxis.label.set_color(SOFT_INK)
    axes.yaxis.label.set_color(SOFT_INK)
    axes.spines[:].set_visible(False)
