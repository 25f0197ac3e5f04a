"""Random data of the toy environments, for tests of what CRR does whatever it learns."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch as th
from algorithm_cases import ACTIONS, OBSERVATIONS, MaskedToyEnv, ToyEnv
from stable_baselines3.common.callbacks import BaseCallback

from sb3_greendc.crr import CRR
from sb3_greendc.datasets import OfflineDataset

SMALL = {"batch_size": 16, "policy_kwargs": {"net_arch": [16]}, "device": "cpu"}


def toy_env(observation: str, action: str) -> ToyEnv:
    """Return a toy environment."""
    return MaskedToyEnv(action) if observation == "masked" else ToyEnv(observation, action)


@lru_cache
def toy_dataset(observation: str = "box", action: str = "discrete", n: int = 150) -> OfflineDataset:
    """Return transitions of a random policy, of two sources of unequal size."""
    env = toy_env(observation, action)
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    rows: list[dict[str, Any]] = []
    obs, _ = env.reset(seed=0)
    episode = 0
    for _ in range(n):
        taken = rng.choice(np.flatnonzero(env.mask)) if observation == "masked" else env.action_space.sample()
        after, reward, terminated, truncated, _ = env.step(taken)
        row = {"obs": obs, "next_obs": after, "actions": taken, "rewards": reward}
        rows.append({**row, "terminated": terminated, "truncated": truncated, "episode_id": episode})
        obs = after
        if terminated or truncated:
            obs, episode = env.reset()[0], episode + 1
    columns = {key: _stacked([row[key] for row in rows]) for key in rows[0]}
    columns["source_id"] = (columns["episode_id"] >= 15).astype(np.int64)
    return OfflineDataset.from_dict(columns, OBSERVATIONS[observation], ACTIONS[action], ["sjf", "fcfs"])


def _stacked(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return {key: np.stack([value[key] for value in values]) for key in values[0]}
    return np.asarray(values)


def policy_name(observation: str) -> str:
    """Return the name of the policy for an observation space."""
    if observation in ("dict", "dict_image", "masked"):
        return "MultiInputPolicy"
    return "CnnPolicy" if observation == "image" else "MlpPolicy"


def toy_model(observation: str = "box", action: str = "discrete", **kwargs: Any) -> CRR:
    """Return a small model on the toy data."""
    data = {"dataset": toy_dataset(observation, action)}
    return CRR(policy_name(observation), **{**data, "seed": 0, **SMALL, **kwargs})


def parameters_of(model):
    """Return a copy of every tensor of a model's policy."""
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def same(a, b):
    """Whether two sets of parameters are equal to the bit."""
    return a.keys() == b.keys() and all(th.equal(a[name], b[name]) for name in a)


def observations_of(data, n=20):
    """Return the first observations of a data set."""
    return data.batch(np.arange(n), ["observations"])["observations"]


class StopAfter(BaseCallback):
    """Ends training after some calls."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def _on_step(self):
        return self.n_calls < self.n
