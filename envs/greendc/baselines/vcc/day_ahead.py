"""A plan for the day, made at midnight: carbon-intelligent computing as Google described it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.vcc.fluid import Floats, FluidModel
from greendc.baselines.vcc.policy import VCCPolicy, require_forecast
from greendc.config import require
from greendc.vcc import VCCSimulator
from greendc.vcc.columns import FORECAST


class DayAhead(VCCPolicy):
    """Plan the whole day's curve at midnight, such that the day's flexible work is done by its end.

    One linear programme a day (:mod:`greendc.baselines.vcc.fluid`) with the forecast that is known at
    midnight: expected inflexible load and flexible arrivals from the mean day of the job trace, and the
    jobs in the cluster. The VCC of an hour is ``(1 + reserve) * (inflexible + flexible load) / C``. A day
    that begins elsewhere than at midnight (a policy made within an episode) is planned at once.

    Radovanovic et al., "Carbon-Aware Computing for Datacenters", IEEE Trans. Power Systems 2022, plan so
    for all of Google's clusters, with a reserve that follows from each cluster's past forecast errors.

    :param simulator: the simulator to act on
    :param reserve: share by which the curve lies above the planned load, for work that was not foreseen.
        None is best by carbon and overdue work in sum: what is left over waits for the next clean hours
    :raises ValueError: for a reserve outside [0, 1]
    """

    reads_state = True

    def __init__(self, simulator: VCCSimulator, reserve: float = 0.0) -> None:
        super().__init__(simulator)
        require(0 <= reserve <= 1, "reserve", reserve, "from 0 to 1")
        self.reserve = reserve
        self._model = FluidModel(simulator, 24)
        self._curves = np.ones((simulator.num_envs, 24))
        self._planned = np.full(simulator.num_envs, -1)  # hour of the plan; -1: none

    def fractions(self, observations: NDArray[np.float32]) -> Floats:
        """Follow the day's plan, after making it where a day begins."""
        forecasts = observations[:, FORECAST] / self.simulator.observation_scale[FORECAST]
        chosen = np.empty(len(observations))
        for i, forecast in enumerate(forecasts):
            hour = self.simulator.running_hour(i)
            if hour % 24 == 0 or not 0 <= hour - self._planned[i] <= hour % 24:
                self._curves[i, hour % 24 :] = self.curve(i, forecast)
                self._planned[i] = hour
            chosen[i] = self._curves[i, hour % 24]
        return chosen

    def curve(self, index: int, forecast: Floats) -> Floats:
        """Return the VCC of environment ``index`` from now to midnight.

        :param forecast: ``(24,)`` from this hour on, kg CO2/kWh
        :raises RuntimeError: if no episode has begun, or it is over
        """
        require_forecast(forecast)
        simulator, model = self.simulator, self._model
        config, hour = simulator.config, simulator.running_hour(index) % 24
        jobs, hours = simulator.unfinished_jobs(index), 24 - hour
        window = model.window(jobs, hour, hours, np.full(int(jobs.flexible.sum()), hours))
        window.lower[:, -1] = window.upper[:, -1]
        price = config.carbon_weight * config.kw_per_unit * forecast[:hours]
        plan = model.solve(window, price, overload_price=1.0 + float(price.max()), left_price=0.0)
        curve = (1 + self.reserve) * (window.inflexible + plan.flexible) / model.capacity
        return np.minimum(1.0, curve)
