"""DiscreteSAC finds soft optima that are known exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from known_mdps import OneState, SoftMDP

from sb3_greendc.discrete_sac import DiscreteSAC

GAMMA, ALPHA = 0.9, 0.2
SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


def learned(model, observations):
    """Return Q (mean of the twins) and π at observations."""
    tensors, _ = model.policy.obs_to_tensor(observations)
    with th.no_grad():
        q = model.policy.q_values(model.policy.encode(tensors)).mean(dim=0)
        return q.numpy(), model.policy.action_log_probs(tensors).exp().numpy()


@pytest.mark.parametrize("n_padding", [37, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", SEEDS)
def test_soft_mdp(seed, n_padding):
    env = SoftMDP(n_padding)
    model = DiscreteSAC(
        "MultiInputPolicy", env, learning_rate=3e-3, learning_starts=500, batch_size=128, tau=0.04,
        gamma=GAMMA, train_freq=8, gradient_steps=4, ent_coef=ALPHA, soft_critic=True, seed=seed,
        device="cpu",
    )  # fmt: skip
    model.learn(3000)
    masks = np.zeros((3, env.action_space.n), dtype=np.int8)
    masks[:, :3] = env.valid
    q, pi = learned(model, {"state": np.eye(4, dtype=np.float32)[:3], "action_mask": masks})
    q_optimal, pi_optimal = SoftMDP.soft_optimum(GAMMA, ALPHA)
    assert np.abs(q[:, :3] - q_optimal)[env.valid].max() < 0.15
    assert np.abs(pi[:, :3] - pi_optimal).max() < 0.05
    assert (pi[masks == 0] == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_truncation_is_no_end(seed):
    model = DiscreteSAC(
        "MlpPolicy", OneState(), learning_rate=3e-3, batch_size=64, tau=0.1, gamma=0.9, train_freq=4,
        gradient_steps=4, ent_coef=0.5, learning_starts=100, soft_critic=True, seed=seed,
        device="cpu",
    )  # fmt: skip
    model.learn(1100)
    q, pi = learned(model, np.ones((1, 1), dtype=np.float32))
    # Q = 1 + γ (Q + α log 2)
    assert q == pytest.approx((1 + 0.9 * 0.5 * np.log(2)) / (1 - 0.9), abs=0.6)
    assert pi == pytest.approx(0.5, abs=0.05)
