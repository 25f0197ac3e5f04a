"""CRR and cloning beside learners of d3rlpy, on the same data and test episodes.

Prints mean returns, with data and settings of `reproduce.py learners-offline`: twenty minutes a seed, an hour
with all. In a new environment: `pip install -e . d3rlpy`, and for the last two box2d, mujoco and imageio.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import d3rlpy
import numpy as np
import pandas as pd
import structlog
from d3rlpy.algos import CRRConfig, DiscreteBCQConfig, DiscreteCQLConfig
from gymnasium import spaces

from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.known.offline import CLONING, DATA
from sb3_greendc.experiments.known.problems import CARTPOLE, HALF_CHEETAH, LUNAR_LANDER, PENDULUM
from sb3_greendc.experiments.known.tasks import OnData, tested_in
from sb3_greendc.experiments.store import Store

PACE: dict[str, Any] = {"batch_size": 256, "learning_rate": 3e-4, "target_update_interval": 200}
DISCRETE = {"DiscreteCQL": DiscreteCQLConfig(**PACE), "DiscreteBCQ": DiscreteBCQConfig(**PACE)}
BOX = {"CRR of d3rlpy": CRRConfig(batch_size=256, actor_learning_rate=3e-4, critic_learning_rate=3e-4)}
THEIRS = [(CARTPOLE, DISCRETE), (PENDULUM, BOX), (LUNAR_LANDER, DISCRETE), (HALF_CHEETAH, BOX)]
NAMES = tuple(problem.name for problem, _ in THEIRS)
TASKS = "runs/reproduce/tasks"  # of reproduce.py, where nothing else is said


def theirs(config: Any, data: Any, updates: int, seed: int) -> Any:
    """Return an algorithm of d3rlpy after so many updates, with the `predict` of Stable-Baselines3."""
    d3rlpy.seed(seed)
    kind, scale = d3rlpy.ActionSpace.DISCRETE, 1
    if not isinstance(data.action_space, spaces.Discrete):
        kind, scale = d3rlpy.ActionSpace.CONTINUOUS, data.action_space.high  # they act in -1 .. 1
    arrays = (data.observations, data.actions / scale, data.rewards, data.terminated, data.truncated)
    dataset = d3rlpy.dataset.MDPDataset(*arrays, action_space=kind)
    made, logs = config.create(device="cpu"), d3rlpy.logging.NoopAdapterFactory()
    made.fit(dataset, updates, updates, logger_adapter=logs, show_progress=False)
    return SimpleNamespace(predict=lambda seen, *_, **__: (made.predict(np.float32(seen)) * scale, None))


def main(problems: tuple[str, ...] = NAMES[:2], transitions: int = 12_000, updates: int = 4_000,
         tests: int = 20, seeds: int = 1, out: str = "", tasks: str = TASKS) -> None:  # fmt: skip
    """Record so many transitions, learn with so many updates, judge in so many episodes, for each seed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))  # only warnings of d3rlpy
    store, columns = Store(Path(tasks)), ["problem", "data", "learner", "return", "updates", "seed"]
    try:
        if out and not Path(out).exists():
            Path(out).write_text(",".join(columns) + "\n")
        old = pd.read_csv(out, usecols=columns) if out else pd.DataFrame(columns=columns)
    except (OSError, ValueError) as error:
        raise SystemExit(f"--out {out}: {error}") from None
    chosen = [pair for pair in THEIRS if pair[0].name in problems]
    if missing := [said for problem, _ in chosen if (said := problem.missing())]:
        raise SystemExit(missing[0])
    for (problem, configs), seed in itertools.product(chosen, range(seeds)):
        where = tested_in(problem)
        for name, sources in DATA[problem.name].items():
            here = {"problem": problem.name, "data": name, "seed": seed, "updates": updates}
            if (old[list(here)] == list(here.values())).all(axis=1).any():
                continue
            task = OnData("CRR", problem, name, sources, transitions, updates, seed, tests)
            for need in itertools.filterfalse(store.has, task.needs):
                store.put(need, need.compute())
            data = task.given(*map(store.files, task.needs)).record()
            learned = {"CRR": task.learned(data), "cloning": replace(task, options=CLONING).learned(data)}
            learned |= {k: theirs(config, data, updates, seed) for k, config in configs.items()}
            means = {k: np.mean([row["return"] for row in play(m, where, tests)]) for k, m in learned.items()}
            rows = pd.DataFrame([{**here, "learner": k, "return": m} for k, m in means.items()])[columns]
            print(rows.to_string(header=False, index=False), flush=True)
            if out:
                rows[old.columns].to_csv(out, mode="a", header=False, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", nargs="+", default=NAMES[:2], choices=NAMES, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=1, choices=range(1, 21), metavar="N", help="0 to N - 1")
    parser.add_argument("--updates", type=int, default=4_000, choices=(4_000, 30_000), help="quick, or full")
    parser.add_argument("--out", default="", metavar="FILE", help="CSV; what it has is not done again")
    parser.add_argument("--tasks", default=TASKS, help="finished trainings, shared with reproduce.py")
    main(**vars(parser.parse_args()))
