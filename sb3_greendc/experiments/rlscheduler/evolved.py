"""Tasks: orders of the queue that evolution finds, and how they do on the benchmark's sequences."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from greendc.baselines.cluster.evolution import Practice, evolve
from greendc.cluster import ClusterJobs, lublin_jobs
from greendc.cluster.rlscheduler import JOBS, benchmark_simulator, read_trace, window_starts
from sb3_greendc.experiments.rlscheduler.windows import LOG_ROWS, METRICS, benchmark_jobs
from sb3_greendc.experiments.tasks import Files, Outcome, Task

EVOLVED = "evolved rule"
GENERATIONS = (100, 300)
"""Quick and full."""
WEIGHTS_FILE = "weights.json"
FIRST_SEED = 10_000
"""Of the generated jobs; those judged on have another."""
GENERATED, VARIED, LOGGED = (12, 24, 0.25), (16, 36, 0.35), (5, 48, 0.4)
"""Of generated jobs, varied ones and the log's: how many sets of jobs, sequences of a generation, share."""


@dataclass(frozen=True)
class Evolution(Task):
    """Evolve the rule ``"evolved"`` on jobs of which none is tested on.

    :param backfill: ``"none"`` or ``"easy"``
    :param log: the file of HPC2N's log, if it is at hand
    :param generations: how many
    :param seed: of the jobs, the sequences and the weights
    """

    backfill: str
    log: str | None
    generations: int
    seed: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{EVOLVED}, backfill {self.backfill}, seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return self.generations * (6.0 if self.backfill == "none" else 4.0)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        rows: list[dict[str, float]] = []
        weights = evolve(
            practices(self.backfill, self.log, self.seed),
            self.generations,
            self.seed,
            lambda generation, gain: rows.append({"generation": generation, "gain": gain}),
        )
        file = json.dumps(weights.tolist()).encode()
        return Outcome({"history": pd.DataFrame(rows)}, {WEIGHTS_FILE: file})


def practices(backfill: str, log: str | None, seed: int) -> list[Practice]:
    """Return what to practise on: generated jobs, jobs of other widths, lengths and loads, and a log.

    :param backfill: ``"none"`` or ``"easy"``
    :param log: the file of HPC2N's log, if it is at hand
    :param seed: of all that is drawn
    """
    rng = np.random.default_rng([seed, 1])
    made = [lublin_jobs(FIRST_SEED + 100 * seed + k, JOBS) for k in range(GENERATED[0] + VARIED[0])]
    plain, other = made[: GENERATED[0]], [varied(jobs, rng) for jobs in made[GENERATED[0] :]]
    found = [practice(plain, backfill, *GENERATED[1:]), practice(other, backfill, *VARIED[1:])]
    if log is not None:
        jobs = read_trace(log, LOG_ROWS[1])
        loads = np.linspace(0.9, 1.1, LOGGED[0])
        found.append(practice([denser(jobs, load) for load in loads], backfill, *LOGGED[1:], LOG_ROWS[0]))
    return found


def practice(
    tables: Sequence[ClusterJobs], backfill: str, sequences: int, share: float, first: int = 0
) -> Practice:
    """Return jobs to practise on under the benchmark's rules."""
    return Practice([benchmark_simulator(jobs, backfill) for jobs in tables], sequences, share, first)


def varied(jobs: ClusterJobs, rng: np.random.Generator) -> ClusterJobs:
    """Return jobs one to 2.2 times as wide, .25 to 1.2 times as long, with .9 to 1.15 times the load."""
    width, length, load = rng.uniform(1.0, 2.2), rng.uniform(0.25, 1.2), rng.uniform(0.9, 1.15)
    processors = np.clip(np.rint(jobs.processors * width), 1, jobs.machine).astype(np.int64)
    run, request = (np.maximum(one * length, 1).astype(np.int64) for one in (jobs.run, jobs.request))
    grown = (processors @ run) / (jobs.processors @ jobs.run)
    return denser(dataclasses.replace(jobs, processors=processors, run=run, request=request), load / grown)


def denser(jobs: ClusterJobs, factor: float) -> ClusterJobs:
    """Return jobs that arrive so many times as fast."""
    return dataclasses.replace(jobs, submit=(jobs.submit / factor).astype(np.int64), done=None)


@dataclass(frozen=True)
class JudgedRule(Task):
    """An evolved rule on the ten sequences of a seed, in each of which it looks at the whole queue.

    :param training: what evolves it
    :param trace: name of the trace
    :param path: its file, ``None`` for generated jobs
    :param seed: of the sequences
    :param weights: files of ``training``; without them it is done here
    """

    training: Evolution
    trace: str
    path: str | None
    seed: int
    weights: Files | None = field(default=None, repr=False, compare=False)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{EVOLVED} on {self.trace}, backfill {self.training.backfill}, seed {self.seed}"

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return (self.training,)

    def given(self, *files: Files) -> JudgedRule:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, weights=files[0])

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 2.0

    def describe(self) -> dict[str, Any]:
        """Describe the training as it describes itself."""
        return {**super().describe(), "training": self.training.describe()}

    def compute(self) -> Outcome:
        """Play them; a row for each sequence."""
        files = self.weights or self.training.compute().files
        weights = json.loads(files[WEIGHTS_FILE])
        simulator = benchmark_simulator(benchmark_jobs(self.path), self.training.backfill)
        rows = []
        for start in window_starts(self.seed):
            simulator.reset_env(0, np.random.default_rng(0), {"start": int(start)})
            simulator.play(0, "evolved", weights=weights)
            metrics = simulator.episode_metrics(0)
            rows.append({"policy": EVOLVED, "start": int(start), **{name: metrics[name] for name in METRICS}})
        return Outcome({"episodes": pd.DataFrame(rows)})
