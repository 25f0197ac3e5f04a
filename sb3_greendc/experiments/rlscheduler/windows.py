"""Tasks: what rules and guarded rollouts make of the benchmark's sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from greendc.baselines.cluster import GuardedRollout
from greendc.cluster import ClusterJobs, ClusterSimulator, lublin_jobs
from greendc.cluster.rlscheduler import AS_PRINTED, JOBS, benchmark_simulator, read_trace, window_starts
from sb3_greendc.experiments.controls import play_randomly
from sb3_greendc.experiments.tasks import Outcome, Task

GENERATED = "Lublin, generated"
"""Jobs of the package's own generator: where there are no traces, and a log that nothing was tuned on."""
GENERATED_SEED = 2026
LOG_ROWS = (JOBS, 4 * JOBS)
"""Rows of HPC2N's log that is trained on: none of the benchmark's, which are the first."""

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "rlscheduler": {},
    "easy": {"profile": "easy"},
    "green": {"profile": "easy", "power": "green", "power_start": "log", "on_drop": "suspend"},
}
"""The benchmark's rules; the textbook's; and those under sun and wind, half of the processors always on."""

RULES: Mapping[str, str] = {
    **AS_PRINTED,
    "WFP3, true waits": "wfp3",
    "UNICEP, true waits": "unicep",
    "smallest": "smallest",
    "SAF": "saf",
    "SAF that fits": "saf that fits",
    "WSPT": "wspt",
    "WSPT that fits": "wspt that fits",
    "F2": "f2",
    "F3": "f3",
    "F3 that fits": "f3 that fits",
    "F4": "f4",
}
"""Name and rule of each fixed policy."""
RANDOM = "random"
ROLLOUT = "guarded rollouts"
SEARCH: Mapping[str, Any] = {
    "base": "wspt",
    "futures": 24,
    "horizon": 24,
    "history": 1024,
    "daytime": 2.0,
    "first_round": 6,
    "guard": 1.0,
    "predicted": True,
    "fitting": False,
    "lightest": 32,
}
"""Options of :data:`ROLLOUT`, the same on all traces: the class's own. They stand here, too, so that finished
tasks are not used again after the class's have changed."""
DRAWS = 5
"""Seeds of the futures that :data:`ROLLOUT` plays each sequence with: one draw tells little."""

_SEARCH_SECONDS = {"rlscheduler": 20.0, "easy": 75.0, "green": 300.0}

METRICS = (
    "mean_bounded_slowdown",
    "mean_wait_h",
    "p95_wait_h",
    "longest_wait_h",
    "utilization",
    "energy_kwh",
    "carbon_kg",
    "preemptions",
    "wasted_processor_hours",
)


@dataclass(frozen=True)
class Windows(Task):
    """Policies on the ten sequences of a seed.

    :param trace: name of the trace
    :param path: its file, ``None`` for :data:`GENERATED`
    :param backfill: ``"none"`` or ``"easy"``; ``"conservative"`` with other profiles than the benchmark's
    :param profile: one of :data:`PROFILES`
    :param seed: of the sequences
    :param search: options of guarded rollouts, which are then what is played; else all :data:`RULES`, and
        random choices, are
    :param draws: how often the search plays each sequence, with other futures each time
    """

    trace: str
    path: str | None
    backfill: str
    profile: str
    seed: int
    search: Mapping[str, Any] | None = None
    draws: int = DRAWS
    rollouts: ClassVar[str] = ROLLOUT
    """What tables call the search."""

    @property
    def title(self) -> str:
        """What is played where."""
        what = "rules" if self.search is None else self.rollouts
        return f"{what} on {self.trace}, {self.profile}, backfill {self.backfill}, seed {self.seed}"

    def seconds(self) -> float:
        """Return a guess."""
        return 3.0 if self.search is None else _SEARCH_SECONDS[self.profile] * self.draws

    def compute(self) -> Outcome:
        """Play them; a row for each policy, sequence and draw."""
        jobs = benchmark_jobs(self.path)
        simulator = benchmark_simulator(jobs, self.backfill, **PROFILES[self.profile])
        rows: list[dict[str, object]] = []
        for start in window_starts(self.seed, jobs=len(jobs)):
            if self.search is None:
                for name, rule in RULES.items():
                    word, fits, _ = rule.partition(" that fits")
                    self._begin(simulator, int(start))
                    simulator.play(0, word, fitting=bool(fits))
                    rows.append(self._row(simulator, name, int(start)))
                self._begin(simulator, int(start))
                play_randomly(simulator, np.random.default_rng([self.seed, int(start)]))
                rows.append(self._row(simulator, RANDOM, int(start)))
            else:
                for draw in range(self.draws):
                    self._begin(simulator, int(start))
                    GuardedRollout(simulator, seed=draw, **self.search).play(0)
                    rows.append({**self._row(simulator, self.rollouts, int(start)), "draw": draw})
        return Outcome({"episodes": pd.DataFrame(rows)})

    def _begin(self, simulator: ClusterSimulator, start: int) -> None:
        simulator.reset_env(0, np.random.default_rng(0), {"start": start})

    def _row(self, simulator: ClusterSimulator, policy: str, start: int) -> dict[str, object]:
        metrics = simulator.episode_metrics(0)
        return {"policy": policy, "start": start, **{name: metrics[name] for name in METRICS}}


def benchmark_jobs(path: str | None) -> ClusterJobs:
    """Return the jobs of a trace's file, or of ``None`` the generated ones that stand in for it."""
    return lublin_jobs(GENERATED_SEED, JOBS) if path is None else read_trace(path)
