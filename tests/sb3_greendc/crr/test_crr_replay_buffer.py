"""What CRR collects while it is tuned: how much of it learning waits for, and that it can be kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from algorithm_cases import ACTIONS, OBSERVATIONS, toy_vec_env
from stable_baselines3.common.callbacks import CheckpointCallback
from toy_data import parameters_of, same, toy_dataset, toy_model

from sb3_greendc.crr import CRR
from sb3_greendc.crr.online import make_buffer, with_place


def updates_of(model, *args, **kwargs):
    """Return how many transitions the environment had given at each update of a call of ``finetune``."""
    held, train = [], model.train

    def noting(gradient_steps):
        held.append(len(model._online))
        train(gradient_steps)

    model.train = noting
    model.finetune(*args, **kwargs)
    del model.train
    return held


@pytest.mark.parametrize("n_envs", [1, 2])
def test_learning_starts_counts_transitions_of_the_environment(n_envs):
    """Gradient steps of an earlier call count no more than those on data do."""
    model = toy_model().learn(200)
    env = toy_vec_env("box", "discrete", n_envs)
    held = updates_of(model, env, 40, learning_starts=100, reset_num_timesteps=False)
    assert held == []
    assert model.num_timesteps == 240
    held = updates_of(model, None, 130, learning_starts=100, reset_num_timesteps=False)
    assert held == [min(n, 130) for n in range(100, 171, n_envs)]  # the newest, as many as there is place for
    assert len(updates_of(model, None, 8, learning_starts=0, reset_num_timesteps=False)) == 8 // n_envs
    assert updates_of(model, None, 40, learning_starts=30) == list(range(30, 41, n_envs))


def buffer_of(observation, place, n_added, n_envs=2):
    """Return a buffer for so many transitions of all environments, with rewards 0, 1, 2, ... in order."""
    space, actions = OBSERVATIONS[observation], ACTIONS["discrete"]
    buffer = make_buffer(place, space, actions, th.device("cpu"), n_envs)
    for step in range(n_added):
        seen = batched([space.sample() for _ in range(n_envs)])
        infos = [{"TimeLimit.truncated": step % 4 == 3}] * n_envs
        buffer.add(
            seen, seen, np.full(n_envs, 1), np.full(n_envs, float(step)), np.full(n_envs, step % 2), infos
        )
    return buffer


def batched(observations):
    if isinstance(observations[0], dict):
        return {key: batched([one[key] for one in observations]) for key in observations[0]}
    return np.stack(observations)


@pytest.mark.parametrize("observation", ["box", "dict"])
@pytest.mark.parametrize(("n_added", "kept"), [(2, [0, 1]), (7, [4, 5, 6])])
def test_a_buffer_that_is_too_small_is_continued_by_a_larger_one(observation, n_added, kept):
    small = buffer_of(observation, 6, n_added)
    large = with_place(small, buffer_of(observation, 12, 0))
    assert (large.buffer_size, large.size(), large.pos) == (6, len(kept), len(kept))
    n, order = len(kept), [step % 3 for step in kept]
    assert large.rewards[:n, 0].tolist() == large.rewards[:n, 1].tolist() == kept
    assert large.dones[:n, 0].tolist() == [step % 2 for step in kept]
    assert large.timeouts[:n, 0].tolist() == [step % 4 == 3 for step in kept]
    for name in ("observations", "next_observations"):
        old, new = getattr(small, name), getattr(large, name)
        for key in old if isinstance(old, dict) else [...]:
            np.testing.assert_array_equal(new[key][:n], old[key][order])
    assert with_place(small, buffer_of(observation, 6, 0)) is small
    assert with_place(large, buffer_of(observation, 6, 0)) is large


def test_a_later_call_makes_place_for_what_it_asks_for():
    model = toy_model().learn(2)
    model.finetune(toy_vec_env("box", "discrete"), 20, learning_starts=100)
    rewards = model.replay_buffer.rewards.copy()
    model.learn(2)  # on the data alone; what was collected stays
    model.finetune(None, 50, learning_starts=100, reset_num_timesteps=False)
    assert (model.replay_buffer.buffer_size, len(model._online)) == (50, 50)
    model.finetune(None, 30, learning_starts=100)
    assert (model.replay_buffer.buffer_size, len(model._online)) == (30, 30)
    assert not np.array_equal(model.replay_buffer.rewards[:20], rewards)


@pytest.mark.parametrize("n_envs", [1, 3, 4])
def test_there_is_place_for_all_that_is_asked_for(n_envs):
    """Also where the steps are no multiple of the environments."""
    model = toy_model().learn(1)
    model.finetune(toy_vec_env("box", "discrete", n_envs), 10, learning_starts=100)
    assert len(model._online) == model.num_timesteps == -(-10 // n_envs) * n_envs


def random_states():
    return np.random.get_state(), th.get_rng_state()  # noqa: NPY002


@pytest.mark.parametrize("in_sb3s_form", [False, True])
@pytest.mark.parametrize(("observation", "action"), [("masked", "discrete"), ("box", "box")])
def test_goes_on_online_exactly_where_it_stopped(observation, action, in_sb3s_form, tmp_path):
    """Saved and loaded with its replay buffer, as SB3's algorithms are."""

    def go_on(model):
        env = toy_vec_env(observation, action, 2)
        env.seed(7)
        model.finetune(env, 40, learning_starts=40, reset_num_timesteps=False)
        return parameters_of(model)

    model = toy_model(observation, action).learn(5)
    model.finetune(toy_vec_env(observation, action, 2), 60, learning_starts=20)
    model.save(tmp_path / "model", **({"include": []} if in_sb3s_form else {}))
    model.save_replay_buffer(tmp_path / "buffer")
    numpy_state, torch_state = random_states()
    straight = go_on(model)
    loaded = CRR.load(tmp_path / "model", device="cpu", dataset=toy_dataset(observation, action))
    assert loaded.replay_buffer is None
    loaded.load_replay_buffer(tmp_path / "buffer")
    np.random.set_state(numpy_state)  # noqa: NPY002
    th.set_rng_state(torch_state)
    assert same(go_on(loaded), straight)
    assert len(loaded._online) == len(model._online) == 60
    assert loaded.num_timesteps == model.num_timesteps == 100


def test_a_replay_buffer_of_another_environment_is_refused(tmp_path):
    model = toy_model().learn(1)
    model.finetune(toy_vec_env("box", "discrete", 2), 10)
    with pytest.raises(ValueError, match=r"n_envs is 2, the environment's is 3.*reset_num_timesteps=True"):
        model.finetune(toy_vec_env("box", "discrete", 3), 10, reset_num_timesteps=False)
    model.save_replay_buffer(tmp_path / "buffer")
    other = toy_model("dict").learn(1)
    other.load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(ValueError, match=r"observation_space is Box.*, the environment's is Dict"):
        other.finetune(toy_vec_env("dict", "discrete", 2), 10, reset_num_timesteps=False)
    other.finetune(toy_vec_env("dict", "discrete", 2), 10)
    assert len(other._online) == 10


def test_checkpoints_hold_the_replay_buffer(tmp_path):
    model = toy_model().learn(1)
    callback = CheckpointCallback(10, str(tmp_path), "model", save_replay_buffer=True)
    model.finetune(toy_vec_env("box", "discrete"), 30, callback=callback)
    loaded = CRR.load(tmp_path / "model_20_steps", device="cpu")
    loaded.load_replay_buffer(tmp_path / "model_replay_buffer_20_steps.pkl")
    assert loaded.replay_buffer.size() in (19, 20)
