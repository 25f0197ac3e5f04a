"""Discrete CRR from a Minari data set that this project did not write.

A weak and a good controller of CartPole, and chance, go into a data set by Minari's own functions; CRR learns
from that alone. Prints the mean return of the data, and those of CRR and of behavioral cloning. A minute.
Needs `pip install "sb3-greendc[minari]"`.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any

import gymnasium as gym
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from sb3_greendc import CRR
from sb3_greendc.datasets import from_minari

WEAK, GOOD = np.array([1.0, 0.3, 1.0, 0.6]), np.array([0.1, 0.3, 1.0, 0.6])


def record(episodes: int) -> minari.MinariDataset:
    """Record so many episodes of each controller, and as many of chance."""
    env, buffers = gym.make("CartPole-v1"), []
    for k in range(3 * episodes):
        seen, _ = env.reset(seed=k)
        steps: dict[str, list[Any]] = {
            name: [] for name in ("actions", "rewards", "terminations", "truncations")
        }
        observations, over = [seen], False
        while not over:
            controls = (WEAK, GOOD, None)[k % 3]
            action = int(env.np_random.integers(2)) if controls is None else int(controls @ seen > 0)
            seen, reward, end, cut, _ = env.step(action)
            for values, value in zip(steps.values(), (action, reward, end, cut), strict=True):
                values.append(value)
            observations.append(seen)
            over = end or cut
        arrays = {name: np.array(values) for name, values in steps.items()}
        buffers.append(EpisodeBuffer(observations=np.array(observations), **arrays))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of author, code and other fields that are left open here
        return minari.create_dataset_from_buffers("cartpole/mixed-v0", buffers, env=env)


def main(episodes: int = 30, updates: int = 5_000, tests: int = 20) -> None:
    """Record so many episodes of each, learn with so many updates, judge in so many episodes."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        data = from_minari(record(episodes))
    returns = np.bincount(data.episode_id, weights=data.rewards)
    print(f"data: {len(data):,} transitions, mean return {returns.mean():.1f}")
    env = Monitor(gym.make("CartPole-v1"))
    for name, mode in (("CRR", "binary"), ("cloning", "bc")):
        model = CRR("MlpPolicy", dataset=data, weight_mode=mode, seed=0, device="cpu").learn(updates)
        env.reset(seed=1_000)
        mean, _ = evaluate_policy(model, env, n_eval_episodes=tests)
        print(f"{name}: mean return {mean:.1f}")


if __name__ == "__main__":
    main()
