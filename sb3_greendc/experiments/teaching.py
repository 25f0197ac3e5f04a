"""Networks that are taught what a planner thinks of every action."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sb3_greendc.bc.cloning import Clone
from sb3_greendc.bc.distill import distill
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.datasets import OfflineDataset, concatenate
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.experiments.rollouts import DEPTH, FLOOR, strong
from sb3_greendc.experiments.tasks import Files, Outcome, Problem, Task
from sb3_greendc.runs.models import MODEL_FILE, RUN_FILE

RECORDING_SEED = 20_000

FLOORS = (FLOOR,)
"""Of the rollouts that teach; with several, the best one is found by trial."""

FLOOR_SEED, FLOOR_FUTURES = 10_000, 4
FLOOR_EPISODES, FLOOR_EPISODES_LONG = 64, 12
"""How floors are tried; the fewer episodes where long queues make each decision slow."""

RESERVE = 0.02
"""By how much, in mean job values, waiting has to be better than it is worth to the planner. Where a start
can as well be put off, the planner starts; a network that errs by a hair would put it off until it is too
late."""

SPREAD, SCALE = 2.0, 4.0
"""Root mean square of the numbers that the logits are regressed on, and how often at most they are the
advantages: less on logs, where few jobs are worth a hundred others and would be all that is learned."""


@dataclass(frozen=True)
class Teaching(Task):
    """Record rollouts with their valuation of every action, and distill it into a network.

    :param lessons: what it is taught on, as the network acts in it: equal shares of the decisions
    :param labels: decisions recorded in all
    :param futures: of each rollout
    :param epochs: passes over the data
    :param seed: number of the run: another one has other data, too
    :param floors: of the rollouts; of several the best one is found by trial in each lesson
    :param depth: steps that they look ahead
    """

    lessons: tuple[Problem, ...]
    labels: int
    futures: int
    epochs: int
    seed: int
    floors: tuple[float, ...] = FLOORS
    depth: int = DEPTH

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"teaching {self.lessons[0].env_id} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        each = self.labels / len(self.lessons)
        return 4.0 + sum(self._seconds(lesson, each) for lesson in self.lessons)

    def _seconds(self, lesson: Problem, labels: float) -> float:
        longer, wider, trial = (10.0, 2.3, 8.0) if lesson.has_long_queues else (1.0, 1.0, 1.5)
        trials = trial * len(self.floors) if len(self.floors) > 1 else 0.0
        return trials + labels * (8e-6 * longer * self.futures + 3.5e-5 * wider * self.epochs)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        clone = teach(
            self.lessons, self.labels, self.futures, self.epochs, self.seed, self.floors, self.depth
        )
        seconds = round(time.perf_counter() - started, 2)
        return Outcome({"history": clone.history}, pack(clone, labels=self.labels, seconds=seconds))


def pack(clone: Clone, **record: Any) -> Files:
    """Return a network as files: the model, and its record.

    :param clone: the network
    :param record: what the record says beside what the network itself says
    """
    with tempfile.TemporaryDirectory() as folder:
        clone.save(folder, **record, **provenance())
        return {name: (Path(folder) / name).read_bytes() for name in (MODEL_FILE, RUN_FILE)}


@contextmanager
def unpacked(files: Files) -> Iterator[str]:
    """Write a network's files to a folder for as long as it is needed.

    :param files: as :func:`pack` makes them
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        yield folder


def teach(
    lessons: Sequence[Problem],
    labels: int,
    futures: int,
    epochs: int,
    seed: int = 0,
    floors: Sequence[float] = FLOORS,
    depth: int = DEPTH,
) -> Clone:
    """Return a network that has learned what rollouts think of every action.

    :param lessons: problems as the network acts in them, with the same spaces: equal shares of the decisions
    :param labels: decisions of the rollouts, recorded in 32 environments
    :param futures: of each rollout
    :param epochs: passes over the data
    :param seed: of the data and of the network
    :param floors: of the rollouts; of several the best one is found by trial in each lesson
        (:func:`best_floor`)
    :param depth: steps that they look ahead
    :raises ValueError: for lessons whose spaces differ
    """
    require_same_spaces(lessons)
    teachers = [strong(futures, best_floor(lesson, floors, seed, depth), depth).spec for lesson in lessons]
    parts = [
        record(lesson, teacher, labels // len(lessons), seed)
        for lesson, teacher in zip(lessons, teachers, strict=True)
    ]
    data = concatenate(parts)
    spread = max(float(np.sqrt(np.nanmean(np.square(part.labels["advantages"])))) for part in parts)
    clone = distill(data, n_epochs=epochs, seed=seed, logit_scale=min(SCALE, SPREAD / spread))
    taught = f"by {' and '.join(dict.fromkeys(teachers))} on {len(data):,} decisions, in {epochs} passes"
    more = {"taught": taught, "lessons": [lesson.env_kwargs for lesson in lessons]}
    return replace(clone, record={**clone.record, **more})


def require_same_spaces(lessons: Sequence[Problem]) -> None:
    """Refuse lessons that are not seen alike, before hours of recording.

    :param lessons: problems as the network acts in them
    :raises ValueError: naming the first that is seen otherwise
    """
    spaces = []
    for lesson in lessons:
        env = make_vec_env(lesson.env_id, 1, **lesson.env_kwargs)
        spaces.append((env.observation_space, env.action_space))
        env.close()
    for k, found in enumerate(spaces):
        if found != spaces[0]:
            raise ValueError(
                f"lessons[{k}] = {dict(lessons[k].env_kwargs)}: its observations or actions have other "
                "shapes than the first lesson's"
            )


def record(lesson: Problem, teacher: str, labels: int, seed: int) -> OfflineDataset:
    """Return decisions of rollouts with their valuation of every action, waiting worth less by the reserve.

    :param lesson: that they act in
    :param teacher: the rollouts
    :param labels: decisions
    :param seed: number of the run
    """
    data = collect(
        {"rollout": teacher},
        lesson.env_id,
        labels,
        RECORDING_SEED + 100 * seed,
        env_kwargs=lesson.env_kwargs,
        n_envs=32,
        labels=("advantages",),
    )
    data.labels["advantages"][:, -1] -= RESERVE
    return data


def best_floor(problem: Problem, floors: Sequence[float], seed: int = 0, depth: int = DEPTH) -> float:
    """Return the floor with which rollouts over few futures earn most in training episodes.

    :param problem: that they act in
    :param floors: to choose from; the first of equals
    :param seed: of the episodes
    :param depth: steps that the rollouts look ahead
    """
    if len(floors) == 1:
        return floors[0]
    results = evaluate(
        {f"{floor:g}": strong(FLOOR_FUTURES, floor, depth).spec for floor in floors},
        problem.env_id,
        FLOOR_EPISODES_LONG if problem.has_long_queues else FLOOR_EPISODES,
        FLOOR_SEED + 100 * seed,
        env_kwargs=problem.env_kwargs,
    )
    earned = results.groupby("policy")["total_job_value_ratio"].mean()
    return max(floors, key=lambda floor: earned[f"{floor:g}"])
