"""Going on from a distilled policy: the same actor, critics first, and nothing that does not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th

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


def test_networks_that_do_not_fit_are_refused(clone):
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
