"""PIDLagrangianPPO outside datacenters: a limit on a cost, and the penalty in the reward that it replaces.

A walker crosses a small grid; wet cells are the shortest way, and each costs 1. A pole's cart is paid for
being on the right, and each step beyond 0.1 costs 1. A lander's fuel costs, or its way off the pad; lava costs
in place of ending the episode (packages `box2d` and `minigrid`). Prints reward and cost of an episode on the
grid: under a limit, and under fixed penalties, of which the right one has to be found. A minute.
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


class LunarLanderWithCost(gym.Wrapper[Any, Any, Any, Any]):
    """LunarLander with a cost: of the fuel, which is free in the reward then, or of being off the pad.

    ``"fuel"``: 1 each time the main engine fires, 0.1 for a side engine; ``"position"``: 1 for each step farther than
    0.2 to the left or right of the pad's middle (the picture's edge is at 1).
    """

    def __init__(self, cost: str = "fuel", penalty: float = 0.0) -> None:
        names = ("LunarLander-v3", "LunarLander-v2")
        super().__init__(gym.make(next(name for name in names if name in gym.registry)))
        self.cost, self.penalty = cost, penalty

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do the step, and pay for fuel or position."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        cost, reward = float(abs(observation[0]) > 0.2), float(reward)
        if self.cost == "fuel":
            cost = (0.0, 0.1, 1.0, 0.1)[int(action)]
            reward += 0.0 if terminated else 0.3 * cost  # the end pays +100 or -100, whatever was burnt
        return observation, reward - self.penalty * cost, terminated, truncated, {**info, "cost": cost}


class LavaWithCost(gym.Wrapper[Any, Any, Any, Any]):
    """MiniGrid's LavaGap whose lava costs 1 a step on it, and can be left again, in place of ending the episode.

    The observation is what the walker sees, 7 x 7 cells of object, color and state, and its direction, flat.
    """

    def __init__(self, size: int = 5, penalty: float = 0.0) -> None:
        import minigrid  # noqa: F401, it registers its environments

        super().__init__(gym.make(f"MiniGrid-LavaGapS{size}-v0"))
        self.penalty, self.action_space = penalty, spaces.Discrete(3)  # left, right, forward
        self.observation_space = spaces.Box(0, 1, (151,), np.float32)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Start in the upper left corner."""
        observation, info = self.env.reset(**kwargs)
        return self._flat(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do the step, and pay for standing in lava."""
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        here: Any = self.env.unwrapped
        cell = here.grid.get(*here.agent_pos)
        cost = float(cell is not None and cell.type == "lava")
        ends = terminated and not cost
        reward = float(reward) - self.penalty * cost
        return self._flat(observation), reward, ends, truncated, {**info, "cost": cost}

    def _flat(self, observation: Any) -> np.ndarray:
        seen, direction = observation["image"].ravel() / 10, np.eye(4)[observation["direction"]]
        return np.concatenate([seen, direction]).astype(np.float32)


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
