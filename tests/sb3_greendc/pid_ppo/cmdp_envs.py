"""Small constrained problems whose optimum is known, and settings that reach it quickly."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class ContextCMDP(gym.Env):
    """One of three contexts per step, drawn independently; action 1 earns .3, .6 or .9 and costs 1.

    Thirty steps, then ``terminated``. Each context comes ten times on average, so the best policy under a
    limit ``d`` takes the dearest ones first: d=15 earns 12.0 at a multiplier of .6, d=21 15.3 at .3, d=6 5.4
    at .9.
    """

    OPTIMA = {6.0: (5.4, 0.9), 15.0: (12.0, 0.6), 21.0: (15.3, 0.3)}  # noqa: RUF012
    """Limit: (return, multiplier)."""

    def __init__(self, n_steps: int = 30) -> None:
        self.n_steps = n_steps
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _observe(self) -> np.ndarray:
        self.context = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self.context]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(action) * (0.3, 0.6, 0.9)[self.context]
        self.t += 1
        return self._observe(), reward, self.t == self.n_steps, False, {"cost": float(action)}


class CueCMDP(gym.Env):
    """A cue, + or -, is shown at the first of eight steps; action 1 earns 1 after +, .2 after -, and costs 1.

    Under a limit of 4 a policy with memory acts only after +: 4.0. Without memory it acts half the time:
    about 2.6, the start included. Ends ``terminated``.
    """

    N_STEPS = 8

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _observe(self) -> np.ndarray:
        return np.array([self.cue if self.t == 0 else 0.0, self.t / self.N_STEPS], dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        self.cue = float(self.np_random.choice((-1.0, 1.0)))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(action) * (1.0 if self.cue > 0 else 0.2)
        self.t += 1
        return self._observe(), reward, self.t == self.N_STEPS, False, {"cost": float(action)}
