"""Taught networks on test episodes, by themselves and with a search on top."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from sb3_greendc.bc.distill import resize
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import Policy
from sb3_greendc.experiments.episodes import Variant, play
from sb3_greendc.experiments.tasks import Files, Outcome, Problem, Task
from sb3_greendc.experiments.teaching import Teaching, unpacked
from sb3_greendc.runs.models import RUN_FILE, load_model

NAME = "taught network"
SEARCHED = f"{NAME}, searching"


@dataclass(frozen=True)
class Trial(Task):
    """Judge a taught network on a problem, which may be of another size than what it was taught on.

    :param teaching: of the network
    :param problem: as the network acts in it
    :param episodes: test episodes
    :param search: rollouts that have the network as their prior, in place of the network by itself
    :param network: files of ``teaching``; without them it is done here
    """

    teaching: Teaching
    problem: Problem
    episodes: int
    search: Variant | None = None
    network: Files | None = field(default=None, repr=False, compare=False)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        name = SEARCHED if self.search else NAME
        return f"{name} {self.problem.env_id} seed {self.teaching.seed}"

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return (self.teaching,)

    def given(self, *files: Files) -> Trial:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return Trial(self.teaching, self.problem, self.episodes, self.search, files[0])

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        futures = int(self.search.options["futures"]) if self.search else 0
        by_one, by_futures = (8.0, 6.0) if self.problem.has_long_queues else (1.0, 1.0)
        each = by_one * (1.5e-5 + 5e-6 * self.problem.size)
        each += by_futures * futures * (4e-6 + 6e-7 * self.problem.size)
        return 1.5 + self.episodes * self.problem.episode_steps * each

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        files = self.network or self.teaching.compute().files
        run: Mapping[str, Any] = json.loads(files[RUN_FILE])
        head = {
            "policy": SEARCHED if self.search else NAME,
            "train_seed": self.teaching.seed,
            "trained_decisions": run["labels"],
            "trained_seconds": run["seconds"],
        }
        with unpacked(files) as folder:
            rows = [{**head, **row} for row in play(self._policy(folder), self.problem, self.episodes)]
        return Outcome({"episodes": pd.DataFrame(rows)})

    def _policy(self, folder: str) -> Policy:
        """Return the network, fitted to the problem, or the rollouts on top of it."""
        if self.search is not None:
            return Variant(self.search.name, {**self.search.options, "prior": folder}).spec
        env = make_vec_env(self.problem.env_id, 1, **self.problem.env_kwargs)
        try:
            model: Any = load_model(folder).model
            return resize(model, env.observation_space, env.action_space)
        finally:
            env.close()
