# mypy: warn-return-any=False
"""Compiled metrics of an episode, from the table of its jobs and the kernel's accounts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled
from greendc.resource_pool import layout as at

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled
def job_metrics(out: Floats, env: Ints, jobs: Ints, jobs_f: Floats) -> None:
    """Write the metrics that follow from the jobs, in the order of ``metrics.JOB_METRICS``."""
    now, arrived = env[at.NOW], env[at.NEXT_ARRIVAL]
    value, value_all, value_inside, value_all_inside = 0.0, 0.0, 0.0, 0.0
    completed, on_time, violated = 0, 0, 0
    slowdown, waiting = 0.0, 0.0
    for j in range(arrived):
        row, worth = jobs[j], jobs_f[j, at.VALUE]
        inside = row[at.LATEST] <= now
        value_all += worth
        if inside:
            value_all_inside += worth
        finished = row[at.STATUS] == at.FINISHED
        if finished:
            completed += 1
            slowdown += (row[at.FINISH] - row[at.ARRIVAL]) / row[at.DURATION]
            waiting += row[at.FINISH] - row[at.ARRIVAL] - row[at.DURATION]
        if finished and row[at.FINISH] <= row[at.LATEST]:
            on_time += 1
            value += worth
            if inside:
                value_inside += worth
        elif finished or row[at.STATUS] == at.LEFT or row[at.LATEST] < now:
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
