"""Updates that the clip changes, and a controller that goes on where it stopped."""

from __future__ import annotations

import math

import pytest
import torch as th
from cmdp_envs import CueCMDP
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed

from sb3_greendc import PIDLagrangianPPO
from sb3_greendc.pid_ppo.controller import PIDController


def test_large_updates_are_clipped_as_in_ppo() -> None:
    settings = {"n_steps": 32, "batch_size": 16, "n_epochs": 6, "learning_rate": 0.02, "clip_range": 0.05}
    models = (
        PPO("MlpPolicy", make_vec_env(CueCMDP, 1, seed=0), seed=0, device="cpu", **settings),
        PIDLagrangianPPO(
            "MlpPolicy",
            make_vec_env(CueCMDP, 1, seed=0),
            cost_limit=math.inf,
            cost_vf_coef=0.0,
            seed=0,
            device="cpu",
            **settings,
        ),
    )
    for model in models:
        set_random_seed(1)
        model.learn(64)
        assert model.logger.name_to_value["train/clip_fraction"] > 0.2
    theirs, ours = (model.policy.state_dict() for model in models)
    for name, value in theirs.items():
        assert th.equal(ours[name], value), name


@pytest.mark.parametrize("preset", ["default", "cocorl", "stooke"])
def test_a_controller_goes_on_where_it_stopped(preset: str) -> None:
    """Each part of its state matters to what follows, far from the bounds."""
    settings = {"kp": 0.3, "ki": 0.2, "kd": 0.4, "delay": 3, "lambda_max": 1e6}
    before, after = [12.0, 14.0, 13.0, 17.0, 16.0], [15.0, 18.0, 21.0, 24.0]
    whole = PIDController.from_preset(preset, 10.0, **settings)
    for cost in before:
        whole.update(cost)
    state = whole.state_dict()
    expected = [whole.update(cost) for cost in after]
    part = PIDController.from_preset(preset, 10.0, **settings)
    part.load_state_dict(state)
    assert part.lagrange_multiplier == state["lagrange_multiplier"]
    assert [part.update(cost) for cost in after] == expected
    for name, other in (("integral", 0.0), ("error", 0.0), ("cost", 0.0), ("history", [0.0])):
        changed = PIDController.from_preset(preset, 10.0, **settings)
        changed.load_state_dict({**state, name: other})
        matters = [changed.update(cost) for cost in after] != expected
        smoothed = {"error": part.p_ema, "cost": part.d_ema}.get(name, 1.0)
        assert matters == (smoothed > 0.0), name
