"""Small DiscreteSAC models for tests."""

from __future__ import annotations

import torch as th
from gymnasium import spaces
from known_mdps import SoftMDP
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_greendc.discrete_sac import DiscreteSAC


class Encoder(BaseFeaturesExtractor):
    """An encoder with parameters, for SoftMDP."""

    def __init__(self, space):
        super().__init__(space, 16)
        self.net = th.nn.Sequential(th.nn.Linear(4, 16), th.nn.ReLU())

    def forward(self, observations):
        return self.net(observations["state"])


def make(env=None, n_envs=1, **kwargs):
    options = {
        "learning_starts": 20,
        "batch_size": 16,
        "buffer_size": 1000,
        "seed": 0,
        "device": "cpu",
    } | kwargs
    if env is None:
        env = DummyVecEnv([SoftMDP] * n_envs)
        options["policy_kwargs"] = {"features_extractor_class": Encoder} | options.get("policy_kwargs", {})
    is_dict = isinstance(env.observation_space, spaces.Dict)
    return DiscreteSAC("MultiInputPolicy" if is_dict else "MlpPolicy", env, **options)


def collected(**kwargs):
    """Return a model with transitions in its buffer and no update done."""
    return make(learning_starts=10_000, **kwargs).learn(200)


def gradients(loss, parameters):
    return th.autograd.grad(loss, list(parameters), retain_graph=True, allow_unused=True)


def logged(model):
    return model.logger.name_to_value
