"""Train SB3's PPO to set a virtual capacity curve, and judge it on months that it has not seen.

Prints a row per policy: mean return, kg of CO2 and overdue work over the same ten months of 2020 and 2021.
`always_on` never delays a job, `rolling` plans a linear programme every hour. About a minute.
"""

from __future__ import annotations

from stable_baselines3 import PPO

from sb3_greendc import evaluate, make_vec_env


def main(timesteps: int = 300_000, episodes: int = 10) -> None:
    """Train for so many hours of the cluster, then judge in so many months."""
    env = make_vec_env("VCC", n_envs=32, seed=0, split="train")  # one compiled call steps all 32
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=96,
        batch_size=512,
        gamma=0.985,  # a delay is paid for up to a day later
        learning_rate=6e-4,
        policy_kwargs={"log_std_init": -1.0},  # actions are fractions of the capacity, from 0 to 1
        seed=0,
        device="cpu",
    )
    model.learn(timesteps)

    policies = {"ppo": model, "always_on": "always_on", "rolling": "rolling"}
    results = evaluate(policies, "VCC", episodes, seed=10_000, env_kwargs={"split": "test"})
    print(results.groupby("policy")[["return", "carbon_kg", "overdue_work"]].mean().round(1))


if __name__ == "__main__":
    main()
