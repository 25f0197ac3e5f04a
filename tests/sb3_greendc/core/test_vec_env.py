from __future__ import annotations

import pickle
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from toy_simulator import MaskedToySimulator, ToyEnv, ToySimulator

from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env

N = 5


def actions_of(env: Any, rng: np.random.Generator, n: int = N) -> np.ndarray:
    if isinstance(env.action_space, gym.spaces.Discrete):
        return rng.integers(env.action_space.n, size=n)
    return rng.random((n, 1)).astype(np.float32)


@pytest.mark.parametrize("discrete", [False, True])
def test_environment_i_is_the_single_environment_seeded_s_plus_i(discrete: bool) -> None:
    """Over several episodes of different lengths, whose later ones go on with the same generator."""
    env = SimulatorVecEnv(ToySimulator(N, discrete))
    env.seed(7)
    singles = [ToyEnv(discrete=discrete) for _ in range(N)]
    firsts = [single.reset(seed=7 + i) for i, single in enumerate(singles)]
    np.testing.assert_array_equal(env.reset(), [observation for observation, _ in firsts])
    assert env.reset_infos == [info for _, info in firsts]
    rng = np.random.default_rng(0)
    episodes = 0
    for _ in range(40):
        actions = actions_of(env, rng)
        observations, rewards, dones, infos = env.step(actions)
        for i, single in enumerate(singles):
            observation, reward, terminated, truncated, info = single.step(actions[i])
            assert not terminated
            assert dones[i] == truncated == infos[i]["TimeLimit.truncated"]
            if truncated:
                episodes += 1
                np.testing.assert_array_equal(infos[i]["terminal_observation"], observation)
                assert infos[i]["episode_metrics"] == info["episode_metrics"]
                observation, reset_info = single.reset()
                assert env.reset_infos[i] == reset_info
            else:
                assert not {"terminal_observation", "episode", "episode_metrics"} & infos[i].keys()
            np.testing.assert_array_equal(observations[i], observation)
            assert rewards[i] == np.float32(reward)
            assert infos[i]["cost"] == info["cost"]
            assert type(infos[i]["hour"]) is int
            np.testing.assert_array_equal(infos[i]["pair"], info["pair"])
    assert episodes > 3 * N


def test_same_as_dummy_vec_env_of_monitored_environments() -> None:
    """Observations, rewards, dones and every key of every info but the clock."""
    env = SimulatorVecEnv(ToySimulator(N))
    dummy = DummyVecEnv([lambda: Monitor(ToyEnv()) for _ in range(N)])
    for vec in (env, dummy):
        vec.seed(3)
    np.testing.assert_array_equal(env.reset(), dummy.reset())
    rng = np.random.default_rng(1)
    for _ in range(30):
        actions = actions_of(env, rng)
        ours, theirs = env.step(actions), dummy.step(actions)
        for mine, other in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.dtype == other.dtype
        for info, expected in zip(ours[3], theirs[3], strict=True):
            assert info.keys() == expected.keys()
            if "episode" in info:
                assert info["episode"]["r"] == pytest.approx(expected["episode"]["r"], abs=1e-6)
                assert info["episode"]["l"] == expected["episode"]["l"]
                assert info["episode"]["t"] >= 0


def test_observations_stay_valid_for_one_more_step() -> None:
    env = SimulatorVecEnv(ToySimulator(N))
    env.seed(0)
    first = env.reset()
    kept_first = first.copy()
    rng = np.random.default_rng(0)
    second = env.step(actions_of(env, rng))[0]
    np.testing.assert_array_equal(first, kept_first)
    kept_second = second.copy()
    env.step(actions_of(env, rng))
    np.testing.assert_array_equal(second, kept_second)


def test_what_a_step_returned_does_not_change_later() -> None:
    env = SimulatorVecEnv(ToySimulator(N))
    env.seed(0)
    env.reset()
    rng = np.random.default_rng(0)
    _, rewards, dones, infos = env.step(actions_of(env, rng))
    kept = pickle.dumps((rewards, dones, infos))
    for _ in range(12):
        env.step(actions_of(env, rng))
    assert pickle.dumps((rewards, dones, infos)) == kept


def test_masks() -> None:
    env = SimulatorVecEnv(MaskedToySimulator(N))
    env.seed(0)
    observations = env.reset()
    assert is_masking_supported(env)
    for _ in range(20):
        masks = get_action_masks(env)
        assert masks.shape == (N, 4)
        np.testing.assert_array_equal(masks, observations["action_mask"])
        assert len(env.env_method("action_masks", indices=[1, 3])) == 2
        observations = env.step(masks.argmax(axis=1))[0]
    kept = env.env_method("action_masks")[0].copy()
    mask = env.env_method("action_masks")[0]
    env.step(get_action_masks(env).argmax(axis=1))
    np.testing.assert_array_equal(mask, kept)


def test_no_masks_where_every_action_is_valid() -> None:
    env = SimulatorVecEnv(ToySimulator(N, discrete=True))
    assert not is_masking_supported(env)
    assert not is_masking_supported(VecNormalize(env))
    with pytest.raises(AttributeError, match="no invalid actions"):
        env.get_attr("action_masks")
    with pytest.raises(AttributeError):
        env.env_method("action_masks")


def test_attributes_and_methods() -> None:
    env = SimulatorVecEnv(ToySimulator(N))
    env.seed(0)
    env.reset()
    assert env.get_attr("max_steps") == [9] * N
    assert env.get_attr("max_steps", indices=[0, 2]) == [9, 9]
    assert env.has_attr("max_steps")
    assert not env.has_attr("no_such_thing")
    env.set_attr("max_steps", 8)
    assert env.simulator.max_steps == 8  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="share"):
        env.set_attr("max_steps", 7, indices=[0])
    metrics = env.env_method("episode_metrics", indices=1)
    assert metrics == [{"total": 0.0, "steps": 0.0}]
    assert env.env_is_wrapped(Monitor) == [True] * N
    assert env.env_is_wrapped(gym.wrappers.TimeLimit, indices=0) == [False]


def test_reset_takes_seeds_and_options_once() -> None:
    env = SimulatorVecEnv(ToySimulator(N))
    env.seed(5)
    env.set_options({"length": 3})
    first = env.reset().copy()
    assert [info["length"] for info in env.reset_infos] == [3] * N
    second = env.reset().copy()
    assert {info["length"] for info in env.reset_infos} != {3}
    assert not np.array_equal(first[:, 0], second[:, 0])
    env.seed(5)
    env.set_options({"length": 3})
    np.testing.assert_array_equal(env.reset(), first)


def test_pickled_environment_goes_on_as_the_original() -> None:
    env = SimulatorVecEnv(ToySimulator(N))
    env.seed(0)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(5):
        env.step(actions_of(env, rng))
    copy = pickle.loads(pickle.dumps(env))
    for _ in range(30):
        actions = actions_of(env, rng)
        ours, theirs = env.step(actions), copy.step(actions)
        for mine, other in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_array_equal(mine, other)
        assert [info["cost"] for info in ours[3]] == [info["cost"] for info in theirs[3]]


@pytest.mark.usefixtures("toy")
class TestMakeVecEnv:
    def test_ids_with_and_without_a_version(self) -> None:
        latest = make_vec_env("Toy", 3, seed=1)
        assert isinstance(latest, SimulatorVecEnv)
        assert latest.num_envs == 3
        assert latest.get_attr("max_steps") == [9, 9, 9]
        assert make_vec_env("Toy-v0", 1).get_attr("max_steps") == [4]
        assert make_vec_env("Toy", 1, max_steps=6).get_attr("max_steps") == [6]

    def test_seed(self) -> None:
        observations = make_vec_env("Toy", 3, seed=4).reset()
        for i in range(3):
            np.testing.assert_array_equal(observations[i], gym.make("Toy-v1").reset(seed=4 + i)[0])

    def test_other_packages_environments(self) -> None:
        env = make_vec_env("CartPole-v1", 2, seed=4)
        assert isinstance(env, DummyVecEnv)
        assert env.env_is_wrapped(Monitor) == [True, True]
        observations = env.reset()
        for i in range(2):
            np.testing.assert_array_equal(observations[i], gym.make("CartPole-v1").reset(seed=4 + i)[0])

    def test_unknown_id(self) -> None:
        with pytest.raises(ValueError, match=r"'Tooy'.*did you mean 'Toy-v"):
            make_vec_env("Tooy", 1)

    def test_picture_of_environment_0(self) -> None:
        env = make_vec_env("Toy", 3, seed=0, render_mode="rgb_array")
        env.reset()
        env.step(np.ones((3, 1), dtype=np.float32))
        picture = env.render()
        assert picture is not None
        assert picture.shape == (4, 6, 3)
        assert (picture == 1).all()
        assert (env.env_method("render", indices=0)[0] == 1).all()
        copy = pickle.loads(pickle.dumps(env))
        copy.step(np.ones((3, 1), dtype=np.float32))
        assert (copy.render() == 2).all()

    def test_nothing_to_draw_without_a_render_mode(self) -> None:
        env = make_vec_env("Toy", 1)
        env.reset()
        with pytest.raises(ValueError, match="render_mode='rgb_array'"):
            env.env_method("render")


def test_evaluate_policy_warns_of_nothing_and_counts_whole_episodes() -> None:
    env = SimulatorVecEnv(ToySimulator(N))
    env.seed(0)
    model = PPO("MlpPolicy", env, n_steps=4, batch_size=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        returns, lengths = evaluate_policy(model, env, 7, return_episode_rewards=True)
    assert len(returns) == 7
    assert all(3 <= length <= 9 for length in lengths)


@pytest.mark.parametrize(("algorithm", "discrete"), [(PPO, False), (DQN, True)])
def test_training_sees_true_transitions(algorithm: Any, discrete: bool) -> None:
    """Each stored observation follows the one before it, and ends of episodes are truncations."""
    env = SimulatorVecEnv(ToySimulator(2, discrete))
    options: dict[str, Any] = (
        {"learning_starts": 30} if algorithm is DQN else {"n_steps": 32, "batch_size": 64}
    )
    model = algorithm("MlpPolicy", env, seed=0, **options)
    model.learn(64)
    if algorithm is DQN:
        buffer = model.replay_buffer
        hours, following = buffer.observations[:30, :, 1], buffer.next_observations[:30, :, 1]
        np.testing.assert_allclose(following, hours + 1 / 9, rtol=1e-6)
        ends = buffer.dones[:30].astype(bool)
        assert ends.any()
        np.testing.assert_array_equal(buffer.timeouts[:30].astype(bool), ends)
        np.testing.assert_allclose(buffer.observations[1:31, :, 1][ends[:30]], 0.0)
    else:
        # Training has flattened the buffer, environment by environment.
        hours = model.rollout_buffer.observations.reshape(2, 32, 3)[:, :, 1].T
        starts = model.rollout_buffer.episode_starts.astype(bool)
        np.testing.assert_allclose(hours[starts], 0.0)
        np.testing.assert_allclose(hours[1:][~starts[1:]], hours[:-1][~starts[1:]] + 1 / 9, rtol=1e-6)
    assert len(model.ep_info_buffer) > 4


FAMILIES = [
    ("VCC-2021-v1", {"days": 2}),
    ("DiscreteVCC-2019-v0", {"days": 2}),
    ("ResourcePool-v0", {"episode_steps": 25}),
    ("ResourcePoolGreen-10-v0", {"episode_steps": 25}),
]


def same(ours: Any, theirs: Any) -> None:
    """Compare observations, or infos, exactly."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            same(ours[key], theirs[key])
    else:
        np.testing.assert_array_equal(ours, theirs)


def row_of(observations: Any, i: int) -> Any:
    return (
        {key: value[i] for key, value in observations.items()}
        if isinstance(observations, dict)
        else observations[i]
    )


def sample(env: Any, rng: np.random.Generator) -> np.ndarray:
    """Return actions at random, valid ones where some are not."""
    if not is_masking_supported(env):
        return actions_of(env, rng, env.num_envs)
    masks = get_action_masks(env)
    return (masks * rng.random(masks.shape)).argmax(axis=1)


@pytest.mark.parametrize(("env_id", "options"), FAMILIES)
class TestFamilies:
    def test_environment_i_is_the_single_environment_seeded_s_plus_i(
        self, env_id: str, options: dict[str, Any]
    ) -> None:
        env = make_vec_env(env_id, 3, seed=5, **options)
        singles = [gym.make(env_id, **options) for _ in range(3)]
        observations = env.reset()
        for i, single in enumerate(singles):
            observation, info = single.reset(seed=5 + i)
            same(row_of(observations, i), observation)
            same(env.reset_infos[i], info)
        rng = np.random.default_rng(0)
        ends = 0
        while ends < 4:  # of three environments: into the second episode
            actions = sample(env, rng)
            observations, rewards, dones, infos = env.step(actions)
            for i, single in enumerate(singles):
                observation, reward, _, truncated, info = single.step(actions[i])
                assert rewards[i] == np.float32(reward)
                assert dones[i] == infos[i].pop("TimeLimit.truncated") == truncated
                if truncated:
                    ends += 1
                    same(infos[i].pop("terminal_observation"), observation)
                    assert infos[i].pop("episode")["l"] > 20
                    observation, _ = single.reset()
                same(infos[i], info)
                same(row_of(observations, i), observation)

    def test_pickled_environment_goes_on_as_the_original(self, env_id: str, options: dict[str, Any]) -> None:
        env = make_vec_env(env_id, 2, seed=5, **options)
        env.reset()
        rng = np.random.default_rng(0)
        for _ in range(10):
            env.step(sample(env, rng))
        copy = pickle.loads(pickle.dumps(env))
        for _ in range(150):
            actions = sample(env, rng)
            ours, theirs = env.step(actions), copy.step(actions)
            for part in range(3):
                same(ours[part], theirs[part])
            for info, other in zip(ours[3], theirs[3], strict=True):
                info.pop("episode", None)
                other.pop("episode", None)
                same(info, other)

    def test_stored_observations_are_not_overwritten(self, env_id: str, options: dict[str, Any]) -> None:
        env = make_vec_env(env_id, 2, seed=5, **options)
        before = env.reset()
        kept = pickle.dumps(before)
        env.step(sample(env, np.random.default_rng(0)))
        assert pickle.dumps(before) == kept
