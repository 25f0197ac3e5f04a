"""Shipped policies in NumPy do what torch does."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th

import greendc
from greendc.shipped.release import releases
from sb3_greendc import evaluate
from sb3_greendc.runs.pretrained import load_pretrained

NAMES = [*releases(), "ResourcePool-50"]
TOLERANCE = 5e-4


def exact_logits(policy: Any, observation: Any) -> Any:
    """Return the logits, or the mean action, of torch's network in float64."""
    tensors, _ = policy.obs_to_tensor(observation)
    if isinstance(tensors, dict):
        features = policy.features_extractor({key: value.double() for key, value in tensors.items()})
        return policy.mlp_extractor.forward_actor(features)[0].numpy()
    latent = policy.mlp_extractor.forward_actor(policy.features_extractor(tensors.double()))
    return policy.action_net(latent)[0].numpy()


@pytest.mark.parametrize("name", NAMES)
def test_actions_and_logits_are_those_of_torch(name: str) -> None:
    policy, model = greendc.load_policy(name), load_pretrained(name)
    exact = deepcopy(model.policy).double()
    env: Any = policy.make_env()
    observation, _ = env.reset(seed=5)
    for _ in range(150):
        masks = {"action_masks": observation["action_mask"].astype(bool)} if "Pool" in name else {}
        expected, _ = model.predict(observation, deterministic=True, **masks)
        assert np.array_equal(model.predict(observation, deterministic=True)[0], expected)
        action, _ = policy.predict(observation)
        assert np.allclose(action, expected, atol=TOLERANCE)
        with th.no_grad():
            wanted = exact_logits(exact, observation)
        found = policy._network(observation)
        assert np.abs(found - wanted).max() < TOLERANCE
        discrete = isinstance(env.action_space, gym.spaces.Discrete)
        observation, _, terminated, truncated, _ = env.step(int(action) if discrete else action)
        if terminated or truncated:
            observation, _ = env.reset()


def test_it_is_evaluated_like_any_policy() -> None:
    name = "ResourcePool-10"
    policy = greendc.load_policy(name)
    kwargs = {**policy.env_kwargs, "episode_steps": 40}
    results = evaluate({"numpy": policy, "torch": load_pretrained(name)}, name, 3, env_kwargs=kwargs)
    returns = results.pivot(index="seed", columns="policy", values="return")
    assert (returns["numpy"] == returns["torch"]).all()
