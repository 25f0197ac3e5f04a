"""Data sets whose best policies are known, and the exact values of policies on them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

STITCH_OBSERVATIONS = spaces.Box(0, 1, (3,), np.float32)
STITCH_ACTIONS = spaces.Discrete(3)
BANDIT_OBSERVATIONS = spaces.Box(0, 1, (1,), np.float32)
BANDIT_ACTIONS = spaces.Box(-1, 1, (1,), np.float32)

START, A, B, END = range(4)
NEXT_STATE = np.array([[A, B, END], [END, END, END], [END, END, END]])
REWARD = np.array([[0.0, 0.5, -7.0], [0.0, 2.0, -7.0], [0.2, 0.2, -7.0]]) - 3.0
"""Action 2 ends everything at -10, and is never in the data."""
BEST, BEST_IN_DATA = -4.0, -5.3


def stitch(n_episodes: int = 300, seed: int = 0) -> dict[str, Any]:
    """Return episodes of two habits: action 1 at the start; or action 0, then a coin at A.

    No habit is good. The best policy takes the first step of one, and the luckier second step.
    """
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, int]] = []
    for episode in range(n_episodes):
        first = int(rng.integers(2))
        second = A if first == 0 else B
        rows += [(episode, START, first), (episode, second, int(rng.integers(2)))]
    episodes, states, actions = (np.array(column) for column in zip(*rows, strict=True))
    following = NEXT_STATE[states, actions]
    eye = np.concatenate([np.eye(3, dtype=np.float32), np.zeros((1, 3), dtype=np.float32)])
    return {
        "obs": eye[states],
        "next_obs": eye[following],
        "actions": actions,
        "rewards": REWARD[states, actions].astype(np.float32),
        "terminated": following == END,
        "truncated": np.zeros(len(rows), dtype=bool),
        "episode_id": episodes,
    }


class StitchEnv(gym.Env[np.ndarray, int]):
    """The problem of :func:`stitch`, to be stepped."""

    observation_space = STITCH_OBSERVATIONS
    action_space = STITCH_ACTIONS

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.state = START
        return self._observation(), {}

    def step(self, action: int) -> Any:
        reward = REWARD[self.state, action]
        self.state = int(NEXT_STATE[self.state, action])
        return self._observation(), float(reward), self.state == END, False, {}

    def _observation(self) -> np.ndarray:
        return np.eye(4, 3, dtype=np.float32)[self.state]


def stitch_return(pi: np.ndarray) -> float:
    """Return the exact expected return of a policy ``(3, 3)``."""
    value = np.zeros(4)
    for state in (B, A, START):
        value[state] = pi[state] @ (REWARD[state] + value[NEXT_STATE[state]])
    return float(value[START])


def box_bandit(n: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Return actions around 0 of a one-step problem whose reward is ``1 - (a - 0.6)²``."""
    rng = np.random.default_rng(seed)
    actions = np.clip(rng.normal(0.0, 0.4, (n, 1)), -1, 1).astype(np.float32)
    ones = np.ones((n, 1), dtype=np.float32)
    return {
        "obs": ones,
        "next_obs": ones,
        "actions": actions,
        "rewards": (1.0 - (actions[:, 0] - 0.6) ** 2).astype(np.float32),
        "terminated": np.ones(n, dtype=bool),
        "truncated": np.zeros(n, dtype=bool),
        "episode_id": np.arange(n),
    }
