"""``Box`` actions of replay buffers: kept as SB3 keeps them, and used as the environment takes them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer
from toy_data import SMALL, StopAfter

from sb3_greendc.crr import CRR
from sb3_greendc.crr.action_scale import ACTIONS_SCALED, has_scaled_actions

OBSERVATIONS = spaces.Box(-1, 1, (3,), np.float32)


class Wide(gym.Env):
    """Takes actions far from [-1, 1], in two dimensions of their own bounds, and notes them."""

    observation_space = OBSERVATIONS
    action_space = spaces.Box(np.array([0.0, -3.0], np.float32), np.array([10.0, 5.0], np.float32))

    def __init__(self):
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.taken.append(action)
        return (
            self.observation_space.sample(),
            -float(abs(action[0] - 5.0)),
            False,
            len(self.taken) % 10 == 0,
            {},
        )


def new_model(env, **kwargs):
    return CRR("MlpPolicy", env, **{"reward_scale": 1.0, "seed": 0, **SMALL, **kwargs})


def finetuned(env, n=60):
    model = new_model(env)
    return model.finetune(None, n, offline_fraction=0.0, learning_starts=1000)


def sampled(model):
    """Return the actions that updates see, without those drawn twice, in order of their first number."""
    return np.unique(model._online._sample(2000).actions.numpy(), axis=0)


def test_what_finetuning_collects_is_scaled_in_the_buffer_and_not_in_batches_and_data():
    env = Wide()
    model, taken = finetuned(env), np.array(env.taken)
    low, high = Wide.action_space.low, Wide.action_space.high
    scaled = 2.0 * (taken - low) / (high - low) - 1.0
    np.testing.assert_allclose(model.replay_buffer.actions[:, 0], scaled, atol=1e-5)
    np.testing.assert_allclose(sampled(model), np.unique(taken, axis=0), atol=1e-5)
    np.testing.assert_allclose(
        new_model(Wide(), dataset=model.replay_buffer).dataset.actions, taken, atol=1e-5
    )


def test_a_buffer_of_sac_is_read_as_it_was_taken(tmp_path):
    env = Wide()
    sac = SAC("MlpPolicy", env, buffer_size=100, learning_starts=1000, seed=0, device="cpu").learn(60)
    sac.save_replay_buffer(tmp_path / "buffer")
    model, taken = new_model(Wide()), np.array(env.taken)
    model.load_replay_buffer(tmp_path / "buffer")
    model.finetune(None, 1, offline_fraction=0.0, learning_starts=1000, reset_num_timesteps=False)
    model.replay_buffer.pos -= 1  # but for the last one, which is new
    np.testing.assert_allclose(sampled(model), np.unique(taken, axis=0), atol=1e-5)
    np.testing.assert_allclose(new_model(Wide(), dataset=sac.replay_buffer).dataset.actions, taken, atol=1e-5)


def as_of_old(buffer):
    """Return a buffer as earlier versions left it: actions as they were taken, and no mark."""
    low, high = buffer.action_space.low, buffer.action_space.high
    buffer.actions[:] = low + 0.5 * (buffer.actions + 1.0) * (high - low)
    delattr(buffer, ACTIONS_SCALED)
    return buffer


@pytest.mark.parametrize("place", [61, 200], ids=["the same buffer", "a larger one"])
def test_buffers_of_earlier_versions_are_converted(place, tmp_path):
    env = Wide()
    model, taken = finetuned(env, 61), np.array(env.taken)
    as_of_old(model.replay_buffer)
    model.save_replay_buffer(tmp_path / "buffer")
    np.testing.assert_allclose(
        new_model(Wide(), dataset=model.replay_buffer).dataset.actions, taken, atol=1e-5
    )
    loaded = new_model(Wide())
    loaded.load_replay_buffer(tmp_path / "buffer")
    for _ in range(2):  # once, not at every call
        loaded.finetune(None, place, 0.0, StopAfter(2), learning_starts=1000, reset_num_timesteps=False)
    kept = loaded.replay_buffer.actions[2 if place == 61 else 0 : 61, 0]
    low, high = Wide.action_space.low, Wide.action_space.high
    np.testing.assert_allclose(low + 0.5 * (kept + 1) * (high - low), taken[61 - len(kept) :], atol=1e-5)


def buffer_of(actions, low, high):
    buffer = ReplayBuffer(8, OBSERVATIONS, spaces.Box(low, high, (1,), np.float32), device="cpu")
    for action in actions:
        seen = OBSERVATIONS.sample()
        buffer.add(seen, seen, np.array([action]), np.array([action]), np.array([False]), [{}])
    return buffer


@pytest.mark.parametrize(
    ("actions", "low", "high", "scaled"),
    [
        ([0.5, 1.5], 0, 2, False),  # beyond [-1, 1]
        ([0.5, -0.5], 0, 2, True),  # beyond the space
        ([0.5, -0.5], -1, 1, True),  # one and the same
        ([0.5, -0.5], -2, 2, True),  # either; actions of a space so large are seldom all small
        ([], 0, 1, True),
    ],
)
def test_the_scale_follows_from_actions(actions, low, high, scaled):
    assert has_scaled_actions(buffer_of(actions, low, high)) is scaled


def test_a_buffer_that_does_not_say_its_scale_is_refused_until_it_does():
    """Those of earlier versions, of an environment that takes actions in [0, 1]."""
    buffer = buffer_of([0.5, 0.25], 0, 1)
    spaces_of = {"observation_space": OBSERVATIONS, "action_space": buffer.action_space}
    model = CRR("MlpPolicy", **spaces_of, **SMALL)
    with pytest.raises(ValueError, match=r"replay buffer: its actions may be in \[-1, 1\].*actions_scaled"):
        model.set_dataset(buffer)
    for scaled, actions in ((False, [0.5, 0.25]), (True, [0.75, 0.625])):
        setattr(buffer, ACTIONS_SCALED, scaled)
        model.set_dataset(buffer)
        assert model.dataset.actions.flatten().tolist() == actions
