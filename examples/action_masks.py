"""Train sb3-contrib's MaskablePPO on a pool of ten units, where most actions are invalid most of the time.

Prints the share of the jobs' value that each policy earns, and how many invalid actions it chose: none,
since the masks reach both the rollouts and the evaluation. `hvf` (highest value first) is the best of the
papers' four heuristics. About two minutes.
"""

from __future__ import annotations

from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc import evaluate, make_vec_env
from sb3_greendc.extractors import MaskableJobSetPolicy


def main(timesteps: int = 200_000, episodes: int = 20) -> None:
    """Train for so many decisions, then judge in so many episodes."""
    pool = {"mask": "now_on_time"}  # of the jobs, only those that can start now and finish on time
    env = make_vec_env("ResourcePool-10", n_envs=32, seed=0, **pool)
    model = MaskablePPO(
        MaskableJobSetPolicy,  # scores every waiting job by one shared network
        VecNormalize(env, norm_obs=False, gamma=0.995),
        n_steps=128,
        batch_size=1024,
        n_epochs=4,
        gamma=0.995,
        gae_lambda=0.9,
        learning_rate=6e-4,
        target_kl=0.02,
        seed=0,
        device="cpu",
    )
    model.learn(timesteps)

    policies = {"maskable_ppo": model, "hvf": "hvf", "random": "random"}
    results = evaluate(policies, "ResourcePool-10", episodes, seed=10_000, env_kwargs=pool)
    print(results.groupby("policy")[["total_job_value_ratio", "invalid_actions"]].mean().round(3))


if __name__ == "__main__":
    main()
