"""What a planner foresees of sun, wind and carbon: four kinds of forecasts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at

Floats = NDArray[np.float64]

OUTLOOKS = ("oracle", "noisy", "persistence", "climatology")
"""``oracle`` is the truth; ``noisy`` the truth times an error that walks at random; ``persistence`` the same
hour of the last day; ``climatology`` the mean of that hour over the days of the episode that have passed."""
DAY_ERROR = 0.3
"""Of ``noisy``: the standard deviation of the relative error a day ahead."""


def foresee(
    kind: str, series: Floats, now: int, rows: int, day: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return generation in kW and emissions in kg/kWh of the next rows, ``(rows,)`` each; the first is now's.

    :param kind: one of :data:`OUTLOOKS`
    :param series: of the episode, :data:`~greendc.resource_pool.layout.SERIES` columns
    :param now: the step
    :param rows: how many
    :param day: steps of a day
    :param rng: for ``noisy``
    """
    wanted = np.stack([series[:, at.SOLAR] + series[:, at.WIND], series[:, at.CARBON]], axis=1)
    if kind == "oracle":
        found = wanted[now : now + rows].copy()
    elif kind == "noisy":
        walk = np.cumsum(rng.standard_normal((rows, 2)), axis=0) * (DAY_ERROR / np.sqrt(day))
        found = wanted[now : now + rows] * np.maximum(1.0 + walk - walk[0], 0.0)
    else:
        found = np.empty((rows, 2))
        for h in range(rows):
            past = wanted[(now + h) % day : now + 1 : day]
            known = past if len(past) else wanted[now : now + 1]
            found[h] = known[-1] if kind == "persistence" else known.mean(axis=0)
        found[0] = wanted[now]
    return found[:, 0], found[:, 1]
