"""PIDLagrangianPPO outside datacenters: a limit on a cost, and the penalty in the reward that it replaces.

A walker crosses a small grid; wet cells are the shortest way, and each costs 1. A pole's cart is paid for
being on the right, and each step beyond 0.1 costs 1. Prints reward and cost of an episode on the grid: under
a limit, and under fixed penalties, of which the right one has to be found. A minute.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_greendc import PIDLagrangianPPO


class GridWithCost(gym.Env[Any, Any]):
    """From the left edge of the middle row to its right edge, -0.1 a step, 1 at the goal, 30 steps at most.

    Rows 1 to 3 of 5 are wet but for the ends: each step there costs 1, and the dry way takes four steps more.
    """

    def __init__(self, penalty: float = 0.0) -> None:
        self.penalty = penalty  # reward that a unit of cost takes away
        self.observation_space, self.action_space = spaces.Box(0, 1, (35,), np.float32), spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start in the middle of the left edge."""
        super().reset(seed=seed)
        self.place, self.time = np.array([2, 0]), 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go up, down, left or right; a tenth of the steps go anywhere."""
        direction = int(action) if self.np_random.random() > 0.1 else int(self.np_random.integers(4))
        self.place = np.clip(self.place + [(-1, 0), (1, 0), (0, -1), (0, 1)][direction], 0, (4, 6))
        self.time += 1
        goal = tuple(self.place) == (2, 6)
        cost = float(1 <= self.place[0] <= 3 and 1 <= self.place[1] <= 5)
        reward = goal - 0.1 - self.penalty * cost
        return self._observation(), reward, goal, self.time >= 30 and not goal, {"cost": cost}

    def _observation(self) -> np.ndarray:
        return np.eye(35, dtype=np.float32)[7 * self.place[0] + self.place[1]]


class CartPoleWithCost(gym.Wrapper[Any, Any, Any, Any]):
    """CartPole-v1 that pays for being on the right, up to 1 a step; each step beyond 0.1 costs 1."""

    def __init__(self, penalty: float = 0.0) -> None:
        super().__init__(gym.make("CartPole-v1", max_episode_steps=200))
        self.penalty = penalty

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do the step, and pay for the place."""
        observation, _, terminated, truncated, info = self.env.step(action)
        place = float(observation[0])
        cost = float(place > 0.1)
        reward = 0.5 + min(max(place, -0.5), 0.5) - self.penalty * cost
        return observation, reward, terminated, truncated, {**info, "cost": cost}


def play(model: Any, episodes: int) -> str:
    """Return mean reward and cost of episodes with drawn actions."""
    env, rewards, costs = GridWithCost(), 0.0, 0.0
    for seed in range(episodes):
        (seen, _), over = env.reset(seed=seed), False
        while not over:
            seen, reward, end, cut, info = env.step(model.predict(seen)[0])
            rewards, costs, over = rewards + reward, costs + info["cost"], end or cut
    return f"reward {rewards / episodes:6.2f}, cost {costs / episodes:5.2f}"


def main(timesteps: int = 40_000, episodes: int = 100, limit: float = 2.0) -> None:
    """Train each for so many steps; judge in so many episodes."""
    sizes: dict[str, Any] = {"n_steps": 256, "batch_size": 256, "learning_rate": 1e-3, "seed": 0}
    env = make_vec_env(GridWithCost, 8, seed=0)
    limited = PIDLagrangianPPO("MlpPolicy", env, cost_limit=limit, **sizes).learn(timesteps)
    print(f"limit {limit:4.1f}:    {play(limited, episodes)}, price found {limited.lagrange_multiplier:.2f}")
    for penalty in (0.0, 0.1, 1.0):
        env = make_vec_env(GridWithCost, 8, seed=0, env_kwargs={"penalty": penalty})
        print(f"penalty {penalty:4.1f}:  {play(PPO('MlpPolicy', env, **sizes).learn(timesteps), episodes)}")


if __name__ == "__main__":
    main()
