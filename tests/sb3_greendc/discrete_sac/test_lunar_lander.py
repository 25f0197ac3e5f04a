"""DiscreteSAC lands on LunarLander with the settings of its file."""

from __future__ import annotations

import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_greendc.experiments.known.problems import LUNAR_LANDER
from sb3_greendc.runs.hyperparameters import load_hyperparameters


@pytest.mark.slow
@pytest.mark.skipif(LUNAR_LANDER.missing() is not None, reason=str(LUNAR_LANDER.missing()))
def test_it_lands() -> None:
    """Who hovers has about 0, chance −193, and a policy that lands about 250.

    Five minutes of one core, with the packages of others (`make known`).
    """
    env = make_vec_env(LUNAR_LANDER.env_id, seed=10)
    model = load_hyperparameters("discrete_sac", LUNAR_LANDER.env_id).build(env, seed=10, device="cpu")
    model.learn(100_000)
    mean, _ = evaluate_policy(model, make_vec_env(LUNAR_LANDER.env_id, 8, seed=1000), n_eval_episodes=20)
    assert mean >= 200
