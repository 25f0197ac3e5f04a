"""The losses of a batch, recomputed from the networks row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch as th
from toy_data import parameters_of, same, toy_model

from sb3_greendc.crr.updates import ADVANTAGE_SCALE_RATE, moved_std


@pytest.mark.parametrize("target_actor", [True, False])
@pytest.mark.parametrize("combine", ["min", "mean"])
def test_the_target_asks_what_is_valid_in_the_next_state(combine, target_actor):
    model = toy_model("masked", combine=combine, target_actor=target_actor, gamma=0.9).learn(5)
    batch = model._next_batch()
    present, following = (obs["action_mask"] for obs in (batch.observations, batch.next_observations))
    assert (present != following).any(dim=1).sum() >= 5
    with th.no_grad():
        logits, q = model.policy.next_outputs(batch.next_observations)
    expected = []
    for i, valid in enumerate(following.bool()):
        valid = valid if valid.any() else th.ones_like(valid)
        pi = th.softmax(logits[i][valid], dim=0)
        pair = q[:, i, valid]
        value = pair.min(dim=0).values if combine == "min" else pair.mean(dim=0)
        expected.append(batch.rewards[i] + batch.discounts[i] * (pi * value).sum())
    th.testing.assert_close(model.losses(batch).target, th.stack(expected))
    assert sorted(set(batch.discounts.tolist())) == pytest.approx([0.0, 0.9])


def test_the_value_of_a_state_counts_its_own_valid_actions():
    model = toy_model("masked").learn(5)
    batch = model._next_batch()
    with th.no_grad():
        features = model.policy.encode(batch.observations)
        logits, q = model.policy.logits(features), model.policy.q_values(features).amin(dim=0)
    loss = model.losses(batch)
    for i, valid in enumerate(batch.observations["action_mask"].bool()):
        value = (th.softmax(logits[i][valid], dim=0) * q[i][valid]).sum()
        th.testing.assert_close(loss.advantage[i], q[i, batch.actions[i]] - value)


@pytest.mark.parametrize("action", ["discrete", "box"])
def test_losses_change_nothing(action):
    model = toy_model("dict", action, weight_mode="exp").learn(5)
    before, std = parameters_of(model), model.advantage_std.clone()
    assert std > 0.0
    batch = model._next_batch()
    first, second = model.losses(batch), model.losses(batch)
    assert same(before, parameters_of(model))
    assert model.advantage_std == std
    assert th.equal(first.actor, second.actor)
    assert first.advantage_std != std


def test_the_running_deviation_starts_at_the_first_batchs():
    advantage = th.tensor([1.0, 3.0])
    first = moved_std(th.tensor(float("nan")), advantage)
    assert first == 1.0
    assert moved_std(first, 5.0 * advantage) == pytest.approx(1.0 + ADVANTAGE_SCALE_RATE * 4.0)


def test_a_configuration_is_frozen_and_checked():
    config = toy_model().config
    with pytest.raises(AttributeError):
        config.tau = 0.5
    with pytest.raises(ValueError, match="tau=2"):
        replace(config, tau=2)


def test_options_that_change_between_calls_count_from_the_next(tmp_path):
    model = toy_model(tau=0.25).learn(1)
    model.tau = 1.0
    model.learn(1)
    state = model.policy.state_dict()
    targets = [name for name in state if "_target" in name]
    assert all(th.equal(state[name], state[name.replace("_target", "")]) for name in targets)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model", tau=0.5)
    assert (loaded.config.tau, loaded.config.beta) == (0.5, model.beta)
    with pytest.raises(ValueError, match="tau=-1"):
        type(model).load(tmp_path / "model", tau=-1)
