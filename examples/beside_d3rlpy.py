"""CRR and cloning beside learners of d3rlpy, on the same data and test episodes.

The data are those of `scripts/reproduce.py learners-offline --quick`: CartPole by chance, by a weak and by a
good controller, and by all three; Pendulum by chance, by SB3's SAC early and late in its training, and by
all three. Beside us learn DiscreteCQL and DiscreteBCQ on the former, CRR on the latter. d3rlpy wants a
Gymnasium of its own: `pip install sb3-greendc d3rlpy` in a new environment, then run this in a checkout.
Prints the mean return of each. Ten minutes.
"""

from __future__ import annotations

from typing import Any

import d3rlpy
import numpy as np
import structlog
from d3rlpy.algos import CRRConfig, DiscreteBCQConfig, DiscreteCQLConfig
from gymnasium import spaces

from sb3_greendc import CRR
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.known.offline import DATA
from sb3_greendc.experiments.known.problems import CARTPOLE, PENDULUM
from sb3_greendc.experiments.known.tasks import OnData, tested_in

PACE: dict[str, Any] = {"batch_size": 256}
OF_DISCRETE: dict[str, Any] = {**PACE, "learning_rate": 3e-4, "target_update_interval": 200}
OF_BOX: dict[str, Any] = {**PACE, "actor_learning_rate": 3e-4, "critic_learning_rate": 3e-4}
OF_CARTPOLE = {
    "DiscreteCQL": DiscreteCQLConfig(**OF_DISCRETE),
    "DiscreteBCQ": DiscreteBCQConfig(**OF_DISCRETE),
}
THEIRS = [(CARTPOLE, OF_CARTPOLE), (PENDULUM, {"CRR of d3rlpy": CRRConfig(**OF_BOX)})]
"""Their learners by problem, at our CRR's pace and else with their own settings."""


class Acting:
    """An algorithm of d3rlpy with the `predict` of Stable-Baselines3."""

    def __init__(self, algorithm: Any, scale: Any) -> None:
        self.algorithm, self.scale = algorithm, scale

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[np.ndarray, None]:
        """Return the best action of each observation of a batch."""
        actions = self.algorithm.predict(np.asarray(observation, np.float32))
        return actions if np.isscalar(self.scale) else actions * self.scale, None


def theirs(config: Any, data: Any, updates: int, seed: int) -> Acting:
    """Return an algorithm of d3rlpy after so many updates."""
    d3rlpy.seed(seed)
    kind, scale = d3rlpy.ActionSpace.DISCRETE, 1.0
    if not isinstance(data.action_space, spaces.Discrete):
        kind, scale = d3rlpy.ActionSpace.CONTINUOUS, data.action_space.high  # they act in -1 .. 1
    arrays = (data.observations, data.actions / scale, data.rewards, data.terminated, data.truncated)
    dataset = d3rlpy.dataset.MDPDataset(*arrays, action_space=kind)
    algorithm = config.create(device="cpu")
    logs = d3rlpy.logging.NoopAdapterFactory()
    algorithm.fit(dataset, updates, updates, logger_adapter=logs, show_progress=False)
    return Acting(algorithm, scale)


def main(problems: int = 2, transitions: int = 12_000, updates: int = 4_000, tests: int = 20) -> None:
    """Record so many transitions, learn with so many updates, judge in so many episodes."""
    seed = 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))  # d3rlpy's log: warnings
    trained: dict[str, Any] = {}
    for problem, configs in THEIRS[:problems]:
        for name, sources in DATA[problem.name].items():
            recording = OnData("", problem, name, sources, transitions, 0, seed, tests)
            for training in recording.needs:
                if training.key not in trained:
                    trained[training.key] = training.compute().files
            data = recording.given(*(trained[training.key] for training in recording.needs)).record()
            ours: dict[str, Any] = {"policy": "MlpPolicy", "dataset": data, "seed": seed, "device": "cpu"}
            models: dict[str, Any] = {
                "CRR": CRR(**ours).learn(updates),
                "cloning": CRR(weight_mode="bc", **ours).learn(updates),
                **{learner: theirs(config, data, updates, seed) for learner, config in configs.items()},
            }
            for learner, model in models.items():
                mean = np.mean([row["return"] for row in play(model, tested_in(problem), tests)])
                print(f"{problem.name:10s}{name:8s}{learner:14s}{mean:9.1f}", flush=True)


if __name__ == "__main__":
    main()
