"""Planners in job shops: how well they do, and data of what they did and thought."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd

from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.datasets.episodes import join_episodes
from sb3_greendc.experiments.known.plans import OR_TOOLS, PLANNERS, Shop, think
from sb3_greendc.experiments.known.problems import register
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task

PLANNING_SEED = 1_000_000
"""Seed of the first recorded instance: no training, test or other recording draws it."""

DATA_FILE = "data.npz"

DEFAULT_SIZE = {"jobs": 10, "machines": 5}
"""Of ``examples/job_shop.py``'s environment; here, too, so that work is estimated without its package."""

OF_WAIT = 0.3
"""Of a plan's length, what a unit of waiting costs in the data. Found on generated instances: without it
distillation learns that many operations can come first, and not which of them does."""


@dataclass(frozen=True)
class Planned(Task):
    """A planner in a job shop: its episodes, and as a file what it did and thought in each state.

    :param scenario: the shop
    :param planner: one of :data:`~sb3_greendc.experiments.known.plans.PLANNERS`
    :param episodes: number of episodes
    :param first: seed of the first one
    """

    scenario: Scenario
    planner: str
    episodes: int
    first: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.planner} {self.scenario.env_id} from {self.first}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        size = operations(self.scenario) / 50
        searching = 12.0 if self.planner == OR_TOOLS and size > 1 else 0.1  # small plans are proved at once
        return 2.0 + self.episodes * (searching + 0.011 * size**3)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        register()
        env = gym.make(self.scenario.env_id, **self.scenario.env_kwargs)
        played = [plan_episode(env, self.planner, self.first + k) for k in range(self.episodes)]
        returns = [float(episode.rewards.sum()) for episode in played]
        rows = pd.DataFrame({"policy": self.planner, "episode": range(len(returns)), "return": returns})
        data = joined(env, played, self.planner)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / DATA_FILE
            data.save(path)
            return Outcome({"episodes": rows}, {DATA_FILE: path.read_bytes()})


def operations(scenario: Scenario) -> int:
    """Return how many operations an instance of a job shop has: the steps of an episode."""
    jobs, machines = (int(scenario.env_kwargs.get(name, own)) for name, own in DEFAULT_SIZE.items())
    return jobs * machines


@dataclass(frozen=True)
class PlannedEpisode:
    """An episode of a planner.

    :param observations: ``(T + 1, ...)`` by key
    :param actions: ``(T,)``
    :param rewards: ``(T,)``
    :param advantages: ``(T, jobs)``, NaN for finished jobs
    """

    observations: dict[str, np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray
    advantages: np.ndarray


def plan_episode(env: gym.Env[Any, Any], planner: str, seed: int) -> PlannedEpisode:
    """Play an episode as a planner does.

    :param env: a job shop
    :param planner: its name
    :param seed: of the episode
    """
    shop_env: Any = env.unwrapped
    observation, _ = env.reset(seed=seed)
    mind = PLANNERS[planner](Shop.of(shop_env))
    observations, actions, rewards, advantages = [observation], [], [], []
    over = False
    while not over:
        thought = think(mind, Shop.of(shop_env))
        observation, reward, over, _, _ = env.step(thought.best)
        mind.did(thought.best)
        observations.append(observation)
        actions.append(thought.best)
        rewards.append(float(reward))
        advantages.append(thought.advantages(OF_WAIT))
    return PlannedEpisode(
        {key: np.stack([one[key] for one in observations]) for key in observation},
        np.array(actions),
        np.array(rewards),
        np.array(advantages, np.float32),
    )


def joined(env: gym.Env[Any, Any], played: Sequence[PlannedEpisode], planner: str) -> OfflineDataset:
    """Return a planner's episodes as data with the label ``advantages``.

    :param env: a job shop
    :param played: the episodes
    :param planner: its name
    """
    lasts = [np.arange(len(one.actions)) == len(one.actions) - 1 for one in played]
    columns = {
        "actions": [one.actions for one in played],
        "rewards": [one.rewards for one in played],
        "terminated": lasts,
        "truncated": [np.zeros_like(last) for last in lasts],
    }
    return OfflineDataset.from_dict(
        join_episodes([one.observations for one in played], columns),
        env.observation_space,
        env.action_space,
        [planner],
        {"advantages": np.concatenate([one.advantages for one in played])},
    )


def data_of(files: Files) -> OfflineDataset:
    """Return the data of a finished :class:`Planned`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / DATA_FILE
        path.write_bytes(files[DATA_FILE])
        return OfflineDataset.load(path)
