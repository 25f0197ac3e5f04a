"""Use a policy that ships, trained, beside heuristics and rollouts in sampled futures.

Prints, for each policy, the share of the jobs' value and the time of a decision. The network decides in one
pass; `rollout` tries every action in eight sampled futures. Under a minute.
"""

from __future__ import annotations

import time

from sb3_greendc import evaluate


def main(episodes: int = 16, futures: int = 8) -> None:
    """Judge in so many episodes; rollouts look into so many futures."""
    pool = {"mask": "now_on_time"}
    print("policy              share of value   ms a decision")
    for policy in ("hvf", "deadline_never", "pretrained", f"rollout:futures={futures}"):
        evaluate([policy], "ResourcePool-10", 1, seed=0, env_kwargs=pool)  # compiles
        started = time.perf_counter()
        results = evaluate([policy], "ResourcePool-10", episodes, seed=10_000, env_kwargs=pool)
        seconds = time.perf_counter() - started
        decisions = results["decisions"].sum()
        share = results["total_job_value_ratio"].mean()
        print(f"{policy:20s}{share:14.3f}{1e3 * seconds / decisions:16.3f}")


if __name__ == "__main__":
    main()
