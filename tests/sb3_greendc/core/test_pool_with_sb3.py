"""The resource pool as Stable-Baselines3 sees it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_checker import check_env

from greendc.resource_pool import ResourcePoolEnv
from greendc.resource_pool.presets import presets


@pytest.mark.parametrize("options", [{}, {"observation": "flat"}, {"image_dtype": "float32"}], ids=str)
@pytest.mark.parametrize("env_id", sorted(presets()))
def test_sb3s_checker_has_nothing_to_say(env_id, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The image and the table of jobs have two axes; what SB3 asks for then, an extractor for them,
        # is in this package, and `observation="flat"` draws no warning at all.
        if "observation" not in options:
            warnings.filterwarnings("ignore", message=".*unconventional shape.*")
        check_env(ResourcePoolEnv(**{**presets()[env_id], "episode_steps": 40, **options}))


@pytest.mark.parametrize(
    ("policy", "options"),
    [("MultiInputPolicy", {"image_dtype": "float32"}), ("MlpPolicy", {"observation": "flat"})],
)
def test_masked_ppo_takes_valid_actions_only(policy, options):
    env = ResourcePoolEnv(episode_steps=40, **options)
    model = MaskablePPO(policy, env, n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(256)
    observation, _ = env.reset(seed=0)
    truncated = False
    while not truncated:
        action, _ = model.predict(observation, action_masks=env.action_masks())
        observation, _, _, truncated, info = env.step(action)
    assert info["episode_metrics"]["invalid_actions"] == 0
    assert np.isfinite(info["episode_metrics"]["accrued_reward"])
