"""Limits on carbon that no policy can keep are refused; of other environments nothing is known."""

from __future__ import annotations

import gymnasium as gym
import pytest

from sb3_greendc import PIDLagrangianPPO, RecurrentPIDLagrangianPPO, make_vec_env
from sb3_greendc.pid_ppo import reachable

ENV_ID = "ResourcePoolCarbon-10-v0"


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "EPISODES", 4)


@pytest.mark.parametrize("cost", ["carbon", "brown"])
@pytest.mark.parametrize("algorithm", [PIDLagrangianPPO, RecurrentPIDLagrangianPPO])
def test_a_limit_below_what_the_critical_load_costs_is_refused(algorithm, cost) -> None:
    env = make_vec_env(ENV_ID, 2, episode_steps=48, cost=cost)
    policy = "MultiInputPolicy" if algorithm is PIDLagrangianPPO else "MultiInputLstmPolicy"
    with pytest.raises(
        ValueError, match=r"cost_limit=0.01: must be at least .*, what the critical load alone"
    ):
        algorithm(policy, env, cost_limit=0.01, n_steps=16)
    model = algorithm(policy, env, cost_limit=500.0, n_steps=16)
    assert model.controller.cost_limit == 500.0


def test_it_is_refused_in_one_environment_and_at_loading_too(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"cost_limit=0.0: must be at least"):
        PIDLagrangianPPO("MultiInputPolicy", gym.make(ENV_ID, episode_steps=48), cost_limit=0.0)
    env = make_vec_env(ENV_ID, 2, episode_steps=48)
    PIDLagrangianPPO("MultiInputPolicy", env, cost_limit=500.0, n_steps=16).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"cost_limit=0.01: must be at least"):
        PIDLagrangianPPO.load(tmp_path / "model", env=env, cost_limit=0.01)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (ENV_ID, {"cost": "delayed"}),
        ("ResourcePoolGreen-10-v0", {"cost": "carbon"}),
        ("ResourcePool-10-v0", {}),
    ],
)
def test_of_other_costs_nothing_is_known(env_id, options) -> None:
    env = make_vec_env(env_id, 2, **options)
    PIDLagrangianPPO("MultiInputPolicy", env, cost_limit=0.0, n_steps=16)
    PIDLagrangianPPO("MultiInputPolicy", env, cost_limit=float("inf"), n_steps=16)
