"""Share a log as a Minari data set, and read it back with Minari alone.

Prints what Minari says of the data set, the mean return of its episodes, and that nothing changed on the
way there and back. Seconds. Needs `pip install "sb3-greendc[minari]"`.
"""

from __future__ import annotations

import os
import tempfile

import minari
import numpy as np

from sb3_greendc import collect
from sb3_greendc.datasets import from_minari, to_minari


def main(transitions: int = 20_000) -> None:
    """Record so many transitions of two heuristics."""
    log = collect(["hvf", "deadline_never"], "ResourcePool-10", transitions, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder  # without this line data sets go to ~/.minari
        to_minari(log, "greendc/resource-pool-v0", author="me", description="two heuristics")
        shared = minari.load_dataset("greendc/resource-pool-v0")
        print(f"{shared.id}: {shared.total_episodes} episodes, {shared.total_steps:,} steps")
        returns = [float(np.sum(episode.rewards)) for episode in shared.iterate_episodes()]
        print(f"mean return {np.mean(returns):.2f}")
        back = from_minari(shared)
    same = np.array_equal(np.sort(log.rewards), np.sort(back.rewards)) and back.sources == log.sources
    print(f"read back: {len(back):,} transitions of {', '.join(back.sources)}; the same: {same}")


if __name__ == "__main__":
    main()
