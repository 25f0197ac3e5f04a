"""SB3's ``evaluate_policy`` warns of masks that it does not give; ours gives them."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy as without_masks
from stable_baselines3.common.monitor import Monitor

from greendc.baselines import make_policy
from sb3_greendc import evaluate_policy, make_vec_env

POOL: dict[str, Any] = {"episode_steps": 30}


def single() -> Any:
    env = Monitor(gym.make("ResourcePool-10-v0", **POOL))
    env.reset(seed=1)
    return env


def batch() -> Any:
    return make_vec_env("ResourcePool-10-v0", 2, seed=1, **POOL)


def masked_model() -> MaskablePPO:
    """Return one of sb3-contrib's own policies, which needs masks in ``predict``."""
    return MaskablePPO("MultiInputPolicy", batch(), n_steps=8, batch_size=16, seed=0, device="cpu")


@pytest.mark.parametrize("make", [single, batch])
def test_sb3s_function_warns_and_names_ours_which_gives_masks(make: Any) -> None:
    model = masked_model()
    with pytest.warns(
        UserWarning, match=r"gives MaskablePPO no action masks: \d+ .*sb3_greendc.evaluate_policy"
    ):
        without_masks(model, make(), 2)
    invalid: list[float] = []

    def note(values: dict[str, Any], _: dict[str, Any]) -> None:
        if "episode_metrics" in values["info"]:
            invalid.append(values["info"]["episode_metrics"]["invalid_actions"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, std = evaluate_policy(model, make(), 2, callback=note)
    assert invalid == [0.0, 0.0]
    returns, lengths = evaluate_policy(model, make(), 2, deterministic=True, return_episode_rewards=True)
    assert isinstance(returns, list) and isinstance(lengths, list) and len(lengths) == 2
    assert mean == pytest.approx(sum(returns) / 2) and std >= 0.0


def test_no_warning_for_models_without_masks() -> None:
    """Invalid actions are part of their learning. And a baseline takes valid ones only."""
    env = batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PPO("MultiInputPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu")
        without_masks(model, batch(), 2, deterministic=False)
        without_masks(make_policy("hvf", env), env, 2)  # type: ignore[arg-type]
        assert evaluate_policy(make_policy("hvf", env), env, 2)[0] > 0.0


def test_the_same_as_sb3s_function_where_there_are_no_masks() -> None:
    env = make_vec_env("VCC-2019-v1", 2, seed=0, days=1)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu")
    env.seed(3)
    expected = without_masks(model, env, 2)
    env.seed(3)
    assert evaluate_policy(model, env, 2) == expected
