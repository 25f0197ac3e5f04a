"""Save carbon under a limit on overdue work: PPO with a PID-controlled Lagrange multiplier.

The environment's reward is carbon alone; its cost is the work that becomes overdue. Prints the price that
the controller found for a unit of cost, then carbon saved and cost per month for the constrained policy and
for PPO that knows no limit, which saves more and lets work pile up. About two minutes.
"""

from __future__ import annotations

from sb3_greendc import PIDLagrangianPPO, evaluate, make_vec_env

LIMIT = 0.9  # in a month: 3 % of a day's work, every day


def train(cost_limit: float, timesteps: int) -> PIDLagrangianPPO:
    """Train under a limit on the mean cost of an episode; infinity is plain PPO."""
    env = make_vec_env("VCC", n_envs=32, seed=0, split="train", constrained=True)
    model = PIDLagrangianPPO(
        "MlpPolicy",
        env,
        cost_limit=cost_limit,
        init=10.0,  # the price to begin with
        ki=0.5,
        lambda_max=40.0,
        cost_vf_coef=0.002,
        n_steps=96,
        batch_size=512,
        n_epochs=8,
        gamma=0.985,
        learning_rate=6e-4,
        seed=0,
        device="cpu",
    )
    return model.learn(timesteps)


def main(timesteps: int = 400_000, episodes: int = 10) -> None:
    """Train each policy for so many hours of the cluster, judge in so many months."""
    limited, unlimited = train(LIMIT, timesteps), train(float("inf"), timesteps)
    print(f"price of a unit of cost: {limited.lagrange_multiplier:.2f}")
    test = {"split": "test", "constrained": True}
    policies = {"limited": limited, "unlimited": unlimited, "always_on": "always_on"}
    results = evaluate(policies, "VCC", episodes, seed=10_000, env_kwargs=test, deterministic=False)
    print(f"limit on cost: {LIMIT}")
    print(results.groupby("policy")[["carbon_kg", "cost"]].mean().round(2))


if __name__ == "__main__":
    main()
