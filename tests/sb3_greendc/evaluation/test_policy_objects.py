"""Policies as objects and as files: what they draw is seeded, and where they do not fit, errors say why."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch as th
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.utils import set_random_seed

import greendc
from greendc.baselines import make_policy
from greendc.baselines.registry import find_simulator
from greendc.baselines.resource_pool import WorkConserving
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.agreement import agreement
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.episodes import seeded_sampling
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.runs.models import load_model, save_model
from sb3_greendc.runs.pretrained import load_pretrained


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


def test_a_model_from_disk_leaves_the_global_generators_alone(tmp_path: Path) -> None:
    """SB3 seeds them when it builds a model of a seed: trainings around would draw the same again."""
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 1, seed=0), n_steps=8, seed=0, device="cpu")
    save_model(model, tmp_path / "safe", {"algorithm": "ppo"})
    (tmp_path / "pickled").mkdir()
    model.save(tmp_path / "pickled" / "model.zip")
    pickled = f"ppo:{tmp_path / 'pickled'}"
    set_random_seed(7)
    expected = [(random.random(), np.random.rand(), th.rand(()).item()) for _ in range(5)]  # noqa: NPY002
    set_random_seed(7)
    found = []
    for use in (
        lambda: load_model(tmp_path / "safe"),
        lambda: load_model(pickled, trust=True),
        lambda: evaluate([tmp_path / "safe"], "CartPole-v1", 1, deterministic=False),
        lambda: collect([tmp_path / "safe"], "CartPole-v1", 10),
        lambda: load_pretrained("VCC"),
    ):
        use()
        found.append((random.random(), np.random.rand(), th.rand(()).item()))  # noqa: NPY002
    assert found == expected


@pytest.mark.parametrize("algorithm", [PPO, SAC])
@pytest.mark.parametrize("seed", [None, 0])
def test_state_dependent_noise_is_what_the_seed_says(
    algorithm: Any, seed: int | None, tmp_path: Path
) -> None:
    """SB3 draws it when a model is built, by the model's seed or by none."""
    env = make_vec_env("Pendulum-v1", 1)
    model = algorithm("MlpPolicy", env, use_sde=True, seed=seed, device="cpu")
    save_model(model, tmp_path, {"algorithm": algorithm.__name__.lower()})
    observations = np.ones((2, 3), np.float32)
    drawn: dict[int, list[Any]] = {1: [], 2: []}
    for sampling_seed, actions in drawn.items():
        for _ in range(2):
            loaded = load_model(tmp_path).model
            noise = getattr(loaded.policy, "actor", loaded.policy).action_dist
            before = noise.exploration_mat, noise.exploration_matrices
            with seeded_sampling(loaded, sampling_seed, 2):
                actions.append(loaded.predict(observations, deterministic=False)[0])
            assert (noise.exploration_mat, noise.exploration_matrices) == before
    np.testing.assert_array_equal(*drawn[1])
    np.testing.assert_array_equal(*drawn[2])
    assert (drawn[1][0] != drawn[2][0]).all()
    assert drawn[1][0][0] != drawn[1][0][1]  # equal observations in two environments
    results = [evaluate({"sde": tmp_path}, "Pendulum-v1", 2, deterministic=False) for _ in range(2)]
    pd.testing.assert_frame_equal(*results)
    recorded = [
        collect({"sde": tmp_path}, "Pendulum-v1", 6, n_envs=2, deterministic=False).actions for _ in range(2)
    ]
    np.testing.assert_array_equal(*recorded)


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
        r"the environment has .*; it was trained with mask='now_on_time', lookahead=24, fragmentation=True: "
        r"give that to the env"
    )
    with pytest.raises(ValueError, match=told):
        collect(["pretrained"], "ResourcePool-10", 64)
    with pytest.raises(ValueError, match=told):
        agreement(["pretrained"], ["hvf"], "ResourcePool-10", 1, env_kwargs={"episode_steps": 5})
    with pytest.raises(ValueError, match=r"; it was trained with lookahead=24, fragmentation=True: give"):
        collect(["pretrained"], "ResourcePool-10", 64, env_kwargs={"mask": "now_on_time"})
    choice = {"mask": "now_on_time", "lookahead": 24, "fragmentation": True}
    assert len(collect(["pretrained"], "ResourcePool-10", 16, env_kwargs=choice)) == 16


@pytest.mark.parametrize("none", [[], {}])
def test_no_policy_at_all_is_an_error(none: Any) -> None:
    with pytest.raises(ValueError, match="must name at least one policy"):
        evaluate(none, "CartPole-v1", 1)


def test_names_that_are_none() -> None:
    with pytest.raises(ValueError, match="policies: the name 1 must be a string"):
        evaluate({1: "always_on"}, "VCC-2021", 1)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="policy '': must name a baseline or a saved model"):
        evaluate(["always_on", ""], "VCC-2021", 1)
