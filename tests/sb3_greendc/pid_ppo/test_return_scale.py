"""Critics that learn returns in units of their spread: the moments, what is gained, what stays."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from cmdp_envs import ContextCMDP
from stable_baselines3.common.env_util import make_vec_env

from sb3_greendc.pid_ppo import PIDLagrangianPPO
from sb3_greendc.pid_ppo.return_scale import WEIGHT, ReturnScale
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO

MODELS: dict[str, Any] = {"MlpPolicy": PIDLagrangianPPO, "MlpLstmPolicy": RecurrentPIDLagrangianPPO}


class Offset(gym.Wrapper[Any, Any, Any, Any]):
    """The same problem, with more reward (30) and cost (10) at each step: nothing to learn but the offset."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, float(reward) + 30.0, terminated, truncated, {"cost": info["cost"] + 10.0}


def train(policy: str, decisions: int, env: Any, normalize_returns: bool, **kwargs: Any) -> Any:
    small = {"n_steps": 64, "batch_size": 64, "n_epochs": 4, "gamma": 0.9, "seed": 0, "device": "cpu"}
    policy_kwargs = {"normalize_returns": normalize_returns}
    unlimited = {"cost_limit": math.inf, "cost_vf_coef": 0.5}
    settings = {**unlimited, "policy_kwargs": policy_kwargs, **small, **kwargs}
    return MODELS[policy](policy, make_vec_env(env, 4, seed=0), **settings).learn(decisions)


def test_moments() -> None:
    scale = ReturnScale()
    outputs = th.tensor([[-1.0], [2.0]])
    assert th.equal(scale(outputs), outputs)
    scale.update(np.array([[10.0, 14.0]]))
    assert (scale.mean.item(), scale.std.item()) == (12.0, 2.0)
    assert scale(outputs).tolist() == [[10.0], [16.0]]
    scale.update(np.array([20.0, 20.0]))
    both = [[1 - WEIGHT, 10.0], [1 - WEIGHT, 14.0], [2 * WEIGHT, 20.0]]
    mean = sum(weight * value for weight, value in both) / 2
    square = sum(weight * value**2 for weight, value in both) / 2
    assert scale.mean.item() == pytest.approx(mean)
    assert scale.std.item() == pytest.approx(math.sqrt(square - mean**2))


def test_a_cost_that_never_occurs_has_no_unit() -> None:
    scale = ReturnScale()
    scale.update(np.zeros(8))
    assert (scale.mean.item(), scale.std.item()) == (0.0, 1.0)
    scale.update(np.full(8, 3.0))
    assert (scale.mean.item(), scale.std.item()) == (0.0, 1.0)


@pytest.mark.parametrize("policy", MODELS)
def test_both_critics_learn_returns_far_from_0(policy: str) -> None:
    """After 16 rollouts values of both are where returns are, about 220 and 75; raw ones have come to 10."""
    found = {}
    for normalize in (False, True):
        model = train(policy, 16 * 256, lambda: Offset(ContextCMDP()), normalize)
        buffer = model.rollout_buffer
        pairs = ((buffer.values, buffer.returns), (buffer.cost_values, buffer.cost_returns))
        found[normalize] = [float(values.mean() / returns.mean()) for values, returns in pairs]
    assert found[True] == pytest.approx([1.0, 1.0], abs=0.1)
    assert max(found[False]) < 0.5
    for critic, (_, returns) in zip((model.policy.value_net, model.policy.cost_net), pairs, strict=True):
        assert critic[-1].mean.item() == pytest.approx(returns.mean(), rel=0.1)


@pytest.mark.parametrize("policy", MODELS)
def test_scales_are_saved(policy: str, tmp_path: Path) -> None:
    model = train(policy, 512, ContextCMDP, True)
    scale = model.policy.cost_net[-1]
    assert scale.mean.item() != 0.0
    assert scale.n_updates.item() == 2
    model.save(tmp_path / "model.zip")
    loaded = MODELS[policy].load(tmp_path / "model.zip", device="cpu")
    assert loaded.policy.normalize_returns
    for name, value in model.policy.state_dict().items():
        assert th.equal(loaded.policy.state_dict()[name], value), name


def test_units_of_reward_and_cost_do_not_matter_to_critics() -> None:
    """A hundred times the reward and the cost, the same weights of the critics."""

    class Hundredfold(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            observation, reward, terminated, truncated, info = super().step(action)
            return observation, 100.0 * float(reward), terminated, truncated, {"cost": 100.0 * info["cost"]}

    weights = []
    for env in (ContextCMDP, lambda: Hundredfold(ContextCMDP())):
        model = train("MlpPolicy", 256, env, True, gae_lambda=0.0, gamma=0.0, n_epochs=1)
        weights.append((model.policy.value_net[0].weight.detach(), model.policy.cost_net[0].weight.detach()))
    for one, hundredfold in zip(*weights, strict=True):
        th.testing.assert_close(one, hundredfold, rtol=1e-3, atol=1e-4)
