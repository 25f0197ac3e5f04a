"""RLScheduler's benchmark: its windows, its heuristics, and the figures that it publishes.

Zhang, Dai, He, Bao and Xie, "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement Learning",
SC 2020; figures from the README of https://github.com/DIR-LAB/deep-batch-scheduler. Its traces have no
licence and are no part of this package.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from greendc.cluster.config import ClusterConfig
from greendc.cluster.jobs import ClusterJobs
from greendc.cluster.simulator import ClusterSimulator
from greendc.config import require
from greendc.traces.swf import read_swf

TRACES = {
    "Lublin-1": "lublin_256.swf",
    "HPC2N": "HPC2N-2002-2.2-cln.swf",
    "Lublin-2": "lublin_256_new2.swf",
}
"""File of each trace."""
JOBS = 10_000
"""The first jobs of a trace that are used, ..."""
SEQUENCE = 1024
"""... and those of a sequence."""

AS_PRINTED = {"FCFS": "fcfs", "WFP3": "wfp3_printed", "UNICEP": "unicep_printed", "SJF": "sjf", "F1": "f1"}
"""The rule behind each name of the table; WFP3 and UNICEP with waits of -1 - submit, by mistake."""

PRINTED: Mapping[tuple[str, str], Mapping[str, float]] = {
    (trace, backfill): dict(zip(AS_PRINTED, figures, strict=True))
    for (trace, backfill), figures in {
        ("Lublin-1", "none"): (7273.77, 19753.53, 22274.74, 277.35, 258.37),
        ("HPC2N", "none"): (297.18, 426.99, 609.77, 157.71, 118.01),
        ("Lublin-2", "none"): (7842.47, 9523.18, 11265.31, 787.89, 698.34),
        ("Lublin-1", "easy"): (235.82, 133.87, 307.23, 73.31, 75.07),
        ("HPC2N", "easy"): (127.38, 97.39, 175.12, 122.04, 71.95),
        ("Lublin-2", "easy"): (247.61, 318.35, 379.59, 91.99, 148.25),
    }.items()
}
"""Mean bounded slowdown of each heuristic, by trace and backfilling."""

PRINTED_RL: Mapping[tuple[str, str], float] = {
    ("Lublin-1", "none"): 254.67,
    ("HPC2N", "none"): 117.01,
    ("Lublin-2", "none"): 724.51,
    ("Lublin-1", "easy"): 58.64,
    ("HPC2N", "easy"): 86.14,
    ("Lublin-2", "easy"): 118.79,
}
"""The same of the published learned policy, which was trained on the trace that it is judged on."""


def read_trace(path: str | Path, most: int = JOBS) -> ClusterJobs:
    """Return the first jobs of a trace as RLScheduler reads them, which does not look at their clock."""
    jobs = ClusterJobs.from_log(read_swf(path), "rlscheduler", most=most)
    return dataclasses.replace(jobs, start=None)


def window_starts(seed: int, count: int = 10, jobs: int = JOBS) -> NDArray[np.int64]:
    """Return where the sequences of a seed begin; the published ones are those of seed 1."""
    require(jobs >= 2 * SEQUENCE + 2, "jobs", jobs, f"at least {2 * SEQUENCE + 2}")
    halves = np.frombuffer(hashlib.sha512(str(seed).encode()).digest()[:8], "<u4")
    generator = np.random.RandomState(halves.astype(np.int64))
    starts: NDArray[np.int64] = generator.randint(SEQUENCE, jobs - SEQUENCE - 1, count).astype(np.int64)
    return starts


def benchmark_simulator(jobs: ClusterJobs, backfill: str, **options: object) -> ClusterSimulator:
    """Return a simulator of the benchmark's sequences.

    :param jobs: of :func:`read_trace`
    :param backfill: ``"none"`` or ``"easy"``
    :param options: further fields of the configuration, such as ``profile="easy"``
    """
    fields: dict[str, object] = {"profile": "rlscheduler", "episode_jobs": SEQUENCE, **options}
    return ClusterSimulator(ClusterConfig(workload=jobs, backfill=backfill, **fields))  # type: ignore[arg-type]


def judge(
    jobs: ClusterJobs, backfill: str, rules: Mapping[str, str], seed: int = 1, **options: object
) -> dict[str, NDArray[np.float64]]:
    """Return the mean bounded slowdown of rules on each sequence of a seed.

    :param rules: names, and the rule of each (:data:`greendc.cluster.rules.RULES`), perhaps followed by
        ``" that fits"`` (jobs that can start now come first)
    """
    simulator = benchmark_simulator(jobs, backfill, **options)
    found = {}
    for name, rule in rules.items():
        word, fits, _ = rule.partition(" that fits")
        figures = []
        for start in window_starts(seed, jobs=len(jobs)):
            simulator.reset_env(0, np.random.default_rng(0), {"start": int(start)})
            simulator.play(0, word, fitting=bool(fits))
            figures.append(simulator.episode_metrics(0)["mean_bounded_slowdown"])
        found[name] = np.array(figures)
    return found
