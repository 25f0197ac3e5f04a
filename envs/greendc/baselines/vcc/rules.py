"""Rules that look at this hour and the forecast alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import draws_of
from greendc.baselines.vcc.policy import VCCPolicy
from greendc.config import require
from greendc.vcc import VCCSimulator
from greendc.vcc.columns import FORECAST


class Constant(VCCPolicy):
    """The same VCC in every hour.

    :param simulator: the simulator to act on
    :param level: fraction of C; the default, 0.8, is above the mean load of the default
        ``target_load`` by a quarter, and so flattens the peaks without letting work pile up
    :raises ValueError: for a level outside [0, 1]
    """

    def __init__(self, simulator: VCCSimulator, level: float = 0.8) -> None:
        super().__init__(simulator)
        require(0 <= level <= 1, "level", level, "from 0 to 1")
        self.level = level

    def fractions(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the level."""
        return np.full(len(observations), self.level)


class AlwaysOn(Constant):
    """The whole capacity in every hour: nothing waits that fits."""

    def __init__(self, simulator: VCCSimulator) -> None:
        super().__init__(simulator, level=1.0)


class RandomCapacity(VCCPolicy):
    """A VCC drawn anew every hour, any of the levels or uniform on [0, 1]: the floor of every comparison.

    :param simulator: the simulator to act on
    :param seed: fixes the draws
    :raises ValueError: for a negative seed
    """

    def __init__(self, simulator: VCCSimulator, seed: int = 0) -> None:
        super().__init__(simulator)
        require(seed >= 0, "seed", seed, "at least 0")
        self.seed = seed
        self.begin_at(0)

    def begin_at(self, episode: int) -> None:
        """See :class:`~greendc.baselines.policy.BaselinePolicy`."""
        self._generator = draws_of(self.seed, episode)

    def fractions(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """Draw."""
        levels = self.simulator.config.discrete_actions
        if levels is None:
            return self._generator.random(len(observations))
        return self._generator.integers(levels, size=len(observations)) / (levels - 1)


class MoerThreshold(VCCPolicy):
    """A high VCC in the cleaner hours of the forecast, a low one in the others.

    An hour is clean if its forecast is at or below the ``quantile`` of the 24 hours that the forecast
    covers, itself included. The rule does not depend on the forecast's scale.

    The defaults are the best of ``python -m greendc.baselines.vcc.tune`` on the eleven training months
    (44 episodes, ``sgip`` forecasts): total cost -0.8 %, carbon -2.0 % against ``always_on``. Emissions vary
    much less in most of these months than in May, where bolder settings pay.

    :param simulator: the simulator to act on
    :param quantile: share of the hours that count as clean, roughly
    :param low: VCC of the other hours, fraction of C
    :param high: VCC of clean hours, fraction of C
    :raises ValueError: for a number outside [0, 1], or ``high`` below ``low``
    """

    def __init__(
        self, simulator: VCCSimulator, quantile: float = 0.9, low: float = 0.5, high: float = 1.0
    ) -> None:
        super().__init__(simulator)
        require(0 <= quantile <= 1, "quantile", quantile, "from 0 to 1")
        require(0 <= low <= 1, "low", low, "from 0 to 1")
        require(low <= high <= 1, "high", high, f"from low={low} to 1")
        self.quantile, self.low, self.high = quantile, low, high

    def fractions(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """Compare this hour's forecast with the quantile."""
        forecast = observations[:, FORECAST].astype(np.float64)
        clean = forecast[:, 0] <= np.quantile(forecast, self.quantile, axis=1)
        return np.where(clean, self.high, self.low)
