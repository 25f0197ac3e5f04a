"""Distilled policies on test episodes, by themselves and with a search on top."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from sb3_greendc.bc.distill import resize
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import Policy
from sb3_greendc.experiments.distillation import Distillation, unpacked
from sb3_greendc.experiments.episodes import Variant, play
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task
from sb3_greendc.runs.models import RUN_FILE, load_model

NAME = "distilled policy"
SEARCHED = "guided rollouts"


@dataclass(frozen=True)
class Evaluation(Task):
    """Judge a distilled policy on a scenario, which may be of another size than what it was trained on.

    :param distillation: of the network
    :param scenario: as the network acts in it
    :param episodes: test episodes
    :param search: rollouts that have the network as their prior, in place of the network by itself
    :param network: files of ``distillation``; without them it is done here
    """

    distillation: Distillation
    scenario: Scenario
    episodes: int
    search: Variant | None = None
    network: Files | None = field(default=None, repr=False, compare=False)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        name = SEARCHED if self.search else NAME
        return f"{name} {self.scenario.env_id} seed {self.distillation.seed}"

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return (self.distillation,)

    def given(self, *files: Files) -> Evaluation:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return Evaluation(self.distillation, self.scenario, self.episodes, self.search, files[0])

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        futures = int(self.search.options["futures"]) if self.search else 0
        by_one, by_futures = (8.0, 6.0) if self.scenario.has_long_queues else (1.0, 1.0)
        each = by_one * (1.5e-5 + 5e-6 * self.scenario.size)
        each += by_futures * futures * (4e-6 + 6e-7 * self.scenario.size)
        return 1.5 + self.episodes * self.scenario.episode_steps * each

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        files = self.network or self.distillation.compute().files
        run: Mapping[str, Any] = json.loads(files[RUN_FILE])
        head = {
            "policy": SEARCHED if self.search else NAME,
            "train_seed": self.distillation.seed,
            "trained_decisions": run["labels"],
            "trained_seconds": run["seconds"],
        }
        with unpacked(files) as folder:
            rows = [{**head, **row} for row in play(self._policy(folder), self.scenario, self.episodes)]
        return Outcome({"episodes": pd.DataFrame(rows)})

    def _policy(self, folder: str) -> Policy:
        """Return the network, fitted to the scenario, or the rollouts on top of it."""
        if self.search is not None:
            return Variant(self.search.name, {**self.search.options, "prior": folder}).spec
        env = make_vec_env(self.scenario.env_id, 1, **self.scenario.env_kwargs)
        try:
            model: Any = load_model(folder).model
            return resize(model, env.observation_space, env.action_space)
        finally:
            env.close()
