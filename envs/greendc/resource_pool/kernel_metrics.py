# mypy: warn-return-any=False
"""Compiled metrics of an episode, from the table of its jobs and the kernel's accounts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled
from greendc.resource_pool import layout as at
from greendc.resource_pool.layout import Record

Floats = NDArray[np.float64]


@compiled
def job_metrics(out: Floats, env: Record, jobs: Any) -> None:
    """Write the metrics that follow from the jobs, in the order of ``metrics.JOB_METRICS``."""
    now, arrived = env.now, env.next_arrival
    value, value_all, value_inside, value_all_inside = 0.0, 0.0, 0.0, 0.0
    completed, on_time, violated = 0, 0, 0
    slowdown, waiting = 0.0, 0.0
    for j in range(arrived):
        job, worth = jobs[j], jobs[j].value
        inside = job.latest <= now
        value_all += worth
        if inside:
            value_all_inside += worth
        finished = job.status == at.FINISHED
        if finished:
            completed += 1
            slowdown += (job.finish - job.arrival) / job.duration
            waiting += job.finish - job.arrival - job.duration
        if finished and job.finish <= job.latest:
            on_time += 1
            value += worth
            if inside:
                value_inside += worth
        elif finished or job.status == at.LEFT or job.latest < now:
            violated += 1
    out[0] = value
    out[1] = value / value_all if value_all > 0.0 else 0.0
    out[2] = value_inside / value_all_inside if value_all_inside > 0.0 else 0.0
    out[3] = arrived
    out[4] = completed
    out[5] = completed / arrived if arrived > 0 else 0.0
    out[6] = on_time / arrived if arrived > 0 else 0.0
    out[7] = violated
    out[8] = slowdown / completed if completed > 0 else 0.0
    out[9] = waiting / completed if completed > 0 else 0.0
