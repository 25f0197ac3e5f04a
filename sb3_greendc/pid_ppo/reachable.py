"""Limits that no policy can keep, where the environment can tell."""

from __future__ import annotations

from stable_baselines3.common.vec_env import VecEnv

from greendc.baselines.registry import find_simulator
from greendc.config import require
from greendc.resource_pool import ResourcePoolSimulator

EPISODES = 32


def require_reachable(env: VecEnv, cost_limit: float) -> None:
    """Refuse a limit below what the critical load of a pool whose power is commanded costs at the least.

    That is the mean of :data:`EPISODES` episodes in which no job runs and the battery is used at its best,
    :func:`~greendc.baselines.resource_pool.energy_programme.least_cost`. Of other environments nothing is
    known.

    :param env: what a model learns from
    :param cost_limit: on the cost of an episode
    :raises ValueError: for a limit below it
    """
    single = getattr(env.unwrapped, "envs", [env])[0]
    try:
        simulator = find_simulator(single)
    except ValueError:  # an environment of others
        return
    if not isinstance(simulator, ResourcePoolSimulator):
        return
    from greendc.baselines.resource_pool.energy_programme import least_cost

    least = least_cost(simulator.config, EPISODES)
    if least is not None:
        require(
            cost_limit >= least,
            "cost_limit",
            cost_limit,
            f"at least {least:.3g}, what the critical load alone costs in an episode",
        )
