"""Small problems whose soft-optimal solutions are known."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class SoftMDP(gym.Env):
    """Three states and a terminal one, 20 steps; action 2 is invalid in state 1, padding actions always."""

    next_state = np.array([[0, 1, 2], [0, 2, 3], [1, 3, 2]])
    reward = np.array([[0.0, 0.1, -0.2], [0.0, 0.5, 5.0], [0.0, 2.0, 0.3]])
    valid = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1]], dtype=bool)

    def __init__(self, n_padding: int = 0) -> None:
        n = 3 + n_padding
        self.action_space = spaces.Discrete(n)
        self.observation_space = spaces.Dict(
            state=spaces.Box(0, 1, (4,), np.float32), action_mask=spaces.Box(0, 1, (n,), np.int8)
        )

    def _observation(self):
        mask = np.zeros(self.action_space.n, dtype=np.int8)
        if self.state < 3:
            mask[:3] = self.valid[self.state]
        return {"state": np.eye(4, dtype=np.float32)[self.state], "action_mask": mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.t = int(self.np_random.integers(3)), 0
        return self._observation(), {}

    def step(self, action):
        assert self.valid[self.state][action], "an invalid action was taken"
        reward = float(self.reward[self.state, action])
        self.state, self.t = int(self.next_state[self.state, action]), self.t + 1
        return self._observation(), reward, self.state == 3, self.t >= 20, {}

    @classmethod
    def soft_optimum(cls, gamma: float, alpha: float):
        """Return Q ``(3, 3)`` and π ``(3, 3)`` by soft value iteration."""
        q = np.zeros((3, 3))
        for _ in range(2000):
            scaled = np.where(cls.valid, q / alpha, -np.inf)
            top = scaled.max(axis=1)
            values = np.append(alpha * (top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))), 0.0)
            q = cls.reward + gamma * values[cls.next_state]
        weights = np.where(cls.valid, np.exp((q - q.max(axis=1, keepdims=True)) / alpha), 0.0)
        return q, weights / weights.sum(axis=1, keepdims=True)


class OneState(gym.Env):
    """One state, two actions alike, reward 1, cut after five steps: the value of going on for ever."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.ones(1, dtype=np.float32), {}

    def step(self, action):
        self.t += 1
        return np.ones(1, dtype=np.float32), 1.0, False, self.t >= 5, {}
