"""Names of lines at their right ends, in their colors: no eye has to go to a legend and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.optimize import isotonic_regression

POINTS = 7.5
"""Size of the names."""
DARKEST = 0.45
"""Luminance that a color is darkened to before it is written in."""


@dataclass(frozen=True)
class End:
    """A line's last point.

    :param name: the line's label
    :param color: the line's color
    :param x: in shares of the panel's width
    :param y: in shares of its height; what lies outside the panel counts as its edge
    """

    name: str
    color: str
    x: float
    y: float


def name_lines(figure: Figure, notes: Mapping[str, str] | None = None) -> None:
    """Write the name of each labelled line of each panel beside its right end.

    Names that would lie one on another are moved apart, each as little as possible, and joined to their
    lines. Call it when scales and limits of all axes stand.

    :param notes: what stands below the name of a line in the first panel that has it
    """
    figure.draw_without_rendering()  # the layout gives the panels their heights
    untold = dict(notes or {})
    for panel in figure.axes:
        ends = sorted(line_ends(panel), key=lambda end: end.y)
        texts = [f"{end.name}\n{untold.pop(end.name)}" if end.name in untold else end.name for end in ends]
        height = panel.get_window_extent().height / figure.dpi * 72
        heights = np.array([POINTS * (1.5 + 1.2 * text.count("\n")) / height for text in texts])
        for end, text, place in zip(ends, texts, spread([end.y for end in ends], heights), strict=True):
            panel.annotate(
                text,
                (end.x, end.y),
                (1.06, place),
                xycoords="axes fraction",
                textcoords="axes fraction",
                color=written(end.color),
                fontsize=POINTS,
                va="center",
                annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-",
                    "color": end.color,
                    "lw": 0.6,
                    "relpos": (0, 0.5),
                    "shrinkA": 1,
                    "shrinkB": 3,
                },
            )


def line_ends(panel: Axes) -> Iterator[End]:
    """Yield the right end of each labelled line of a panel that has a point, also of one across all of it."""
    for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
        line = handle.lines[0] if isinstance(handle, ErrorbarContainer) else handle
        if not isinstance(line, Line2D):
            continue
        points = np.column_stack(line.get_data()).astype(float)
        points = points[np.isfinite(points).all(axis=1)]
        if len(points):
            last = points[points[:, 0].argmax()]
            x, y = panel.transAxes.inverted().transform(line.get_transform().transform(last))
            yield End(name, to_hex(line.get_color()), float(np.clip(x, 0, 1)), float(np.clip(y, 0, 1)))


def spread(wanted: list[float], heights: np.ndarray) -> np.ndarray:
    """Return places near those that are wanted, so far apart that nothing overlaps.

    :param wanted: centers in ascending order, shares of the panel's height
    :param heights: of what stands there
    :returns: the places with the least sum of squared moves; those at the edges may be moved further, into
        the panel
    """
    if not wanted:
        return np.empty(0)
    gaps = np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2)])
    moved = isotonic_regression(np.asarray(wanted) - gaps).x
    highest = max(1.0 - gaps[-1] - heights[-1] / 2, 0.0)
    return np.asarray(np.clip(moved, min(heights[0] / 2, highest), highest) + gaps)


def written(color: str) -> str:
    """Return a color, darkened if text in it would be too pale to read on white."""
    red, green, blue = to_rgb(color)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    dim = min(1.0, DARKEST / luminance) if luminance else 1.0
    return to_hex((dim * red, dim * green, dim * blue))
