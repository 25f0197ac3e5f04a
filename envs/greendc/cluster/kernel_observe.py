# mypy: warn-return-any=False
"""Compiled observation: which jobs the agent sees, and what it sees of them and of the cluster."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from greendc.cluster import columns
from greendc.cluster.kernel_groups import expected
from greendc.cluster.kernel_plan import admitted, forecast_at, free_now, least_until, minima, plan, time_until
from greendc.cluster.kernel_queue import requested
from greendc.cluster.kernel_time import next_event
from greendc.cluster.layout import (
    DAY,
    FIRST_OFFSET,
    LEAST_HOURS,
    NEVER,
    NO_BACKFILL,
    NOBODY,
    OFFSETS,
    RLSCHEDULER,
    SHORT_RUN,
    Seen,
    Site,
)
from greendc.compiled import compiled, internal


@internal
def see(site: Site) -> None:
    """Choose the visible jobs: all that wait, or else the older half of the view and the lightest of others.

    All in order of arrival if they have room, else the oldest in order of arrival, then others by weight.
    """
    cluster, most = site.cluster, site.settings.visible
    if cluster.waiting <= most:
        for k in range(cluster.waiting):
            site.visible[k] = site.queue[k]
        cluster.visible = cluster.waiting
        return
    oldest = most // 2
    for k in range(oldest):
        site.visible[k] = site.queue[k]
    last = site.queue[oldest - 1] if oldest > 0 else -1
    size, k = oldest, 0
    while size < most:
        job = site.light[k]
        if job > last:
            site.visible[size] = job
            size += 1
        k += 1
    cluster.visible = size


@internal
def scaled_log(value: float) -> float:
    """Return the logarithm of a number of 1 or more, as observations show it."""
    return min(math.log(value) * columns.LOG_SCALE, columns.MOST_LOG)


@compiled
def observe(site: Site, i: int, out: Seen) -> None:
    """Write an observation into row ``i`` of a batch."""
    size = plan(site)
    observe_cluster(site, size, out.cluster[i])
    lows = minima(site)
    observe_capacity(site, lows, out.capacity[i])
    for k in range(out.mask.shape[1]):
        out.mask[i, k] = 0
    observe_jobs(site, size, lows, out.jobs[i], out.mask[i])
    cluster = site.cluster
    if site.settings.profile != RLSCHEDULER and not cluster.over and next_event(site) != NEVER:
        out.mask[i, site.settings.visible] = 1


@internal
def observe_cluster(site: Site, size: int, row: NDArray[np.float32]) -> None:
    """Write ``cluster``."""
    cluster, settings = site.cluster, site.settings
    scale = 1.0 / settings.processors
    row[columns.FREE] = free_now(site) * scale
    row[columns.QUEUE] = cluster.waiting / (cluster.waiting + settings.visible)
    row[columns.RUN] = cluster.running / (cluster.running + settings.visible)
    row[columns.ARRIVING] = 1.0 - cluster.arrived / settings.jobs
    angle = 2.0 * math.pi / DAY * ((cluster.now + settings.midnight) % DAY)
    row[columns.SIN_DAY], row[columns.COS_DAY] = math.sin(angle), math.cos(angle)
    k = 0
    for offset in range(OFFSETS):
        time = cluster.now + (FIRST_OFFSET << offset)
        while k + 1 < size and site.points[k + 1].time <= time:
            k += 1
        row[columns.FREE_IN + offset] = site.points[k].free * scale


@internal
def observe_capacity(site: Site, lows: int, row: NDArray[np.float32]) -> None:
    """Write ``capacity``."""
    cluster, settings = site.cluster, site.settings
    scale = 1.0 / settings.processors
    if settings.forecast_period == 0:
        for k in range(row.shape[0]):
            row[k] = cluster.capacity * scale
        return
    for offset in range(OFFSETS):
        row[offset] = forecast_at(site, cluster.now + (FIRST_OFFSET << offset)) * scale
    for k in range(len(LEAST_HOURS)):
        row[OFFSETS + k] = least_until(site, lows, cluster.now + 3600 * LEAST_HOURS[k]) * scale


@internal
def observe_jobs(site: Site, size: int, lows: int, rows: NDArray[np.float32], mask: NDArray[np.int8]) -> None:
    """Write ``jobs``, and the mask of the actions that take one."""
    cluster, settings = site.cluster, site.settings
    blind = settings.profile != RLSCHEDULER and settings.backfill == NO_BACKFILL
    for k in range(cluster.waiting):
        site.rank[site.light[k]] = k
    per_rank, per_processor = 1.0 / max(cluster.waiting, 1), 1.0 / settings.processors
    for k in range(cluster.visible):
        job, row = site.visible[k], rows[k]
        entry = site.log[cluster.first + job]
        wait, seconds = cluster.now - entry.submit, requested(site, job)
        can = admitted(site, size, job)
        row[columns.LOG_WAIT] = scaled_log(1.0 + wait)
        row[columns.LOG_REQUEST] = entry.log_request
        row[columns.SHARE] = entry.share
        row[columns.CAN_START] = can
        until = 0 if entry.processors <= free_now(site) else time_until(site, size, entry.processors)
        row[columns.LOG_UNTIL_FIT] = scaled_log(1.0 + until) if until > 0 else 0.0
        turn = (wait + seconds) / max(entry.request, SHORT_RUN)
        row[columns.LOG_SLOWDOWN] = scaled_log(turn) if turn > 1.0 else 0.0
        row[columns.LOG_AREA] = entry.log_area
        row[columns.RANK] = site.rank[job] * per_rank
        run, inverse = expected(site, job)
        row[columns.LOG_EXPECTED] = entry.log_request if entry.user == NOBODY else scaled_log(1.0 + run)
        row[columns.EXPECTED_INVERSE] = SHORT_RUN * inverse
        row[columns.LEAST_CAPACITY] = least_until(site, lows, cluster.now + seconds) * per_processor
        row[columns.VALID] = 1.0
        mask[k] = can or not blind
    for k in range(cluster.visible, rows.shape[0]):
        for feature in range(rows.shape[1]):
            rows[k, feature] = 0.0
