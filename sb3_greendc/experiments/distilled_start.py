"""PIDLagrangianPPO from a network distilled from rollouts: what is left to learn is to keep the limit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from greendc.resource_pool.observation import JOB_FEATURES
from sb3_greendc.bc.cloning import Clone
from sb3_greendc.bc.distill import distill
from sb3_greendc.bc.warm_start import CriticsFirst, start_from
from sb3_greendc.experiments.constrained import CHOICE
from sb3_greendc.experiments.distillation import SCALE, SPREAD, pack, record, unpacked
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task
from sb3_greendc.experiments.training import Learner
from sb3_greendc.runs.models import load_model

NAME = "PID-PPO, distilled start"

LATE_START = 0.3
"""What the end of a job's delay is worth in the distillation, in mean job values: to the planner, which pays
for jobs on time alone, it is worth nothing. At a load of 1 the network then earns .63 of the value at a cost
of 57 (validation episodes; at 0.1: .65 at 83, at 1.0: .54 at 54)."""


@dataclass(frozen=True)
class DistilledStart(Task):
    """Train a network on what rollouts, and a bonus for late starts, say of every action.

    It depends on the scenario alone: runs under other limits and gains start from the same network.

    :param scenario: as the network acts in it: late jobs may be run
    :param labels: decisions of the rollouts
    :param futures: of each rollout
    :param epochs: passes over the data
    :param late_start: see :data:`LATE_START`
    :param seed: of the data and of the network
    """

    scenario: Scenario
    labels: int
    futures: int
    epochs: int
    late_start: float
    seed: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"distilled start {self.scenario.env_id} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        longer = 12.0 if self.scenario.has_long_queues else 2.0
        return 3.0 + self.labels * (7e-6 * longer * self.futures + 3e-5 * self.epochs)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        clone = self.distill()
        seconds = round(time.perf_counter() - started, 2)
        return Outcome({"history": clone.history}, pack(clone, labels=self.labels, seconds=seconds))

    def distill(self) -> Clone:
        """Return the network."""
        data = record(self.scenario, f"rollout:futures={self.futures}", self.labels, self.seed)
        advantages = data.labels["advantages"]
        jobs = data.observations["jobs"]
        n_jobs = jobs.shape[1]
        late = jobs[:, :, JOB_FEATURES.index("on_time")] < 0.5
        advantages[:, :n_jobs] += np.where(late, self.late_start, 0.0)
        spread = float(np.sqrt(np.nanmean(np.square(advantages))))
        return distill(data, n_epochs=self.epochs, seed=self.seed, logit_scale=min(SCALE, SPREAD / spread))


@dataclass(frozen=True)
class DistilledLearner(Learner):
    """A learner whose actor starts as a network distilled from rollouts (:class:`DistilledStart`).

    :param labels: decisions of the rollouts
    :param futures: of each rollout
    :param epochs: passes over the data
    :param late_start: see :data:`LATE_START`
    :param sharpness: factor of the logits: draws keep close to the most likely action
    :param critic_rollouts: rollouts in which the critics alone are trained
    """

    labels: int = 20_000
    futures: int = 8
    epochs: int = 8
    late_start: float = LATE_START
    sharpness: float = 8.0
    critic_rollouts: int = 2

    def needs(self, scenario: Scenario, seed: int) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.training.Learner`."""
        return (DistilledStart(scenario, self.labels, self.futures, self.epochs, self.late_start, seed),)

    def start(self, model: BaseAlgorithm, *files: Files) -> list[BaseCallback]:
        """See :class:`~sb3_greendc.experiments.training.Learner`."""
        with unpacked(files[0]) as folder:
            start_from(model, load_model(folder).model, self.sharpness)
        return [CriticsFirst(self.critic_rollouts)]


def distilled_pid_ppo(limit: float, quick: bool, name: str = NAME, **settings: Any) -> DistilledLearner:
    """Return PIDLagrangianPPO with a limit on the cost of an episode, from a distilled policy.

    What the network learned of jobs says which action is better, not how much delay there will be, so that
    the cost critic has an extractor of its own; ``docs/pid_ppo.md`` says what each of the settings is for.

    :param limit: in units of :data:`~sb3_greendc.experiments.constrained.DELAY`
    :param quick: whether a few minutes have to do
    :param name: name in tables and figures
    :param settings: further hyperparameters, such as gains
    """
    return DistilledLearner(
        name,
        "pid_ppo",
        hyperparameters={
            "policy": "CostJobSetPolicy",
            "cost_limit": limit,
            "learning_rate": "lin_5e-4",
            "callback": "DiscountByTime",
            "target_kl": 0.02,
            "init": 1.0,
            "min_episodes": 8,
            "cost_vf_coef": 0.5,
            "policy_kwargs": {
                "features_extractor": "job_set",
                "share_cost_features_extractor": False,
                "normalize_returns": True,
            },
            **settings,
        },
        choice=CHOICE,
        deterministic=False,
        decisions=600_000,
        quick_decisions=65_536,
        quick_seeds=1,
        speed=9_000.0,
        labels=20_000 if quick else 300_000,
        futures=8 if quick else 32,
        epochs=8 if quick else 10,
    )
