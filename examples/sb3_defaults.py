"""Train PPO, DQN and MaskablePPO on a resource pool, each with its library's default hyperparameters.

Prints a row for each policy: the share of the value that it earns in held-out episodes, beside `hvf` and a
random order of the jobs in the same environment. Once with the environment's defaults, once with the settings
that make it easier to learn from. Four to seven minutes for each of the six trainings on an idle core.
"""

from __future__ import annotations

import gymnasium as gym
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO

from sb3_greendc import evaluate

ENV_ID = "ResourcePool-10-v0"
SETTINGS = {
    "defaults": {},
    # Of the jobs, only those that can start now and be on time; numbers from 0 to 1 instead of bytes; and
    # what each action is worth if no more jobs came.
    "easy": {"mask": "now_on_time", "image_dtype": "float32", "lookahead": 48},
}


def main(timesteps: int = 200_000, episodes: int = 64, seeds: int = 1) -> None:
    """Train each for so many decisions, with so many seeds, and judge all in the same episodes."""
    for name, settings in SETTINGS.items():
        policies = {"hvf": "hvf", "random": "random"}
        for algorithm in (PPO, DQN, MaskablePPO):
            models = []
            for seed in range(seeds):
                env = gym.make(ENV_ID, **settings)
                model = algorithm("MultiInputPolicy", env, seed=seed, device="cpu")
                models.append(model.learn(timesteps))
            policies[algorithm.__name__] = models
        results = evaluate(policies, ENV_ID, episodes, seed=10_000, env_kwargs=settings)
        values = results.groupby(["policy", "run"])["total_job_value_ratio"].mean()
        for (policy, run), value in values.items():
            print(f"{name:8} {policy:11} {run} {value:.3f}")


if __name__ == "__main__":
    main()
