"""CRR's options count wherever they are set: in the constructor, by ``load``, or between two calls."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch as th
from algorithm_cases import toy_vec_env
from stable_baselines3.common.logger import configure
from toy_data import parameters_of, same, toy_dataset, toy_model

from sb3_greendc.crr import CRR
from sb3_greendc.runs.models import load_model


@pytest.fixture
def saved(tmp_path):
    toy_model(gamma=0.9).learn(3).save(tmp_path / "model")
    return tmp_path / "model"


def load(path, **options):
    return CRR.load(path, device="cpu", dataset=toy_dataset(), **options)


def test_load_takes_a_reward_scale(saved):
    found = load(saved).scale
    model = load(saved, reward_scale=100.0)
    assert model.scale == 100.0 != found
    rewards = model._next_batch().rewards
    th.testing.assert_close(rewards, load(saved)._next_batch().rewards / found * 100.0)
    model.save(saved)
    assert load(saved).scale == 100.0
    assert load(saved, reward_scale="auto").scale == found  # found anew, since a number had been given
    assert load(saved, reward_scale=2.0).learn(1).scale == 2.0


@pytest.mark.parametrize("action", ["discrete", "box"])
@pytest.mark.parametrize("weight_mode", ["exp", "bc", "binary"])
def test_load_derives_what_was_not_given(weight_mode, action, tmp_path):
    """As if the model had been built so."""
    toy_model("box", action, weight_mode="bc" if weight_mode == "binary" else "binary").save(
        tmp_path / "model"
    )
    loaded = CRR.load(
        tmp_path / "model", device="cpu", dataset=toy_dataset("box", action), weight_mode=weight_mode
    )
    built = toy_model("box", action, weight_mode=weight_mode)
    assert loaded.config == built.config
    assert loaded.config.normalize_adv == (weight_mode == "exp")
    assert loaded.config.actor_trains_encoder == (weight_mode == "bc")
    assert loaded.config.value_mode == ("exact" if action == "discrete" else "mean")
    assert same(parameters_of(loaded.learn(5)), parameters_of(built.learn(5)))


def test_what_was_given_is_not_derived(tmp_path):
    toy_model(normalize_adv=False, actor_trains_encoder=True, value_mode="mean").save(tmp_path / "model")
    config = load(tmp_path / "model", weight_mode="exp").config
    assert (config.normalize_adv, config.actor_trains_encoder, config.value_mode) == (False, True, "mean")
    toy_model(actor_trains_encoder=False).save(tmp_path / "model")
    with pytest.raises(ValueError, match="actor_trains_encoder=False"):
        load(tmp_path / "model", weight_mode="bc")


def as_of_old(path, model, safely):
    """Save a model as earlier versions did, which kept options as they had been derived."""
    for name in ("value_mode", "normalize_adv", "actor_trains_encoder"):
        setattr(model, name, getattr(model.config, name))
    del model._scale_was_given
    model.save(path, exclude=None if safely else [])


@pytest.mark.parametrize("safely", [True, False], ids=["safe form", "SB3's form"])
@pytest.mark.parametrize("action", ["discrete", "box"])
@pytest.mark.parametrize("weight_mode", ["exp", "bc", "binary"])
def test_files_of_earlier_versions_are_derived_anew(weight_mode, action, safely, tmp_path):
    path = tmp_path / "model.zip"
    before = "bc" if weight_mode == "binary" else "binary"
    as_of_old(path, toy_model("box", action, weight_mode=before), safely)
    data = toy_dataset("box", action)
    loaded = CRR.load(path, device="cpu", dataset=data, weight_mode=weight_mode)
    changed = load_model(f"crr:{path}", trust=True).model
    changed.weight_mode = weight_mode
    changed.set_dataset(data)
    built = toy_model("box", action, weight_mode=weight_mode).learn(5)
    for model in (loaded.learn(5), changed.learn(5)):
        assert model.config == built.config
        assert same(parameters_of(model), parameters_of(built))


@pytest.mark.parametrize("safely", [True, False], ids=["safe form", "SB3's form"])
def test_what_was_given_to_an_earlier_version_is_kept(safely, tmp_path):
    path = tmp_path / "model.zip"
    as_of_old(path, toy_model(normalize_adv=True, actor_trains_encoder=True, reward_scale=2.0), safely)
    config = load(path, weight_mode="exp").config
    assert (config.normalize_adv, config.actor_trains_encoder, config.reward_scale) == (True, True, 2.0)
    config = load(path, normalize_adv=False, weight_mode="exp").config
    assert config.normalize_adv is False
    assert load(path).scale == 2.0
    assert load(path, reward_scale="auto").scale == toy_model().scale != 2.0
    as_of_old(path, toy_model(), safely)
    found = load(path)
    assert found.scale == toy_model().scale
    assert load(path, custom_objects={"normalize_adv": True}).config.normalize_adv


@pytest.mark.parametrize("safely", [True, False], ids=["safe form", "SB3's form"])
def test_load_takes_a_preset(safely, tmp_path):
    """As if the model had been built with it, where the networks are the same."""
    toy_model(n_critics=1).save(tmp_path / "model", exclude=None if safely else [])
    model, built = load(tmp_path / "model", preset="rare"), toy_model(preset="rare")
    assert (model.preset, model.config, model.scale) == ("rare", built.config, 1.0)
    assert same(parameters_of(model.learn(5)), parameters_of(built.learn(5)))
    assert load(tmp_path / "model", preset="rare", beta=0.1).config.beta == 0.1
    assert load(tmp_path / "model", preset=None).config == toy_model(n_critics=1).config
    with pytest.raises(ValueError, match="did you mean 'rare'"):
        load(tmp_path / "model", preset="rar")
    with pytest.raises(ValueError, match=r"tau=0\.1 contradicts preset='rare', which sets 1\.0"):
        load(tmp_path / "model", preset="rare", tau=0.1)
    toy_model().save(tmp_path / "model", exclude=None if safely else [])
    with pytest.raises(ValueError, match=r"model: preset='rare' sets n_critics=1: the saved model has 2"):
        load(tmp_path / "model", preset="rare")


CHANGES = [{"gamma": 0.5}, {"batch_size": 24}, {"reward_scale": 3.0}, {"weight_mode": "exp"}]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_learning_follows_options_that_change_between_two_calls(change):
    """As a model does that had them from the start, once both have the same networks."""
    changed, built = toy_model(gamma=0.9), toy_model(**{"gamma": 0.9, **change})
    built.scale = built.scale if "reward_scale" in change else changed.scale
    changed.learn(5)
    for name, value in change.items():
        setattr(changed, name, value)
    built.set_parameters(deepcopy(changed.get_parameters()))
    built._n_updates, built.advantage_std = changed._n_updates, changed.advantage_std
    changed.learn(20)
    assert changed.config == built.config
    assert same(parameters_of(changed), parameters_of(built.learn(20)))
    batch = changed._next_batch()
    assert len(batch.rewards) == changed.batch_size
    assert float(batch.discounts.max()) == pytest.approx(changed.gamma)


def test_learning_follows_a_rate_that_changes_between_two_calls():
    model = toy_model().learn(2)
    model.learning_rate = 1e-6
    assert model.learn(2).policy.optimizer.param_groups[0]["lr"] == 1e-6
    model.finetune(toy_vec_env("box", "discrete"), 20, learning_starts=5, learning_rate=2e-6)
    assert model.policy.optimizer.param_groups[0]["lr"] == 2e-6
    model.learning_rate = 3e-6
    model.finetune(None, 20, learning_starts=0)
    assert model.policy.optimizer.param_groups[0]["lr"] == 3e-6


def test_learning_follows_shares_of_sources_that_change_between_two_calls():
    model = toy_model(batch_size=200).learn(1)
    stream = model._stream
    assert model.learn(1)._stream is stream
    model.source_weights = {"fcfs": 1.0}
    model.learn(1)
    of_fcfs = model.dataset.batch(np.flatnonzero(model.dataset.source_id == 1), ["observations"])
    seen = model._next_batch().observations.numpy()
    assert (seen[:, None] == of_fcfs["observations"][None]).all(axis=2).any(axis=1).all()
    model.source_weights = [1.0, -1.0]
    with pytest.raises(ValueError, match="source_weights"):
        model.learn(1)


def test_load_takes_a_seed(tmp_path):
    """Batches and draws are those of a model that was built with it; without one, they stay."""
    model = toy_model(seed=0, value_mode="mean")
    model.save(tmp_path / "model")
    learned = parameters_of(model.learn(5))
    assert same(parameters_of(load(tmp_path / "model").learn(5)), learned)
    assert same(parameters_of(load(tmp_path / "model", seed=None).learn(5)), learned)
    assert same(parameters_of(load(tmp_path / "model", seed=0).learn(5)), learned)
    other = load(tmp_path / "model", seed=1)
    assert other.stream_seed == toy_model(seed=1).stream_seed
    assert not same(parameters_of(other.learn(5)), learned)


@pytest.mark.parametrize("action", ["discrete", "box"])
@pytest.mark.parametrize("how", ["set", "loaded", "loaded, of an earlier version"])
def test_critics_after_cloning_begin_with_targets_that_know_the_clone(how, action, tmp_path):
    """Cloning does not update them."""
    model = toy_model("box", action, weight_mode="bc").learn(5)
    cloned = parameters_of(model)
    assert not same_targets(model)
    if how == "set":
        model.weight_mode = "binary"
    else:
        if how != "loaded":
            del model._targets_rest
        model.save(tmp_path / "model")
        data = toy_dataset("box", action)
        model = CRR.load(tmp_path / "model", device="cpu", dataset=data, weight_mode="binary")
    seen, losses = [], model.losses

    def noting(batch):
        seen.append(same_targets(model))
        return losses(batch)

    model.losses = noting
    model.learn(3, reset_num_timesteps=False)
    assert seen == [True, False, False]
    assert not same(parameters_of(model), cloned)


def same_targets(model):
    return all(map(th.equal, model.policy._target, model.policy._online))


def test_what_is_handed_over_after_cloning_has_targets_that_know_the_clone():
    model = toy_model(weight_mode="bc").learn(5)
    model.weight_mode = "binary"
    assert same_targets(model.to_discrete_sac(toy_vec_env("box", "discrete"), buffer_size=100))


def test_load_takes_no_other_number_of_critics(saved):
    with pytest.raises(ValueError, match="model: n_critics=1: the saved model has 2"):
        load(saved, n_critics=1)
    assert not hasattr(load(saved, n_critics=2), "n_critics")
    with pytest.raises(ValueError, match="model: target_actor=False: the saved model has True"):
        load(saved, target_actor=False)
    assert not hasattr(load(saved, target_actor=True), "target_actor")


def test_load_takes_no_option_that_there_is_not(saved):
    with pytest.raises(TypeError, match="gama: no option of CRR; did you mean 'gamma'"):
        load(saved, gama=0.5)
    with pytest.raises(TypeError, match="trust: no option of CRR"):
        load(saved, trust=False)
    assert load(saved, gamma=0.5, verbose=0).gamma == 0.5


def test_cloning_leaves_the_spread_of_advantages_to_the_critic():
    model = toy_model(weight_mode="bc", normalize_adv=True).learn(3)
    assert model.advantage_std.isnan()
    model.weight_mode = "exp"
    model.learn(1)
    last = model._last_losses.advantage.std(unbiased=False)
    assert float(model.advantage_std) == pytest.approx(float(last))


def test_diagnostics_follow_the_discount():
    model = toy_model(gamma=0.9).learn(1)
    model.gamma = 0.5
    model.learn(1)
    assert (model._data.returns.values == toy_model(gamma=0.5)._data.returns.values).all()


@pytest.mark.parametrize("change", CHANGES[:3], ids=lambda change: next(iter(change)))
def test_finetuning_follows_options_that_change_between_two_calls(change):
    model = toy_model(gamma=0.9).learn(5)
    model.finetune(toy_vec_env("box", "discrete"), 40, learning_starts=20)
    for name, value in change.items():
        setattr(model, name, value)
    model.finetune(None, 20, learning_starts=0, reset_num_timesteps=False)
    batch, n_offline = model._next_batch(), round(model.batch_size / 2)
    assert len(batch.rewards) == model.batch_size
    for rows in (slice(n_offline), slice(n_offline, None)):  # of the data, and of the environment
        assert float(batch.discounts[rows].max()) == pytest.approx(model.gamma)
    assert (
        model._online.scale == model._stream.scale == model.scale == change.get("reward_scale", model.scale)
    )


def test_discrete_sac_takes_over_what_was_derived():
    model = toy_model().learn(2)
    assert (
        model.to_discrete_sac(toy_vec_env("box", "discrete"), buffer_size=200).actor_trains_encoder is False
    )
    model = toy_model(actor_trains_encoder=True).learn(2)
    assert model.to_discrete_sac(toy_vec_env("box", "discrete"), buffer_size=200).actor_trains_encoder is True


def test_discrete_sac_takes_further_arguments_of_the_policy():
    model = toy_model().learn(5)
    env = toy_vec_env("box", "discrete")
    online = model.to_discrete_sac(env, buffer_size=200, policy_kwargs={"optimizer_class": th.optim.AdamW})
    assert isinstance(online.policy.critic_optimizer, th.optim.AdamW)
    ours, theirs = parameters_of(model), parameters_of(online)
    assert all(th.equal(ours[name], theirs[name]) for name in theirs)
    assert model.policy_kwargs["target_actor"] is True
    with pytest.raises(ValueError, match=r"policy_kwargs={'net_arch': \[8\]}: gives other networks"):
        model.to_discrete_sac(env, buffer_size=200, policy_kwargs={"net_arch": [8]})


def test_discrete_sac_leaves_frozen_parameters_frozen():
    model = toy_model().learn(5)
    model.policy.features_extractor.requires_grad_(False)
    before = parameters_of(model)
    online = model.to_discrete_sac(
        toy_vec_env("box", "discrete"), buffer_size=200, learning_starts=10, actor_starts=10
    ).learn(40)
    after = parameters_of(online)
    assert online._n_updates > 20
    for name in after:
        if name.startswith("features_extractor."):
            assert th.equal(before[name], after[name]), name


def test_no_log_interval_means_one_log_at_the_end(tmp_path):
    model = toy_model()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(30, log_interval=None)
    assert len((tmp_path / "progress.csv").read_text().splitlines()) == 2
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.finetune(toy_vec_env("box", "discrete"), 60, learning_starts=10, log_interval=None)
    assert len((tmp_path / "progress.csv").read_text().splitlines()) == 2
