"""The losses against the shared reference vectors, and against loops written from the definitions."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch as th

from sb3_greendc.core.masking import masked_log_softmax
from sb3_greendc.discrete_sac import losses

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "vectors.json"

BATCH_KEYS = (
    "logits", "next_logits", "q1", "q2", "target_q1_next", "target_q2_next",
    "target_q1_cur", "target_q2_cur", "rewards", "dones", "discounts", "old_entropy",
)  # fmt: skip


@pytest.fixture(scope="module")
def vectors():
    return json.loads(VECTORS.read_text())["discrete_sac"]


def batch_of(inputs):
    batch = {key: th.tensor(inputs[key], dtype=th.float64) for key in BATCH_KEYS}
    batch["mask"] = th.tensor(inputs["mask"]).bool()
    batch["next_mask"] = th.tensor(inputs["next_mask"]).bool()
    batch["actions"] = th.tensor(inputs["actions"])
    return batch


def taken(b, *names):
    return th.stack([b[name].gather(1, b["actions"][:, None]).squeeze(1) for name in names])


def critics(b, *names):
    return th.stack([b[name] for name in names])


def actor_loss(logits, b, alpha, combine="min"):
    q = losses.combine_critics(critics(b, "q1", "q2"), combine)
    return losses.actor_loss(masked_log_softmax(logits, b["mask"]), q, alpha)


def target_of(b, alpha, combine="min", soft=True, masked=True):
    return losses.soft_target(
        b["rewards"], b["dones"], b["discounts"], b["next_logits"],
        critics(b, "target_q1_next", "target_q2_next"), b["next_mask"] if masked else None,
        alpha, combine, soft,
    )  # fmt: skip


def test_reference_vectors(vectors):
    b, want = batch_of(vectors["inputs"]), vectors["masked"]
    alpha, ratio = vectors["inputs"]["alpha"], vectors["inputs"]["target_entropy_ratio"]

    def same(value, name):
        np.testing.assert_allclose(value.detach().numpy(), want[name], rtol=1e-5, atol=1e-9, err_msg=name)

    log_pi = masked_log_softmax(b["logits"], b["mask"])
    entropy, n_valid = losses.policy_entropy(log_pi), losses.count_valid(b["mask"], b["logits"])
    same(log_pi.exp(), "probs")
    same(masked_log_softmax(b["next_logits"], b["next_mask"]).exp(), "next_probs")
    same(th.where(b["mask"], log_pi, 0.0), "log_probs_valid")
    same(entropy, "entropy")
    same(n_valid, "n_valid")
    same(ratio * n_valid.log(), "target_entropy_per_state")

    target = target_of(b, alpha)
    same(target, "target_min_soft")
    same(losses.critic_loss(taken(b, "q1", "q2"), target), "critic_loss_min_soft")

    logits = b["logits"].clone().requires_grad_()
    actor = actor_loss(logits, b, alpha)
    actor.backward()
    same(actor, "actor_loss_min")
    same(logits.grad, "dactor_dlogits_min")

    log_alpha = th.tensor(math.log(alpha), dtype=th.float64, requires_grad=True)
    loss = losses.temperature_loss(log_alpha, entropy, n_valid, ratio)
    loss.backward()
    same(loss, "alpha_loss")
    same(log_alpha.grad, "dalpha_loss_dlogalpha")


def random_batch(seed, n=6, n_actions=4):
    generator = np.random.default_rng(seed)
    inputs = {
        key: generator.normal(0, 2, (n, n_actions)) for key in BATCH_KEYS if "q" in key or "logits" in key
    }
    inputs["rewards"], inputs["discounts"] = generator.normal(size=n), generator.choice([0.9, 0.81], n)
    inputs["dones"], inputs["old_entropy"] = generator.integers(0, 2, n) * 1.0, generator.uniform(0, 1.4, n)
    for key in ("mask", "next_mask"):
        inputs[key] = generator.random((n, n_actions)) < 0.6
        inputs[key][np.arange(n), generator.integers(0, n_actions, n)] = True
    inputs["actions"] = [int(generator.choice(np.flatnonzero(row))) for row in inputs["mask"]]
    return inputs


def policy_by_hand(logits, mask):
    """Probabilities and entropy of one state."""
    weights = [math.exp(x) if ok else 0.0 for x, ok in zip(logits, mask, strict=True)]
    probabilities = [w / sum(weights) for w in weights]
    return probabilities, -sum(p * math.log(p) for p in probabilities if p > 0)


@pytest.mark.parametrize("seed", range(20))
def test_losses_equal_their_definitions(seed):
    x = random_batch(seed)
    b, n = batch_of(x), len(x["rewards"])
    alpha, beta, c, ratio = 0.2, 0.5, 0.5, 0.4
    for combine, together in (("min", min), ("mean", lambda u, v: (u + v) / 2)):
        for soft in (True, False):
            targets = []
            for i in range(n):
                p, h = policy_by_hand(x["next_logits"][i], x["next_mask"][i])
                q = [
                    together(u, v)
                    for u, v in zip(x["target_q1_next"][i], x["target_q2_next"][i], strict=True)
                ]
                value = sum(pa * qa for pa, qa in zip(p, q, strict=True)) + (alpha * h if soft else 0.0)
                targets.append(x["rewards"][i] + (1 - x["dones"][i]) * x["discounts"][i] * value)
            np.testing.assert_allclose(target_of(b, alpha, combine, soft), targets, rtol=1e-9)

        actor, penalty, surplus = [], [], []
        for i in range(n):
            p, h = policy_by_hand(x["logits"][i], x["mask"][i])
            q = [together(u, v) for u, v in zip(x["q1"][i], x["q2"][i], strict=True)]
            terms = [
                pa * (alpha * math.log(pa) - qa) if ok else 0.0
                for pa, qa, ok in zip(p, q, x["mask"][i], strict=True)
            ]
            actor.append(sum(terms))
            penalty.append(0.5 * beta * (x["old_entropy"][i] - h) ** 2)
            if sum(x["mask"][i]) >= 2:
                surplus.append(h - ratio * math.log(sum(x["mask"][i])))
        got = actor_loss(b["logits"], b, alpha, combine)
        np.testing.assert_allclose(got, np.mean(actor), rtol=1e-9)

    entropy = losses.policy_entropy(masked_log_softmax(b["logits"], b["mask"]))
    n_valid = losses.count_valid(b["mask"], b["logits"])
    np.testing.assert_allclose(
        losses.entropy_penalty_loss(entropy, b["old_entropy"], beta), np.mean(penalty), rtol=1e-9
    )
    np.testing.assert_allclose(
        losses.temperature_loss(th.tensor(-1.5, dtype=th.float64), entropy, n_valid, ratio),
        -1.5 * np.mean(surplus) if surplus else 0.0, rtol=1e-9,
    )  # fmt: skip

    q_taken, own = taken(b, "q1", "q2").numpy(), taken(b, "target_q1_cur", "target_q2_cur").numpy()
    y = target_of(b, alpha)
    error = q_taken - y.numpy()
    huber = np.where(np.abs(error) < 1, 0.5 * error**2, np.abs(error) - 0.5)
    clipped = np.maximum(error**2, (own + np.clip(q_taken - own, -c, c) - y.numpy()) ** 2)
    q_taken, own = th.tensor(q_taken), th.tensor(own)
    np.testing.assert_allclose(losses.critic_loss(q_taken, y), 0.5 * (error**2).mean(axis=1).sum(), rtol=1e-9)
    np.testing.assert_allclose(losses.critic_loss(q_taken, y, "huber"), huber.mean(axis=1).sum(), rtol=1e-9)
    np.testing.assert_allclose(
        losses.clipped_critic_loss(q_taken, own, y, c), 0.5 * clipped.mean(axis=1).sum(), rtol=1e-9
    )


def test_no_mask_is_a_mask_of_ones():
    b = batch_of(random_batch(0))
    b["next_mask"] = th.ones_like(b["next_mask"])
    assert th.equal(target_of(b, 0.2), target_of(b, 0.2, masked=False))


@pytest.mark.parametrize("soft", [True, False])
def test_invalid_actions_have_no_influence(soft):
    b = batch_of(random_batch(1))
    before = target_of(b, 0.2, soft=soft)
    for key in ("next_logits", "target_q1_next", "target_q2_next"):
        b[key] = th.where(b["next_mask"], b[key], 1e3)
    assert th.allclose(before, target_of(b, 0.2, soft=soft))


def test_terminal_state_without_valid_action_stays_finite():
    b = batch_of(random_batch(2))
    b["next_mask"][0], b["dones"][0] = False, 1.0
    logits = b["next_logits"].requires_grad_()
    target = target_of(b, 0.2)
    target.sum().backward()
    assert target[0].item() == pytest.approx(b["rewards"][0].item())
    assert th.isfinite(logits.grad).all()


def test_gradient_of_the_actor_is_zero_at_invalid_actions_and_finite():
    b = batch_of(random_batch(3))
    logits = b["logits"].requires_grad_()
    actor_loss(logits, b, 0.2).backward()
    assert th.isfinite(logits.grad).all()
    assert (logits.grad[~b["mask"]] == 0).all()


def test_q_values_are_constants_for_the_actor():
    b = batch_of(random_batch(4))
    q1 = b["q1"].requires_grad_()
    actor_loss(b["logits"].requires_grad_(), b, 0.2).backward()
    assert q1.grad is None


def test_states_without_choice_leave_the_temperature_alone():
    log_alpha = th.tensor(0.3, requires_grad=True)
    losses.temperature_loss(log_alpha, th.zeros(4), th.ones(4), 0.5).backward()
    assert float(log_alpha.grad) == 0.0


def test_unknown_names_are_errors():
    zeros = th.zeros(2, 3)
    with pytest.raises(ValueError, match="combine='max'"):
        losses.combine_critics(th.stack([zeros, zeros]), "max")
    with pytest.raises(ValueError, match="kind='l1'"):
        losses.critic_loss(zeros, zeros[0], "l1")
