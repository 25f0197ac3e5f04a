"""The project's algorithms and toy environments of every kind, for the tests of properties.

To put an algorithm under those tests, add an :class:`AlgorithmCase` to :data:`CASES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_greendc.discrete_sac import DiscreteSAC
from sb3_greendc.pid_ppo import PIDLagrangianPPO
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO

OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "float64": spaces.Box(-1, 1, (3,), np.float64),
    "discrete": spaces.Discrete(4),
    "multi_binary": spaces.MultiBinary(3),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "image": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "dict": spaces.Dict(vector=spaces.Box(-1, 1, (3,), np.float32), kind=spaces.Discrete(4)),
    "dict_image": spaces.Dict(
        vector=spaces.Box(-1, 1, (3,), np.float32), image=spaces.Box(0, 255, (1, 36, 36), np.uint8)
    ),
    "masked": spaces.Dict(
        vector=spaces.Box(-1, 1, (3,), np.float32), action_mask=spaces.Box(0, 1, (4,), np.int8)
    ),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(4),
    "box": spaces.Box(-1, 1, (2,), np.float32),
}


class ToyEnv(gym.Env[Any, Any]):
    """Random observations, a reward for small actions, a cost; ends or is cut after seven steps."""

    def __init__(self, observation: str = "box", action: str = "discrete") -> None:
        self.observation_space = OBSERVATIONS[observation]
        self.action_space = ACTIONS[action]
        self.episode = 0

    def _observation(self, last: bool = False) -> Any:
        # A space has a random generator of its own, which the environment's seed reaches this way.
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.t = 0
        self.episode += 1
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.t += 1
        over = self.t >= 7
        cut = over and self.episode % 2 == 0
        reward = -float(np.sum(np.square(action)))
        return self._observation(over), reward, over and not cut, cut, {"cost": float(self.t % 2)}


class MaskedToyEnv(ToyEnv):
    """A toy environment in which an action outside the mask is an error; the terminal mask is all zero."""

    def __init__(self, action: str = "discrete") -> None:
        super().__init__("masked", action)

    def _observation(self, last: bool = False) -> Any:
        observation = super()._observation(last)
        self.mask = self.np_random.random(4) < 0.5
        self.mask[self.np_random.integers(4)] = True
        observation["action_mask"] = (self.mask & (not last)).astype(np.int8)
        return observation

    def action_masks(self) -> Any:
        return self.mask

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.mask[action], "an invalid action was taken"
        return super().step(action)


@dataclass(frozen=True)
class AlgorithmCase:
    """An algorithm, with arguments that make it learn a little within :attr:`steps` transitions.

    :param cls: the algorithm
    :param kwargs: small settings
    :param actions: names of the action spaces that it takes (:data:`ACTIONS`)
    :param not_observations: names of the observation spaces that it does not take (:data:`OBSERVATIONS`)
    :param steps: transitions after which it has been updated several times
    :param policies: names of its policies for flat, image and ``Dict`` observations
    """

    cls: type[BaseAlgorithm]
    kwargs: Mapping[str, Any]
    actions: tuple[str, ...]
    not_observations: tuple[str, ...] = ()
    steps: int = 64
    policies: Mapping[str, str] = field(
        default_factory=lambda: {"flat": "MlpPolicy", "image": "CnnPolicy", "dict": "MultiInputPolicy"}
    )

    def make(
        self, observation: str = "box", action: str | None = None, n_envs: int = 1, **kwargs: Any
    ) -> BaseAlgorithm:
        """Return a model on ``n_envs`` toy environments."""
        env = toy_vec_env(observation, action or self.actions[0], n_envs)
        kind = "dict" if isinstance(env.observation_space, spaces.Dict) else observation
        policy = self.policies.get(kind, self.policies["flat"])
        return self.cls(policy, env, **{"seed": 0, "device": "cpu", **self.kwargs, **kwargs})


def toy_vec_env(observation: str, action: str, n_envs: int = 1) -> DummyVecEnv:
    """Return ``n_envs`` monitored toy environments."""

    def make() -> gym.Env[Any, Any]:
        return Monitor(MaskedToyEnv(action) if observation == "masked" else ToyEnv(observation, action))

    return DummyVecEnv([make] * n_envs)


_ON_POLICY = {"n_steps": 32, "batch_size": 16, "n_epochs": 1, "cost_limit": 2.0}
_RECURRENT_POLICIES = {"flat": "MlpLstmPolicy", "image": "CnnLstmPolicy", "dict": "MultiInputLstmPolicy"}

CASES: dict[str, AlgorithmCase] = {
    "discrete_sac": AlgorithmCase(
        DiscreteSAC, {"learning_starts": 32, "buffer_size": 500, "batch_size": 16}, ("discrete",)
    ),
    "pid_ppo": AlgorithmCase(PIDLagrangianPPO, _ON_POLICY, ("discrete", "box")),
    "recurrent_pid_ppo": AlgorithmCase(
        RecurrentPIDLagrangianPPO,
        _ON_POLICY,
        ("discrete", "box"),
        # sb3-contrib gives its LSTM a NumPy integer as input size, which torch refuses.
        not_observations=("multi_discrete",),
        policies=_RECURRENT_POLICIES,
    ),
}
