"""CRR and cloning beside learners of d3rlpy, on the same data and test episodes.

Data are as in `scripts/reproduce.py learners-offline --quick`: of chance, of a weak and a good player, of all
three. DiscreteCQL and DiscreteBCQ learn from those of CartPole and LunarLander, d3rlpy's CRR from those of
Pendulum and HalfCheetah, where SB3's SAC plays, early and late in its training. d3rlpy wants a Gymnasium of
its own: `pip install sb3-greendc d3rlpy` (for `--problems 4` box2d and mujoco, too) in a new environment; run
this in a checkout. Prints the mean return of each. Ten minutes a seed; all four problems take an hour.
"""

from __future__ import annotations

import argparse
import itertools
from types import SimpleNamespace
from typing import Any

import d3rlpy
import numpy as np
import pandas as pd
import structlog
from d3rlpy.algos import CRRConfig, DiscreteBCQConfig, DiscreteCQLConfig
from gymnasium import spaces

from sb3_greendc import CRR
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.known.offline import DATA
from sb3_greendc.experiments.known.problems import CARTPOLE, HALF_CHEETAH, LUNAR_LANDER, PENDULUM
from sb3_greendc.experiments.known.tasks import OnData, tested_in

PACE: dict[str, Any] = {"batch_size": 256, "learning_rate": 3e-4, "target_update_interval": 200}
DISCRETE = {"DiscreteCQL": DiscreteCQLConfig(**PACE), "DiscreteBCQ": DiscreteBCQConfig(**PACE)}
BOX = {"CRR of d3rlpy": CRRConfig(batch_size=256, actor_learning_rate=3e-4, critic_learning_rate=3e-4)}
THEIRS = [(CARTPOLE, DISCRETE), (PENDULUM, BOX), (LUNAR_LANDER, DISCRETE), (HALF_CHEETAH, BOX)]
"""Their learners by problem, at our CRR's pace and else with their own settings."""


def theirs(config: Any, data: Any, updates: int, seed: int) -> Any:
    """Return an algorithm of d3rlpy after so many updates, with the `predict` of Stable-Baselines3."""
    d3rlpy.seed(seed)
    kind, scale = d3rlpy.ActionSpace.DISCRETE, 1
    if not isinstance(data.action_space, spaces.Discrete):
        kind, scale = d3rlpy.ActionSpace.CONTINUOUS, data.action_space.high  # they act in -1 .. 1
    arrays = (data.observations, data.actions / scale, data.rewards, data.terminated, data.truncated)
    dataset = d3rlpy.dataset.MDPDataset(*arrays, action_space=kind)
    algorithm, logs = config.create(device="cpu"), d3rlpy.logging.NoopAdapterFactory()
    algorithm.fit(dataset, updates, updates, logger_adapter=logs, show_progress=False)
    act = algorithm.predict
    return SimpleNamespace(predict=lambda seen, *_, **__: (act(np.asarray(seen, np.float32)) * scale, None))


def main(
    problems: int = 2,
    transitions: int = 12_000,
    updates: int = 4_000,
    tests: int = 20,
    seeds: int = 1,
    out: str | None = None,
) -> None:
    """Record so many transitions, learn with so many updates, judge in so many episodes, for each seed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))  # d3rlpy's log: warnings
    if missing := [said for problem, _ in THEIRS[:problems] if (said := problem.missing())]:
        raise SystemExit(missing[0])
    trained, rows = dict[str, Any](), list[Any]()
    for problem, configs in THEIRS[:problems]:
        for (name, sources), seed in itertools.product(DATA[problem.name].items(), range(seeds)):
            task = OnData("", problem, name, sources, transitions, 0, seed, tests)
            for need in task.needs:
                trained[need.key] = trained.get(need.key) or need.compute().files
            data = task.given(*(trained[need.key] for need in task.needs)).record()
            ours: dict[str, Any] = {"policy": "MlpPolicy", "dataset": data, "seed": seed, "device": "cpu"}
            models = {"CRR": CRR(**ours), "cloning": CRR(weight_mode="bc", **ours)}
            learned: dict[str, Any] = {learner: model.learn(updates) for learner, model in models.items()}
            learned |= {learner: theirs(config, data, updates, seed) for learner, config in configs.items()}
            for learner, model in learned.items():
                mean = np.mean([row["return"] for row in play(model, tested_in(problem), tests)])
                print(f"{problem.name:13s}{name:8s}{learner:14s}{mean:9.1f}  seed {seed}", flush=True)
                rows.append((problem.name, name, learner, seed, mean))
    table = pd.DataFrame(rows, columns=["problem", "data", "learner", "seed", "return"])
    if seeds > 1:
        print(table.groupby([*table.columns[:3]], sort=False)["return"].agg(["mean", "std"]).to_string())
    if out is not None:
        table.to_csv(out, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", type=int, default=2, choices=(1, 2, 3, 4), help="the first so many")
    parser.add_argument("--seeds", type=int, default=1, choices=range(1, 21), metavar="N", help="0 to N - 1")
    parser.add_argument("--out", metavar="FILE", help="CSV: a row for each problem, data, learner and seed")
    main(**vars(parser.parse_args()))
