"""Costs: checks, sums over episodes, advantages, and the six-value step."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from cmdp_envs import ContextCMDP, ScriptedEnv

from sb3_greendc.core.costs import EpisodeCosts, cost_of, costs_of
from sb3_greendc.core.safety_gymnasium import SafetyGymnasiumStep
from sb3_greendc.pid_ppo import combine_advantages, cost_gae
from sb3_greendc.pid_ppo.advantages import COST_STD_FLOOR

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "vectors.json"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reference_advantages(dtype: type[np.floating[Any]]) -> None:
    vectors = json.loads(VECTORS.read_text())["cost_gae"]
    given = {name: np.array(value, dtype=dtype) for name, value in vectors["inputs"].items()}
    dones = given["dones"] > 0
    for expected in vectors["outputs"].values():
        gamma, gae_lambda = expected["gamma"], expected["lam"]
        results = {}
        for kind, prefix in (("costs", "cost_"), ("rewards", "")):
            bootstrap = gamma * given[f"terminal_{prefix}values"] * given["timeouts"]
            results[prefix] = cost_gae(
                given[kind] + bootstrap,
                given[f"{prefix}values"],
                given[f"last_{prefix}values"],
                dones,
                gamma,
                gae_lambda,
            )
            assert results[prefix][0] == pytest.approx(np.array(expected[f"{prefix}advantages"]), rel=1e-5)
            assert results[prefix][1] == pytest.approx(np.array(expected[f"{prefix}returns"]), rel=1e-5)
        for multiplier in (0.0, 0.6, 5.0):
            combined = combine_advantages(results[""][0], results["cost_"][0], multiplier, "combined")
            names = {
                "combined": combined,
                "combined_normalized": (combined - combined.mean()) / (combined.std(ddof=1) + 1e-8),
                "combined_separate": combine_advantages(
                    results[""][0], results["cost_"][0], multiplier, "separate"
                ),
                "combined_center": combine_advantages(
                    results[""][0], results["cost_"][0], multiplier, "center"
                ),
            }
            for name, result in names.items():
                target = np.array(expected[f"{name}_lam{multiplier}"])
                assert result == pytest.approx(target, rel=1e-5, abs=1e-5), (name, multiplier)


def test_reference_episode_costs() -> None:
    vectors = json.loads(VECTORS.read_text())["cost_gae"]
    episodes = EpisodeCosts()
    episodes.restart(2)
    episodes.add(np.array(vectors["episode_costs"]["carry_in"]), np.zeros(2, bool))  # an earlier rollout
    for costs, dones in zip(vectors["inputs"]["costs"], vectors["inputs"]["dones"], strict=True):
        episodes.add(np.array(costs), np.array(dones, dtype=bool))
    assert episodes.finished == [cost for *_, cost in vectors["episode_costs"]["finished_t_env_cost"]]
    assert episodes.running.tolist() == vectors["episode_costs"]["carry_out"]
    assert episodes.take_mean() == vectors["episode_costs"]["J_C"]


def test_advantages_by_hand() -> None:
    # Environment 0: two steps of one episode; environment 1: an episode ends at each step.
    costs, values = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5, 0.5], [1.0, 1.0]])
    dones = np.array([[False, True], [False, True]])
    advantages, returns = cost_gae(costs, values, np.array([2.0, 99.0]), dones, 0.5, 0.5)
    last = 3.0 + 0.5 * 2.0 - 1.0
    first = 1.0 + 0.5 * 1.0 - 0.5 + 0.25 * last
    assert advantages.tolist() == [[first, 1.5], [last, 3.0]]
    assert returns.tolist() == [[first + 0.5, 2.0], [last + 1.0, 4.0]]


def test_advantages_by_hand_with_decisions_of_any_length() -> None:
    costs, values = np.array([[1.0], [3.0]]), np.array([[0.5], [1.0]])
    steps = np.array([[0.0], [2.0]])
    advantages, _ = cost_gae(costs, values, np.array([2.0]), np.zeros((2, 1), bool), 0.5, 0.5, steps)
    last = 3.0 + 0.25 * 2.0 - 1.0  # two steps: 0.5 squared
    first = 1.0 + 1.0 * 1.0 - 0.5 + 1.0 * last  # no time passes: neither gamma nor lambda
    assert advantages.tolist() == [[first], [last]]


def test_safe_policy_is_not_blown_up() -> None:
    rng = np.random.default_rng(0)
    noise = 1e-6 * rng.standard_normal(1000)
    combined = combine_advantages(np.zeros(1000), noise, 1.0, "separate")
    assert np.abs(combined).max() < 1e-5 / COST_STD_FLOOR
    with pytest.raises(ValueError, match="did you mean 'separate'"):
        combine_advantages(noise, noise, 1.0, "seperate")


def test_take_mean_waits_for_enough_episodes() -> None:
    episodes = EpisodeCosts()
    assert episodes.take_mean() is None
    episodes.restart(2)
    episodes.add(np.array([1.0, 2.0]), np.array([True, False]))
    assert episodes.take_mean(min_episodes=2) is None
    episodes.add(np.array([5.0, 2.0]), np.array([True, True]))
    assert episodes.take_mean(min_episodes=2) == pytest.approx((1.0 + 5.0 + 4.0) / 3)
    assert episodes.take_mean(min_episodes=2) is None


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf, "much", None, [1.0, 2.0]])
def test_bad_costs(cost: Any) -> None:
    with pytest.raises(ValueError, match="cost"):
        costs_of([{"cost": 1.0}, {"cost": cost}])


def test_missing_cost_is_never_zero() -> None:
    with pytest.raises(KeyError, match=r"environment 1 reports no info\['cost'\]"):
        costs_of([{"cost": 1.0}, {"costs": 1.0}])
    with pytest.raises(KeyError):
        cost_of({})
    assert cost_of({"cost": np.float32(0.5)}) == 0.5


def test_six_value_step() -> None:
    env = SafetyGymnasiumStep(ScriptedEnv(length=2, base=1.5))
    env.reset(seed=0)
    observation, reward, cost, terminated, truncated, info = env.step(0)
    assert env.observation_space.contains(observation)
    assert (reward, cost, terminated, truncated) == (1.0, 1.5, False, False)
    assert info["cost"] == 1.5
    assert env.step(0)[2:5] == (2.5, True, False)

    class NoCost(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            return *self.env.step(action)[:4], {}

    silent = SafetyGymnasiumStep(NoCost(ContextCMDP()))
    silent.reset(seed=0)
    with pytest.raises(KeyError, match="cost"):
        silent.step(0)
