"""A plan that is made every hour, and rounded to a cap that the cluster's own order can carry out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.vcc.arrivals import SHORTEST
from greendc.baselines.vcc.fluid import Floats, FluidModel
from greendc.baselines.vcc.policy import VCCPolicy, require_forecast
from greendc.config import require
from greendc.vcc import VCCSimulator, layout
from greendc.vcc.columns import FORECAST
from greendc.vcc.snapshot import UnfinishedJobs

TOLERATED = 24
"""Hours that a job may be late in all."""
PLAN_HOURS = 24
"""Horizon of the linear programme."""
CHOICE_HOURS = 48
"""Horizon of the jobs' own choice: a job of a day may be done within two."""


class Rolling(VCCPolicy):
    """Plan a day ahead in every hour, with 24-hour deadlines.

    1. The fluid programme (:mod:`greendc.baselines.vcc.fluid`) spreads known and expected work over the
       next 24 hours. Its dual is the price of capacity in each hour, which is added to the emissions:
       clean hours that everybody wants become dear.
    2. At these prices each job has its own answer: what running it in this hour, not later, is worth
       (:func:`value_of_running`), given the delay it has left. A job of more than a day may use up only
       ``24 / hours left`` of that each day, for it has one allowance for its whole life.
    3. A cap cannot choose jobs: the cluster keeps those that started first and starts those that wait by
       class and submission. So the cap is put where the jobs served have the greatest value in sum.

    All three matter. Total cost against ``always_on`` on the jobs of Google's sample, May 2019, with the
    true forecast: -17 % (carbon -18 %, 4 machine-unit-hours overdue); without prices of capacity -11 %
    (-16 %, 17); with the programme's own load as the cap +13 % (-20 %, 105), because the cluster then
    pauses the same late starters every day.

    It knows what an operator does: the jobs in the cluster and their hours of work, the mean day of the
    job trace, and the emissions forecast, read from the observation. Beyond 24 hours the forecast is
    repeated. It aims at the ``overdue`` SLO, and takes an eviction to be free.

    :param simulator: the simulator to act on
    :param margin: hours by which it stays clear of deadlines
    :raises ValueError: for a margin outside [0, 24]
    """

    reads_state = True

    def __init__(self, simulator: VCCSimulator, margin: int = 1) -> None:
        super().__init__(simulator)
        require(0 <= margin <= TOLERATED, "margin", margin, f"from 0 to {TOLERATED} hours")
        self.margin = margin
        self._model = FluidModel(simulator, PLAN_HOURS)
        self._per_unit = simulator.config.carbon_weight * simulator.config.kw_per_unit

    def fractions(self, observations: NDArray[np.float32]) -> Floats:
        """Plan for one environment after another."""
        forecasts = observations[:, FORECAST] / self.simulator.observation_scale[FORECAST]
        return np.array([self.fraction(i, forecast) for i, forecast in enumerate(forecasts)])

    def fraction(self, index: int, forecast: Floats) -> float:
        """Return the VCC of environment ``index``.

        :param forecast: ``(24,)`` from this hour on, kg CO2/kWh
        :raises RuntimeError: if no episode has begun, or it is over
        """
        require_forecast(forecast)
        simulator = self.simulator
        hour, jobs = simulator.running_hour(index), simulator.unfinished_jobs(index)
        hours_left = simulator.hours - hour
        delay = jobs.delay[jobs.flexible]
        slack = usable_slack(jobs.left[jobs.flexible], delay) - self.margin
        price = self._per_unit * np.tile(forecast, CHOICE_HOURS // 24)[:hours_left]
        scarcity = self._capacity_price(jobs, hour, price[:PLAN_HOURS], slack)
        price += np.tile(scarcity, CHOICE_HOURS // 24)[: len(price)]
        # The jobs expected to arrive in this hour, by class, stand behind those that are there.
        left = np.concatenate([jobs.left[jobs.flexible], SHORTEST])
        slack = np.concatenate([slack, usable_slack(SHORTEST, np.zeros_like(SHORTEST)) - self.margin])
        late = simulator.config.slo_weight * np.maximum(1.0, left / 24)  # charged at each day's end
        value = value_of_running(price, left, slack, late, len(price) == hours_left)
        return self._cap(jobs, value, hour % 24)

    def _capacity_price(
        self, jobs: UnfinishedJobs, hour: int, price: Floats, slack: NDArray[np.int64]
    ) -> Floats:
        window = self._model.window(jobs, hour % 24, len(price), np.maximum(slack, 0))
        slo_weight = self.simulator.config.slo_weight
        left_price = float(np.median(price))
        if hour + len(price) == self.simulator.hours:  # work left at the end is charged
            left_price = max(slo_weight, float(price.max()))
        return self._model.solve(window, price, slo_weight, left_price).capacity_price[: len(price)]

    def _cap(self, jobs: UnfinishedJobs, value: Floats, hour_of_day: int) -> float:
        """Return the cap under which the jobs that run have the greatest value in sum."""
        inflexible, flexible = self._model.arriving_load(hour_of_day)
        cpu = np.concatenate([jobs.cpu[jobs.flexible] / layout.MICRO, flexible])
        served = longest_best_prefix(cpu * value)
        if served == len(cpu):
            return 1.0
        load = inflexible + jobs.cpu[~jobs.flexible].sum() / layout.MICRO + cpu[:served].sum()
        # A millionth more, so that rounding the action to float32 does not keep the last job out.
        return float(min(1.0, (load + 1 / layout.MICRO) / self._model.capacity))


def usable_slack(left: NDArray[np.int64], delay: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the hours that each job may wait in the coming day; not positive: none.

    :param left: ``(n,)`` hours of work left
    :param delay: ``(n,)`` hours waited so far
    """
    return np.floor((TOLERATED - delay) * np.minimum(1.0, 24 / left)).astype(np.int64)


def value_of_running(
    price: Floats, left: NDArray[np.int64], slack: NDArray[np.int64], late: Floats, to_the_end: bool
) -> Floats:
    """Return what it is worth to run each job in this hour rather than in its best other one.

    A job must run ``left`` of its next ``left + slack`` hours. Its cheapest plan without this hour takes
    the cheapest ``left`` of the others; its cheapest plan with this hour swaps the dearest of those for
    this one. The value is that hour's price less this one's.

    :param price: ``(T,)`` price of each hour from this one on, kg for a machine-unit-hour
    :param left: ``(n,)`` hours of work left
    :param slack: ``(n,)`` hours that it may wait; where there are none the value is ``late``
    :param late: ``(n,)``
    :param to_the_end: whether the episode ends with the prices, and all work that fits must be done
    :return: ``(n,)`` kg for a machine unit
    """
    horizon = len(price)
    window = left + slack
    inside = window <= horizon
    required = np.where(inside, left, np.minimum(left, horizon) if to_the_end else horizon - slack)
    window = np.minimum(window, horizon)
    hours = np.arange(1, horizon)
    cheapest = np.sort(np.where(hours < np.arange(horizon + 1)[:, None], price[1:], np.inf), axis=1)
    choice = required < window
    other = (
        cheapest[np.where(choice, window, horizon), np.where(choice, required - 1, 0)] if horizon > 1 else 0.0
    )
    return np.where(choice, other - price[0], late)


def longest_best_prefix(values: Floats) -> int:
    """Return the length of the longest prefix of greatest sum."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return len(values) - int(np.argmax(sums[::-1]))
