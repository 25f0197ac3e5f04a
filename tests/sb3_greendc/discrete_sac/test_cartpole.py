"""DiscreteSAC solves CartPole, by its own defaults and with the settings that the documentation gives."""

from __future__ import annotations

import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_greendc.discrete_sac import DiscreteSAC

CARTPOLE = {
    "learning_rate": 1e-3,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "batch_size": 128,
    "tau": 0.02,
    "train_freq": 64,
    "gradient_steps": 32,
    "reward_scale": 0.1,
    "soft_critic": False,
    "target_entropy_ratio": 0.5,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("options", "steps"), [({}, 50_000), (CARTPOLE, 40_000)], ids=["defaults", "tuned"])
def test_cartpole(seed, options, steps):
    model = DiscreteSAC("MlpPolicy", "CartPole-v1", seed=seed, device="cpu", **options).learn(steps)
    mean, _ = evaluate_policy(model, make_vec_env("CartPole-v1", 8, seed=1000), n_eval_episodes=40)
    assert mean >= 475
