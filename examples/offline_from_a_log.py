"""Learn a scheduler from the log of a heuristic, without an environment to try things in.

Writes the log to a file, reads it back, and lets CRR learn from it. Prints the share of the jobs' value
that the heuristic in the log earns and that the learned policy earns in new episodes: it earns more than
the policy that it learned from. About a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sb3_greendc import CRR, OfflineDataset, collect, evaluate
from sb3_greendc.extractors import JobSetExtractor


def main(transitions: int = 60_000, updates: int = 2_000, episodes: int = 20) -> None:
    """Record so many transitions, learn from them by so many updates, judge in so many episodes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.npz"
        collect(["hvf"], "ResourcePool-10", transitions, seed=0).save(path)
        log = OfflineDataset.load(path)  # checked: spaces, masks, ends of episodes
    print(f"{len(log):,} transitions of {', '.join(log.sources)} in {log.n_episodes} episodes")

    model = CRR(
        "MultiInputPolicy",
        dataset=log,
        learning_rate=1e-3,
        batch_size=128,
        gamma=0.985,
        tau=0.02,
        value_mode="max_sample",
        n_value_samples=8,
        policy_kwargs={"features_extractor_class": JobSetExtractor, "net_arch": [64]},
        seed=0,
        device="cpu",
    )
    model.learn(updates)

    results = evaluate({"crr": model, "hvf": "hvf"}, "ResourcePool-10", episodes, seed=10_000)
    print(results.groupby("policy")[["total_job_value_ratio", "qos_violations"]].mean().round(3))


if __name__ == "__main__":
    main()
