"""A limit on cost where others have published figures: Safety-Gymnasium's SafetyPointGoal1.

A point drives to goals among hazards, whose touch costs; a limit of 25 an episode is customary. omnisafe
prints 8.43 of reward at a cost of 25.7 for its CPPO-PID, after 10 million steps. It needs Python
3.10 and an environment of its own: `pip install sb3-greendc "gymnasium<1" "mujoco<3" gymnasium-robotics
pygame xmltodict imageio`, then `pip install --no-deps safety-gymnasium pettingzoo`. Prints reward and cost
under the limit, without one, and by chance. The default million steps takes thirty minutes for each of both.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import safety_gymnasium
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc import PIDLagrangianPPO


class SafetyGoal(gym.Env[Any, Any]):
    """SafetyPointGoal1-v0 with its cost in ``info["cost"]``: 1,000 steps an episode."""

    def __init__(self) -> None:
        self.world: Any = safety_gymnasium.make("SafetyPointGoal1-v0")
        self.observation_space = spaces.Box(-np.inf, np.inf, self.world.observation_space.shape, np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, self.world.action_space.shape, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Place point, goal and hazards anew."""
        observation, info = self.world.reset(seed=seed)
        return observation.astype(np.float32), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Drive."""
        observation, reward, cost, terminated, truncated, info = self.world.step(action)
        info = {**info, "cost": float(cost)}
        return observation.astype(np.float32), float(reward), bool(terminated), bool(truncated), info


def play(model: Any, normalizer: Any, episodes: int) -> str:
    """Return mean reward and cost of episodes with drawn actions; by chance without a model."""
    env, rewards, costs = SafetyGoal(), 0.0, 0.0
    env.action_space.seed(0)
    for seed in range(episodes):
        (seen, _), over = env.reset(seed=seed), False
        while not over:
            action = env.action_space.sample() if model is None else model.predict(normalizer(seen))[0]
            seen, reward, end, cut, info = env.step(action)
            rewards, costs, over = rewards + reward, costs + info["cost"], end or cut
    return f"reward {rewards / episodes:6.2f}, cost {costs / episodes:6.2f}"


def main(timesteps: int = 1_000_000, episodes: int = 20, limit: float = 25.0, n_envs: int = 4) -> None:
    """Train each for so many steps; judge in so many episodes."""
    sizes: dict[str, Any] = {"n_steps": 20_000 // n_envs, "batch_size": 500, "n_epochs": 10, "seed": 0}
    for name, algorithm, more in (
        ("PIDLagrangianPPO", PIDLagrangianPPO, {"cost_limit": limit}),
        ("PPO, no limit", PPO, {}),
    ):
        env = VecNormalize(make_vec_env(SafetyGoal, n_envs, seed=0), norm_reward=False)
        model = algorithm("MlpPolicy", env, **sizes, **more).learn(timesteps)
        print(f"{name:17s} {play(model, env.normalize_obs, episodes)}", flush=True)
    print(f"{'chance':17s} {play(None, None, episodes)}")


if __name__ == "__main__":
    main()
