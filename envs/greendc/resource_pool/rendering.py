"""Pictures of a resource pool: the resource image with the ready pool, and the Gantt chart of an episode.

A job has one colour from the queue to its end, in every picture. Units without power are black, free ones
light grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.observation import battery_kwh
from greendc.resource_pool.palette import (
    ALARM,
    BATTERY_COLOR,
    DARK_COLOR,
    FREE_COLOR,
    INK,
    SOFT_INK,
    SOLAR_COLOR,
    UNITS_COLOR,
    WIND_COLOR,
)
from greendc.resource_pool.record import EpisodeRecord, last_step
from greendc.resource_pool.rendering_energy import draw_outlook, soften
from greendc.resource_pool.simulator import ResourcePoolSimulator
from greendc.resource_pool.view import DARK, FREE, READY_JOB_COLUMNS, PoolView
from greendc.window import show_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WINDOW = "greendc: resource pool"
LUMINANCE = np.array([0.30, 0.59, 0.11])
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def job_colors(jobs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the colour of each job, ``(..., 3)`` in [0, 1]; jobs that arrive together differ clearly."""
    from matplotlib.colors import hsv_to_rgb

    hue = jobs * 0.6180339887 % 1.0  # the golden ratio spreads successive hues
    tone = jobs % 3
    saturation, brightness = np.array([0.55, 0.72, 0.40])[tone], np.array([0.90, 0.74, 0.97])[tone]
    result: NDArray[np.float64] = hsv_to_rgb(np.stack([hue, saturation, brightness], axis=-1))
    return result


def cell_colors(cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the colour of each cell, ``(..., 3)``, from job ids, ``FREE`` and ``DARK``."""
    colors = job_colors(np.maximum(cells, 0))
    colors[cells == FREE] = FREE_COLOR
    colors[cells == DARK] = DARK_COLOR
    return colors


def type_names(config: ResourcePoolConfig) -> tuple[str, ...]:
    """Return what the papers call the resource types: CPU, GPU; further ones by number."""
    return ("CPU", "GPU", *(f"type {k}" for k in range(2, config.resource_types)))[: config.resource_types]


def pool_figure(
    view: PoolView, title: str, power: str = "", outlook: NDArray[np.float64] | None = None
) -> Figure:
    """Draw the resource image, the ready pool beside it, and power and battery below (RARE, Fig. 2).

    :param view: the pool
    :param title: the figure's title
    :param power: what to write over the power
    :param outlook: series from now on, to draw sun, wind and emissions below all
    """
    from matplotlib.figure import Figure

    config = view.config
    types = config.resource_types
    figure = Figure(figsize=(10.0, 7.0), dpi=100, layout="constrained")
    figure.suptitle(title, color=INK, fontsize=12)
    heights = [5.2, 1.0] if outlook is None else [5.2, 1.0, 1.4]
    grid = figure.add_gridspec(
        len(heights), types + 1, width_ratios=[1.0] * types + [1.5], height_ratios=heights
    )
    if outlook is not None:
        draw_outlook(figure.add_subplot(grid[2, :]), outlook, config.site_config.total_kw)
    image = cell_colors(view.cell_jobs())
    for k, name in enumerate(type_names(config)):
        axes = figure.add_subplot(grid[0, k])
        _draw_image(axes, image[:, k * config.units : (k + 1) * config.units], name, first=k == 0)
    _draw_ready_pool(figure.add_subplot(grid[0, types]), view)
    capacity = battery_kwh(config)
    levels = figure.add_subplot(grid[1, : types if capacity > 0.0 else types + 1])
    _draw_levels(levels, view)
    levels.set_title(power, fontsize=9, color=SOFT_INK, loc="left")
    if capacity > 0.0:
        _draw_battery(figure.add_subplot(grid[1, types]), view.stored_kwh, capacity)
    return figure


def _draw_image(axes: Axes, image: NDArray[np.float64], name: str, first: bool) -> None:
    rows, units = image.shape[:2]
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, units, rows, 0))
    axes.set_title(name, fontsize=10, color=INK)
    axes.set_xlabel("unit")
    if first:
        axes.set_ylabel("steps from now")
    else:
        axes.tick_params(labelleft=False)
    if units <= 24:
        axes.vlines(range(1, units), 0, rows, colors="white", linewidth=0.5, alpha=0.5)
        axes.hlines(range(1, rows), 0, units, colors="white", linewidth=0.5, alpha=0.5)
    axes.hlines(1, 0, units, colors=INK, linewidth=1.2)  # above this line is now
    soften(axes)


def _draw_ready_pool(axes: Axes, view: PoolView) -> None:
    """Draw each ready job as a block, units by run time, all to one scale, with its numbers below."""
    from matplotlib.patches import Rectangle

    config = view.config
    jobs = view.ready_jobs()
    columns = 2 if len(jobs) <= 12 else 5
    lines = -(-len(jobs) // columns)
    longest = max(10.0, float(jobs[:, 3].max()))
    axes.set_title("ready pool", fontsize=10, color=INK)
    axes.set_xlim(0, columns)
    axes.set_ylim(lines + 0.25, 0)
    axes.axis("off")
    small = 7.6 if columns == 2 else 5.5
    width = 0.9 / config.resource_types
    for slot, row in enumerate(jobs):
        job, _, _, remaining, latest, value, qos = row[: len(READY_JOB_COLUMNS)]
        x, y = slot % columns + 0.05, slot // columns + 0.04
        for k in range(config.resource_types):
            axes.add_patch(Rectangle((x + k * width, y), width * 0.94, 0.62, facecolor=FREE_COLOR))
            if job >= 0:
                size = (
                    width * 0.94 * row[len(READY_JOB_COLUMNS) + k] / config.units,
                    0.62 * remaining / longest,
                )
                axes.add_patch(Rectangle((x + k * width, y), *size, facecolor=job_colors(np.array(int(job)))))
        if job < 0:
            continue
        left = int(latest) - view.now
        late = left < config.start_delay + remaining + config.end_delay
        needs = "+".join(f"{units:.0f}" for units in row[len(READY_JOB_COLUMNS) :])
        due = "late" if late else f"due in {left}"
        if columns == 2:
            text = f"{slot}: {remaining:.0f} steps × {needs}\nvalue {value:.3g}, qos {qos:.2f}, {due}"
        else:
            text = f"{remaining:.0f} × {needs}\nv {value:.0f}, q {qos:.2f}\n{due}"
        axes.text(x, y + 0.65, text, fontsize=small, va="top", color=ALARM if late else INK)
    beyond = len(view.queue) - len(jobs)
    if beyond > 0:
        axes.text(0.05, lines + 0.12, f"and {beyond} more waiting", fontsize=9, color=SOFT_INK, va="center")


def _draw_levels(axes: Axes, view: PoolView) -> None:
    levels, units = view.levels, view.config.units
    edges = np.arange(len(levels) + 1)
    axes.stairs(np.full(len(levels), units), edges, baseline=levels, fill=True, color=DARK_COLOR)
    axes.stairs(levels, edges, fill=True, color=UNITS_COLOR)
    axes.set_xlim(0, len(levels))
    axes.set_ylim(0, units)
    axes.set_xlabel("steps from now")
    axes.set_yticks(np.unique([0, units // 2, units]))
    axes.set_ylabel("units\npowered")
    soften(axes)


def _draw_battery(axes: Axes, stored_kwh: float, capacity: float) -> None:
    axes.barh(0.5, capacity, height=0.5, color=FREE_COLOR)
    axes.barh(0.5, stored_kwh, height=0.5, color=BATTERY_COLOR)
    axes.text(
        capacity / 2,
        0.5,
        f"{stored_kwh:.0f} kWh, {stored_kwh / capacity:.0%}",
        ha="center",
        va="center",
        color=INK,
    )
    axes.set_xlim(0, capacity)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_xlabel("battery, kWh")
    soften(axes)


def gantt(record: EpisodeRecord, title: str = "", first: int = 0, last: int | None = None) -> Figure:
    """Draw which job was on which unit when, over an episode or steps ``first .. last - 1`` of it.

    Each placement is a block in the job's colour, numbered where there is room, and hatched if the job is
    past its latest finish when it ends. Below: how many jobs waited, and, at a site, sun, wind and battery.

    :param record: what :class:`~greendc.resource_pool.recording.EpisodeRecorder` kept
    :param title: the figure's title
    :raises ValueError: if there are no such steps
    """
    from matplotlib.figure import Figure

    last = last_step(record.steps, first, last)
    config = record.config
    site = config.power == "trace"
    heights = [3.0] * config.resource_types + [0.9] + [1.1] * site
    width = float(np.clip(0.035 * (last - first), 9.0, 18.0))
    figure = Figure(figsize=(width, 0.9 + sum(heights) * 0.95), dpi=100, layout="constrained")
    figure.suptitle(title, color=INK, fontsize=12)
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for k, name in enumerate(type_names(config)):
        _draw_blocks(panels[k], record, k, first, last)
        panels[k].set_ylabel(f"{name} unit")
    panels[0].set_title("hatched: late;  black: no power", fontsize=8, color=SOFT_INK, loc="right")
    edges = np.arange(first, last + 1)
    waiting = panels[config.resource_types]
    waiting.stairs(record.waiting[first:last], edges, fill=True, color="#b9c3cf")
    waiting.set_ylabel("waiting\njobs")
    waiting.set_ylim(0, max(5, 1.1 * record.waiting[first:last].max()))
    if site:
        _draw_power(panels[-1], record, edges)
    for axes in panels:
        soften(axes)
    panels[-1].set_xlim(first, last)
    panels[-1].set_xlabel("step")
    return figure


def _draw_blocks(axes: Axes, record: EpisodeRecord, resource: int, first: int, last: int) -> None:
    from matplotlib.patches import Rectangle

    units, late = record.config.units, record.late
    cells = record.cells[first:last, resource * units : (resource + 1) * units]
    background = np.where(np.arange(units) < record.powered[first:last, None], FREE, DARK)
    axes.imshow(
        cell_colors(background.T), aspect="auto", interpolation="nearest", extent=(first, last, units, 0)
    )
    for job, start, end, block, count in placements(cells):
        color = job_colors(np.array(job))
        axes.add_patch(
            Rectangle(
                (first + start, block),
                end - start,
                count,
                facecolor=color,
                edgecolor=(0.25, 0.27, 0.30) if late[job] else "white",
                linewidth=0.4,
                hatch="//////" if late[job] else None,
            )
        )
        if (end - start) / (last - first) > 0.012 + 0.006 * len(str(job)) and count / units >= 0.08:
            axes.text(
                first + (start + end) / 2,
                block + count / 2,
                str(job),
                ha="center",
                va="center",
                fontsize=6.5,
                color=INK if color @ LUMINANCE > 0.45 else "white",
                bbox={"facecolor": color, "edgecolor": "none", "pad": 0.6} if late[job] else None,
            )
    axes.set_ylim(0, units)


def placements(cells: NDArray[np.int64]) -> list[tuple[int, int, int, int, int]]:
    """Return the blocks ``(job, start, end, lowest unit, units)`` in cells ``(T, M)`` of one type."""
    blocks: list[tuple[int, int, int, int, int]] = []
    going: dict[tuple[int, int, int], int] = {}
    nobody = np.full((1, cells.shape[1]), FREE)
    for t, row in enumerate(np.concatenate([cells, nobody])):
        bounds = np.flatnonzero(np.diff(row)) + 1
        starts, ends = [0, *bounds.tolist()], [*bounds.tolist(), len(row)]
        here = {(int(row[a]), a, b - a) for a, b in zip(starts, ends, strict=True) if row[a] >= 0}
        for block in going.keys() - here:
            job, lowest, count = block
            blocks.append((job, going.pop(block), t, lowest, count))
        for block in here:
            going.setdefault(block, t)
    return sorted(blocks, key=lambda block: (block[1], block[3]))


def _draw_power(axes: Axes, record: EpisodeRecord, edges: NDArray[np.int64]) -> None:
    steps = slice(edges[0], edges[-1])
    solar, wind = record.power_kw[steps].T
    axes.stairs(wind, edges, fill=True, color=WIND_COLOR, label="wind")
    axes.stairs(wind + solar, edges, baseline=wind, fill=True, color=SOLAR_COLOR, label="sun")
    site = record.config.site_config
    axes.axhline(site.total_kw, color=INK, linewidth=0.8, linestyle=":", label="full draw")
    axes.set_ylabel("kW")
    axes.set_ylim(0, max(float((wind + solar).max()), site.total_kw) * 1.08)
    capacity = battery_kwh(record.config)
    if capacity > 0.0:
        battery: Any = axes.twinx()
        battery.stairs(record.stored_kwh[steps], edges, baseline=None, color=BATTERY_COLOR, linewidth=1.4)
        battery.set_ylim(0, capacity * 1.08)
        battery.set_ylabel("battery, kWh", color=BATTERY_COLOR)
        battery.spines[:].set_visible(False)
        battery.tick_params(length=2, labelsize=8, colors=BATTERY_COLOR)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.94), ncols=3, fontsize=7, frameon=False)


def headline(simulator: ResourcePoolSimulator, index: int) -> str:
    """Return the state of a pool in a line."""
    view = simulator.view(index)
    metrics = simulator.episode_metrics(index)
    running = int((view.job_table()["status"] == at.RUNNING).sum())
    return (
        f"step {view.now} of {simulator.config.episode_steps}: {running} jobs running, "
        f"{len(view.placed) - running} reserved, {len(view.queue)} waiting, "
        f"{metrics['total_job_value_ratio']:.0%} of all value earned"
    )


def draw_pool(simulator: ResourcePoolSimulator, index: int) -> NDArray[np.uint8]:
    """Return the picture of a pool as an RGB image ``(700, 1000, 3)``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    view = simulator.view(index)
    power, outlook = "", None
    if simulator.config.power == "trace":
        series = simulator.power_series(index)[0][view.now :]
        solar, wind = series[0, [at.SOLAR, at.WIND]]
        power = f"sun {solar:.0f} kW, wind {wind:.0f} kW"
        if simulator.config.power_levels is not None:
            env, outlook = simulator.state.env[index], series[: simulator.config.horizon]
            bought, emitted = env["grid_kwh"], env["carbon_kg"]
            power += f"; {env['units_on']} units on, {env['units_next']} next; "
            power += f"{bought:.0f} kWh bought, {emitted:.0f} kg"
    canvas = FigureCanvasAgg(pool_figure(view, headline(simulator, index), power, outlook))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def show(simulator: ResourcePoolSimulator, index: int) -> None:
    """Show the picture of a pool in a window, which later calls update."""
    show_picture(WINDOW, draw_pool(simulator, index))


def describe(simulator: ResourcePoolSimulator, index: int) -> str:
    """Return a pool as text: ``.`` is a free unit, ``#`` one without power, a letter a job."""
    view = simulator.view(index)
    config = view.config
    cells = view.cell_jobs().reshape(config.horizon, config.resource_types, config.units)
    rows = 1 + int(np.flatnonzero((cells >= 0).any(axis=(1, 2))).max(initial=0))
    lines = [headline(simulator, index)]
    for h in range(rows):
        lines.append(f"{h:+4d} " + " ".join("".join(map(_letter, part.tolist())) for part in cells[h]))
    for slot, row in enumerate(view.ready_jobs()):
        if row[0] < 0:
            break
        _, _, _, remaining, latest, value, qos = row[: len(READY_JOB_COLUMNS)]
        needs = "+".join(f"{units:.0f}" for units in row[len(READY_JOB_COLUMNS) :])
        lines.append(
            f"{slot:3d}: {_letter(int(row[0]))} {remaining:.0f} steps on {needs}, value {value:.4g}, "
            f"qos {qos:.2f}, due at {latest:.0f}"
        )
    capacity = battery_kwh(config)
    if capacity > 0.0:
        lines.append(f"battery {view.stored_kwh:.0f} of {capacity:.0f} kWh")
    return "\n".join(lines)


def _letter(cell: int) -> str:
    return {FREE: ".", DARK: "#"}.get(cell, LETTERS[cell % len(LETTERS)])
