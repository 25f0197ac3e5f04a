"""A limit on a cost elsewhere: MiniGrid's lava, and the fuel or the position of LunarLander.

Trains PIDLagrangianPPO to cross a room with lava, at most 0.2 steps in it an episode, and PPO without limit.
Prints reward and cost of an episode of each. Two minutes; with `LunarLanderWithCost()` in place of the room,
half an hour. Needs `pip install "sb3-greendc[learners]"`.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_greendc import PIDLagrangianPPO


class LunarLanderWithCost(gym.Wrapper[Any, Any, Any, Any]):
    """LunarLander with a cost: of fuel, which is free in the reward then, or of being off the pad.

    ``"fuel"``: 1 each time the main engine fires, 0.1 for a side engine; ``"position"``: 1 for each step more
    than 0.2 to the left or right of the pad's middle (the picture's edge is at 1).
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
    """MiniGrid's LavaGap, whose lava costs 1 a step in it and can be left again, but ends no episode.

    The observation is what the walker sees, 7 x 7 cells of three numbers, and its direction, flat.
    """

    def __init__(self, size: int = 5, penalty: float = 0.0) -> None:
        __import__("minigrid")  # it registers its environments
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
        cost, ends = (1.0, False) if cell is not None and cell.type == "lava" else (0.0, terminated)
        reward = float(reward) - self.penalty * cost
        return self._flat(observation), reward, ends, truncated, {**info, "cost": cost}

    def _flat(self, observation: Any) -> np.ndarray:
        seen, direction = observation["image"].ravel() / 10, np.eye(4)[observation["direction"]]
        return np.concatenate([seen, direction]).astype(np.float32)


def main(timesteps: int = 80_000, episodes: int = 100, limit: float = 0.2) -> None:
    """Train each for so many steps; judge in so many episodes, with drawn actions."""
    room: dict[str, Any] = {"policy": "MlpPolicy", "env": make_vec_env(LavaWithCost, 8, seed=0)}
    room |= {"n_steps": 256, "batch_size": 256, "learning_rate": 1e-3, "seed": 0}
    for model in (PIDLagrangianPPO(**room, cost_limit=limit), PPO(**room)):
        model.learn(timesteps)
        env, rewards, costs = LavaWithCost(), 0.0, 0.0
        for seed in range(episodes):
            (seen, _), over = env.reset(seed=seed), False
            while not over:
                seen, reward, end, cut, info = env.step(model.predict(seen)[0])
                rewards, costs, over = rewards + reward, costs + info["cost"], end or cut
        print(f"{type(model).__name__:17s} reward {rewards / episodes:5.2f}, cost {costs / episodes:5.2f}")


if __name__ == "__main__":
    main()
