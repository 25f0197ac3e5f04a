"""Advantage weights and state values: reference vectors, and what must hold beyond them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch as th

from sb3_greendc.core.masking import masked_log_softmax
from sb3_greendc.crr.losses import conservative_loss, weighted_regression_loss
from sb3_greendc.crr.weights import advantage_weights, draw_actions, state_value, value_of_samples
from sb3_greendc.discrete_sac.losses import combine_critics, critic_loss

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "vectors.json"


@pytest.fixture(scope="module")
def vectors():
    data = json.loads(VECTORS.read_text())["crr"]["discrete"]
    inputs = {name: th.tensor(value) for name, value in data["inputs"].items()}
    return inputs, data["outputs"]


def close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weight", ["binary", "exp", "bc"])
def test_reference_weights_and_losses(vectors, weight):
    given, expected = vectors
    mask, taken = given["mask"].bool(), given["actions"].unsqueeze(1)
    log_pi = masked_log_softmax(given["logits"], mask)
    log_prob = log_pi.gather(1, taken).squeeze(1)
    close(log_prob, expected["log_prob_taken"])
    q = combine_critics(th.stack([given["q1"], given["q2"]]), "min")
    advantage = q.gather(1, taken).squeeze(1) - state_value(q, log_pi, mask, "exact")
    close(advantage, expected["adv_min_exact"])
    weights = advantage_weights(advantage, weight, float(given["beta"]), float(given["max_weight"]))
    if weight != "bc":
        close(weights, expected[f"w_min_exact_{weight}"])
    close(weighted_regression_loss(log_prob, weights), expected[f"actor_loss_min_exact_{weight}"])


def test_reference_sampled_values(vectors):
    given, expected = vectors
    log_pi = masked_log_softmax(given["logits"], given["mask"])
    q, taken = th.minimum(given["q1"], given["q2"]), given["actions"].unsqueeze(1)
    value = value_of_samples(q.gather(1, given["sampled_actions"]), "sample")
    advantage = q.gather(1, taken).squeeze(1) - value
    close(advantage, expected["adv_min_sample"])
    weights = advantage_weights(advantage, "binary")
    close(weights, expected["w_min_sample_binary"])
    log_prob = log_pi.gather(1, taken).squeeze(1)
    close(weighted_regression_loss(log_prob, weights), expected["actor_loss_min_sample_binary"])


def test_reference_target_and_critic_loss(vectors):
    given, expected = vectors
    next_pi = masked_log_softmax(given["next_logits"], given["next_mask"]).exp()
    next_q = combine_critics(th.stack([given["target_q1_next"], given["target_q2_next"]]), "min")
    discounts = (1 - given["dones"]) * given["discounts"]
    target = given["rewards"] + discounts * (next_pi * next_q).sum(dim=1)
    close(target, expected["target_min"])
    taken = given["actions"].unsqueeze(1)
    q_taken = th.stack([given[name].gather(1, taken).squeeze(1) for name in ("q1", "q2")])
    close(critic_loss(q_taken, target), expected["critic_loss_min"])


def test_binary_is_strict_and_exp_is_bounded():
    advantage = th.tensor([-1.0, 0.0, 1e-6, 1e30])
    assert advantage_weights(advantage, "binary").tolist() == [0, 0, 1, 1]
    assert advantage_weights(advantage, "exp", beta=1e-3, max_weight=7.0)[3] == 7.0
    assert advantage_weights(advantage, "exp", beta=2.0)[0] == pytest.approx(np.exp(-0.5))
    assert advantage_weights(advantage, "bc").tolist() == [1, 1, 1, 1]


def test_weights_and_values_are_constants():
    q = th.randn(3, 4, requires_grad=True)
    log_pi = th.log_softmax(th.randn(3, 4, requires_grad=True), dim=1)
    value = state_value(q, log_pi)
    assert not value.requires_grad
    assert not advantage_weights(q[:, 0] - value, "exp").requires_grad


def test_unknown_modes_are_named():
    with pytest.raises(ValueError, match=r"mode='binray'.*'binary'"):
        advantage_weights(th.zeros(1), "binray")
    with pytest.raises(ValueError, match=r"mode='median'.*'exact'"):
        state_value(th.zeros(1, 2), th.zeros(1, 2), mode="median")


def test_values_never_ask_about_invalid_actions():
    generator = th.Generator().manual_seed(0)
    mask = th.rand(200, 6, generator=generator) < 0.5
    mask[:, 0] = True
    log_pi = masked_log_softmax(th.randn(200, 6, generator=generator), mask)
    q = th.where(mask, th.randn(200, 6, generator=generator), 1e6)
    q_nan = th.where(mask, q, float("nan"))
    for mode in ("exact", "mean", "sample", "max", "max_sample"):
        values = state_value(q, log_pi, mask, mode, k=8, generator=generator)
        assert values.abs().max() < 10, mode
    assert state_value(q_nan, log_pi, mask, "exact").isfinite().all()
    assert mask.gather(1, draw_actions(log_pi, 50, generator)).all()


def test_a_row_without_valid_actions_counts_as_all_valid():
    q, mask = th.tensor([[1.0, 3.0]]), th.zeros(1, 2)
    log_pi = masked_log_softmax(th.zeros(1, 2), mask)
    assert state_value(q, log_pi, mask, "exact").item() == pytest.approx(2.0)
    assert state_value(q, log_pi, mask, "max").item() == 3.0


def test_draws_follow_the_policy_and_their_generator():
    pi = th.tensor([[0.7, 0.2, 0.1, 0.0]])
    log_pi = pi.clamp(min=1e-45).log()
    drawn = draw_actions(log_pi, 20_000, th.Generator().manual_seed(1))
    shares = th.bincount(drawn[0], minlength=4) / 20_000
    assert shares[3] == 0
    th.testing.assert_close(shares, pi[0], atol=0.02, rtol=0)
    assert th.equal(drawn, draw_actions(log_pi, 20_000, th.Generator().manual_seed(1)))


def test_sampled_values_approach_the_exact_one():
    generator = th.Generator().manual_seed(2)
    q, log_pi = th.randn(5, 4, generator=generator), th.randn(5, 4, generator=generator).log_softmax(1)
    exact = state_value(q, log_pi)
    sampled = state_value(q, log_pi, None, "mean", 20_000, generator)
    th.testing.assert_close(sampled, exact, atol=0.05, rtol=0)
    greatest = state_value(q, log_pi, None, "max_sample", 20_000, generator)
    th.testing.assert_close(greatest, state_value(q, log_pi, None, "max"))


def test_regression_divides_by_the_batch_or_by_the_weights():
    log_prob, weights = th.tensor([-1.0, -2.0, -4.0]), th.tensor([0.0, 1.0, 3.0])
    assert weighted_regression_loss(log_prob, weights).item() == pytest.approx(14 / 3)
    assert weighted_regression_loss(log_prob, weights, self_normalize=True).item() == pytest.approx(14 / 4)
    assert weighted_regression_loss(log_prob, th.zeros(3), self_normalize=True).item() == 0


def test_the_conservative_penalty_lowers_what_the_data_lack():
    q = th.zeros(2, 1, 3, requires_grad=True)
    mask = th.tensor([[1, 1, 0]])
    conservative_loss(q, q[:, :, 0], mask).backward()
    assert q.grad[:, 0].tolist() == pytest.approx(np.array([[-0.5, 0.5, 0.0]] * 2))
