"""Pictures of a datacenter under a virtual capacity curve: the week as a figure, the hour as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from greendc.records import Records
from greendc.vcc import columns, layout
from greendc.window import show_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from greendc.vcc.simulator import VCCSimulator

WEEK = 168
WINDOW = "greendc: virtual capacity curve"


def week_figure(
    history: Records,
    no_delay: NDArray[np.float64],
    capacity: float,
    title: str,
    first: int = 0,
) -> Figure:
    """Draw up to a week of hours: the VCC against load and no-delay load, the queue, the emissions.

    :param history: ``(hours,)`` :class:`~greendc.vcc.columns.Hour`, what the steps reported
    :param no_delay: ``(hours,)`` load of the no-delay schedule, machine units
    :param capacity: C, machine units
    :param title: the figure's title
    :param first: hour of the episode that the first row belongs to
    """
    from matplotlib.figure import Figure

    hours = first + np.arange(len(history) + 1)
    figure = Figure(figsize=(9.0, 6.0), dpi=100, layout="constrained")
    load_axes, queue_axes, moer_axes = figure.subplots(3, 1, sharex=True, height_ratios=[3, 1, 1])
    figure.suptitle(title)

    def stairs(axes: Any, values: NDArray[np.float64], **style: Any) -> None:
        axes.stairs(values, hours, **style)

    inflexible = history["inflexible_load"]
    load = history["load"]
    stairs(load_axes, inflexible, fill=True, color="#8da0b3", label="inflexible load")
    stairs(load_axes, load, baseline=inflexible, fill=True, color="#4c9f70", label="flexible load")
    stairs(
        load_axes,
        no_delay,
        baseline=None,
        color="#444444",
        linestyle=":",
        linewidth=1.2,
        label="load without delay",
    )
    stairs(
        load_axes,
        history["vcc"] * capacity,
        baseline=None,
        color="#c0392b",
        linewidth=1.6,
        label="virtual capacity",
    )
    load_axes.set_ylabel("machine units")
    load_axes.set_ylim(
        0, 1.08 * max(capacity, float(load.max(initial=0.0)), float(no_delay.max(initial=0.0)))
    )
    load_axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=4, frameon=False, fontsize=9)

    stairs(queue_axes, history["waiting"], fill=True, color="#c9a227")
    queue_axes.set_ylabel("jobs waiting")
    queue_axes.set_ylim(0, max(10.0, 1.1 * float(history["waiting"].max(initial=0.0))))
    stairs(moer_axes, history["moer"], baseline=None, color="#5b3a8c", linewidth=1.4)
    moer_axes.set_ylabel("kg CO$_2$/kWh")
    moer_axes.set_ylim(0, max(0.1, 1.1 * float(history["moer"].max(initial=0.0))))
    moer_axes.set_xlabel("hour of the month (local standard time; lines at midnight)")
    for axes in (load_axes, queue_axes, moer_axes):
        axes.set_xlim(hours[0], max(hours[-1], hours[0] + 24))
        axes.set_xticks(np.arange(hours[0] - hours[0] % 24, max(hours[-1], hours[0] + 24) + 1, 24))
        axes.grid(axis="x", color="#dddddd", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def last_week(simulator: VCCSimulator, index: int) -> Figure:
    """Draw the last week, from a midnight on, of one environment."""
    hour = simulator.hour(index)
    first = max(0, (hour - WEEK + 23) // 24 * 24)
    history = simulator.report.history[index, first:hour]
    if hour == 0:  # nothing has run yet: an hour of nothing
        history = np.zeros(1, columns.HOUR)
    month = simulator.months[simulator.month(index)]
    return week_figure(
        history,
        simulator.world.no_delay[index, first : first + len(history)] / layout.MICRO,
        simulator.capacity / layout.MICRO,
        f"Virtual capacity curve, {month}, hour {hour} of {simulator.hours}",
        first,
    )


def draw_week(simulator: VCCSimulator, index: int) -> NDArray[np.uint8]:
    """Return the last week as an RGB image ``(600, 900, 3)``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(last_week(simulator, index))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def show(simulator: VCCSimulator, index: int) -> None:
    """Show the last week in a window, which later calls update."""
    show_picture(WINDOW, draw_week(simulator, index))


def summarize(simulator: VCCSimulator, index: int) -> str:
    """Return the last hour as a line of text."""
    hour = simulator.hour(index)
    if hour == 0:
        return f"hour 0 of {simulator.hours}: nothing has run yet"
    last = simulator.report.history[index, hour - 1]
    capacity = simulator.capacity / layout.MICRO
    return (
        f"hour {hour} of {simulator.hours}: VCC {last['vcc'] * capacity:.2f} of {capacity:.2f} "
        f"machine units, load {last['load']:.2f} (inflexible {last['inflexible_load']:.2f}), "
        f"{int(last['waiting'])} jobs waiting, {last['moer']:.3f} kg CO2/kWh, "
        f"carbon {last['carbon']:.3f} kg"
    )
