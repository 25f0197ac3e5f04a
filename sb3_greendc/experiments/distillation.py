"""Distillation: networks that learn what a planner thinks of every action."""

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
from sb3_greendc.experiments.rollouts import DEPTH, MIN_QOS, strong
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task
from sb3_greendc.runs.models import MODEL_FILE, RUN_FILE, load_model

RECORDING_SEED = 20_000

MIN_QOS_CHOICES = (MIN_QOS,)
"""Of the teacher; with several, the best one is found by trial."""

MIN_QOS_SEED, MIN_QOS_FUTURES = 10_000, 4
MIN_QOS_EPISODES, MIN_QOS_EPISODES_LONG = 64, 12
"""How the choices are tried; the fewer episodes where long queues make each decision slow."""

RESERVE = 0.02
"""By how much, in mean job values, waiting has to be better than it is worth to the planner. Where a start
can as well be put off, the planner starts; a network that errs by a hair would put it off until it is too
late."""

SPREAD, SCALE = 2.0, 4.0
"""Root mean square of the numbers that the logits are regressed on, and how often at most they are the
advantages: less on logs, where few jobs are worth a hundred others and would be all that is learned."""


@dataclass(frozen=True)
class Distillation(Task):
    """Record rollouts with their valuation of every action, and distill it into a network.

    :param training_tasks: what it is trained on, as the network acts in it: equal shares of the decisions
    :param labels: decisions recorded in all
    :param futures: of each rollout
    :param epochs: passes over the data
    :param seed: number of the run: another one has other data, too
    :param min_qos_choices: of the rollouts; of several the best one is found by trial in each training task
    :param depth: steps that they look ahead
    """

    training_tasks: tuple[Scenario, ...]
    labels: int
    futures: int
    epochs: int
    seed: int
    min_qos_choices: tuple[float, ...] = MIN_QOS_CHOICES
    depth: int = DEPTH

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"distillation {self.training_tasks[0].env_id} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        each = self.labels / len(self.training_tasks)
        return 4.0 + sum(self._seconds(training_task, each) for training_task in self.training_tasks)

    def _seconds(self, training_task: Scenario, labels: float) -> float:
        longer, wider, trial = (10.0, 2.3, 8.0) if training_task.has_long_queues else (1.0, 1.0, 1.5)
        trials = trial * len(self.min_qos_choices) if len(self.min_qos_choices) > 1 else 0.0
        return trials + labels * (8e-6 * longer * self.futures + 3.5e-5 * wider * self.epochs)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        clone = distill_rollouts(
            self.training_tasks,
            self.labels,
            self.futures,
            self.epochs,
            self.seed,
            self.min_qos_choices,
            self.depth,
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


def loaded(files: Files) -> Any:
    """Return the model of a finished training or distillation."""
    with unpacked(files) as folder:
        return load_model(folder).model


def distill_rollouts(
    training_tasks: Sequence[Scenario],
    labels: int,
    futures: int,
    epochs: int,
    seed: int = 0,
    min_qos_choices: Sequence[float] = MIN_QOS_CHOICES,
    depth: int = DEPTH,
    progress: bool = False,
) -> Clone:
    """Return a network that has learned what rollouts think of every action.

    :param training_tasks: scenarios as the network acts in them, with the same spaces; each has an equal
        share of the decisions
    :param labels: decisions of the rollouts, recorded in 32 environments
    :param futures: of each rollout
    :param epochs: passes over the data
    :param seed: of the data and of the network
    :param min_qos_choices: of the rollouts; of several the best one is found by trial in each training task
        (:func:`best_min_qos`)
    :param depth: steps that they look ahead
    :param progress: show progress bars
    :raises ValueError: for training tasks whose spaces differ
    """
    require_same_spaces(training_tasks)
    teachers = [
        strong(futures, best_min_qos(training_task, min_qos_choices, seed, depth, progress), depth).spec
        for training_task in training_tasks
    ]
    parts = [
        record(training_task, teacher, labels // len(training_tasks), seed, progress)
        for training_task, teacher in zip(training_tasks, teachers, strict=True)
    ]
    data = concatenate(parts)
    spread = max(float(np.sqrt(np.nanmean(np.square(part.labels["advantages"])))) for part in parts)
    scale = min(SCALE, SPREAD / spread)
    clone = distill(data, n_epochs=epochs, seed=seed, logit_scale=scale, progress=progress)
    distilled = f"by {' and '.join(dict.fromkeys(teachers))} on {len(data):,} decisions, in {epochs} passes"
    more = {
        "distilled": distilled,
        "training_tasks": [training_task.env_kwargs for training_task in training_tasks],
    }
    return replace(clone, record={**clone.record, **more})


def require_same_spaces(training_tasks: Sequence[Scenario]) -> None:
    """Refuse training tasks that are not seen alike, before hours of recording.

    :param training_tasks: scenarios as the network acts in them
    :raises ValueError: naming the first that is seen otherwise
    """
    spaces = []
    for training_task in training_tasks:
        env = make_vec_env(training_task.env_id, 1, **training_task.env_kwargs)
        spaces.append((env.observation_space, env.action_space))
        env.close()
    for k, found in enumerate(spaces):
        if found != spaces[0]:
            raise ValueError(
                f"training_tasks[{k}] = {dict(training_tasks[k].env_kwargs)}: its observations or actions "
                "have other shapes than the first training task's"
            )


def record(
    training_task: Scenario, teacher: str, labels: int, seed: int, progress: bool = False
) -> OfflineDataset:
    """Return decisions of rollouts with their valuation of every action, waiting worth less by the reserve.

    :param training_task: that they act in
    :param teacher: the rollouts
    :param labels: decisions
    :param seed: number of the run
    :param progress: show a progress bar
    """
    data = collect(
        {"rollout": teacher},
        training_task.env_id,
        labels,
        RECORDING_SEED + 100 * seed,
        env_kwargs=training_task.env_kwargs,
        n_envs=32,
        labels=("advantages",),
        progress=progress,
    )
    data.labels["advantages"][:, -1] -= RESERVE
    return data


def best_min_qos(
    scenario: Scenario,
    min_qos_choices: Sequence[float],
    seed: int = 0,
    depth: int = DEPTH,
    progress: bool = False,
) -> float:
    """Return the min_qos with which rollouts over few futures earn most in training episodes.

    :param scenario: that they act in
    :param min_qos_choices: to choose from; the first of equals
    :param seed: of the episodes
    :param depth: steps that the rollouts look ahead
    :param progress: show a progress bar
    """
    if len(min_qos_choices) == 1:
        return min_qos_choices[0]
    results = evaluate(
        {f"{min_qos:g}": strong(MIN_QOS_FUTURES, min_qos, depth).spec for min_qos in min_qos_choices},
        scenario.env_id,
        MIN_QOS_EPISODES_LONG if scenario.has_long_queues else MIN_QOS_EPISODES,
        MIN_QOS_SEED + 100 * seed,
        env_kwargs=scenario.env_kwargs,
        progress=progress,
    )
    earned = results.groupby("policy")["total_job_value_ratio"].mean()
    return max(min_qos_choices, key=lambda min_qos: earned[f"{min_qos:g}"])
