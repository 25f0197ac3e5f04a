"""Masks in recurrent PPO, without a cost: sb3-contrib's RecurrentPPO has none.

A cue is shown once, and has to be answered five steps later among twelve actions of which four are valid.
Prints the share of right answers of recurrent PPO with masks, of the same without memory, and by chance:
one in four. Two minutes.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env

from sb3_greendc import PIDLagrangianPPO, RecurrentPIDLagrangianPPO


class Cue(gym.Env[Any, Any]):
    """One of four cues, then waiting; the right of four random valid actions in the end pays 1."""

    def __init__(self, wait: int = 5) -> None:
        self.wait = wait
        shown = {"seen": spaces.Box(0, 1, (5,), np.float32), "action_mask": spaces.Box(0, 1, (12,), np.int8)}
        self.observation_space, self.action_space = spaces.Dict(shown), spaces.Discrete(12)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Draw a cue."""
        super().reset(seed=seed)
        self.cue, self.time = int(self.np_random.integers(4)), 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Wait, or answer."""
        assert self.mask[action], "an invalid action"
        self.time += 1
        answered = self.time > self.wait
        right = answered and int(action) % 4 == self.cue
        return self._observation(), float(right), answered, False, {}

    def _observation(self) -> dict[str, np.ndarray]:
        # Of the actions 0, 4 and 8, which answer cue 0, one is valid, and so on.
        self.mask = np.zeros(12, np.int8)
        self.mask[np.arange(4) + 4 * self.np_random.integers(3, size=4)] = 1
        seen = np.zeros(5, np.float32)
        seen[self.cue] = self.time == 0
        seen[4] = self.time == self.wait
        return {"seen": seen, "action_mask": self.mask}


def right_answers(model: Any, episodes: int) -> float:
    """Return the share of right answers."""
    env, right = Cue(), 0.0
    for seed in range(episodes):
        (seen, _), state, over = env.reset(seed=seed), None, False
        start = np.ones(1, np.bool_)
        while not over:
            action, state = model.predict(seen, state, start, deterministic=True)
            seen, reward, over, _, _ = env.step(action)
            right, start = right + reward, np.zeros(1, np.bool_)
    return right / episodes


def main(timesteps: int = 60_000, episodes: int = 200) -> None:
    """Train each for so many steps; ask so often."""
    sizes: dict[str, Any] = {
        "n_steps": 120,
        "batch_size": 240,
        "gamma": 0.9,
        "learning_rate": 1e-3,
        "seed": 0,
    }
    without = {"cost_limit": math.inf, "device": "cpu"}  # no limit: PPO with masks, and no cost is asked for
    env = make_vec_env(Cue, 8, seed=0)
    recurrent = RecurrentPIDLagrangianPPO("MultiInputLstmPolicy", env, **without, **sizes).learn(timesteps)
    print(f"recurrent:       {right_answers(recurrent, episodes):.2f}")
    forgetful = PIDLagrangianPPO("MultiInputPolicy", env, **without, **sizes).learn(timesteps)
    print(f"without memory:  {right_answers(forgetful, episodes):.2f}")


if __name__ == "__main__":
    main()
