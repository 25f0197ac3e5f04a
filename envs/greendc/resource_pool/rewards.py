"""Rewards of the resource pool: three presets of one set of named weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from greendc.config import from_mapping, require, require_kinds, require_one_of


@dataclass(frozen=True)
class RewardWeights:
    """How a job's value turns into reward; the weights of jobs are shares of the job's value.

    Those of energy are in value, too: what a kilogram or a kilowatt-hour is worth in unit-steps.

    Rewards are divided by the mean job value of the workload, so that they are of the order of one.

    :param executed: paid over the run time, ``executed * value / duration`` for each executed step
        (SC20's alpha)
    :param on_time: paid when the job finishes, if on time (SC20's 1 - alpha)
    :param suspension: charged each time the job is suspended, by the agent or by lack of power (beta)
    :param resumption: paid back each time it runs again; at most ``suspension``, or suspending and
        resuming would pay (beta')
    :param lateness: charged for each step past the latest finish until the job is done
    :param lateness_cap: the most that ``lateness`` may charge one job in all
    :param potential: weight of the shaping term ``shaping_gamma * phi' - phi``, where ``phi`` is the value
        of the placed jobs whose planned finish is on time. It credits the decision when it is taken and
        leaves the optimal policy as it is (Ng, Harada and Russell, 1999)
    :param carbon: charged for each kg that grid energy emits when it is bought, and at the end for what
        refilling the battery would emit
    :param brown: charged for each kWh of grid energy, likewise
    :param price: charged for each unit of money that grid energy costs, likewise
    :param switching: charged for each unit that is switched on
    :raises ValueError: for a negative or non-finite weight, or ``resumption`` above ``suspension``
    """

    executed: float = 0.0
    on_time: float = 0.0
    suspension: float = 0.0
    resumption: float = 0.0
    lateness: float = 0.0
    lateness_cap: float = 1.0
    potential: float = 0.0
    carbon: float = 0.0
    brown: float = 0.0
    price: float = 0.0
    switching: float = 0.0

    def __post_init__(self) -> None:
        require_kinds(type(self).__annotations__, vars(self), "reward.")
        for name, value in vars(self).items():
            require(math.isfinite(value) and value >= 0.0, f"reward.{name}", value, "finite and at least 0")
        require(
            self.resumption <= self.suspension,
            "reward.resumption",
            self.resumption,
            f"at most suspension={self.suspension}",
        )

    @property
    def of_energy(self) -> tuple[float, float, float, float]:
        """The weights of carbon, brown energy, its price, and units switched on."""
        return self.carbon, self.brown, self.price, self.switching


REWARDS: dict[str, RewardWeights] = {
    "completion": RewardWeights(on_time=1.0),
    "dense": RewardWeights(
        executed=0.5, on_time=0.5, suspension=0.2, resumption=0.1, lateness=0.005, lateness_cap=0.02
    ),
    "potential": RewardWeights(on_time=1.0, potential=1.0),
}
"""``completion`` is RARE's section 4, ``dense`` SC20's III-B4 and RARE's 3.1.4, ``potential`` the default.

SC20 prints no coefficients. Its reward rises with the arrivals, so that a late job can cost little: half a
per cent of its value a step, 2 % at most. With a cost of up to the whole value, the jobs that no policy can
serve decide the sum, and the reward of every policy falls with the arrivals."""


def reward_weights(spec: str | RewardWeights | Mapping[str, float]) -> RewardWeights:
    """Return the weights that ``spec`` names, is, or maps by name.

    :raises ValueError: for an unknown name or a wrong weight
    :raises TypeError: for an unknown weight
    """
    if isinstance(spec, RewardWeights):
        return spec
    if isinstance(spec, Mapping):
        return from_mapping(RewardWeights, spec)
    require_one_of("reward", spec, REWARDS)
    return REWARDS[spec]
