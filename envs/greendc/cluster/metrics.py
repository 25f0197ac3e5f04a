"""What an episode came to."""

from __future__ import annotations

import numpy as np

from greendc.cluster.layout import DONE, NEVER
from greendc.records import Records


def episode_metrics(
    settings: np.void, log: Records, cluster: np.void, jobs: Records, has_deadlines: bool
) -> dict[str, float]:
    """Return the metrics of one environment over its episode so far.

    Of the jobs that have started (or wait when the episode is cut): ``mean_bounded_slowdown``, the mean of
    ``max(1, (wait + run) / max(run, 10 s))``; ``mean_wait_h``, ``p95_wait_h`` and ``longest_wait_h``, a wait
    being all time from submission to end in which the job did not do the work that counted.

    Of the cluster since the first arrival: ``utilization`` of the processors that had power, at most 1: what
    is in use beyond the capacity counts as ``excess_processor_hours`` instead; ``energy_kwh`` and
    ``carbon_kg`` of all that is in use; ``wasted_processor_hours``, lost to preemptions and restores;
    ``preemptions``, ``finished_jobs``, ``span_h``, ``decisions``, ``invalid_actions``.

    Where jobs have deadlines: ``value`` of the jobs that were done on time, and ``on_time_share`` of those
    that were due or done.

    :param settings: a :class:`~greendc.cluster.layout.Settings` record
    :param log: ``(J,)`` :class:`~greendc.cluster.layout.LogJob`: the episode's jobs
    :param cluster: a :class:`~greendc.cluster.layout.Cluster` record
    :param jobs: ``(J,)`` :class:`~greendc.cluster.layout.JobState`
    """
    charged = jobs["charged"] > 0
    waits = jobs["delay"][charged] / 3600.0
    count = max(len(waits), 1)
    busy, excess = int(cluster["busy"]), int(cluster["excess"])
    powered = int(cluster["powered"])
    idle = powered - busy + excess
    energy = (busy * float(settings["busy_kw"]) + idle * float(settings["idle_kw"])) / 3600.0
    metrics = {
        "mean_bounded_slowdown": float(jobs["charged"][charged].sum()) / count,
        "mean_wait_h": float(waits.sum()) / count,
        "p95_wait_h": float(np.quantile(waits, 0.95)) if len(waits) else 0.0,
        "longest_wait_h": float(waits.max(initial=0.0)),
        "utilization": (busy - excess) / powered if powered else 0.0,
        "energy_kwh": energy,
        "carbon_kg": float(cluster["carbon"]),
        "wasted_processor_hours": int(cluster["wasted"]) / 3600.0,
        "excess_processor_hours": excess / 3600.0,
        "preemptions": float(cluster["preemptions"]),
        "finished_jobs": float(cluster["finished"]),
        "span_h": (int(cluster["now"]) - int(log["submit"][0])) / 3600.0,
        "decisions": float(cluster["decisions"]),
        "invalid_actions": float(cluster["invalid"]),
    }
    if has_deadlines:
        done = jobs["phase"] == DONE
        due = done | ((log["deadline"] < cluster["now"]) & (log["deadline"] != NEVER))
        on_time = done & (jobs["finish"] <= log["deadline"])
        metrics["value"] = float(cluster["value"])
        metrics["on_time_share"] = int(on_time.sum()) / max(int(due.sum()), 1)
    return metrics
