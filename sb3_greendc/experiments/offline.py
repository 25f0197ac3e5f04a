"""Learning from data alone: record policies, clone or improve on them, judge the result."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import greendc
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.crr import CRR
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.policy_sources import policy_sources
from sb3_greendc.experiments.episodes import TEST_SEED, play
from sb3_greendc.experiments.tasks import Outcome, Scenario, Task
from sb3_greendc.runs.hyperparameters import read_hyperparameters
from sb3_greendc.runs.models import MODEL_FILE, RUN_FILE, save_model

RECORDING_SEED = 30_000
"""Seed of the first recording environment: neither a training's nor a test's."""


def offline_model(
    scenario: Scenario, teachers: tuple[str, ...], transitions: int, seed: int, options: Mapping[str, Any]
) -> CRR:
    """Record teachers and return a :class:`~sb3_greendc.crr.CRR` on what they did, not yet trained.

    :param scenario: what is recorded, with the environment's ordinary mask
    :param teachers: policies that are recorded, each an equal share
    :param transitions: transitions recorded in all
    :param seed: number of the run: another one has other data, too
    :param options: of the algorithm, written as in ``zoo_hparams/crr.yml``
    """
    first = RECORDING_SEED + 1000 * seed
    data = collect(teachers, scenario.env_id, transitions, first, env_kwargs=scenario.env_kwargs)
    policy = "MultiInputPolicy" if hasattr(data.observation_space, "spaces") else "MlpPolicy"
    arguments = read_hyperparameters("crr", options).arguments
    return CRR(policy, dataset=data, seed=seed, device="cpu", **arguments)


@dataclass(frozen=True)
class OfflineTraining(Task):
    """Record teachers and train :class:`~sb3_greendc.crr.CRR` on what they did.

    :param name: the learner's name in tables
    :param scenario: what is recorded, with the environment's ordinary mask
    :param teachers: policies that are recorded, each an equal share
    :param transitions: transitions recorded in all
    :param steps: gradient steps
    :param seed: number of the run: another one has other data, too
    :param episodes: test episodes
    :param options: of the algorithm, written as in ``zoo_hparams/crr.yml``
    :param tests: other scenarios to judge it on, by name
    :param agreement: measure in how many states it does what each teacher does: the teacher drives
    """

    name: str
    scenario: Scenario
    teachers: tuple[str, ...]
    transitions: int
    steps: int
    seed: int
    episodes: int
    options: Mapping[str, Any] = field(default_factory=dict)
    tests: Mapping[str, Scenario] = field(default_factory=dict)
    agreement: bool = False

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.name} from {' '.join(self.teachers)} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 5.0 + self.transitions / 30_000 + self.steps / 150

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        model = offline_model(self.scenario, self.teachers, self.transitions, self.seed, self.options)
        started = time.perf_counter()
        model.learn(self.steps)
        seconds = time.perf_counter() - started
        head = {"policy": self.name, "train_seed": self.seed, "trained_decisions": self.steps}
        rows = [
            {**head, "trained_seconds": round(seconds, 2), "test": name, **row}
            for name, scenario in (self.tests or {"": self.scenario}).items()
            for row in play(model, scenario, self.episodes)
        ]
        tables = {"episodes": pd.DataFrame(rows)}
        if self.agreement:
            found = [row for teacher in self.teachers for row in self._agreement(model, teacher)]
            tables["agreement"] = pd.DataFrame(found)
        with tempfile.TemporaryDirectory() as folder:
            record = {**self.describe(), "algorithm": "crr", **provenance()}
            save_model(model, Path(folder), record)
            files = {name: (Path(folder) / name).read_bytes() for name in (MODEL_FILE, RUN_FILE)}
        return Outcome(tables, files)

    def _agreement(self, model: CRR, teacher: str, envs: int = 8) -> list[dict[str, Any]]:
        """Let the teacher play fresh episodes, and count where the model's likeliest action is the same."""
        env_id = greendc.resolve_env_id(self.scenario.env_id)
        (actor,) = policy_sources({teacher: teacher}, env_id)
        env = make_vec_env(env_id, envs, TEST_SEED, **self.scenario.env_kwargs)
        policy = actor.policy_for(env)
        observations: Any = env.reset()
        counts = np.zeros((envs, 4))
        running = np.ones(envs, dtype=np.bool_)
        while running.any():
            theirs, _ = policy.predict(observations, deterministic=True)
            ours, _ = model.predict(observations, deterministic=True)
            same = np.asarray(ours) == np.asarray(theirs)
            valid = np.asarray(observations["action_mask"]).sum(axis=1)
            choice = valid > 1
            found = np.stack([np.ones(envs), same, choice, same & choice], axis=1)
            counts[running] += found[running]
            observations, _, dones, _ = env.step(np.asarray(theirs))
            running &= ~dones
        env.close()
        columns = ("decisions", "same", "choices", "same_choices")
        return [
            {
                "policy": self.name,
                "teacher": teacher,
                "train_seed": self.seed,
                "episode": k,
                **dict(zip(columns, row.tolist(), strict=True)),
            }
            for k, row in enumerate(counts)
        ]
