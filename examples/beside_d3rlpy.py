"""CRR and cloning beside d3rlpy's DiscreteCQL and DiscreteBCQ, on the same data and test episodes.

The data are those of `scripts/reproduce.py learners-offline --quick`: CartPole by chance, by a weak and by a
good controller, and by all three. d3rlpy wants a Gymnasium of its own: `pip install sb3-greendc d3rlpy` in a
new environment, then run this in a checkout. Prints the mean return of each. Ten minutes.
"""

from __future__ import annotations

from typing import Any

import d3rlpy
import numpy as np
import structlog
from d3rlpy.algos import DiscreteBCQConfig, DiscreteCQLConfig

from sb3_greendc import CRR
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.known.offline import DATA
from sb3_greendc.experiments.known.problems import CARTPOLE
from sb3_greendc.experiments.known.tasks import OnData, tested_in


class Acting:
    """An algorithm of d3rlpy with the `predict` of Stable-Baselines3."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[np.ndarray, None]:
        """Return the best action of each observation of a batch."""
        return self.algorithm.predict(np.asarray(observation, np.float32)), None


def theirs(config: Any, data: Any, updates: int, seed: int) -> Acting:
    """Return an algorithm of d3rlpy after so many updates, at CRR's pace and else its own settings."""
    d3rlpy.seed(seed)
    arrays = (data.observations, data.actions, data.rewards, data.terminated, data.truncated)
    dataset = d3rlpy.dataset.MDPDataset(*arrays, action_space=d3rlpy.ActionSpace.DISCRETE)
    pace: dict[str, Any] = {"batch_size": 256, "learning_rate": 3e-4, "target_update_interval": 200}
    algorithm = config(**pace).create(device="cpu")
    logs = d3rlpy.logging.NoopAdapterFactory()
    algorithm.fit(dataset, updates, updates, logger_adapter=logs, show_progress=False)
    return Acting(algorithm)


def main(transitions: int = 12_000, updates: int = 4_000, tests: int = 20, seed: int = 0) -> None:
    """Record so many transitions, learn with so many updates, judge in so many episodes."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))  # d3rlpy's log: warnings
    for name, sources in DATA[CARTPOLE.name].items():
        data = OnData("", CARTPOLE, name, sources, transitions, 0, seed, tests).record()
        ours: dict[str, Any] = {"policy": "MlpPolicy", "dataset": data, "seed": seed, "device": "cpu"}
        models: dict[str, Any] = {
            "CRR": CRR(**ours).learn(updates),
            "cloning": CRR(weight_mode="bc", **ours).learn(updates),
            "DiscreteCQL": theirs(DiscreteCQLConfig, data, updates, seed),
            "DiscreteBCQ": theirs(DiscreteBCQConfig, data, updates, seed),
        }
        for learner, model in models.items():
            mean = np.mean([row["return"] for row in play(model, tested_in(CARTPOLE), tests)])
            print(f"{name:8s}{learner:12s}{mean:7.1f}", flush=True)


if __name__ == "__main__":
    main()
