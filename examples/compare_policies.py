"""Compare policies of every kind in both families: value or carbon, and the time of a decision.

Prints the README's table. On ten units: a random order, the best of the papers' heuristics without and
with the network's mask, the best heuristic, the policy that ships, and that policy with rollouts on top
(guided rollouts). Then three schedules of a virtual capacity curve. All policies of a family see the same
episodes. Time is processor time on one thread, the simulator's own included. Two minutes on an idle core.
"""

from __future__ import annotations

import time

import torch

from sb3_greendc import evaluate

ROLLOUT = "rollout:futures=32,min_qos=0.25,depth=24,dispatch=easy,prior=pretrained"
POOL = {
    "random": "random",
    "hvf": "hvf",
    "hvf, masked": "hvf:dispatch=skip,scope=queue",
    "deadline_never": "deadline_never:dispatch=easy,scope=queue",
    "pretrained": "pretrained",
    "guided rollouts": ROLLOUT,
}
CURVE = {"always_on": "always_on", "random": "random", "rolling": "rolling", "pretrained": "pretrained"}
MASKED = {"mask": "now_on_time"}
NETWORK = {**MASKED, "lookahead": 24, "fragmentation": True}
"""What the policies that ship see and choose from."""


def measure(env_id: str, policy: str, episodes: int, **options: object) -> tuple[dict[str, float], float]:
    """Return the mean of each metric, and the milliseconds of a decision."""
    evaluate([policy], env_id, 1, seed=0, env_kwargs=options)  # compiles
    started = time.process_time()
    results = evaluate([policy], env_id, episodes, seed=10_000, env_kwargs=options)
    seconds = time.process_time() - started
    return results.mean(numeric_only=True).to_dict(), 1e3 * seconds / results["length"].sum()


def main(episodes: int = 32, months: int = 10) -> None:
    """Judge in so many episodes of a pool, and in so many months of a curve."""
    torch.set_num_threads(1)
    print("| environment | policy | value | carbon | ms a decision |")
    print("|---|---|---|---|---|")
    for name, policy in POOL.items():
        options = NETWORK if "pretrained" in policy else MASKED if "masked" in name else {}
        metrics, milliseconds = measure("ResourcePool-10", policy, episodes, **options)
        share = metrics["total_job_value_ratio"]
        print(f"| `ResourcePool-10` | {name} | {share:.3f} | | {milliseconds:.3f} |")
    usual = 0.0
    for name, policy in CURVE.items():
        metrics, milliseconds = measure("VCC-2021", policy, months)
        usual = usual or metrics["carbon_kg"]
        change = metrics["carbon_kg"] / usual - 1.0
        carbon = f"{change:+.1%}, {metrics['overdue_work']:.1f} overdue"
        print(f"| `VCC-2021` | {name} | | {carbon} | {milliseconds:.3f} |")


if __name__ == "__main__":
    main()
