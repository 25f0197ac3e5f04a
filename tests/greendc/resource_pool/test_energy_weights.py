"""Each weight of the reward charges what it is named after."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import greendc  # noqa: F401
from greendc.resource_pool.presets import CARBON


def total(**weights: float) -> tuple[float, dict[str, float]]:
    site = {**CARBON["site"], "battery": {"energy_kwh": 0.0}}
    options = {"episode_steps": 48, "carbon": 0.3, "site": site, "cost": "delayed"}
    env = gym.make("ResourcePoolCarbon-10-v0", reward={"on_time": 1.0, **weights}, **options)
    observation, _ = env.reset(seed=0)
    rng, reward, done, info = np.random.default_rng(0), 0.0, False, {}
    while not done:
        action = int(rng.choice(np.flatnonzero(observation["action_mask"])))
        observation, gained, _, done, info = env.step(action)
        reward += gained
    return reward, info["episode_metrics"]


def test_carbon_is_charged_by_the_kilogram_and_brown_energy_by_the_kilowatt_hour():
    free, metrics = total()
    by_carbon, by_brown = free - total(carbon=0.01)[0], free - total(brown=0.01)[0]
    assert metrics["brown_kwh"] > 0
    assert by_carbon > 0
    assert by_carbon / by_brown == pytest.approx(0.3, rel=1e-6)
    assert metrics["carbon_kg"] / metrics["brown_kwh"] == pytest.approx(0.3, rel=1e-6)
