"""DiscreteSAC's options count wherever they are set: in the constructor, by ``load``, or between calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from discrete_sac_cases import logged, make
from known_mdps import OneState, SoftMDP
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_greendc.core.discounting import DiscountByTime
from sb3_greendc.discrete_sac import DiscreteSAC

FORMS = pytest.mark.parametrize("form", [{}, {"include": []}], ids=["safe form", "SB3's form"])


def discounts(model):
    return set(np.round(model._sample_batch(300).discounts.flatten().tolist(), 6))


def load(path, **options):
    return DiscreteSAC.load(path, env=OneState(), device="cpu", **options)


# ------------------------------------------------------------------ discount and returns


@pytest.mark.parametrize("env", [SoftMDP, OneState])
def test_learning_follows_discount_and_returns_that_change_between_two_calls(env):
    model = make(env()).learn(40)
    model.gamma, model.n_steps = 0.5, 3
    model.learn(40, reset_num_timesteps=False)
    assert discounts(model) <= {0.5, 0.25, 0.125}
    assert 0.125 in discounts(model)
    model.gamma = 1.5
    with pytest.raises(ValueError, match=r"gamma=1\.5: must be"):
        model.learn(40)


def test_learning_follows_a_discount_that_a_callback_changes():
    class Change(BaseCallback):
        def _on_step(self):
            self.model.gamma = 0.25
            return True

    assert discounts(make(OneState()).learn(40, callback=Change())) == {0.25}


@FORMS
def test_learning_follows_a_rate_that_changes(form, tmp_path):
    def rate(model):
        optimizers = (model.policy.actor_optimizer, model.policy.critic_optimizer)
        return {optimizer.param_groups[0]["lr"] for optimizer in optimizers}

    model = make(OneState()).learn(40)
    model.learning_rate = 1e-6
    assert rate(model.learn(40, reset_num_timesteps=False)) == {1e-6}
    model.lr_schedule = lambda _: 3e-5  # Stable-Baselines3's way
    assert rate(model.learn(40, reset_num_timesteps=False)) == {3e-5}
    model.learning_rate = 2e-6
    model.save(tmp_path / "model", **form)
    assert rate(load(tmp_path / "model").learn(40)) == {2e-6}
    assert rate(load(tmp_path / "model", learning_rate=5e-6).learn(40)) == {5e-6}


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf"), "x", None])
def test_a_rate_that_makes_no_sense_is_named(rate):
    model = make(OneState()).learn(30)
    model.learning_rate = rate
    with pytest.raises(ValueError, match=r"learning_rate=.*: must be"):
        model.learn(30)
    with pytest.raises(ValueError, match=r"learning_rate=.*: must be"):
        make(OneState(), learning_rate=rate)


def test_how_often_it_learns_may_change():
    class Change(BaseCallback):
        def _on_step(self):
            if self.num_timesteps == 10:  # before the first update
                self.model.train_freq = 5
            return True

    model = make(OneState(), train_freq=1)
    model.train_freq = 2
    assert model.learn(40)._n_updates == 10
    model = make(OneState(), train_freq=1).learn(40, callback=Change())
    assert model._n_updates == 4
    model.train_freq = (1, "year")
    with pytest.raises(ValueError, match="train_freq"):
        model.learn(10)


def test_what_the_buffer_was_given_still_comes_first():
    model = make(OneState(), replay_buffer_kwargs={"gamma": 0.25}).learn(40)
    model.gamma = 0.5
    assert discounts(model.learn(40)) == {0.25}


def test_an_entropy_penalty_that_is_set_later():
    model = make()
    model.entropy_penalty = 0.1
    assert model.learn(40)._sample_batch(8).old_entropies.max() > 0
    model = make().learn(40)
    model.entropy_penalty = 0.1
    with pytest.raises(
        ValueError, match=r"entropy_penalty=0\.1: the replay buffer holds transitions without"
    ):
        model.learn(40)


# ------------------------------------------------------------------ temperature


@FORMS
def test_a_temperature_that_is_fixed_later(form, tmp_path):
    model = make(OneState()).learn(60)
    model.ent_coef = 0.05
    model.save(tmp_path / "at once", **form)
    model.learn(40, reset_num_timesteps=False)
    assert logged(model)["train/ent_coef"] == pytest.approx(0.05)
    model.save(tmp_path / "later", **form)
    for name in ("at once", "later"):
        loaded = load(tmp_path / name).learn(40)
        assert logged(loaded)["train/ent_coef"] == pytest.approx(0.05)
        assert (loaded.ent_coef, loaded.scale) == (0.05, model.scale)


@FORMS
def test_a_temperature_that_is_learned_later(form, tmp_path):
    model = make(OneState(), ent_coef=0.5).learn(60)
    model.ent_coef = "auto_0.2"
    model.save(tmp_path / "at once", **form)
    for changed in (model, load(tmp_path / "at once")):
        assert float(changed._temperature()) == pytest.approx(0.2)
        changed.learn(60, reset_num_timesteps=False)
        assert float(changed._temperature()) != pytest.approx(0.2, abs=1e-4)
        changed.save(tmp_path / "later", **form)
        assert th.equal(load(tmp_path / "later").log_ent_coef, changed.log_ent_coef)


def test_a_temperature_that_is_learned_goes_on_while_the_option_is_the_same(tmp_path):
    model = make(OneState()).learn(60)
    model.save(tmp_path / "model")
    for options in ({}, {"ent_coef": "auto"}, {"ent_coef": "auto", "gamma": 0.5}):
        assert th.equal(load(tmp_path / "model", **options).log_ent_coef, model.log_ent_coef)
    assert float(load(tmp_path / "model", ent_coef="auto_0.5")._temperature()) == pytest.approx(0.5)


def test_a_temperature_that_makes_no_sense_is_named(tmp_path):
    model = make(OneState())
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="ent_coef='automatic': must be"):
        load(tmp_path / "model", ent_coef="automatic")
    model.ent_coef = -1.0
    for act in (lambda: model.learn(10), lambda: model.save(tmp_path / "model")):
        with pytest.raises(ValueError, match=r"ent_coef=-1\.0: must be"):
            act()


@FORMS
def test_load_takes_another_temperature(form, tmp_path):
    make(OneState(), target_entropy_ratio_final=0.1).learn(60).save(tmp_path / "auto", **form)
    make(OneState(), ent_coef=0.5).learn(60).save(tmp_path / "fixed", **form)
    fixed = {"ent_coef": 0.1, "target_entropy_ratio_final": None}
    learned = {"ent_coef": "auto", "target_entropy_ratio_final": 0.1}
    for given in (lambda options: options, lambda options: {"custom_objects": options}):
        model = load(tmp_path / "auto", **given(fixed)).learn(60)
        assert (model.log_ent_coef, logged(model)["train/ent_coef"]) == (None, pytest.approx(0.1))
        model = load(tmp_path / "fixed", **given(learned))
        assert float(model._temperature()) == 1.0
        assert float(model.learn(60)._temperature()) != 1.0
        assert model.target_entropy_ratio_final == 0.1
    with pytest.raises(ValueError, match="target_entropy_ratio_final"):
        load(tmp_path / "auto", ent_coef=0.1)


# ------------------------------------------------------------------ reward scale


@FORMS
def test_reward_scale_follows_its_option(form, tmp_path):
    model = make(OneState(), reward_scale=3.0).learn(60)
    found = make(OneState()).learn(60).scale
    model.save(tmp_path / "model", **form)
    assert load(tmp_path / "model").scale == 3.0
    assert load(tmp_path / "model", reward_scale=2.0).scale == 2.0
    assert load(tmp_path / "model", reward_scale="auto").scale is None
    assert load(tmp_path / "model", reward_scale="auto").learn(60).scale == pytest.approx(found, rel=0.2)
    assert load(tmp_path / "model", reward_scale="auto", ent_coef=0.1).scale == 1.0
    model.reward_scale = "auto"
    model.save(tmp_path / "model", **form)
    assert load(tmp_path / "model").scale is None  # as in the next call of the one in memory
    found = model.learn(40, reset_num_timesteps=False).scale
    assert found not in (None, 3.0)
    model.save(tmp_path / "model", **form)
    assert model.learn(10).scale == load(tmp_path / "model").learn(60).scale == found  # found once, and kept
    model.reward_scale = 5.0
    assert model.learn(10).scale == 5.0


def test_reward_scale_of_a_file_of_an_earlier_version(tmp_path):
    """It does not say whether the scale was given."""
    for options in ({}, {"reward_scale": 3.0}):
        model = make(OneState(), **options).learn(60)
        scale = model.scale
        del model._scale_was_given
        model.save(tmp_path / "model")
        assert load(tmp_path / "model").learn(60).scale == scale
    assert load(tmp_path / "model", reward_scale="auto").scale is None


# ------------------------------------------------------------------ presets


@FORMS
def test_load_takes_a_preset(form, tmp_path):
    make(OneState(), n_critics=1).learn(60).save(tmp_path / "model", **form)
    model = load(tmp_path / "model", preset="rare", gamma=0.5).learn(60)
    assert (model.preset, model.ent_coef, model.tau, model.gamma) == ("rare", 0.0, 1.0, 0.5)
    assert (model.log_ent_coef, model.scale) == (None, 1.0)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model", preset="rare").tau == 1.0
    assert load(tmp_path / "model", preset=None).preset == "rare"
    with pytest.raises(ValueError, match="did you mean 'rare'"):
        load(tmp_path / "model", preset="rar")
    with pytest.raises(ValueError, match=r"tau=0\.1 contradicts preset='rare', which sets 1\.0"):
        load(tmp_path / "model", preset="rare", tau=0.1)
    make(OneState()).save(tmp_path / "model", **form)
    with pytest.raises(ValueError, match=r"model: preset='rare' sets n_critics=1: the saved model has 2"):
        load(tmp_path / "model", preset="rare")


@FORMS
def test_load_takes_no_other_number_of_critics(form, tmp_path):
    make(OneState()).save(tmp_path / "model", **form)
    with pytest.raises(ValueError, match="model: n_critics=1: the saved model has 2"):
        load(tmp_path / "model", n_critics=1)
    assert not hasattr(load(tmp_path / "model", n_critics=2), "n_critics")


# ------------------------------------------------------------------ discounts by time


class Clock(OneState):
    """Says that decisions take two time steps."""

    says = True

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"time_advanced": 2} if self.says else {}


def test_discounts_by_time_end_with_the_call_that_asks_for_them(tmp_path):
    env = Clock()
    model = make(env, gamma=0.5).learn(40, callback=DiscountByTime())
    assert discounts(model) == {0.25}
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = DiscreteSAC.load(tmp_path / "model", env=env, device="cpu")
    loaded.load_replay_buffer(tmp_path / "buffer")
    for same in (model, loaded):
        same.learn(40, reset_num_timesteps=False)
        assert discounts(same) == {0.5}
        assert same.replay_buffer.size() == 80
        assert set(same.replay_buffer.time_steps[:80].ravel()) == {2.0}  # what is not used is kept
        same.learn(40, callback=DiscountByTime(), reset_num_timesteps=False)
        assert discounts(same) == {0.25}


def test_times_that_are_not_said_are_not_needed_without_the_callback():
    env = Clock()
    model = make(env, gamma=0.5).learn(40, callback=DiscountByTime())
    env.says = False
    assert discounts(model.learn(40, reset_num_timesteps=False)) == {0.5}
    env.says = True
    with pytest.raises(ValueError, match="holds transitions without the time"):
        model.learn(40, callback=DiscountByTime(), reset_num_timesteps=False)


def test_a_buffer_that_is_given_discounts_by_time_keeps_them():
    model = make(Clock(), gamma=0.5, replay_buffer_kwargs={"by_time": True}).learn(40)
    assert discounts(model.learn(40)) == {0.25}


# ------------------------------------------------------------------ replay buffers of others


def test_a_buffer_of_another_number_of_environments(tmp_path):
    make(n_envs=2).learn(40).save_replay_buffer(tmp_path / "buffer")
    model = make(n_envs=3)
    model.load_replay_buffer(tmp_path / "buffer")  # the environments may be set afterwards
    for _ in range(2):
        with pytest.raises(ValueError, match=r"buffer.*: of 2 environments, the model's has 3"):
            model.learn(40)
    model.n_envs = 2
    model.set_env(DummyVecEnv([SoftMDP] * 2))
    model.learn(40)
    model.replay_buffer = make(n_envs=4).replay_buffer
    with pytest.raises(ValueError, match=r"^replay buffer: of 4 environments, the model's has 2"):
        model.learn(40)


def test_a_buffer_of_another_environment(tmp_path):
    make().learn(40).save_replay_buffer(tmp_path / "buffer")
    model = make(OneState())
    before = model.replay_buffer
    with pytest.raises(ValueError, match=r"replay buffer .*buffer: its observation_space is Dict.* model's"):
        model.load_replay_buffer(tmp_path / "buffer")
    assert model.replay_buffer is before
    plain = make(OneState(), replay_buffer_class=ReplayBuffer).learn(30)
    plain.save_replay_buffer(tmp_path / "buffer")
    model.load_replay_buffer(tmp_path / "buffer")  # of the same spaces, it may be another kind of buffer
    model.learn(30, reset_num_timesteps=False)
