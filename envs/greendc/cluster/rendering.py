"""Pictures of a cluster: what ran on which processors under which capacity, and a line of text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.cluster.layout import NEVER, WAITING
from greendc.cluster.power import CapacitySeries
from greendc.config import is_number, require
from greendc.records import Floats, Ints, Records
from greendc.window import show_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from greendc.cluster.simulator import ClusterSimulator

HOUR = 3600.0
WINDOW = "greendc: cluster"
LANES = 400
"""Processors in a picture: of a larger cluster each lane stands for several."""


def lowest_lanes(start: Ints, stop: Ints, processors: Ints, machine: int) -> list[list[tuple[int, int]]]:
    """Give each stretch of running the lowest processors that are free, in order of start.

    The simulator counts processors and does not name them; this is for pictures.

    :param start: ``(n,)`` never decreasing
    :param stop: ``(n,)``
    :param processors: ``(n,)``
    :param machine: processors of the cluster
    :return: of each stretch, the blocks ``(first, length)`` of processors that it runs on
    """
    until = np.full(machine, -1, np.int64)
    blocks = []
    for k in range(len(start)):
        free = np.flatnonzero(until <= start[k])[: processors[k]]
        until[free] = stop[k]
        breaks = np.flatnonzero(np.diff(free) > 1) + 1
        runs = np.split(free, breaks) if len(free) else []
        blocks.append([(int(run[0]), len(run)) for run in runs])
    return blocks


def capacity_steps(series: CapacitySeries | None, machine: int, first: int, last: int) -> tuple[Ints, Ints]:
    """Return the capacity from ``first`` to ``last``: the edges ``(m + 1,)`` of steps, and their values.

    :param series: the capacity, ``None`` for all processors always
    :param machine: processors of the cluster
    :param first: seconds on the series' clock
    :param last: likewise
    """
    if series is None:
        return np.array([first, last]), np.array([machine])
    cycles = np.arange(first // series.period, last // series.period + 1) * series.period
    changes = (cycles[:, None] + series.times[None]).ravel()
    edges = np.r_[first, changes[(changes > first) & (changes < last)], last]
    return edges, np.array([series.at(int(time)) for time in edges[:-1]])


def gantt(simulator: ClusterSimulator, index: int, hours: float | None = None) -> Figure:
    """Draw the Gantt chart of one environment, its capacity, and how many jobs wait.

    :param simulator: the simulator
    :param index: the environment
    :param hours: how far back to look (default: as far as stretches of running are on record)
    :raises ValueError: for hours that are not a finite number above 0; names them
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    right = hours is None or (is_number(hours) and 0 < hours < math.inf)
    require(right, "hours", hours, "a finite number above 0, or None for all that is on record")
    index = simulator.in_episode(index)
    cluster, log = simulator.state.cluster[index], simulator.episode_jobs(index)
    machine, now = int(simulator.world.settings["processors"][0]), int(cluster["now"])
    pieces = recorded_pieces(simulator, index)
    begin = int(log["submit"][0])
    first = begin if hours is None else max(begin, now - round(hours * HOUR))
    if hours is None and int(cluster["pieces"]) > len(pieces) and len(pieces):
        first = int(pieces["start"][0])
    last = max(now, first + 1)
    stop = np.minimum(pieces["stop"], last)
    scale = max(1, -(-machine // LANES))
    size = -(-log["processors"][pieces["job"]] // scale)
    lanes = lowest_lanes(pieces["start"], stop, size, -(-machine // scale))

    figure = Figure(figsize=(9.0, 6.0), dpi=100, layout="constrained")
    axes, queue_axes = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    figure.suptitle(summarize(simulator, index), fontsize=9)
    shades = _shades(pieces["job"])
    rectangles, colors = [], []
    for k, blocks in enumerate(lanes):
        left, width = (pieces["start"][k] - first) / HOUR, (stop[k] - pieces["start"][k]) / HOUR
        for low, length in blocks:
            rectangles.append(Rectangle((left, low * scale), width, length * scale))
            colors.append(shades[k])
    drawn = PatchCollection(rectangles, facecolors=colors, edgecolors="white", linewidths=0.2)
    axes.add_collection(drawn)
    edges, values = capacity_steps(
        _series(simulator), machine, first + int(cluster["shift"]), last + int(cluster["shift"])
    )
    hours_of = (edges - first - int(cluster["shift"])) / HOUR
    axes.stairs(values, hours_of, baseline=None, color="#c0392b", linewidth=1.6, label="capacity")
    axes.set_ylim(0, 1.05 * machine)
    axes.set_ylabel("processors")
    axes.legend(loc="upper right", frameon=False, fontsize=9)
    times, waiting = waiting_steps(simulator, index, first, last)
    queue_axes.stairs(waiting, (times - first) / HOUR, fill=True, color="#c9a227")
    queue_axes.set_ylabel("jobs waiting")
    queue_axes.set_ylim(0, max(5.0, 1.1 * float(waiting.max(initial=0))))
    queue_axes.set_xlabel(f"hours from second {first} of the log")
    for each in (axes, queue_axes):
        each.set_xlim(0, (last - first) / HOUR)
        each.spines[["top", "right"]].set_visible(False)
    return figure


def recorded_pieces(simulator: ClusterSimulator, index: int) -> Records:
    """Return the stretches of running on record (:class:`~greendc.cluster.layout.Piece`) by start."""
    pieces: Records = simulator.state.pieces[index]
    made = int(simulator.state.cluster[index]["pieces"])
    if made <= len(pieces):
        return pieces[:made]
    return np.roll(pieces, -(made % len(pieces)))


def waiting_steps(simulator: ClusterSimulator, index: int, first: int, last: int) -> tuple[Ints, Ints]:
    """Return how many jobs waited: edges ``(m + 1,)`` of steps, and values (a preempted job waits again)."""
    cluster, log = simulator.state.cluster[index], simulator.episode_jobs(index)
    pieces = recorded_pieces(simulator, index)
    arrived = log["submit"][: int(cluster["arrived"])]
    phase = simulator.state.jobs[index]["phase"][: len(arrived)]
    starts = pieces["start"]
    # A job that ran before the record begins has started, too.
    unrecorded = np.setdiff1d(np.flatnonzero(phase != WAITING), pieces["job"])
    again = preempted_stops(simulator, index, pieces)
    times = np.concatenate([arrived, again, starts, arrived[unrecorded]])
    changes = np.repeat([1, 1, -1, -1], [len(arrived), len(again), len(starts), len(unrecorded)])
    order = np.argsort(times, kind="stable")
    times, total = times[order], np.cumsum(changes[order])
    edges = np.unique(np.r_[first, times[(times > first) & (times < last)], last])
    at = np.searchsorted(times, edges[:-1], side="right")
    return edges, np.maximum(np.r_[0, total][at], 0)


def preempted_stops(simulator: ClusterSimulator, index: int, pieces: Records) -> Ints:
    """Return when stretches ended whose job was not done."""
    stopped = pieces[pieces["stop"] != NEVER]
    stops: Ints = stopped["stop"]
    finishes: Ints = simulator.state.jobs[index]["finish"][stopped["job"]]
    preempted: Ints = stops[stops != finishes]
    return preempted


def draw(simulator: ClusterSimulator, index: int) -> NDArray[np.uint8]:
    """Return the last three days as an RGB image ``(600, 900, 3)``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(gantt(simulator, index, hours=72.0))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def show(simulator: ClusterSimulator, index: int) -> None:
    """Show the last three days in a window, which later calls update."""
    show_picture(WINDOW, draw(simulator, index))


def summarize(simulator: ClusterSimulator, index: int) -> str:
    """Return the present as a line of text."""
    cluster = simulator.state.cluster[simulator.in_episode(index)]
    jobs = simulator.config.episode_jobs
    passed = (int(cluster["now"]) - int(simulator.episode_jobs(index)["submit"][0])) / HOUR
    return (
        f"hour {passed:.2f}: {int(cluster['used'])} of {int(cluster['capacity'])} processors in use, "
        f"{int(cluster['waiting'])} jobs waiting, {int(cluster['running'])} running, "
        f"{int(cluster['finished'])} of {jobs} done"
    )


def _series(simulator: ClusterSimulator) -> CapacitySeries | None:
    world = simulator.world
    period = int(world.settings["power_period"][0])
    return CapacitySeries(world.power_times, world.power, period) if period else None


def _shades(jobs: Ints) -> Floats:
    """Return a color for each job that its neighbors in time do not have."""
    from matplotlib import colormaps

    colors: Floats = colormaps["tab20"](jobs % 20)
    return colors
