"""Distillation: the loss is centered, the policy learns the planner's values, and errors name the culprit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch as th

from greendc.baselines import make_policy
from sb3_greendc.bc.distill import Distillation, distill, divergence_loss, regression_loss, resize
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.runs.divergence import DivergedError
from sb3_greendc.runs.models import load_model

NAN = float("nan")
PROBLEM = {"mask": "now_on_time", "skip_forced": True, "offered_load": 1.0}


@pytest.fixture(scope="module")
def data():
    return collect(["rollout"], "ResourcePool-10", 3000, env_kwargs=PROBLEM, labels=["advantages"], n_envs=12)


def test_the_loss_by_hand():
    logits = th.tensor([[1.0, 3.0, 100.0], [5.0, 7.0, 9.0]])
    targets = th.tensor([[10.0, 10.0, NAN], [0.0, 2.0, 4.0]])
    # Row 1: (-1, 1) against (0, 0); row 2: equal but for a constant. Five valid actions in all.
    assert regression_loss(logits, targets).item() == pytest.approx(2 / 5)
    assert regression_loss(logits + 7.0, targets).item() == pytest.approx(2 / 5)


def test_the_loss_ignores_logits_of_invalid_actions():
    logits = th.randn(6, 5, requires_grad=True)
    targets = th.randn(6, 5)
    targets[:, 3] = NAN
    regression_loss(logits, targets).backward()
    assert (logits.grad[:, 3] == 0).all()
    assert (logits.grad[:, :3] != 0).all()


def test_the_divergence_by_hand():
    logits = th.tensor([[0.0, 0.0, 100.0], [5.0, 5.0, 5.0]])
    targets = th.tensor([[np.log(3.0), 0.0, NAN], [7.0, 7.0, 7.0]])
    # Row 1: (3/4, 1/4) against (1/2, 1/2); row 2: the same.
    wanted = (0.75 * np.log(1.5) + 0.25 * np.log(0.5)) / 2
    assert divergence_loss(logits, targets).item() == pytest.approx(wanted)
    assert divergence_loss(targets.nan_to_num() + 3.0, targets).item() == pytest.approx(0.0, abs=1e-6)
    logits.requires_grad_()
    divergence_loss(logits, targets).backward()
    assert logits.grad[0, 2] == 0
    assert logits.grad[0, 0] < 0 < logits.grad[0, 1]


def test_divergence_trains_towards_the_planners_choice(data):
    kwargs = {"seed": 1, "loss": "divergence", "logit_scale": 30.0}  # a temperature of a thirtieth of a job
    short, trained = distill(data, n_epochs=1, **kwargs), distill(data, n_epochs=12, **kwargs)
    assert trained.history.iloc[-1]["train_loss"] < 0.95 * short.history.iloc[0]["train_loss"]
    advantages = data.labels["advantages"]
    careless = float((np.nanmax(advantages, axis=1) - np.nanmean(advantages, axis=1)).mean())
    assert trained.history.iloc[-1]["validation_regret"] < 0.6 * careless
    assert trained.record["loss"] == "divergence"
    with pytest.raises(ValueError, match=r"loss='regresion'.*'regression'"):
        Distillation(data, loss="regresion")


def test_it_learns_the_planners_values(data):
    short, trained = distill(data, n_epochs=1, seed=1), distill(data, n_epochs=12, seed=1)
    before, after = short.history.iloc[0], trained.history.iloc[-1]
    assert after["train_loss"] < 0.8 * before["train_loss"]
    advantages = data.labels["advantages"]
    # What an action drawn at random among the valid ones would give up.
    careless = float((np.nanmax(advantages, axis=1) - np.nanmean(advantages, axis=1)).mean())
    assert after["validation_regret"] < 0.6 * careless
    again = distill(data, n_epochs=1, seed=1)
    for name, weights in short.model.policy.state_dict().items():
        th.testing.assert_close(weights, again.model.policy.state_dict()[name], rtol=0, atol=0)


def test_the_logits_are_the_advantages_to_scale(data):
    few = data.select(np.arange(0, 3000, 3)[:256])
    clone = distill(few, n_epochs=300, batch_size=256, validation_fraction=0.0, logit_scale=2.0)
    rows = few.batch(np.arange(256), ["observations", "labels"])
    observations, _ = clone.model.policy.obs_to_tensor(rows["observations"])
    masks = rows["observations"]["action_mask"].astype(bool)
    with th.no_grad():
        logits = clone.model.policy.get_distribution(observations, masks).distribution.logits.numpy()
    wanted = 2.0 * rows["labels"]["advantages"]
    centered = logits - np.where(masks, logits, 0).sum(1, keepdims=True) / masks.sum(1, keepdims=True)
    error = (centered - wanted)[masks]
    assert error.std() < 0.5 * wanted[masks].std()


def test_saved_it_can_be_evaluated_and_go_on_training(data, tmp_path):
    clone = distill(data, n_epochs=1)
    path = clone.save(tmp_path, note="x")
    loaded = load_model(path)
    assert loaded.model.policy.observation_space == data.observation_space
    table = evaluate(
        {"distilled": str(path)}, "ResourcePool-10", 2, env_kwargs={**PROBLEM, "episode_steps": 50}
    )
    assert len(table) == 2
    env = make_vec_env("ResourcePool-10", 2, **PROBLEM)
    model = clone.attach(env, n_steps=8, batch_size=16, n_epochs=1)
    model.learn(16)
    assert model.num_timesteps == 16


def test_a_flat_policy_can_be_distilled_too(data):
    clone = distill(data, "mlp", n_epochs=1, policy_kwargs={"net_arch": [32]})
    assert clone.history["train_loss"].notna().all()


def test_bad_data_are_named(data):
    with pytest.raises(ValueError, match=r"no label 'advantages' \(labels: none\).*--label advantages"):
        Distillation(replace(data, labels={}))
    labels = data.labels["advantages"]
    with pytest.raises(ValueError, match=r"of shape \(3000, 5\); must be \(3000, 12\)"):
        Distillation(replace(data, labels={"advantages": labels[:, :5]}, check=False))
    broken = labels.copy()
    broken[7] = np.nan
    with pytest.raises(ValueError, match=r"in 1 of 3,000 rows, first in row 7"):
        Distillation(replace(data, labels={"advantages": broken}, check=False))

    text = np.full(labels.shape, "x")
    with pytest.raises(ValueError, match=r"labels\['advantages'\]: of <U1; must be numbers"):
        Distillation(replace(data, labels={"advantages": text}, check=False))
    with pytest.raises(TypeError, match=r"dataset: must be an OfflineDataset.*, not dict"):
        Distillation({"obs": labels})


def test_a_network_that_diverged_is_an_error(data):
    with pytest.raises(DivergedError, match="weights are not finite"):
        distill(data, "mlp", n_epochs=2, learning_rate=1e25)


@pytest.mark.parametrize(
    ("option", "value"),
    [("n_epochs", 0), ("n_epochs", 1.5), ("learning_rate", 0.0), ("logit_scale", 0.0), ("batch_size", 4000)],
)
def test_bad_options_are_named(data, option, value):
    with pytest.raises(ValueError, match=option):
        Distillation(data, **{option: value})


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_distilled_it_beats_every_heuristic(seed):
    loads = (0.8, 1.0)
    parts = {
        load: collect(
            ["rollout"],
            "ResourcePool-10",
            30_000,
            seed=100_000 + 1000 * seed,
            env_kwargs={**PROBLEM, "offered_load": load},
            labels=["advantages"],
            n_envs=64,
        )
        for load in loads
    }
    for load, part in parts.items():
        model = distill(part, seed=seed).model
        table = evaluate(
            {"deadline_never": "deadline_never", "distilled": model},
            "ResourcePool-10",
            256,
            env_kwargs={**PROBLEM, "offered_load": load},
        )
        scores = table.pivot(index="seed", columns="policy", values="total_job_value_ratio")
        gain = scores["distilled"] - scores["deadline_never"]
        assert gain.mean() > 2 * gain.sem()


def test_the_planner_is_there_by_name():
    env = make_vec_env("ResourcePool-10", 2)
    assert make_policy("rollout", env).advantages(env.reset()).shape == (2, 12)


def test_the_same_network_runs_on_a_larger_pool(data):
    few = data.select(np.arange(600))
    clone = distill(few, n_epochs=1, batch_size=256)
    before = {key: value.clone() for key, value in clone.model.policy.state_dict().items()}
    small = make_vec_env("ResourcePool-10", 1, **PROBLEM)
    large = make_vec_env("ResourcePool-50", 1, **PROBLEM, ready_pool_size=25)
    resized = resize(clone.model, large.observation_space, large.action_space)
    for key, weights in resized.policy.state_dict().items():
        th.testing.assert_close(weights, before[key], rtol=0, atol=0)
    table = evaluate({"large": resized}, "ResourcePool-50", 2, env_kwargs={**PROBLEM, "ready_pool_size": 25})
    assert table["total_job_value_ratio"].between(0, 1).all()  # it acts; it has hardly learned anything
    same = resize(clone.model, small.observation_space, small.action_space)
    observations, _ = same.policy.obs_to_tensor(few.batch(np.arange(64), ["observations"])["observations"])
    with th.no_grad():
        logits = [
            one.policy.get_distribution(observations).distribution.logits for one in (same, clone.model)
        ]
    th.testing.assert_close(*logits, rtol=0, atol=0)
    flat = distill(few, "mlp", n_epochs=1, batch_size=256)
    with pytest.raises(ValueError, match="cannot be resized"):
        resize(flat.model, large.observation_space, large.action_space)
