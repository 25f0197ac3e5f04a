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
from sb3_greendc.pid_ppo.return_scale import WEIGHT, Moments, ReturnScale
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


def scales(model: Any) -> tuple[ReturnScale, ReturnScale]:
    return model.policy.value_net[-1], model.policy.cost_net[-1]


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
    """After 10 rollouts values of both are where returns are, about 220 and 75; raw ones have come to 13."""
    found = {}
    for normalize in (False, True):
        model = train(policy, 10 * 256, lambda: Offset(ContextCMDP()), normalize)
        buffer = model.rollout_buffer
        pairs = ((buffer.values, buffer.returns), (buffer.cost_values, buffer.cost_returns))
        found[normalize] = [float(values.mean() / returns.mean()) for values, returns in pairs]
    assert found[True] == pytest.approx([1.0, 1.0], abs=0.1)
    assert max(found[False]) < 0.25
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


@pytest.mark.parametrize("clip", [None, 0.05])
def test_units_of_reward_and_cost_do_not_matter_to_critics(clip: float | None) -> None:
    """A hundred times the reward and the cost, the same weights of the critics."""

    class Hundredfold(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            observation, reward, terminated, truncated, info = super().step(action)
            return observation, 100.0 * float(reward), terminated, truncated, {"cost": 100.0 * info["cost"]}

    ranges = {"clip_range_vf": clip, "clip_range_cost_vf": clip}
    weights = []
    for env in (ContextCMDP, lambda: Hundredfold(ContextCMDP())):
        model = train("MlpPolicy", 256, env, True, gae_lambda=0.0, gamma=0.0, n_epochs=1, **ranges)
        weights.append((model.policy.value_net[0].weight.detach(), model.policy.cost_net[0].weight.detach()))
    for one, hundredfold in zip(*weights, strict=True):
        th.testing.assert_close(one, hundredfold, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("policy", MODELS)
def test_values_may_change_by_the_clip_range_where_returns_move_away(policy: str) -> None:
    """In units that critics learn in. The first rollout moves the mean of outputs by many units."""
    weights = []
    for clip in (None, 1e3, 0.2):
        ranges = {"clip_range_vf": clip, "clip_range_cost_vf": clip}
        model = train(policy, 0, lambda: Offset(ContextCMDP()), True, **ranges)
        before = (model.policy.value_net[0].weight.clone(), model.policy.cost_net[-2].weight.clone())
        model.learn(256, reset_num_timesteps=False)
        assert min(scale.mean.item() / scale.std.item() for scale in scales(model)) > 1.0
        after = model.policy.value_net[0].weight, model.policy.cost_net[-2].weight
        for one, other in zip(before, after, strict=True):
            assert (one - other).abs().max() > 1e-3
        weights.append(after)
    for free, wide in zip(weights[0], weights[1], strict=True):
        th.testing.assert_close(free, wide, rtol=1e-2, atol=1e-3)
    assert not th.allclose(weights[0][0], weights[2][0])


@pytest.mark.parametrize("policy", MODELS)
def test_values_of_a_second_update_are_judged_by_those_of_the_rollout(policy: str) -> None:
    model = train(policy, 256, lambda: Offset(ContextCMDP()), True)
    before = model.rollout_buffer.moments
    assert before == (Moments(), Moments())
    model.train()
    assert model.rollout_buffer.moments == before
    now = model.policy.return_moments()
    outputs = th.tensor([-1.0, 0.0, 2.0])
    for moments, critic in zip(now, (model.policy.value_net, model.policy.cost_net), strict=True):
        th.testing.assert_close(moments.moved(outputs, Moments()), critic[-1](outputs))
        th.testing.assert_close(Moments().moved(critic[-1](outputs), moments), outputs)
    model.learn(256, reset_num_timesteps=False)
    assert model.rollout_buffer.moments == now
