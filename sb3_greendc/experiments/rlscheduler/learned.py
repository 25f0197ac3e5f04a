"""Tasks: a network distilled from guarded rollouts, and networks judged on the benchmark's sequences."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from greendc.baselines.cluster import HEURISTICS, GuardedRollout
from greendc.cluster import ClusterJobs
from greendc.cluster.rlscheduler import JOBS, SEQUENCE, window_starts
from sb3_greendc.bc import distill
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.datasets import OfflineDataset, concatenate
from sb3_greendc.datasets.recorder import Recorder
from sb3_greendc.evaluation.policy_sources import takes_masks
from sb3_greendc.experiments.distillation import pack, unpacked
from sb3_greendc.experiments.rlscheduler.windows import (
    LOG_ROWS,
    METRICS,
    ROLLOUT,
    SEARCH,
    Windows,
    benchmark_jobs,
)
from sb3_greendc.experiments.tasks import Files, Outcome, Task
from sb3_greendc.experiments.training import Learner
from sb3_greendc.runs.models import load_model

DISTILLED = "distilled policy"
FROM_SCRATCH = (
    Learner(
        "MaskablePPO",
        "maskable_ppo",
        decisions=2_000_000,
        quick_decisions=300_000,
        quick_seeds=1,
        speed=2500.0,
    ),
    Learner(
        "DiscreteSAC", "discrete_sac", decisions=200_000, quick_decisions=30_000, quick_seeds=1, speed=900.0
    ),
)
"""Learners that no rollouts teach, with the settings of ``zoo_hparams/``."""
ENV_ID = "Cluster-Lublin-v0"
N_ENVS = 16
ROUNDS = 3
SETTINGS: Mapping[str, Any] = {
    "loss": "divergence",
    "learning_rate": 5e-3,
    "batch_size": 256,
    "policy_kwargs": {"features_extractor_kwargs": {"relative": True}, "net_arch": [64]},
}
"""Of the distillation; chosen on generated jobs and on rows of HPC2N's log that are not tested on."""
TEACHER: Mapping[str, Any] = {
    **SEARCH,
    "base": "f2",
    "futures": 6,
    "horizon": 32,
    "daytime": 12.0,
}
"""Options of the rollouts that say what jobs are worth; chosen on the same jobs.

F2 alone is better there than WSPT, and a network learns more of a rule than of single gains. With 8 jobs
ahead and backfilling networks were worse (``docs/cluster.md``)."""
MARGIN = 1.0
"""What is added to the label of the job that the rollouts' base rule takes, in logarithms of slowdowns:
gains that are small, or mostly chance, do not count. Chosen on the same jobs."""
LOGIT_SCALE = 1.0
"""How sharp the labels are; chosen on the same jobs."""
TRAINING_SEEDS = (1, 2)
"""Workload seeds of the generated jobs that networks are trained on; those judged on have another seed."""
PRACTICE = 100_000
"""Generated jobs that learners without a teacher practise on."""
PRACTICE_EPISODES = {"MaskablePPO": 256, "DiscreteSAC": SEQUENCE}
"""How many of them make an episode: the better of both numbers without backfilling (``docs/cluster.md``)."""


def generated(backfill: str, seed: int, jobs: int = JOBS, episode_jobs: int | None = None) -> dict[str, Any]:
    """Return an environment of generated jobs.

    :param backfill: ``"none"`` or ``"easy"``
    :param seed: of the jobs
    :param jobs: how many there are
    :param episode_jobs: of an episode; ``None``: as many as a sequence of the benchmark has
    """
    made = {"workload": "lublin", "workload_seed": seed, "workload_jobs": jobs}
    return {**made, "backfill": backfill, "episode_jobs": episode_jobs or SEQUENCE}


def training_jobs(backfill: str, log: str | None) -> tuple[Mapping[str, Any], ...]:
    """Return the environments that a network is trained in.

    :param backfill: ``"none"`` or ``"easy"``
    :param log: the file of HPC2N's log, if it is at hand
    """
    found = [generated(backfill, seed) for seed in TRAINING_SEEDS]
    if log is not None:
        rows = {"first_job": LOG_ROWS[0], "last_job": LOG_ROWS[1], "episode_jobs": SEQUENCE}
        found.append({"workload": log, "backfill": backfill, **rows})
    return tuple(found)


@dataclass(frozen=True)
class Teaching(Windows):
    """The rollouts that teach the distilled policies, as rollouts of their own."""

    rollouts: ClassVar[str] = "teaching rollouts"


@dataclass(frozen=True)
class ClusterDistillation(Task):
    """Distill what guarded rollouts think of every job into a network that scores jobs one by one.

    At first the rollouts act. Then the network so far does, and the rollouts say what they think of the
    states that it comes to (Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and Structured
    Prediction to No-Regret Online Learning", AISTATS 2011).

    :param training_jobs: keyword arguments of :data:`ENV_ID`; equal shares of the decisions
    :param search: options of the rollouts
    :param labels: decisions of the rollouts
    :param epochs: passes over the data
    :param seed: of the data and of the network
    :param margin: see :data:`MARGIN`
    :param logit_scale: how sharp the labels are
    """

    training_jobs: tuple[Mapping[str, Any], ...]
    search: Mapping[str, Any]
    labels: int
    epochs: int
    seed: int
    margin: float = MARGIN
    logit_scale: float = LOGIT_SCALE

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{DISTILLED}, backfill {self.training_jobs[0]['backfill']}, seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 20.0 + self.labels * (1e-3 + 3e-4 * self.epochs)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        steps = self.labels // (ROUNDS * len(self.training_jobs) * N_ENVS)
        parts: list[OfflineDataset] = []
        student: Any = None
        for k in range(ROUNDS):
            parts += [
                record(source, self.search, steps, 1000 * k + self.seed, self.margin, student)
                for source in self.training_jobs
            ]
            clone = distill(
                concatenate(parts),
                n_epochs=self.epochs,
                seed=self.seed,
                logit_scale=self.logit_scale,
                **SETTINGS,
            )
            student = clone.model
        seconds = round(time.perf_counter() - started, 2)
        return Outcome({"history": clone.history}, pack(clone, labels=self.labels, seconds=seconds))


def record(
    source: Mapping[str, Any],
    search: Mapping[str, Any],
    steps: int,
    seed: int,
    margin: float = MARGIN,
    student: Any = None,
) -> OfflineDataset:
    """Return what rollouts think of every action in some states.

    :param source: keyword arguments of :data:`ENV_ID`
    :param search: options of the rollouts
    :param steps: in each of :data:`N_ENVS` environments
    :param seed: of the episodes and of the rollouts
    :param margin: see :data:`MARGIN`
    :param student: what acts; without one the rollouts do
    :return: data with the label ``advantages``: logarithms, since single ones are a hundred times others, and
        more by the margin for what the base rule takes
    """
    env: Any = make_vec_env(ENV_ID, N_ENVS, seed=1000 * seed, **source)
    teacher = GuardedRollout(env.simulator, seed=seed, **search)
    base = HEURISTICS[search["base"]](env.simulator, search["fitting"], search["predicted"])
    rows = np.arange(N_ENVS)
    recorder = Recorder(steps * N_ENVS, env.observation_space, env.action_space, None)
    recorder.begin(0, [steps] * N_ENVS)
    observations = env.reset()
    while recorder.running:
        advantages = teacher.advantages(observations)
        actions = np.nanargmax(advantages, axis=1)
        labels = np.sign(advantages) * np.log1p(np.abs(advantages))
        labels[rows, base.act(observations)] += margin
        recorder.before(observations, actions, {"advantages": labels})
        if student is not None:
            masks = observations[ACTION_MASK]
            actions, _ = student.predict(observations, action_masks=masks, deterministic=True)
        observations, rewards, ends, infos = env.step(actions)
        recorder.after(observations, rewards, ends, infos)
    env.close()
    return recorder.finish([ROLLOUT], {"env_id": ENV_ID, "env_kwargs": dict(source)})


@dataclass(frozen=True)
class Judged(Task):
    """A network on the ten sequences of a seed, all at once.

    :param name: what tables call it
    :param training: the task that makes it
    :param trace: name of the trace
    :param path: its file, ``None`` for generated jobs
    :param backfill: ``"none"`` or ``"easy"``
    :param seed: of the sequences
    :param network: files of ``training``; without them it is done here
    """

    name: str
    training: Task
    trace: str
    path: str | None
    backfill: str
    seed: int
    network: Files | None = field(default=None, repr=False, compare=False)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.name} on {self.trace}, backfill {self.backfill}, seed {self.seed}"

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return (self.training,)

    def given(self, *files: Files) -> Judged:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, network=files[0])

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 4.0

    def describe(self) -> dict[str, Any]:
        """Describe the training as it describes itself."""
        return {**super().describe(), "training": self.training.describe()}

    def compute(self) -> Outcome:
        """Play them; a row for each sequence."""
        with unpacked(self.network or self.training.compute().files) as folder:
            model: Any = load_model(folder).model
        rows = play(model, benchmark_jobs(self.path), self.backfill, self.seed)
        return Outcome({"episodes": pd.DataFrame([{"policy": self.name, **row} for row in rows])})


def play(model: Any, jobs: ClusterJobs, backfill: str, seed: int) -> list[dict[str, float]]:
    """Return what a network makes of each sequence of a seed.

    :param model: with ``predict`` that takes masks, or finds them in observations
    :param jobs: of the trace
    :param backfill: ``"none"`` or ``"easy"``
    :param seed: of the sequences
    """
    starts = [int(start) for start in window_starts(seed)]
    env = make_vec_env(ENV_ID, len(starts), workload=jobs, backfill=backfill, episode_jobs=SEQUENCE)
    env.set_options([{"start": start} for start in starts])
    observations: Any = env.reset()
    rows: dict[int, dict[str, float]] = {}
    while len(rows) < len(starts):
        masks = {"action_masks": observations[ACTION_MASK]} if takes_masks(model) else {}
        actions, _ = model.predict(observations, deterministic=True, **masks)
        observations, _, ends, infos = env.step(actions)
        for k in np.flatnonzero(ends):
            metrics = infos[k]["episode_metrics"]
            rows.setdefault(int(k), {"start": starts[k], **{name: metrics[name] for name in METRICS}})
    env.close()
    return [rows[k] for k in range(len(starts))]
