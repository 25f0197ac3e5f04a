"""Discount, n-step returns and stored entropies reach every replay buffer, loaded ones too."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from discrete_sac_cases import make
from known_mdps import OneState, SoftMDP
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_greendc.discrete_sac import DiscreteSAC

GIVEN = {"handle_timeout_termination": False}


def discounts(model):
    return set(np.round(model._sample_batch(300).discounts.flatten().tolist(), 6))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_options_reach_the_n_step_buffer_of_sb3(n_steps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make(OneState(), replay_buffer_class=NStepReplayBuffer, n_steps=n_steps, gamma=0.5)
    assert (model.replay_buffer.n_steps, model.replay_buffer.gamma) == (n_steps, 0.5)
    model.learn(60)
    assert discounts(model) == {0.5**k for k in range(1, n_steps + 1)}


@pytest.mark.parametrize("cls", [ReplayBuffer, NStepReplayBuffer])
def test_a_buffer_that_cannot_hold_the_observations_is_named(cls):
    with pytest.raises(
        ValueError, match=f"replay_buffer_class=.*{cls.__name__}.*: must be a DictReplayBuffer"
    ):
        make(replay_buffer_class=cls)


def test_what_the_user_gave_for_the_buffer_comes_first_and_stays_as_given():
    given = {"n_steps": 2, "gamma": 0.25}
    for cls in (None, NStepReplayBuffer):
        model = make(OneState(), replay_buffer_class=cls, replay_buffer_kwargs=given)
        assert (model.replay_buffer.n_steps, model.replay_buffer.gamma) == (2, 0.25)
        assert model.replay_buffer_kwargs == given == {"n_steps": 2, "gamma": 0.25}


@pytest.mark.parametrize("in_sb3s_form", [False, True])
@pytest.mark.parametrize("env", [SoftMDP, OneState])
def test_options_that_load_sets_reach_the_buffer(env, in_sb3s_form, tmp_path):
    model = make(DummyVecEnv([env]), gamma=0.9, replay_buffer_kwargs=dict(GIVEN)).learn(40)
    model.save(tmp_path / "model", **({"include": []} if in_sb3s_form else {}))
    changed = {"gamma": 0.5, "n_steps": 3, "entropy_penalty": 0.7}
    for _ in range(2):  # and what was loaded so is saved so
        loaded = DiscreteSAC.load(tmp_path / "model", env=model.get_env(), device="cpu", **changed)
        assert (loaded.replay_buffer.gamma, loaded.replay_buffer.n_steps) == (0.5, 3)
        assert loaded.replay_buffer.handle_timeout_termination is False
        assert loaded.replay_buffer_kwargs == GIVEN
        loaded.learn(60)
        assert discounts(loaded) == {0.5, 0.25, 0.125}
        assert loaded._sample_batch(8).old_entropies.min() >= 0
        loaded.save(tmp_path / "model")
        changed = {}


def test_a_file_of_an_earlier_version_that_contradicts_is_refused(tmp_path):
    """It holds the options among the buffer's arguments, beside what the user gave."""
    old = {**GIVEN, "n_steps": 1, "gamma": 0.9, "store_entropy": False}
    model = make(OneState(), gamma=0.9, replay_buffer_kwargs=old)
    model.save(tmp_path / "model")
    assert DiscreteSAC.load(tmp_path / "model", env=OneState()).replay_buffer.gamma == 0.9
    for option in ({"gamma": 0.5}, {"n_steps": 2}, {"entropy_penalty": 0.1}):
        with pytest.raises(ValueError, match=r"replay_buffer_kwargs=.* contradicts .* pass replay_buffer"):
            DiscreteSAC.load(tmp_path / "model", env=OneState(), **option)
    loaded = DiscreteSAC.load(tmp_path / "model", env=OneState(), gamma=0.5, replay_buffer_kwargs={})
    assert loaded.replay_buffer.gamma == 0.5


@pytest.mark.parametrize("cls", [None, NStepReplayBuffer])
def test_a_buffer_that_is_loaded_gives_the_returns_of_its_model(cls, tmp_path):
    old = make(OneState(), gamma=0.9, replay_buffer_class=cls).learn(40)
    old.save_replay_buffer(tmp_path / "buffer")
    model = make(OneState(), gamma=0.5, n_steps=2, replay_buffer_class=cls)
    model.load_replay_buffer(tmp_path / "buffer")
    assert model.replay_buffer.size() == 40
    assert discounts(model) == {0.5, 0.25}
    model.learn(40, reset_num_timesteps=False)


def test_a_buffer_of_another_entropy_penalty(tmp_path):
    plain, penalized = make(), make(entropy_penalty=0.1)
    for model, name in ((plain, "plain"), (penalized, "penalized")):
        model.learn(40).save_replay_buffer(tmp_path / name)
    plain.load_replay_buffer(tmp_path / "penalized")  # what it would have to go on storing is left out
    assert plain._sample_batch(8).old_entropies is None
    plain.learn(40, reset_num_timesteps=False)
    before = penalized.replay_buffer
    with pytest.raises(ValueError, match=r"entropy_penalty=0\.1: the replay buffer holds .* without"):
        penalized.load_replay_buffer(tmp_path / "plain")
    assert penalized.replay_buffer is before


def test_a_buffer_without_n_step_returns_is_refused_where_they_are_asked_for(tmp_path):
    make(OneState(), replay_buffer_class=ReplayBuffer).learn(30).save_replay_buffer(tmp_path / "buffer")
    with pytest.raises(ValueError, match="n_steps=3: ReplayBuffer has no n-step returns"):
        make(OneState(), n_steps=3).load_replay_buffer(tmp_path / "buffer")
