"""Learners on the pool whose power is commanded: masks, costs, batches and the views of one half."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

from greendc.baselines.resource_pool.power_views import PowerView, SchedulerView
from sb3_greendc import PIDLagrangianPPO
from sb3_greendc.core.vec_env import make_vec_env

ENV_ID = "ResourcePoolCarbon-10-v0"
SHORT: dict[str, Any] = {"episode_steps": 48, "carbon": "PGE-2019", "image_dtype": "float32"}
PPO: dict[str, Any] = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "seed": 0, "device": "cpu"}


@pytest.mark.parametrize("cost_limit", [0.5])
def test_pid_ppo_learns_under_a_limit_of_carbon(cost_limit: float) -> None:
    env = make_vec_env(ENV_ID, 2, 0, cost="carbon", **SHORT)
    model = PIDLagrangianPPO("MultiInputPolicy", env, cost_limit=cost_limit, **PPO).learn(256)
    observation = env.reset()
    masks = np.stack(env.env_method("action_masks"))
    actions, _ = model.predict(observation, action_masks=masks)
    assert masks[np.arange(2), actions].all()
    env.close()


def test_maskable_ppo_learns_in_batches_and_with_job_scores() -> None:
    env = make_vec_env(ENV_ID, 2, 0, reward={"on_time": 1.0, "carbon": 0.1}, cost="delayed", **SHORT)
    MaskablePPO("MultiInputPolicy", env, **PPO).learn(128)
    env.close()


@pytest.mark.parametrize("view", [SchedulerView, PowerView])
def test_maskable_ppo_learns_one_half(view: type[gym.Wrapper[Any, Any, Any, Any]]) -> None:
    env = DummyVecEnv([lambda: view(gym.make(ENV_ID, **SHORT))])
    model = MaskablePPO("MultiInputPolicy", env, **PPO).learn(128)
    mask = env.env_method("action_masks")[0]
    action, _ = model.predict(env.reset(), action_masks=mask)
    assert mask[action[0]]
