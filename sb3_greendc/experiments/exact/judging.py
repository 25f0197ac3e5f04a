"""Policies judged by what each of their actions loses, against the exact optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from greendc.baselines.resource_pool.exact import Played
from greendc.baselines.resource_pool.exact_policy import ExactPolicy
from greendc.resource_pool import ResourcePoolSimulator
from greendc.simulator import Observation
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.evaluation.episodes import run_episodes
from sb3_greendc.evaluation.policy_sources import PolicySource, Predictor
from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.exact.pools import POOLS, solved
from sb3_greendc.experiments.tasks import Scenario

LOST = "lost_value"
"""Sum, over the decisions of an episode, of what the actions were worth less than the best ones."""

_AT_ONCE = 256


def judge(source: PolicySource, pool: str, episodes: int, **view: Any) -> list[dict[str, Any]]:
    """Play the test episodes, and return what was earned and lost in each.

    :param source: what plays
    :param pool: name of the tiny pool
    :param episodes: number of episodes
    :param view: keyword arguments of the environment that say what the policy chooses from, and sees
    """
    rows: list[dict[str, Any]] = []
    for first in range(0, episodes, _AT_ONCE):
        env = source.enter(_make_env(POOLS[pool].scenario(**view), min(_AT_ONCE, episodes - first)))
        ruler = Ruler(env, pool) if rules_are_exact(view) else env
        policy = source.policy_for(env)
        results = run_episodes(policy, ruler, TEST_SEED + first)
        rows += [{"episode": k, **result} for k, result in enumerate(results, first)]
        env.close()
    return rows


def rules_are_exact(view: dict[str, Any]) -> bool:
    """Return whether a pool with these keyword arguments still has the rules of its exact model."""
    return not {"placement", "late_jobs"} & set(view)


def _make_env(scenario: Scenario, n_envs: int) -> SimulatorVecEnv:
    env = make_vec_env(scenario.env_id, n_envs, **scenario.env_kwargs)
    assert isinstance(env, SimulatorVecEnv)
    return env


class Ruler(VecEnvWrapper):
    """Adds up what each episode's actions lose, as ``info["episode_metrics"]["lost_value"]``.

    :param env: a batch of the pool
    :param pool: name of the tiny pool
    """

    def __init__(self, env: Any, pool: str) -> None:
        super().__init__(env)
        simulator = env.unwrapped.simulator
        assert isinstance(simulator, ResourcePoolSimulator)
        self._optimum = ExactPolicy(simulator, *solved(pool))
        self._lost = np.zeros(env.num_envs)

    def reset(self) -> Any:
        """See SB3's class."""
        self._lost[:] = 0.0
        return self.venv.reset()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Look at the actions before they are taken."""
        self._lost += self._optimum.losses(np.asarray(actions))
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """See SB3's class."""
        observations, rewards, dones, infos = self.venv.step_wait()
        for i in np.flatnonzero(dones):
            infos[i]["episode_metrics"][LOST] = float(self._lost[i])
            self._lost[i] = 0.0
        return observations, rewards, dones, infos


class ExactContestant(PolicySource):
    """A policy of the exact model.

    :param name: what tables call it
    :param pool: name of the tiny pool
    :param played: the policy; default: the optimum
    """

    def __init__(self, name: str, pool: str, played: Played | None = None) -> None:
        super().__init__(name, 0)
        object.__setattr__(self, "_pool", pool)
        object.__setattr__(self, "_played", played)

    def policy_for(self, env: Any) -> Predictor:
        """See :class:`~sb3_greendc.evaluation.policy_sources.PolicySource`."""
        model, optimum = solved(getattr(self, "_pool"))  # noqa: B009 - set past the frozen dataclass
        return ExactPolicy(env.unwrapped.simulator, model, getattr(self, "_played") or optimum)  # noqa: B009

    @property
    def source(self) -> str:
        """See :class:`~sb3_greendc.evaluation.policy_sources.PolicySource`."""
        return f"exact:{self.name}"


class UniformlyRandom:
    """Takes each valid action with the same probability.

    :param seed: of the draws
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def predict(
        self,
        observation: Observation,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[np.int64], Any]:
        """Return actions for a batch of observations."""
        assert isinstance(observation, dict)
        draws = self._rng.random(observation[ACTION_MASK].shape)
        actions: NDArray[np.int64] = np.argmax(np.where(observation[ACTION_MASK] != 0, draws, -1.0), axis=1)
        return actions, state
