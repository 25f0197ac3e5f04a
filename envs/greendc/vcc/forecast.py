"""What the environment knows of the next 24 hours' emissions: four forecasts, one of which looks ahead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.vcc.columns import LEADS

CLIMATOLOGY_DAYS = 14
"""Past days that the diurnal climatology averages; see the docstring of :func:`sgip`."""


def oracle(moer: NDArray[np.float64], start: int, rows: int) -> NDArray[np.float64]:
    """Return the truth: hour ``start + t + k`` in row t, column k, this hour's own mean included.

    :param moer: ``(H,)`` hourly means, kg CO2/kWh
    :param start: index of the first row's hour
    :param rows: number of hours to forecast in
    """
    return np.lib.stride_tricks.sliding_window_view(moer[start : start + rows + LEADS - 1], LEADS).copy()


def persistence(moer: NDArray[np.float64], start: int, rows: int) -> NDArray[np.float64]:
    """Return for each of the next 24 hours the mean of the same hour a day before (diurnal persistence).

    The table is the oracle's of a day earlier: its last column is the hour that has just ended.
    """
    return oracle(moer, start - LEADS, rows)


def sgip(
    moer: NDArray[np.float64], archived: NDArray[np.float64], start: int, rows: int
) -> NDArray[np.float64]:
    """Return the archived forecast for three hours, then a diurnal climatology of past days.

    Hour x is forecast as the mean of the same hour over the ``CLIMATOLOGY_DAYS`` days before it, as
    far as the series reaches back; seen from at most 23 h before, all of them lie in the past.

    :param moer: ``(H,)`` hourly means, kg CO2/kWh
    :param archived: ``(H, 3)`` the forecast issued on the hour for its first, second and third hour
    """
    hours = np.arange(start, start + rows + LEADS - 1)
    days_before = hours[:, None] - 24 * np.arange(1, CLIMATOLOGY_DAYS + 1)
    known = days_before >= 0
    total = np.where(known, moer[np.maximum(days_before, 0)], 0.0).sum(axis=1)
    table = np.lib.stride_tricks.sliding_window_view(total / known.sum(axis=1), LEADS).copy()
    table[:, :3] = archived[start : start + rows]
    return table


def noise(rng: np.random.Generator, rows: int, scale: float) -> NDArray[np.float64]:
    """Return forecast errors ``(rows, 24)`` that walk at random along the lead time.

    Their standard deviation is ``scale * sqrt((k + 1) / 24)`` at lead k.
    """
    steps = rng.standard_normal((rows, LEADS))
    walk: NDArray[np.float64] = np.cumsum(steps, axis=1) * (scale / np.sqrt(LEADS))
    return walk


def with_features(forecasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Append to forecasts ``(..., 24)`` the rank of the first hour among them, their mean, and the gap.

    The rank is the share of the other 23 hours that are cleaner; the gap is the first hour less the mean.
    """
    first = forecasts[..., :1]
    rank = (forecasts < first).sum(axis=-1, keepdims=True) / (LEADS - 1)
    # Summed in order, unlike mean(), so that the result is the same on every machine.
    mean = np.cumsum(forecasts, axis=-1)[..., -1:] / LEADS
    return np.concatenate([forecasts, rank, mean, first - mean], axis=-1)
