# mypy: warn-return-any=False
"""Compiled: the order that evolution has found, a small network over a job and the queue it waits in."""

from __future__ import annotations

import math
from typing import NamedTuple

from greendc.cluster.kernel_plan import plan, time_until
from greendc.cluster.layout import SHORT_RUN, Site
from greendc.compiled import internal
from greendc.records import Floats

SEEN_OF_JOB = 4
SEEN = SEEN_OF_JOB + 3
"""Inputs of the network: of the job, and with those of the queue."""
HIDDEN = 6
WEIGHTS = SEEN_OF_JOB + HIDDEN * (SEEN + 2)
"""One for each input of the job, then of each hidden unit its bias, its inputs' and its output's."""


class Queue(NamedTuple):
    """What all waiting jobs have in common at a decision."""

    points: int
    """Of the plan, see :mod:`greendc.cluster.kernel_plan`; 0 where nothing was planned."""
    free: float
    """Share of the processors."""
    jobs: float
    """Logarithm of how many wait."""
    work: float
    """Logarithm of the seconds in which all processors would do what waits."""


@internal
def look_at_queue(site: Site) -> Queue:
    """Plan, and sum up the queue."""
    points, processors, work = plan(site), float(site.settings.processors), 0.0
    for k in range(site.cluster.waiting):
        entry = site.log[site.cluster.first + site.queue[k]]
        work += float(entry.request) * entry.processors
    free = max(site.points[0].free, 0) / processors
    return Queue(points, free, math.log1p(site.cluster.waiting) / 5.0, math.log1p(work / processors) / 10.0)


@internal
def evolved_score(site: Site, job: int, run: float, queue: Queue, weights: Floats) -> float:
    """Return the score of a waiting job; the lowest is first.

    :param run: its requested or expected seconds
    """
    entry = site.log[site.cluster.first + job]
    length = math.log(max(run, SHORT_RUN)) / 10.0
    width = math.log(entry.processors / float(site.settings.processors)) / 5.0
    waited = math.log1p(float(site.cluster.now - entry.submit)) / 10.0
    delay = math.log1p(float(time_until(site, queue.points, entry.processors))) / 10.0
    score = weights[0] * length + weights[1] * width + weights[2] * waited + weights[3] * delay
    for unit in range(HIDDEN):
        w = SEEN_OF_JOB + unit * (SEEN + 2)
        inner = weights[w] + weights[w + 1] * length + weights[w + 2] * width
        inner = inner + weights[w + 3] * waited + weights[w + 4] * delay + weights[w + 5] * queue.free
        inner = inner + weights[w + 6] * queue.jobs + weights[w + 7] * queue.work
        score += weights[w + 8] * (inner / (1.0 + abs(inner)))
    return score
