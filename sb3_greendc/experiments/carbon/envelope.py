"""What no policy exceeds at some carbon: bounds at several prices, and the envelope below all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from greendc.baselines.resource_pool.energy_programme import carbon_bound
from greendc.resource_pool import ResourcePoolSimulator
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.experiments.carbon.comparison import VALUE, Floats
from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.tasks import Outcome, Scenario, Task

BOUND_PRICES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
QUICK_BOUND_PRICES = BOUND_PRICES[::2]


@dataclass(frozen=True)
class Envelope(Task):
    """The bound on value less the price of carbon, at several prices, in the first test episodes.

    :param scenario: of a pool whose power is commanded
    :param prices: values of a kg
    :param episodes: number of episodes
    """

    scenario: Scenario
    prices: tuple[float, ...]
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"bounds {self.scenario.env_id}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 2.0 + 0.35 * self.episodes * len(self.prices)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        env = make_vec_env(self.scenario.env_id, self.episodes, TEST_SEED, **self.scenario.env_kwargs)
        env.reset()
        assert isinstance(env, SimulatorVecEnv)
        assert isinstance(env.simulator, ResourcePoolSimulator)
        rows = [
            {"episode": k, "kg_price": price, "bound": carbon_bound(env.simulator, price, k).value}
            for k in range(self.episodes)
            for price in self.prices
        ]
        env.close()
        return Outcome({"bounds": pd.DataFrame(rows)})


def bound_at(bounds: pd.DataFrame, kg: float | Floats) -> Floats:
    """Return the value that no policy exceeds at some carbon, by the tightest of several prices.

    :param bounds: of an :class:`Envelope`, of one test
    :param kg: the carbon of an episode, one number or several
    """
    means = bounds.groupby("kg_price")["bound"].mean()
    lines = means.to_numpy() + np.multiply.outer(kg, means.index.to_numpy())
    return np.asarray(lines.min(axis=-1), np.float64)


def worth_of(rows: pd.DataFrame) -> pd.Series[float]:
    """Return the value of all jobs of each episode."""
    return rows["total_job_value"] / rows[VALUE]


def bound_share(bounds: pd.DataFrame, rows: pd.DataFrame, kg: float) -> float:
    """Return the share of the value that no policy exceeds at some carbon, at most 1.

    :param bounds: of an :class:`Envelope`, of one test
    :param rows: of one policy in the same test
    :param kg: the carbon of an episode
    """
    worth = worth_of(rows[rows["episode"].isin(bounds["episode"])]).mean()
    return min(float(bound_at(bounds, kg)) / worth, 1.0)
