"""Going on from a distilled policy: the same actor, critics first, and nothing that does not fit."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback

from sb3_greendc import PIDLagrangianPPO
from sb3_greendc.bc.distill import distill
from sb3_greendc.bc.warm_start import CriticsFirst, start_from
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.extractors import JobSetExtractor

PROBLEM = {"mask": "now", "offered_load": 1.0, "episode_steps": 40}


@pytest.fixture(scope="module")
def clone():
    data = collect(["rollout:futures=2"], "ResourcePool-10", 600, env_kwargs=PROBLEM, labels=["advantages"])
    return distill(data, n_epochs=1, batch_size=64)


def make_model(policy="CostJobSetPolicy", **kwargs):
    env = make_vec_env("ResourcePool-10", 4, 0, **PROBLEM)
    kwargs = {"features_extractor_class": JobSetExtractor} | kwargs
    return PIDLagrangianPPO(policy, env, cost_limit=1.0, n_steps=32, batch_size=64, policy_kwargs=kwargs)


def weights_of(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def changed(module, before):
    return [not th.equal(old, new) for old, new in zip(before, module.parameters(), strict=True)]


def test_the_actor_does_what_the_clone_does(clone):
    model = make_model()
    start_from(model, clone)
    observations = model.get_env().reset()
    masks = np.asarray(observations["action_mask"])
    theirs, _ = clone.model.predict(observations, deterministic=True, action_masks=masks)
    ours, _ = model.predict(observations, deterministic=True)
    np.testing.assert_array_equal(ours, theirs)


def test_sharpness_multiplies_the_logits(clone):
    plain, sharp = make_model(), make_model()
    start_from(plain, clone)
    start_from(sharp, clone, 8.0)
    tensor, _ = plain.policy.obs_to_tensor(plain.get_env().reset())
    features = plain.policy.extract_features(tensor)
    logits = [m.policy.mlp_extractor.forward_actor(features) for m in (plain, sharp)]
    th.testing.assert_close(logits[1], 8.0 * logits[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("net_arch", [[8], []], ids=["scorers", "first layers alone"])
def test_heads_multiply_all_of_their_outputs(net_arch):
    """Those of jobs too where no layer is behind the first, and with biases."""
    heads = make_model(net_arch=net_arch).policy.mlp_extractor.actor_heads
    with th.no_grad():
        for parameter in heads.parameters():
            parameter.uniform_(-1.0, 1.0)
    features = th.rand(4, heads.n_jobs * heads.job_dim + heads.context_input.weight.shape[1])
    before = heads(features).detach()
    heads.multiply(3.0)
    th.testing.assert_close(heads(features), 3.0 * before, rtol=1e-4, atol=1e-4)


def test_critics_are_trained_first_then_the_actor_and_never_the_extractor(clone):
    model = make_model()
    start_from(model, clone)
    policy = model.policy
    parts = (policy.features_extractor, policy.mlp_extractor.actor_heads, policy.cost_net, policy.value_net)
    for rollouts, actor_learns in ((1, False), (2, True)):
        before = [weights_of(part) for part in parts]
        model.learn(rollouts * 128, callback=CriticsFirst(1))
        extractor, actor, cost, value = (changed(*pair) for pair in zip(parts, before, strict=True))
        assert not any(extractor)
        assert all(cost)
        assert all(value)
        assert any(actor) == actor_learns


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("include", [None, ()], ids=["safe", "of SB3"])
def test_the_extractor_stays_frozen_when_the_model_is_loaded(clone, share, include, tmp_path):
    """That of the actor; critics' own ones are trained."""
    model = make_model(share_features_extractor=share, share_cost_features_extractor=share)
    start_from(model, clone)
    model.learn(128)
    model.save(tmp_path / "model", include=include)
    loaded = PIDLagrangianPPO.load(tmp_path / "model", env=model.get_env())
    policy = loaded.policy
    assert same(policy.features_extractor, model.policy.features_extractor)
    frozen = weights_of(policy.features_extractor)
    others = [] if share else [policy.vf_features_extractor, policy.cost_features_extractor]
    before = [weights_of(part) for part in (policy.mlp_extractor.actor_heads, *others)]
    loaded.learn(128, reset_num_timesteps=False)
    assert not any(changed(policy.features_extractor, frozen))
    parts = (policy.mlp_extractor.actor_heads, *others)
    assert all(any(changed(*pair)) for pair in zip(parts, before, strict=True))
    policy.save(tmp_path / "policy.pth")
    alone = type(policy).load(tmp_path / "policy.pth", device="cpu")
    assert not any(parameter.requires_grad for parameter in alone.features_extractor.parameters())


def same(module, other):
    return all(th.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))


def test_critics_first_leaves_an_actor_that_is_trained(clone):
    """Also a training that was over before the critics' rollouts were."""
    model = make_model()
    start_from(model, clone)
    model.learn(128, callback=CriticsFirst(5))
    before = weights_of(model.policy.mlp_extractor.actor_heads)
    model.learn(128, reset_num_timesteps=False)
    assert any(changed(model.policy.mlp_extractor.actor_heads, before))


@pytest.mark.parametrize("at", ["rollout", "update"])
def test_the_actor_learns_again_after_a_training_that_was_cut_off(at, monkeypatch):
    """Also where the user has frozen a part of it: that part stays so."""
    model = make_model()
    actor = model.policy.mlp_extractor.actor_heads
    frozen = next(actor.parameters()).requires_grad_(False)

    class Stop(BaseCallback):
        def _on_step(self):
            raise KeyboardInterrupt

    callbacks = [CriticsFirst(2), *([Stop()] if at == "rollout" else [])]
    with monkeypatch.context() as patch:
        if at == "update":
            patch.setattr(model.policy.optimizer, "step", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model.learn(128, callback=callbacks)
    before = weights_of(actor)
    model.learn(128)
    assert any(changed(actor, before))
    assert not frozen.requires_grad
    assert th.equal(frozen, before[0])


def test_the_rollouts_for_critics_alone_count_on_in_further_calls_of_learn():
    model, critics_first = make_model(), CriticsFirst(1)
    actor = model.policy.mlp_extractor.actor_heads
    for learns in (False, True):
        before = weights_of(actor)
        model.learn(128, callback=critics_first, reset_num_timesteps=False)
        assert any(changed(actor, before)) == learns


def test_two_callbacks_for_critics_first_rest_the_actor_as_the_longer_one_says():
    model = make_model()
    actor = model.policy.mlp_extractor.actor_heads
    callbacks = [CriticsFirst(1), CriticsFirst(2)]
    for learns in (False, False, True):
        before = weights_of(actor)
        model.learn(128, callback=callbacks, reset_num_timesteps=False)
        assert any(changed(actor, before)) == learns


def test_networks_that_do_not_fit_are_refused(clone):
    with pytest.raises(ValueError, match="CostMultiInputActorCriticPolicy: must be a JobSetPolicy"):
        start_from(make_model("MultiInputPolicy"), clone)
    other = make_model(features_extractor_kwargs={"job_dim": 8})
    with pytest.raises(ValueError, match="do not fit"):
        start_from(other, clone)
    with pytest.raises(ValueError, match="sharpness"):
        start_from(make_model(), clone, 0.0)


def test_a_model_of_scored_jobs_is_saved_whole(clone, tmp_path):
    model = make_model()
    start_from(model, clone)
    model.save(tmp_path / "model")
    loaded = PIDLagrangianPPO.load(tmp_path / "model")
    tensor, _ = model.policy.obs_to_tensor(model.get_env().reset())
    th.testing.assert_close(
        loaded.policy.predict_cost_values(tensor), model.policy.predict_cost_values(tensor)
    )
