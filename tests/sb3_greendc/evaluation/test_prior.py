"""A distilled policy as the prior of rollouts: scale, sizes, mask, lookahead, and rollouts that use it."""

from __future__ import annotations

import numpy as np
import pytest
from sb3_contrib import MaskablePPO

from greendc.baselines import make_policy
from greendc.shipped.release import release_for
from sb3_greendc.bc.distill import distill
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation import prior
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.prior import NetworkPrior, in_numpy, read_prior
from sb3_greendc.runs.pretrained import load_pretrained

PROBLEM = {"mask": "now_on_time", "skip_forced": True, "offered_load": 1.0, "episode_steps": 60}


@pytest.fixture(scope="module")
def data():
    spec = "rollout:futures=4"
    return collect([spec], "ResourcePool-10", 600, env_kwargs=PROBLEM, labels=["advantages"], n_envs=4)


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    return str(distill(data, n_epochs=2, batch_size=64, logit_scale=2.0).save(tmp_path_factory.mktemp("m")))


def centered(values, masks):
    values = np.where(masks, values, np.nan)
    return values - np.nanmean(values, axis=1, keepdims=True)


def test_its_values_are_the_logits_in_mean_job_values(data, path):
    env = make_vec_env("ResourcePool-10", 4, **PROBLEM)
    observations = data.batch(np.arange(64), ["observations"])["observations"]
    prior = read_prior(path, env.simulator)
    tensors, _ = prior.model.policy.obs_to_tensor(observations)
    masks = observations["action_mask"].astype(bool)
    logits = prior.model.policy.get_distribution(tensors, masks).distribution.logits.detach().numpy()
    found = centered(prior(observations), masks)
    np.testing.assert_allclose(found, centered(logits, masks) / 2.0, atol=1e-5)


def test_rollouts_with_it_can_be_judged_and_recorded(path):
    spec = f"rollout:futures=2,prior={path}"
    table = evaluate([spec], "ResourcePool-20", 2, env_kwargs=PROBLEM)  # of another size
    assert table["total_job_value_ratio"].between(0, 1).all()
    env = make_vec_env("ResourcePool-10", 4, **PROBLEM)
    env.seed(0)
    observations = env.reset()
    masks = observations["action_mask"].astype(bool)
    sure = make_policy("rollout", env, futures=2, prior=read_prior(path, env.simulator), trust=10**9)
    prior = centered(read_prior(path, env.simulator)(observations), masks)
    judged = masks.sum(axis=1) > 1
    np.testing.assert_allclose(sure.advantages(observations)[judged], prior[judged], atol=1e-4)
    recorded = collect([spec], "ResourcePool-10", 40, env_kwargs=PROBLEM, labels=["advantages"], n_envs=4)
    assert np.isfinite(recorded.labels["advantages"]).any(axis=1).all()


@pytest.mark.parametrize("name", ["ResourcePool", "ResourcePoolHPC"])
def test_what_ships_is_a_prior(name):
    release = release_for(name)
    env = make_vec_env(release.env_id, 1, **release.env_kwargs)
    shipped = read_prior(f"pretrained:{name}", env.simulator)
    assert shipped.logit_scale == release.logit_scale > 0
    model = load_pretrained(name)
    for name, weights in shipped.model.policy.state_dict().items():
        assert (weights == model.policy.state_dict()[name]).all()


def test_what_was_not_distilled_from_a_planner_is_no_prior():
    env = make_vec_env("ResourcePool-10", 1)
    with pytest.raises(
        ValueError, match="prior='pretrained:DiscreteVCC': it was not distilled from a planner"
    ):
        read_prior("pretrained:DiscreteVCC", env.simulator)


def test_another_mask_than_in_training_is_refused(path):
    env = make_vec_env("ResourcePool-10", 1)
    with pytest.raises(ValueError, match=r"trained with mask='now_on_time'; the environment has 'valid'"):
        read_prior(path, env.simulator)


@pytest.mark.parametrize(
    ("option", "trained", "here"), [("lookahead", 0, 12), ("fragmentation", False, True)]
)
def test_other_features_than_in_training_are_refused(path, option, trained, here):
    env = make_vec_env("ResourcePool-10", 1, **PROBLEM, **{option: here})
    with pytest.raises(ValueError, match=f"trained with {option}={trained}; the environment has {here}"):
        read_prior(path, env.simulator)


def test_a_scale_of_zero_is_refused(path):
    env = make_vec_env("ResourcePool-10", 1, **PROBLEM)
    with pytest.raises(ValueError, match="logit_scale"):
        NetworkPrior(read_prior(path, env.simulator).model, 0.0)


@pytest.mark.parametrize("name", ["ResourcePool", "ResourcePoolHPC", "ResourcePoolHorizon72"])
def test_one_observation_gets_the_values_that_a_batch_gets(name):
    release = release_for(name)
    env = make_vec_env(release.env_id, 8, **release.env_kwargs)
    env.seed(3)
    observations, prior = env.reset(), read_prior(f"pretrained:{name}", env.simulator)
    assert in_numpy(prior.model) is not None
    together, masks = prior(observations), observations["action_mask"].astype(bool)
    alone = np.concatenate(
        [prior({key: value[[k]] for key, value in observations.items()}) for k in range(8)]
    )
    np.testing.assert_allclose(centered(alone, masks), centered(together, masks), atol=1e-5)
    assert (alone != together).any()  # another way to the same numbers


def test_another_network_is_left_to_torch(monkeypatch):
    plain = MaskablePPO("MultiInputPolicy", make_vec_env("ResourcePool-10", 1), n_steps=4, batch_size=4)
    assert in_numpy(plain) is None
    model = load_pretrained("ResourcePool")
    assert in_numpy(model) is not None
    monkeypatch.setattr(prior, "JobSetNetwork", lambda *_: lambda observation: np.zeros(12))
    assert in_numpy(model) is None
