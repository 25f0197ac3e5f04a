"""Jobs that a Slurm ran, played again in the simulator, and a picture of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from greendc.cluster import CapacitySeries, ClusterConfig, ClusterJobs, ClusterSimulator
from greendc.cluster.rendering import lowest_lanes

DAY = 86_400


@dataclass(frozen=True)
class Played:
    """A job that ran. Times are whole seconds of one clock.

    :param processors: it ran on
    :param limit: its time limit, in seconds
    :param submit: when it was there to be decided upon
    :param start: when it began
    :param end: when it ended
    """

    processors: int
    limit: int
    submit: int
    start: int
    end: int


def replay(
    jobs: Sequence[Played], power: Sequence[tuple[int, int]], machine: int, rule: str, backfill: str
) -> list[int]:
    """Return when each job starts in the simulator, where all run as long as they did.

    :param jobs: in order of submission
    :param power: times and processors that have power from then on, the first at 0
    :param machine: processors of the cluster
    """
    times, processors = np.array(power).T
    log = ClusterJobs(
        submit=[job.submit for job in jobs],
        run=[max(job.end - job.start, 1) for job in jobs],
        request=[job.limit for job in jobs],
        processors=[job.processors for job in jobs],
        machine=machine,
    )
    config = ClusterConfig(
        profile="easy",
        backfill=backfill,
        workload=log,
        episode_jobs=len(jobs),
        power=CapacitySeries(times, processors, 100 * DAY),
        power_start="log",
        forecast_hours=24,
    )
    simulator = ClusterSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0))
    simulator.play(0, rule)
    return [int(start) for start in simulator.state.jobs[0]["start"]]


def links(jobs: Sequence[Played], starts: Sequence[int]) -> list[int]:
    """Return how many starts in a row each start had to wait for, itself among them.

    A job that starts when others end waits for them; one that starts when it comes, or power rises, does not.
    """
    found = [1] * len(jobs)
    ends = [start + job.end - job.start for job, start in zip(jobs, starts, strict=True)]
    for k in sorted(range(len(jobs)), key=lambda k: starts[k]):
        before = [found[other] for other, end in enumerate(ends) if end == starts[k]]
        found[k] = 1 + max(before, default=0)
    return found


def most_in_use(jobs: Sequence[Played], at: int) -> int:
    """Return the processors of jobs that run at a time."""
    return sum(job.processors for job in jobs if job.start <= at < job.end)


def draw(jobs: Sequence[Played], starts: Sequence[int], power: Sequence[tuple[int, int]], path: Path) -> None:
    """Draw what ran when in Slurm, and below it in the simulator, with the processors that have power.

    Jobs have numbers in order of submission, and the same color in both. They are drawn on the lowest
    processors that are free.

    :param starts: when each started in the simulator
    :param path: of the picture
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    machine, lasts = max(size for _, size in power), [job.end - job.start for job in jobs]
    end = max(start + last for job, start, last in zip(jobs, starts, lasts, strict=True))
    end = max(end, *(job.end for job in jobs)) + 1
    figure = Figure(figsize=(8.0, 6.0), dpi=110, layout="constrained")
    rows = figure.subplots(2, 1, sharex=True, sharey=True)
    shown = {"Slurm, ten nodes of one CPU": [job.start for job in jobs], "Simulator": list(starts)}
    edges = [time for time, _ in power] + [end]
    for axes, (title, begins) in zip(rows, shown.items(), strict=True):
        order = sorted(range(len(jobs)), key=lambda k: begins[k])
        first = np.array([begins[k] for k in order])
        last = first + np.array([lasts[k] for k in order])
        sizes = np.array([jobs[k].processors for k in order])
        for k, blocks in zip(order, lowest_lanes(first, last, sizes, machine), strict=True):
            for low, size in blocks:
                axes.broken_barh(
                    [(begins[k], lasts[k])],
                    (low, size),
                    facecolor=colormaps["tab20"](2 * k % 20 + (2 * k // 20)),
                    edgecolor="white",
                    alpha=0.75,
                    linewidth=1.2,
                )
                middle = (begins[k] + lasts[k] / 2, low + size / 2)
                axes.annotate(str(k + 1), middle, ha="center", va="center", fontsize=8)
        values = [size for _, size in power]
        axes.stairs(values, edges, baseline=None, color="#c0392b", linewidth=2, label="processors with power")
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_ylabel("processors")
        axes.spines[["top", "right"]].set_visible(False)
    rows[0].set_ylim(0, machine + 0.4)
    rows[0].set_yticks(range(0, machine + 1, 2))
    rows[0].set_xlim(0, end)
    rows[1].set_xlabel("seconds")
    rows[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    figure.savefig(path)
