"""A learner that is taught what a planner thinks of every action."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sb3_greendc.bc.cloning import Clone
from sb3_greendc.bc.distill import distill
from sb3_greendc.common.contestants import Policy
from sb3_greendc.common.evaluation import evaluate
from sb3_greendc.common.models import MODEL_FILE, RUN_FILE
from sb3_greendc.common.provenance import provenance
from sb3_greendc.datasets import collect
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.tasks import Outcome, Problem, Task

RECORDING_SEED = 20_000
NAME = "distilled rollouts"
SEARCHED = f"{NAME}, searching"

FLOORS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3)
"""QoS values below which the heuristic inside the rollouts starts no job, of which the best is found by trial
before a network is taught. At a load of 0.8 it is about 0.15, at 1.0 about 0.2."""

LONG_FLOORS = (0.0, 0.2)
"""Those that are tried where long queues make each decision slow."""

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
class DistilledTraining(Task):
    """Record rollouts with their valuation of every action, distill it, and judge the network.

    :param problem: what it is trained on
    :param choice: keyword arguments of the environment that narrow what the learner chooses from
    :param labels: decisions recorded
    :param futures: of each rollout
    :param epochs: passes over the data
    :param seed: number of the run: another one has other data, too
    :param episodes: test episodes
    :param test_kwargs: keyword arguments of the environment in tests only
    :param floors: of the rollouts that teach; the best one is found by trial
    :param search: futures of each decision of a second policy, :data:`SEARCHED`: rollouts with the network as
        their prior; 0 for none
    """

    problem: Problem
    choice: Mapping[str, Any]
    labels: int
    futures: int
    epochs: int
    seed: int
    episodes: int
    test_kwargs: Mapping[str, Any] = field(default_factory=dict)
    floors: tuple[float, ...] = FLOORS
    search: int = 0

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{NAME} {self.problem.env_id} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        longer, wider, trial = (12.0, 3.0, 15.0) if self.problem.has_long_queues else (1.0, 1.0, 1.0)
        trials = trial * len(self.floors) if len(self.floors) > 1 else 0.0
        searched = self.episodes * self.test_kwargs.get("episode_steps", 500) * self.search
        labelled = self.labels * (1.6e-5 * longer * self.futures + 4e-5 * wider * self.epochs)
        return float(6.0 + trials + labelled + 5e-6 * longer * searched)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        acting = self.problem.with_kwargs(**self.choice)
        started = time.perf_counter()
        clone = teach(acting, self.labels, self.futures, self.epochs, self.seed, self.floors)
        seconds = time.perf_counter() - started
        head = {
            "train_seed": self.seed,
            "trained_decisions": self.labels,
            "trained_seconds": round(seconds, 2),
        }
        tested = acting.with_kwargs(**self.test_kwargs)
        with tempfile.TemporaryDirectory() as folder:
            clone.save(folder, **provenance())
            policies: dict[str, Policy] = {NAME: clone.model}
            if self.search:
                floor = clone.record["floor"]
                policies[SEARCHED] = f"rollout:futures={self.search},floor={floor:g},prior={folder}"
            rows = [
                {"policy": name, **head, **row}
                for name, policy in policies.items()
                for row in play(policy, tested, self.episodes)
            ]
            files = {name: (Path(folder) / name).read_bytes() for name in (MODEL_FILE, RUN_FILE)}
        return Outcome({"episodes": pd.DataFrame(rows)}, files)


def teach(
    problem: Problem,
    labels: int,
    futures: int,
    epochs: int,
    seed: int = 0,
    floors: Sequence[float] = (0.0,),
) -> Clone:
    """Return a network that has learned what rollouts think of every action.

    :param problem: as the network acts in it
    :param labels: decisions of the rollouts, recorded in 32 environments
    :param futures: of each rollout
    :param epochs: passes over the data
    :param seed: of the data and of the network
    :param floors: of the rollouts; of several the best one is found by trial (:func:`best_floor`)
    """
    floor = best_floor(problem, floors, seed)
    teacher = rollouts(problem, futures, floor)
    data = collect(
        {"rollout": teacher},
        problem.env_id,
        labels,
        RECORDING_SEED + 100 * seed,
        env_kwargs=problem.env_kwargs,
        n_envs=32,
        labels=("advantages",),
    )
    advantages = data.labels["advantages"]
    advantages[:, -1] -= RESERVE
    scale = SCALE / max(1.0, SCALE / SPREAD * float(np.sqrt(np.nanmean(np.square(advantages)))))
    clone = distill(data, n_epochs=epochs, seed=seed, logit_scale=scale)
    taught = f"by {teacher} on {labels:,} decisions, in {epochs} passes"
    return replace(clone, record={**clone.record, "taught": taught, "floor": floor})


def rollouts(problem: Problem, futures: int, floor: float) -> str:
    """Return the teacher of a problem; where many jobs wait, its rollouts keep places for those without one.

    :param problem: that it acts in
    :param futures: of each decision
    :param floor: QoS value below which the heuristic inside starts no job
    """
    kept = f",floor={floor:g}" if floor else ""
    return f"rollout:futures={futures}{kept}" + (",dispatch=easy" if problem.has_long_queues else "")


def best_floor(problem: Problem, floors: Sequence[float], seed: int = 0) -> float:
    """Return the floor with which rollouts over few futures earn most in training episodes.

    :param problem: that they act in
    :param floors: to choose from; the first of equals
    :param seed: of the episodes
    """
    if len(floors) == 1:
        return floors[0]
    results = evaluate(
        {f"{floor:g}": rollouts(problem, FLOOR_FUTURES, floor) for floor in floors},
        problem.env_id,
        FLOOR_EPISODES_LONG if problem.has_long_queues else FLOOR_EPISODES,
        FLOOR_SEED + 100 * seed,
        env_kwargs=problem.env_kwargs,
    )
    earned = results.groupby("policy")["total_job_value_ratio"].mean()
    return max(floors, key=lambda floor: earned[f"{floor:g}"])
