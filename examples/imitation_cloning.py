"""Clone a heuristic with the library imitation: its own BC, on trajectories of this package.

Prints the share of the jobs' value that teacher, clone and a random order earn in new episodes. The clone
is a plain SB3 policy, from which PPO could go on. Under a minute. Needs `pip install "sb3-greendc[bc]"`.
"""

from __future__ import annotations

import numpy as np
from imitation.algorithms.bc import BC

from sb3_greendc import collect, evaluate
from sb3_greendc.datasets import to_trajectories

POOL = {"observation": "flat"}  # one vector, as imitation's own network takes it


def main(transitions: int = 40_000, epochs: int = 4, episodes: int = 20) -> None:
    """Record so many transitions of the teacher, read them so often, judge in so many episodes."""
    data = collect(["deadline_never"], "ResourcePool-10", transitions, seed=0, env_kwargs=POOL)
    trajectories = to_trajectories(data)  # imitation's own type
    print(f"{len(trajectories)} trajectories, {len(data):,} decisions")

    bc = BC(
        observation_space=data.observation_space,
        action_space=data.action_space,
        rng=np.random.default_rng(0),
        demonstrations=trajectories,
        device="cpu",
    )
    bc.train(n_epochs=epochs, log_interval=1_000, progress_bar=False)

    policies = {"clone": bc.policy, "teacher": "deadline_never", "random": "random"}
    results = evaluate(policies, "ResourcePool-10", episodes, seed=10_000, env_kwargs=POOL)
    print(results.groupby("policy")[["total_job_value_ratio", "invalid_actions"]].mean().round(3))


if __name__ == "__main__":
    main()
