"""Training ends at the known optimum: return, cost and multiplier, over the last third of the rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cmdp_envs import ContextCMDP, CueCMDP
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from sb3_greendc.pid_ppo import PIDLagrangianPPO
from sb3_greendc.pid_ppo.lagrangian import PIDLagrangian
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO

CONTEXT: dict[str, Any] = {
    "batch_size": 120,
    "n_epochs": 10,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "gae_lambda": 0.9,
    "policy_kwargs": {"net_arch": [16]},
}
CUE: dict[str, Any] = {"batch_size": 512, "n_epochs": 6, "learning_rate": 5e-3}
COCORL = {"lstm_hidden_size": 16, "features_extractor_kwargs": {"layers": (16, 16)}}


class Episodes(BaseCallback):
    """Return and cost of each episode, and the multiplier of each rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.episodes: list[np.ndarray] = []
        self.multipliers: list[float] = []

    def _on_training_start(self) -> None:
        self.sums = np.zeros((self.training_env.num_envs, 2))

    def _on_step(self) -> bool:
        self.sums += np.stack(
            [self.locals["rewards"], [info["cost"] for info in self.locals["infos"]]], axis=1
        )
        for index in np.flatnonzero(self.locals["dones"]):
            self.episodes.append(self.sums[index].copy())
            self.sums[index] = 0.0
        return True

    def _on_rollout_start(self) -> None:
        self.multipliers.append(self.model.lagrange_multiplier)


def last_third(model: PIDLagrangian, n_rollouts: int) -> tuple[float, float, float]:
    """Train, and return mean return, cost and multiplier of the last third."""
    seen = Episodes()
    model.learn(n_rollouts * model.n_steps * model.n_envs, callback=seen)
    mean_return, mean_cost = np.mean(seen.episodes[-len(seen.episodes) // 3 :], axis=0)
    return float(mean_return), float(mean_cost), float(np.mean(seen.multipliers[-n_rollouts // 3 :]))


def check_context(limit: float, n_envs: int, seed: int, n_rollouts: int = 60) -> None:
    env = make_vec_env(ContextCMDP, n_envs, seed=seed)
    model = PIDLagrangianPPO(
        "MlpPolicy", env, cost_limit=limit, n_steps=480 // n_envs, seed=seed, device="cpu", **CONTEXT
    )
    mean_return, mean_cost, multiplier = last_third(model, n_rollouts)
    best_return, best_multiplier = ContextCMDP.OPTIMA[limit]
    assert mean_cost == pytest.approx(limit, abs=1.0)
    assert mean_return >= 0.95 * best_return
    # Between the rewards of the context where the policy mixes and the next: .3 apart.
    assert multiplier == pytest.approx(best_multiplier, abs=0.2)


def check_cue(recurrent: bool, n_envs: int, seed: int, n_rollouts: int) -> None:
    env = make_vec_env(CueCMDP, n_envs, seed=seed)
    kwargs = {"cost_limit": 4.0, "n_steps": 512 // n_envs, "seed": seed, "device": "cpu", **CUE}
    model: PIDLagrangian = (
        RecurrentPIDLagrangianPPO("CocorlPolicy", env, policy_kwargs=COCORL, **kwargs)
        if recurrent
        else PIDLagrangianPPO("MlpPolicy", env, policy_kwargs={"net_arch": [16]}, **kwargs)
    )
    mean_return, mean_cost, _ = last_third(model, n_rollouts)
    assert mean_cost == pytest.approx(4.0, abs=0.4)
    assert mean_return >= 3.6 if recurrent else 2.3 <= mean_return <= 2.9


def test_context() -> None:
    check_context(15.0, 8, seed=0, n_rollouts=48)


def test_cue() -> None:
    check_cue(True, 8, seed=0, n_rollouts=30)


def test_limit_zero_drives_cost_to_its_minimum() -> None:
    env = make_vec_env(ContextCMDP, 8, seed=0)
    model = PIDLagrangianPPO("MlpPolicy", env, cost_limit=0.0, n_steps=60, seed=0, device="cpu", **CONTEXT)
    model.learn(480 * 12)
    assert model.logger.name_to_value["rollout/ep_cost_mean"] < 0.5  # it begins at 15


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n_envs", [1, 8])
@pytest.mark.parametrize("limit", [6.0, 15.0, 21.0])
def test_context_thoroughly(limit: float, n_envs: int, seed: int) -> None:
    check_context(limit, n_envs, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n_envs", [1, 8])
@pytest.mark.parametrize("recurrent", [True, False], ids=["recurrent", "feed-forward"])
def test_cue_thoroughly(recurrent: bool, n_envs: int, seed: int) -> None:
    check_cue(recurrent, n_envs, seed, n_rollouts=60)
