"""One rule for the jobs, another for the power: what each half of a plan is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.resource_pool.power_plan import PowerPlan
from greendc.baselines.resource_pool.power_rules import CarbonThreshold, PowerRule
from greendc.config import require_one_of
from greendc.resource_pool import ResourcePoolSimulator

PLAN, RULE = "power_plan", "carbon_threshold"


class PowerHalves(PowerRule):
    """``power_halves``: one rule starts and suspends jobs, another orders units and tells the battery.

    With the plan in one half alone, it shows how much of the plan's lead over the rule that half has.

    :param simulator: the simulator to act on
    :param jobs: ``"power_plan"`` or ``"carbon_threshold"``
    :param power: likewise
    :param kg_price: value of a kg of CO2, in both
    :param battery: of the rule: ``"auto"`` or ``"arbitrage"``
    :param spares: units beyond those that are needed, or planned
    :param forecast: of the plan
    :raises ValueError: for another half, a value out of range, or a pool whose power is not commanded
    """

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        jobs: str = PLAN,
        power: str = RULE,
        kg_price: float = 0.15,
        battery: str = "arbitrage",
        spares: int = 2,
        forecast: str = "oracle",
    ) -> None:
        super().__init__(simulator, spares, kg_price=kg_price)
        require_one_of("jobs", jobs, (PLAN, RULE))
        require_one_of("power", power, (PLAN, RULE))
        halves: dict[str, PowerRule] = {
            PLAN: PowerPlan(simulator, kg_price=kg_price, spares=spares, forecast=forecast),
            RULE: CarbonThreshold(simulator, kg_price=kg_price, battery=battery, spares=spares),
        }
        self.jobs, self.power = halves[jobs], halves[power]
        self._first = simulator.config.ready_pool_size + 1

    def begin_at(self, episode: int) -> None:
        """See :class:`~greendc.baselines.policy.BaselinePolicy`."""
        for half in (self.jobs, self.power):
            half.begin_at(episode)

    def choose(self, index: int, mask: NDArray[np.bool_]) -> int:
        """Return the action in environment ``index``."""
        action = self.jobs.choose(index, mask)
        return action if action < self._first else self.power.command(index, mask)
