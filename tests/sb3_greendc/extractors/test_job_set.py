"""The job set: equivariance, independence of sizes, and policies that keep them."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from pool_spaces import N_FEATURES, pool_batch, pool_space
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.preprocessing import preprocess_obs
from test_extractors import PoolEnv

from sb3_greendc.discrete_sac import DiscreteSAC
from sb3_greendc.extractors import (
    JobSetDQNPolicy,
    JobSetExtractor,
    JobSetPolicy,
    MaskableJobSetPolicy,
    ResourceRowsExtractor,
)
from sb3_greendc.extractors.compiled_inputs import pool

ATTENTION = [0, 4]
ARCHITECTURES = [[32, 16], [32], []]


def network(n_jobs=5, units=10, n_heads=2, net_arch=(32, 16), **kwargs):
    """Return a function from observations to ``(n_heads, B, n + 2)``, and its two modules."""
    space = pool_space(n_jobs, units)
    extractor = JobSetExtractor(space, **kwargs)
    heads = extractor.make_heads(n_jobs + 2, n_heads, list(net_arch))

    def forward(observations):
        inputs = {key: th.as_tensor(x) for key, x in observations.items()}
        with th.no_grad():
            return heads(extractor(preprocess_obs(inputs, space)))

    return forward, th.nn.ModuleList([extractor, heads])


@pytest.mark.parametrize("n_attention_heads", ATTENTION)
@pytest.mark.parametrize("net_arch", ARCHITECTURES)
def test_permuting_jobs_permutes_scores(n_attention_heads, net_arch):
    forward, _ = network(n_attention_heads=n_attention_heads, net_arch=net_arch)
    batch = pool_batch(pool_space())
    batch["jobs"][0, 3:] = 0.0
    order = np.random.default_rng(0).permutation(5)
    scores = forward(batch)
    permuted = forward({**batch, "jobs": batch["jobs"][:, order]})
    assert scores.shape == (2, 4, 7)
    th.testing.assert_close(permuted[..., :5], scores[..., order], rtol=1e-4, atol=1e-5)
    th.testing.assert_close(permuted[..., 5:], scores[..., 5:], rtol=1e-4, atol=1e-5)
    assert scores[:, 1, :5].std(dim=1).min() > 1e-3  # not all alike


@pytest.mark.parametrize("n_attention_heads", ATTENTION)
def test_weights_of_five_jobs_run_with_fifteen(n_attention_heads):
    """Empty slots change nothing, whatever their number."""
    small, small_modules = network(5, n_attention_heads=n_attention_heads)
    large, large_modules = network(15, n_attention_heads=n_attention_heads)
    large_modules.load_state_dict(small_modules.state_dict())
    batch = pool_batch(pool_space(5))
    padded = {**batch, "jobs": np.zeros((4, 15, N_FEATURES), np.float32)}
    padded["jobs"][:, :5] = batch["jobs"]
    a, b = small(batch), large(padded)
    th.testing.assert_close(b[..., :5], a[..., :5], rtol=1e-4, atol=1e-5)
    th.testing.assert_close(b[..., 15:], a[..., 5:], rtol=1e-4, atol=1e-5)


def test_weights_of_ten_units_run_with_fifty():
    """A pool five times as large whose every unit is there five times looks the same."""
    small, small_modules = network(units=10)
    large, large_modules = network(units=50)
    large_modules.load_state_dict(small_modules.state_dict())
    batch = pool_batch(pool_space(units=10))
    wide = batch["resources"].reshape(4, 48, 2, 10).repeat(5, axis=3).reshape(4, 48, 100)
    th.testing.assert_close(large({**batch, "resources": wide}), small(batch), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_attention_heads", ATTENTION)
def test_an_empty_ready_pool_is_finite(n_attention_heads):
    forward, _ = network(n_attention_heads=n_attention_heads)
    batch = pool_batch(pool_space())
    batch["jobs"][:] = 0.0
    assert th.isfinite(forward(batch)).all()


def test_pools_are_means_and_maxima_of_their_own_jobs():
    jobs = th.tensor([[1.0, -3.0], [5.0, -1.0], [-9.0, -9.0]])
    mean, maximum = pool(jobs, th.tensor([1, 1, 3]), 5)
    nothing = [0.0, 0.0]
    assert mean.tolist() == [nothing, [3.0, -2.0], nothing, [-9.0, -9.0], nothing]
    assert maximum.tolist() == [nothing, [5.0, -1.0], nothing, [-9.0, -9.0], nothing]


def test_heads_are_independent_networks():
    forward, modules = network(n_heads=2)
    scores = forward(pool_batch(pool_space()))
    assert not th.allclose(scores[0], scores[1], atol=1e-3)
    with th.no_grad():
        for parameter in modules[1].parameters():
            parameter[0] = 0.0
    after = forward(pool_batch(pool_space()))
    assert (after[0] == 0).all()
    th.testing.assert_close(after[1], scores[1])


def test_size_does_not_grow():
    sizes = {
        sum(p.numel() for p in network(n, units)[1].parameters())
        for n, units in ((5, 10), (25, 10), (5, 300))
    }
    assert len(sizes) == 1


def test_wrong_number_of_actions():
    with pytest.raises(ValueError, match="6 actions for 5 ready jobs"):
        JobSetExtractor(pool_space()).make_heads(6, 1, [])
    assert JobSetExtractor(pool_space()).make_heads(9, 1, []).n_actions == 9  # commands of power


def test_policy_refuses_other_extractors():
    with pytest.raises(ValueError, match="must be a JobSetExtractor"):
        PPO(
            JobSetPolicy,
            PoolEnv(),
            policy_kwargs={"features_extractor_class": ResourceRowsExtractor},
            device="cpu",
        )


CASES = {
    "ppo": (PPO, JobSetPolicy, {"n_steps": 16, "batch_size": 8, "n_epochs": 1}),
    "ppo_two_extractors": (PPO, JobSetPolicy, {"n_steps": 16, "batch_size": 8, "n_epochs": 1}),
    "a2c": (A2C, JobSetPolicy, {}),
    "maskable_ppo": (MaskablePPO, MaskableJobSetPolicy, {"n_steps": 16, "batch_size": 8, "n_epochs": 1}),
    "dqn": (DQN, JobSetDQNPolicy, {"learning_starts": 8, "buffer_size": 100}),
    "discrete_sac": (DiscreteSAC, "MultiInputPolicy", {"learning_starts": 8, "buffer_size": 100}),
}


def make(name, **env_kwargs):
    cls, policy, kwargs = CASES[name]
    policy_kwargs = {"features_extractor_class": JobSetExtractor}
    if name == "ppo_two_extractors":
        policy_kwargs["share_features_extractor"] = False
    return cls(policy, PoolEnv(**env_kwargs), policy_kwargs=policy_kwargs, device="cpu", seed=0, **kwargs)


@pytest.mark.parametrize("name", CASES)
def test_every_algorithm_trains_it_and_carries_it_to_larger_pools(name, tmp_path):
    small = make(name, n_jobs=5, units=10)
    before = {key: x.clone() for key, x in small.policy.state_dict().items()}
    small.learn(24)
    after = small.policy.state_dict()
    still = [k for k in before if th.equal(before[k], after[k]) and "target" not in k and "log_std" not in k]
    assert not still, "parameters that did not train"

    small.save(tmp_path / "model.zip")
    loaded = type(small).load(tmp_path / "model.zip", device="cpu")
    large = make(name, n_jobs=15, units=50)
    large.policy.load_state_dict(loaded.policy.state_dict())
    observations = pool_batch(large.observation_space)
    order = np.random.default_rng(1).permutation(15)
    permuted = {**observations, "jobs": observations["jobs"][:, order]}
    permuted["action_mask"] = np.concatenate(
        [observations["action_mask"][:, :15][:, order], observations["action_mask"][:, 15:]], axis=1
    )
    action, _ = large.predict(observations, deterministic=True)
    permuted_action, _ = large.predict(permuted, deterministic=True)
    translated = np.where(permuted_action < 15, order[np.minimum(permuted_action, 14)], permuted_action)
    np.testing.assert_array_equal(translated, action)


@pytest.mark.parametrize("name", ["ppo", "a2c", "discrete_sac", "maskable_ppo"])
def test_masks_from_the_observation_are_obeyed(name):
    model = make(name)
    observations = pool_batch(model.observation_space, batch=200)
    actions, _ = model.predict(observations, deterministic=False)
    assert observations["action_mask"][np.arange(200), actions].all()
    assert len(set(actions.tolist())) > 3


def test_first_policy_is_nearly_uniform_over_valid_actions():
    model = make("ppo")
    observations = pool_batch(model.observation_space)
    tensors, _ = model.policy.obs_to_tensor(observations)
    probabilities = model.policy.get_distribution(tensors).distribution.probs
    valid = th.as_tensor(observations["action_mask"]).bool()
    expected = valid / valid.sum(dim=1, keepdim=True)
    th.testing.assert_close(probabilities, expected.float(), atol=0.02, rtol=0)
    values, log_prob, entropy = model.policy.evaluate_actions(tensors, th.full((4,), 6))
    th.testing.assert_close(log_prob, probabilities[:, 6].log())
    assert values.shape == (4, 1)
    assert th.allclose(entropy, valid.sum(dim=1).float().log(), atol=0.02)


def test_masks_that_are_given_take_the_place_of_the_observations():
    model = make("maskable_ppo")
    observations = pool_batch(model.observation_space, batch=200)
    masks = 1 - observations["action_mask"]
    masks[:, 0] = 1
    actions, _ = model.predict(observations, action_masks=masks)
    assert masks[np.arange(200), actions].all()
    tensors, _ = model.policy.obs_to_tensor(observations)
    free = model.policy.get_distribution(tensors, np.ones_like(masks)).distribution.probs
    assert (free > 0.05).all()
    observations["action_mask"][:] = 0  # counts as no mask, as in the other policies
    tensors, _ = model.policy.obs_to_tensor(observations)
    th.testing.assert_close(model.policy.get_distribution(tensors).distribution.probs, free)


def test_training_without_masks_is_left_without_them():
    """The mask of the observation would make other probabilities of the rollout than of the update."""
    steps = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
    model = MaskablePPO(MaskableJobSetPolicy, PoolEnv(), seed=0, device="cpu", **steps)
    model.learn(64, use_masking=False)
    assert model.logger.name_to_value["train/approx_kl"] == pytest.approx(0.0, abs=1e-6)
    buffer = model.rollout_buffer
    actions = buffer.actions.reshape(-1).astype(int)
    assert not buffer.observations["action_mask"].reshape(64, -1)[np.arange(64), actions].all()
