"""Policies as objects and as files: what they draw is seeded, and where they do not fit, errors say why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from stable_baselines3 import DQN, PPO

import greendc
from greendc.baselines import make_policy
from greendc.baselines.registry import find_simulator
from greendc.baselines.resource_pool import WorkConserving
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.agreement import agreement
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.episodes import seeded_sampling
from sb3_greendc.evaluation.paired import evaluate


def test_an_explorer_draws_what_the_seed_says_and_leaves_numpy_alone() -> None:
    """DQN explores with NumPy's global generator and its action space."""
    model = DQN("MlpPolicy", make_vec_env("CartPole-v1", 1), seed=0, buffer_size=10)
    model.exploration_rate = 0.5
    model.action_space.sample()
    before = model.action_space.np_random.bit_generator.state
    np.random.seed(1)  # noqa: NPY002 (DQN draws there)
    expected = np.random.rand()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    observations = np.zeros((8, 4), np.float32)
    drawn = []
    for _ in range(2):
        with seeded_sampling(model, 5):
            drawn.append([model.predict(observations, deterministic=False)[0] for _ in range(20)])
        assert model.action_space.np_random.bit_generator.state == before
    np.testing.assert_array_equal(*drawn)
    assert len(np.unique(drawn[0], axis=0)) > 3
    assert np.random.rand() == expected  # noqa: NPY002
    results = [evaluate({"dqn": model}, "CartPole-v1", 8, deterministic=False) for _ in range(2)]
    pd.testing.assert_frame_equal(*results)
    recorded = [
        collect({"dqn": model}, "CartPole-v1", 60, n_envs=2, deterministic=False).actions for _ in range(2)
    ]
    np.testing.assert_array_equal(*recorded)


def test_episodes_of_other_packages_environments_leave_numpys_generator_alone() -> None:
    """SB3 draws the seed of a batch that was given none from it."""
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 1, seed=0), device="cpu")
    np.random.seed(1)  # noqa: NPY002
    expected = np.random.rand()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    evaluate({"ppo": model}, "CartPole-v1", 2)
    evaluate({"ppo": model}, "CartPole-v1", 2, deterministic=False)
    collect({"ppo": model}, "CartPole-v1", 20)
    assert np.random.rand() == expected  # noqa: NPY002


@pytest.mark.parametrize("guarded", [False, True])
def test_a_shipped_policy_draws_what_the_seed_says(guarded: bool) -> None:
    policy = greendc.load_policy("ResourcePool-10")
    kwargs = {**policy.env_kwargs, "episode_steps": 30}
    options: dict[str, Any] = {"env_kwargs": kwargs, "deterministic": False}
    results = [
        evaluate({"shipped": policy}, "ResourcePool-10", 2, work_conserving=guarded, **options)
        for _ in range(2)
    ]
    pd.testing.assert_frame_equal(*results)
    recorded = [collect({"shipped": policy}, "ResourcePool-10", 60, **options).actions for _ in range(2)]
    np.testing.assert_array_equal(*recorded)


def test_a_policy_that_reads_the_state_of_other_environments_is_refused() -> None:
    """It would decide by an episode that nobody plays."""
    env = make_vec_env("ResourcePool-10", 1)
    env.reset()
    problem = {"env_kwargs": {"episode_steps": 20}}
    told = "policy 'mine' reads the state of the environment that it was made for"
    readers = [
        make_policy("hvf", env, scope="queue"),
        WorkConserving(find_simulator(env), make_policy("sjf", env)),
    ]
    for reader in readers:
        for work_conserving in (False, True):
            with pytest.raises(ValueError, match=told):
                evaluate({"mine": reader}, "ResourcePool-10", 1, work_conserving=work_conserving, **problem)
        with pytest.raises(ValueError, match=told):
            collect({"mine": reader}, "ResourcePool-10", 10, **problem)
        with pytest.raises(ValueError, match=told):
            agreement({"mine": reader}, ["hvf"], "ResourcePool-10", 1, **problem)
    rule = make_policy("hvf", env)  # decides by observations alone
    results = evaluate({"mine": rule, "named": "hvf"}, "ResourcePool-10", 1, **problem)
    assert results["return"].nunique() == 1


def test_the_settings_that_a_policy_was_trained_with_are_named_where_they_differ() -> None:
    """Data and agreements are of one environment: it does not follow each policy, as in an evaluation."""
    told = (
        r"the environment has .*; it was trained with mask='now_on_time', lookahead=24: give that to the env"
    )
    with pytest.raises(ValueError, match=told):
        collect(["pretrained"], "ResourcePool-10", 64)
    with pytest.raises(ValueError, match=told):
        agreement(["pretrained"], ["hvf"], "ResourcePool-10", 1, env_kwargs={"episode_steps": 5})
    with pytest.raises(ValueError, match=r"; it was trained with lookahead=24: give"):
        collect(["pretrained"], "ResourcePool-10", 64, env_kwargs={"mask": "now_on_time"})
    choice = {"mask": "now_on_time", "lookahead": 24}
    assert len(collect(["pretrained"], "ResourcePool-10", 16, env_kwargs=choice)) == 16
