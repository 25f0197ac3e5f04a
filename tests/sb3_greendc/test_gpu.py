"""Every algorithm on a GPU, where there is one: it learns there, and what it saved acts alike on the CPU."""

from __future__ import annotations

import pytest
import torch as th

from sb3_greendc.bc import behavioral_clone, distill
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.runs.training import prepare

pytestmark = pytest.mark.skipif(not th.cuda.is_available(), reason="no GPU")
DEVICE = "cuda"
ENV = "ResourcePool-10"
SHORT = {"episode_steps": 48}
ROUNDS = {"n_envs": 4, "n_steps": 32, "batch_size": 32, "n_epochs": 1}
SETTINGS = {
    "discrete_sac": {"n_envs": 4, "learning_starts": 64, "buffer_size": 1000, "batch_size": 32},
    "maskable_ppo": ROUNDS,
    "pid_ppo": ROUNDS,
    "recurrent_pid_ppo": ROUNDS,
}


def assert_acts_alike_on_the_cpu(model, path):
    """The model has learnt on the device; its file, loaded on the CPU, chooses what it chooses."""
    assert {parameter.device.type for parameter in model.policy.parameters()} == {DEVICE}
    assert all(th.isfinite(parameter).all() for parameter in model.policy.parameters())
    model.save(path)
    loaded = type(model).load(path, device="cpu")
    observations = make_vec_env(ENV, 16, seed=3, env_kwargs=SHORT).reset()
    masks = {"action_masks": observations["action_mask"]} if type(model).__name__ == "MaskablePPO" else {}
    here, there = (m.predict(observations, deterministic=True, **masks)[0] for m in (model, loaded))
    assert (here == there).mean() >= 15 / 16  # equal up to the rounding of a tie


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_online_algorithms_learn(algorithm, tmp_path):
    run = prepare(algorithm, ENV, 256, 0, SHORT, SETTINGS[algorithm], device=DEVICE)
    run.model.learn(256)
    assert_acts_alike_on_the_cpu(run.model, tmp_path / "model.zip")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rollout.npz"
    collect(["rollout"], ENV, 400, env_kwargs=SHORT, labels=["advantages"]).save(path)
    return path


def test_crr_learns(data, tmp_path):
    run = prepare("crr", ENV, 20, 0, device=DEVICE, data=data)
    run.model.learn(20)
    assert_acts_alike_on_the_cpu(run.model, tmp_path / "model.zip")


@pytest.mark.parametrize("learn", [behavioral_clone, distill])
def test_supervised_learners_learn(learn, data, tmp_path):
    model = learn(data, "job_set", n_epochs=1, batch_size=32, device=DEVICE).model
    assert_acts_alike_on_the_cpu(model, tmp_path / "model.zip")
