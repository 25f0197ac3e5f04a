"""What VCC baselines share: they choose fractions of capacity, and see forecasts in the observation."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import BaselinePolicy
from greendc.config import require
from greendc.simulator import Observation
from greendc.vcc import VCCSimulator

FORECAST = slice(3, 27)
"""Where every observation has the forecast of this hour's emissions and the next 23."""


class VCCPolicy(BaselinePolicy[VCCSimulator]):
    """A policy that chooses a virtual capacity curve hour by hour.

    In ``DiscreteVCC-*`` it takes the lowest level that is not below the fraction it chose, so that it
    never delays more than it means to.

    :param simulator: the simulator to act on
    :raises ValueError: for a simulator of another family
    """

    def __init__(self, simulator: VCCSimulator) -> None:
        require_simulator(simulator)
        super().__init__(simulator)

    @abc.abstractmethod
    def fractions(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the VCC ``(n,)`` for observations ``(n, 27 or 43)``, fractions of C."""

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the actions for a batch; see :class:`~greendc.baselines.policy.BaselinePolicy`."""
        assert isinstance(observations, np.ndarray)
        fractions = self.fractions(observations)
        levels = self.simulator.config.discrete_actions
        if levels is None:
            return fractions.astype(np.float32)[:, None]
        return lowest_level_not_below(fractions, levels)


def require_simulator(simulator: object) -> None:
    """Raise a ``ValueError`` for a simulator of another family."""
    known = isinstance(simulator, VCCSimulator)
    require(known, "simulator", type(simulator).__name__, "a VCCSimulator")


def require_forecast(forecast: NDArray[np.float64]) -> None:
    """Raise a ``ValueError`` unless a forecast is one of 24 finite numbers."""
    require(np.shape(forecast) == (24,), "forecast", f"of shape {np.shape(forecast)}", "of shape (24,)")
    require(bool(np.isfinite(forecast).all()), "forecast", forecast, "finite")


def lowest_level_not_below(fractions: NDArray[np.float64], levels: int) -> NDArray[np.int64]:
    """Return the lowest of ``levels`` equally spaced levels of [0, 1] that is not below each fraction."""
    rounded: NDArray[np.int64] = np.ceil((fractions - 1e-7) * (levels - 1)).astype(np.int64)
    return np.clip(rounded, 0, levels - 1)
