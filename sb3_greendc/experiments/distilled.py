"""A learner that is taught what a planner thinks of every action."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sb3_greendc.bc.cloning import Clone
from sb3_greendc.bc.distill import distill
from sb3_greendc.common.models import MODEL_FILE, RUN_FILE
from sb3_greendc.common.provenance import provenance
from sb3_greendc.datasets import collect
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.tasks import Outcome, Problem, Task

RECORDING_SEED = 20_000
NAME = "distilled rollouts"

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
    """

    problem: Problem
    choice: Mapping[str, Any]
    labels: int
    futures: int
    epochs: int
    seed: int
    episodes: int
    test_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{NAME} {self.problem.env_id} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        longer = 12.0 if self.problem.has_long_queues else 1.0
        return 6.0 + self.labels * (1.6e-5 * longer * self.futures + 4e-5 * self.epochs)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        acting = self.problem.with_kwargs(**self.choice)
        started = time.perf_counter()
        clone = teach(acting, self.labels, self.futures, self.epochs, self.seed)
        seconds = time.perf_counter() - started
        head = {"policy": NAME, "train_seed": self.seed, "trained_decisions": self.labels}
        tested = acting.with_kwargs(**self.test_kwargs)
        rows = [
            {**head, "trained_seconds": round(seconds, 2), **row}
            for row in play(clone.model, tested, self.episodes)
        ]
        with tempfile.TemporaryDirectory() as folder:
            clone.save(folder, **provenance())
            files = {name: (Path(folder) / name).read_bytes() for name in (MODEL_FILE, RUN_FILE)}
        return Outcome({"episodes": pd.DataFrame(rows)}, files)


def teach(problem: Problem, labels: int, futures: int, epochs: int, seed: int = 0) -> Clone:
    """Return a network that has learned what rollouts think of every action.

    :param problem: as the network acts in it
    :param labels: decisions of the rollouts, recorded in 32 environments
    :param futures: of each rollout
    :param epochs: passes over the data
    :param seed: of the data and of the network
    """
    data = collect(
        {"rollout": f"rollout:futures={futures}"},
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
    taught = f"by rollout:futures={futures} on {labels:,} decisions, in {epochs} passes"
    return replace(clone, record={**clone.record, "taught": taught})
