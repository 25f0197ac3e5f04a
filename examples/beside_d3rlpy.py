"""CRR and cloning beside learners of d3rlpy, on the same data and test episodes.

Data are as in `scripts/reproduce.py learners-offline --quick`: of chance, of a weak and a good player, of all
three. DiscreteCQL and DiscreteBCQ learn from those of CartPole and LunarLander, d3rlpy's CRR from those of
Pendulum and HalfCheetah, where SB3's SAC plays, early and late in its training. d3rlpy wants a Gymnasium of
its own: `pip install sb3-greendc d3rlpy` (for LunarLander and HalfCheetah box2d, mujoco and imageio, too) in
a new environment; run this in a checkout. Prints the mean return of each. Fifteen minutes a seed, an hour
with all four problems. With `--out` it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import d3rlpy
import numpy as np
import pandas as pd
import structlog
from d3rlpy.algos import CRRConfig, DiscreteBCQConfig, DiscreteCQLConfig
from gymnasium import spaces

from sb3_greendc import CRR
from sb3_greendc.core.files import atomic_write
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.known.offline import DATA
from sb3_greendc.experiments.known.problems import CARTPOLE, HALF_CHEETAH, LUNAR_LANDER, PENDULUM
from sb3_greendc.experiments.known.tasks import OnData, tested_in

PACE: dict[str, Any] = {"batch_size": 256, "learning_rate": 3e-4, "target_update_interval": 200}
DISCRETE = {"DiscreteCQL": DiscreteCQLConfig(**PACE), "DiscreteBCQ": DiscreteBCQConfig(**PACE)}
BOX = {"CRR of d3rlpy": CRRConfig(batch_size=256, actor_learning_rate=3e-4, critic_learning_rate=3e-4)}
THEIRS = [(CARTPOLE, DISCRETE), (PENDULUM, BOX), (LUNAR_LANDER, DISCRETE), (HALF_CHEETAH, BOX)]
"""Their learners by problem, at our CRR's pace and else with their own settings."""
COLUMNS = ["problem", "data", "learner", "seed", "return"]


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
    problems: Sequence[str] = (CARTPOLE.name, PENDULUM.name),
    transitions: int = 12_000,
    updates: int = 4_000,
    tests: int = 20,
    seeds: int = 1,
    out: str | None = None,
) -> None:
    """Record so many transitions, learn with so many updates, judge in so many episodes, for each seed.

    :param out: file of what is found; what it has already is not done again
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))  # d3rlpy's log: warnings
    chosen = [(problem, configs) for problem, configs in THEIRS if problem.name in problems]
    if missing := [said for problem, _ in chosen if (said := problem.missing())]:
        raise SystemExit(missing[0])
    trained, table = dict[str, Any](), pd.DataFrame(columns=COLUMNS)
    if out is not None and Path(out).is_file():
        table = pd.read_csv(out)
        if [*table.columns] != COLUMNS:
            raise SystemExit(f"--out {out}: is no file of this program, its columns are not {COLUMNS}")
    for problem, configs in chosen:
        for (name, sources), seed in itertools.product(DATA[problem.name].items(), range(seeds)):
            if ((table["problem"] == problem.name) & (table["data"] == name) & (table["seed"] == seed)).any():
                continue
            task = OnData("", problem, name, sources, transitions, 0, seed, tests)
            for need in task.needs:
                trained[need.key] = trained.get(need.key) or need.compute().files
            data = task.given(*(trained[need.key] for need in task.needs)).record()
            ours: dict[str, Any] = {"policy": "MlpPolicy", "dataset": data, "seed": seed, "device": "cpu"}
            models = {"CRR": CRR(**ours), "cloning": CRR(weight_mode="bc", **ours)}
            learned: dict[str, Any] = {learner: model.learn(updates) for learner, model in models.items()}
            learned |= {learner: theirs(config, data, updates, seed) for learner, config in configs.items()}
            rows = []
            for learner, model in learned.items():
                mean = np.mean([row["return"] for row in play(model, tested_in(problem), tests)])
                print(f"{problem.name:13s}{name:8s}{learner:14s}{mean:9.1f}  seed {seed}", flush=True)
                rows.append((problem.name, name, learner, seed, mean))
            found = pd.DataFrame(rows, columns=COLUMNS)
            table = pd.concat([table, found], ignore_index=True) if len(table) else found
            if out is not None:
                with atomic_write(Path(out)) as file:
                    table.to_csv(file, index=False, mode="wb")
    if seeds > 1:
        print(table.groupby(COLUMNS[:3], sort=False)["return"].agg(["mean", "std"]).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [problem.name for problem, _ in THEIRS]
    parser.add_argument("--problems", nargs="+", default=names[:2], choices=names, help=" ".join(names))
    parser.add_argument("--seeds", type=int, default=1, choices=range(1, 21), metavar="N", help="0 to N - 1")
    parser.add_argument("--out", metavar="FILE", help="CSV: a row for each problem, data, learner and seed")
    main(**vars(parser.parse_args()))
