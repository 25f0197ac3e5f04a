# mypy: warn-return-any=False
"""Compiled backfilling: which jobs overtake one that cannot start."""

from __future__ import annotations

from greendc.cluster.kernel_plan import (
    admitted,
    earliest,
    free_now,
    looks_ahead,
    obstacle,
    plan,
    plan_for_admission,
    promise,
)
from greendc.cluster.kernel_queue import requested, start
from greendc.cluster.layout import CONSERVATIVE, EASY_BACKFILL, NEVER, Site
from greendc.compiled import compiled, internal


@internal
def shadow_start(site: Site, need: int) -> int:
    """Return when running jobs, by start and request, leave ``need`` processors, as RLScheduler reckons."""
    free = free_now(site)
    for k in range(site.cluster.running):
        free += site.running[k].processors
        if free >= need:
            return site.running[k].estimate
    return NEVER


@internal
def fill_before(site: Site, shadow: int) -> None:
    """Start, in order of arrival, the jobs that fit and by their request end strictly before ``shadow``."""
    cluster = site.cluster
    k = 0
    while k < cluster.waiting:
        job = site.queue[k]
        entry = site.log[cluster.first + job]
        if entry.processors <= free_now(site) and cluster.now + entry.request < shadow:
            start(site, job)
        else:
            k += 1


@compiled
def backfill(site: Site, head: int) -> None:
    """Let other jobs overtake ``head``, which cannot start now, by the rule of the configuration."""
    if site.settings.backfill == EASY_BACKFILL:
        easy(site, head)
    elif site.settings.backfill == CONSERVATIVE:
        conservative(site, head)


@internal
def easy(site: Site, head: int) -> None:
    """Start, in order of arrival, jobs that do not delay the first time at which ``head`` has room."""
    cluster = site.cluster
    size = plan(site)
    k, last = room_for(site, size, head)
    shadow, spare = site.points[k].time, site.points[k].free
    for point in range(k + 1, last):
        spare = min(spare, site.points[point].free)
    spare -= site.log[cluster.first + head].processors
    size = plan_for_admission(site)
    k = 0
    while k < cluster.waiting:
        job = site.queue[k]
        processors = site.log[cluster.first + job].processors
        before = cluster.now + requested(site, job) <= shadow
        if job != head and (before or processors <= spare) and admitted(site, size, job):
            if not before:
                spare -= processors
            start(site, job)
            size = plan_for_admission(site)
        else:
            k += 1


@internal
def room_for(site: Site, size: int, job: int) -> tuple[int, int]:
    """Return the point of the plan at which a job that cannot start now has room, and the end of its points.

    Where admission looks at the forecast, that is a stretch as long as the job requests, if the horizon has
    one. Else it is the first point with enough processors.
    """
    processors, seconds = site.log[site.cluster.first + job].processors, requested(site, job)
    if looks_ahead(site):
        k = earliest(site, size, processors, seconds)
        end = site.points[k].time + seconds
        if end <= site.cluster.now + site.settings.horizon:
            last = k + 1
            while last < size and site.points[last].time < end:
                last += 1
            return k, last
    k = 0
    while k + 1 < size and site.points[k].free < processors:
        k += 1
    return k, k + 1


@internal
def conservative(site: Site, head: int) -> None:
    """Promise every job its earliest start, ``head`` first, then in order of arrival; start those of now.

    Promises take processors and give none: a job without room now has none after them. So those behind the
    last one with room now need no promise.
    """
    size = promise_earliest(site, plan(site), head)
    k, ready = 0, with_room_now(site, size, head, 0)
    while ready < site.cluster.waiting:
        job = site.queue[k]
        if job != head:
            size = promise_earliest(site, size, job)
        if k < ready:
            k += 1  # else it has started, and the next one has its place
        ready = with_room_now(site, size, head, ready)


@internal
def with_room_now(site: Site, size: int, head: int, place: int) -> int:
    """Return the first place, from ``place`` on, of a job other than ``head`` that has room now."""
    while place < site.cluster.waiting:
        job = site.queue[place]
        processors = site.log[site.cluster.first + job].processors
        if job != head and obstacle(site, size, 0, processors, requested(site, job)) == size:
            return place
        place += 1
    return place


@internal
def promise_earliest(site: Site, size: int, job: int) -> int:
    """Promise a job its earliest start in the plan, and start it if that is now."""
    processors, seconds = site.log[site.cluster.first + job].processors, requested(site, job)
    at = earliest(site, size, processors, seconds)
    size = promise(site, size, at, processors, seconds)
    if at == 0:
        start(site, job)
    return size
