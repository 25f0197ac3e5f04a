"""CRR finds optima that are known exactly, where cloning and a naive learner fail."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from offline_problems import (
    BANDIT_ACTIONS,
    BANDIT_OBSERVATIONS,
    BEST,
    BEST_IN_DATA,
    STITCH_ACTIONS,
    STITCH_OBSERVATIONS,
    StitchEnv,
    box_bandit,
    stitch,
    stitch_return,
)

from sb3_greendc.crr import CRR
from sb3_greendc.datasets import OfflineDataset, to_replay_buffer
from sb3_greendc.discrete_sac import DiscreteSAC

SEEDS = [0, 1, 2]
SETTINGS = {
    "learning_rate": 3e-3,
    "tau": 0.05,
    "batch_size": 128,
    "policy_kwargs": {"net_arch": [64, 64]},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def stitch_data():
    return OfflineDataset.from_dict(stitch(), STITCH_OBSERVATIONS, STITCH_ACTIONS)


@pytest.fixture(scope="module")
def bandit_data():
    return OfflineDataset.from_dict(box_bandit(), BANDIT_OBSERVATIONS, BANDIT_ACTIONS)


def value_of(model):
    """Return the exact return of the model's policy, and of its best actions."""
    observations, _ = model.policy.obs_to_tensor(np.eye(3, dtype=np.float32))
    with th.no_grad():
        pi = model.policy.action_log_probs(observations).exp().numpy()
    return stitch_return(pi), stitch_return(np.eye(3)[pi.argmax(axis=1)])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "options", [{}, {"weight_mode": "exp", "beta": 0.2, "normalize_adv": False}], ids=["binary", "exp"]
)
def test_stitch(stitch_data, seed, options):
    model = CRR("MlpPolicy", dataset=stitch_data, seed=seed, **SETTINGS, **options).learn(1000)
    drawn, greedy = value_of(model)
    assert drawn == pytest.approx(BEST, abs=0.1)
    assert greedy == pytest.approx(BEST)


@pytest.mark.parametrize("options", [{"weight_mode": "exp"}, {"preset": "rare"}, {"value_mode": "mean"}])
def test_stitch_by_the_best_action(stitch_data, options):
    settings = {key: value for key, value in SETTINGS.items() if key != "tau" or "preset" not in options}
    model = CRR("MlpPolicy", dataset=stitch_data, seed=0, **settings, **options).learn(1000)
    drawn, greedy = value_of(model)
    assert drawn > -4.35
    assert greedy == pytest.approx(BEST)


@pytest.mark.parametrize("seed", SEEDS)
def test_cloning_the_stitch_data_is_no_better_than_them(stitch_data, seed):
    model = CRR("MlpPolicy", dataset=stitch_data, seed=seed, weight_mode="bc", **SETTINGS).learn(400)
    drawn, _ = value_of(model)
    # Half the episodes go through A, with a coin there (-5.0), the others through B.
    assert drawn == pytest.approx((BEST_IN_DATA - 5.0) / 2, abs=0.1)


@pytest.fixture(scope="module", params=[1.0, -1.0], ids=["rewards", "costs"])
def expert_data(request):
    """Return data of a policy that never fails: it pushes a point on a line towards its middle, endlessly."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    arrays = {
        "obs": place,
        "next_obs": (0.9 * place).astype(np.float32),
        "actions": (place[:, 0] < 0).astype(np.int64),
        "rewards": np.full(2000, request.param, np.float32),
        "terminated": np.zeros(2000, dtype=bool),
        "truncated": np.arange(2000) % 50 == 49,
    }
    return OfflineDataset.from_dict(arrays, spaces.Box(-1, 1, (1,)), spaces.Discrete(2))


def agreement(model, data):
    actions, _ = model.predict(data.observations, deterministic=True)
    return np.mean(actions == data.actions)


@pytest.mark.parametrize("mode", ["binary", "exp"])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_a_penalty_an_expert_who_never_fails_is_imitated(expert_data, seed, mode):
    options = {**SETTINGS, "weight_mode": mode, "cql_alpha": 0.1}
    model = CRR("MlpPolicy", dataset=expert_data, seed=seed, **options).learn(300)
    assert agreement(model, expert_data) > 0.97


@pytest.mark.parametrize("seed", SEEDS)
def test_a_naive_learner_falls_for_the_action_that_the_data_lack(stitch_data, seed):
    naive = DiscreteSAC(
        "MlpPolicy", StitchEnv(), learning_rate=3e-3, tau=0.05, batch_size=128, buffer_size=len(stitch_data),
        ent_coef=0.01, soft_critic=False, seed=seed, device="cpu", reward_scale=0.5,
    )  # fmt: skip
    naive.replay_buffer = to_replay_buffer(stitch_data)
    naive._setup_learn(1)
    naive.train(1000, 128)
    assert value_of(naive)[1] == pytest.approx(-10.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("options", "steps"),
    [({}, 400), ({"weight_mode": "exp", "beta": 0.1, "normalize_adv": False}, 400)],
    ids=["binary", "exp"],
)
def test_box_bandit(bandit_data, seed, options, steps):
    model = CRR("MlpPolicy", dataset=bandit_data, seed=seed, **SETTINGS, **options).learn(steps)
    action, _ = model.predict(np.ones((1, 1), np.float32), deterministic=True)
    assert 1 - (action.item() - 0.6) ** 2 >= 0.93


@pytest.mark.parametrize("seed", SEEDS)
def test_cloning_the_bandit_stays_at_the_mean_of_the_data(bandit_data, seed):
    model = CRR("MlpPolicy", dataset=bandit_data, seed=seed, weight_mode="bc", **SETTINGS).learn(300)
    action, _ = model.predict(np.ones((1, 1), np.float32), deterministic=True)
    assert 1 - (action.item() - 0.6) ** 2 == pytest.approx(0.63, abs=0.06)
