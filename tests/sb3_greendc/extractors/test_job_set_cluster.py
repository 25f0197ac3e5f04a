"""The job set of clusters: no image, and no action or one that takes no job."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3.common.preprocessing import preprocess_obs

from sb3_greendc.bc import resize
from sb3_greendc.bc.models import make_model
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.extractors import JobSetExtractor, MaskableJobSetPolicy
from sb3_greendc.extractors.job_set import _standardized, _with_logarithms

RELATIVE = pytest.mark.parametrize("relative", [False, True])
SMALL = {"workload_jobs": 200, "episode_jobs": 60, "visible_jobs": 9}


def space(n_jobs, others=0):
    return spaces.Dict(
        jobs=spaces.Box(0.0, 2.0, (n_jobs, 12), np.float32),
        cluster=spaces.Box(-1.0, 1.0, (16,), np.float32),
        capacity=spaces.Box(0.0, 1.0, (14,), np.float32),
        action_mask=spaces.Box(0, 1, (n_jobs + others,), np.int8),
    )


def scores(observations, modules):
    extractor, heads = modules
    inputs = {key: th.as_tensor(x) for key, x in observations.items()}
    with th.no_grad():
        return heads(extractor(preprocess_obs(inputs, extractor._observation_space)))


def network(n_jobs, others, relative):
    th.manual_seed(0)
    extractor = JobSetExtractor(space(n_jobs, others), relative=relative)
    heads = extractor.make_heads(n_jobs + others, 1, [16])
    return th.nn.ModuleList([extractor, heads])


def batch(n_jobs, others):
    of = space(n_jobs, others)
    of.seed(1)
    rows = [of.sample() for _ in range(4)]
    found = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    found["jobs"][0, 3:] = 0.0
    found["jobs"][1] = 0.0
    return found


@RELATIVE
@pytest.mark.parametrize("others", [0, 1])
def test_permuting_jobs_permutes_scores_whatever_their_number(relative, others):
    modules, observations = network(6, others, relative), batch(6, others)
    found = scores(observations, modules)
    assert found.shape == (1, 4, 6 + others)
    assert th.isfinite(found).all()
    assert found[0, 2].std() > 1e-3
    order = np.random.default_rng(0).permutation(6)
    permuted = scores({**observations, "jobs": observations["jobs"][:, order]}, modules)
    th.testing.assert_close(permuted[..., :6], found[..., order], rtol=1e-4, atol=1e-5)
    large = network(20, others, relative)
    large.load_state_dict(modules.state_dict())
    wide = {**observations, "jobs": np.zeros((4, 20, 12), np.float32)}
    wide["jobs"][:, :6] = observations["jobs"]
    padded = scores(wide, large)
    th.testing.assert_close(padded[..., :6], found[..., :6], rtol=1e-4, atol=1e-5)
    th.testing.assert_close(padded[..., 20:], found[..., 6:], rtol=1e-4, atol=1e-5)


@RELATIVE
def test_a_graph_for_export_computes_the_same(relative):
    modules, observations = network(6, 1, relative), batch(6, 1)
    with mock.patch.object(th.onnx, "is_in_onnx_export", return_value=True):
        exported = scores(observations, modules)
    # An empty slot has the score of no job, which follows from the context in both.
    th.testing.assert_close(exported, scores(observations, modules), rtol=1e-4, atol=1e-5)


def test_columns_are_read_relative_to_the_jobs_beside():
    rows = th.tensor([[1.0, 5.0], [3.0, 5.0], [7.0, 2.0]])
    relative = _standardized(rows, th.tensor([0, 0, 1]), 2)
    assert relative.tolist() == [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    alone = _standardized(rows[:2], th.tensor([0, 0]), 1)
    th.testing.assert_close(alone, relative[:2])
    assert _standardized(rows[:0], th.tensor([], dtype=th.int64), 1).shape == (0, 2)
    columns = _with_logarithms(th.tensor([[0.0, 0.02], [0.0, -0.2]]))
    assert columns[:, 3].diff().item() == pytest.approx(np.log(2001 / 201))
    far = network(6, 0, True)
    observations = batch(6, 0)
    with th.no_grad():
        far[0].job_input.weight[:, :12] = far[0].job_input.weight[:, 24:] = (
            0.0  # the relative columns are left
        )
    moved = {**observations, "jobs": observations["jobs"] + 0.5 * (observations["jobs"].any(2)[..., None])}
    th.testing.assert_close(scores(moved, far), scores(observations, far), rtol=1e-3, atol=1e-3)


def test_too_few_actions_are_refused():
    with pytest.raises(ValueError, match="5 actions for 6 jobs: must be one a job, or more"):
        JobSetExtractor(space(6)).make_heads(5, 1, [])


@pytest.mark.parametrize("env_id", ["Cluster-Lublin-v0", "ClusterGreen-v0"])
def test_a_learner_trains_it_and_carries_it_to_more_jobs(env_id):
    env = make_vec_env(env_id, 2, seed=0, **SMALL)
    model = MaskablePPO(MaskableJobSetPolicy, env, n_steps=16, batch_size=8, n_epochs=1, device="cpu", seed=0)
    before = {key: values.clone() for key, values in model.policy.state_dict().items()}
    model.learn(64)
    after = model.policy.state_dict()
    assert not [key for key in before if th.equal(before[key], after[key])], "did not train"
    wide = make_vec_env(env_id, 1, seed=0, **{**SMALL, "visible_jobs": 30})
    resized = resize(model, wide.observation_space, wide.action_space)
    observations = wide.reset()
    actions, _ = resized.predict(observations, action_masks=observations["action_mask"], deterministic=True)
    assert observations["action_mask"][0, actions[0]]


def test_a_set_is_what_clones_of_clusters_are_by_default():
    env = make_vec_env("Cluster-Lublin-v0", 1, **SMALL)
    model = make_model(env.observation_space, env.action_space)
    assert type(model.policy) is MaskableJobSetPolicy
