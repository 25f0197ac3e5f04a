# mypy: warn-return-any=False
"""Compiled lists of one environment: which jobs wait, which run, and until when."""

from __future__ import annotations

from greendc.cluster.kernel_groups import remember
from greendc.cluster.layout import (
    CHECKPOINT,
    DONE,
    KILL_REQUEUE,
    NEVER,
    RUNNING,
    WAITING,
    Site,
)
from greendc.compiled import compiled, internal


@internal
def place_by_weight(site: Site, job: int) -> int:
    """Return where a job stands, or would stand, among the waiting ones by weight."""
    first = site.cluster.first
    weight = site.log[first + job].weight
    low, high = 0, site.cluster.waiting
    while low < high:
        middle = (low + high) >> 1
        other = site.light[middle]
        heavier = site.log[first + other].weight
        if heavier < weight or (heavier == weight and other < job):
            low = middle + 1
        else:
            high = middle
    return low


@internal
def place_by_arrival(site: Site, job: int) -> int:
    """Return where a job stands, or would stand, in the queue."""
    low, high = 0, site.cluster.waiting
    while low < high:
        middle = (low + high) >> 1
        if site.queue[middle] < job:
            low = middle + 1
        else:
            high = middle
    return low


@internal
def enqueue(site: Site, job: int) -> None:
    """Let a job wait."""
    size = site.cluster.waiting
    at, light = place_by_arrival(site, job), place_by_weight(site, job)
    for k in range(size, at, -1):
        site.queue[k] = site.queue[k - 1]
    for k in range(size, light, -1):
        site.light[k] = site.light[k - 1]
    site.queue[at] = job
    site.light[light] = job
    site.cluster.waiting = size + 1
    site.jobs[job].phase = WAITING


@internal
def dequeue(site: Site, job: int) -> None:
    """Let a job wait no more."""
    at, light = place_by_arrival(site, job), place_by_weight(site, job)
    last = site.cluster.waiting - 1
    for k in range(at, last):
        site.queue[k] = site.queue[k + 1]
    for k in range(light, last):
        site.light[k] = site.light[k + 1]
    site.cluster.waiting = last


@internal
def needed(site: Site, job: int) -> int:
    """Return the seconds for which a job would run if it started now."""
    entry = site.log[site.cluster.first + job]
    state = site.jobs[job]
    return restore_of(site, job) + entry.run - state.worked


@internal
def requested(site: Site, job: int) -> int:
    """Return the seconds that a job may run if it starts now, as far as planners are told."""
    entry = site.log[site.cluster.first + job]
    return restore_of(site, job) + entry.request - site.jobs[job].worked


@internal
def restore_of(site: Site, job: int) -> int:
    """Return the seconds that a job needs before it works on."""
    settings = site.settings
    return settings.checkpoint if settings.on_drop == CHECKPOINT and site.jobs[job].worked > 0 else 0


@internal
def charge(site: Site, job: int) -> None:
    """Count the delay of a job that starts now, in place of what its earlier starts counted."""
    cluster, state, entry = site.cluster, site.jobs[job], site.log[site.cluster.first + job]
    delay = cluster.now + needed(site, job) - entry.submit - entry.run
    slowdown = max(1.0, (delay + entry.run) * entry.inverse)
    cluster.delay += delay - state.delay
    cluster.slowdown += slowdown - state.charged
    state.delay, state.charged = delay, slowdown


@compiled
def start(site: Site, job: int) -> None:
    """Start a waiting job now."""
    cluster, state = site.cluster, site.jobs[job]
    end, estimate = cluster.now + needed(site, job), cluster.now + requested(site, job)
    charge(site, job)
    dequeue(site, job)
    state.restore = restore_of(site, job)
    state.phase = RUNNING
    state.start = cluster.now
    if state.first_start == NEVER:
        state.first_start = cluster.now
    state.order = cluster.starts
    cluster.starts += 1
    processors = site.log[cluster.first + job].processors
    cluster.used += processors
    k = cluster.running
    while k > 0 and site.running[k - 1].estimate > estimate:
        site.running[k] = site.running[k - 1]
        k -= 1
    mine = site.running[k]
    mine.estimate, mine.processors, mine.job = estimate, processors, job
    k = cluster.running
    while k > 0 and site.endings[k - 1].end > end:
        site.endings[k] = site.endings[k - 1]
        k -= 1
    ending = site.endings[k]
    ending.end, ending.job = end, job
    cluster.running += 1
    if site.pieces.shape[0] > 0:
        state.piece = cluster.pieces % site.pieces.shape[0]
        piece = site.pieces[state.piece]
        piece.job, piece.start, piece.stop = job, cluster.now, NEVER
        cluster.pieces += 1


@internal
def leave(site: Site, job: int) -> None:
    """Let a job run no more."""
    cluster, state = site.cluster, site.jobs[job]
    last = cluster.running - 1
    k = 0
    while site.running[k].job != job:
        k += 1
    cluster.used -= site.running[k].processors
    for i in range(k, last):
        site.running[i] = site.running[i + 1]
    k = 0
    while site.endings[k].job != job:
        k += 1
    for i in range(k, last):
        site.endings[i] = site.endings[i + 1]
    cluster.running = last
    if site.pieces.shape[0] > 0 and site.pieces[state.piece].job == job:
        site.pieces[state.piece].stop = cluster.now


@compiled
def release(site: Site) -> None:
    """Let the job that ends first be done."""
    cluster = site.cluster
    job = site.endings[0].job
    state, entry = site.jobs[job], site.log[cluster.first + job]
    leave(site, job)
    state.phase = DONE
    state.finish = cluster.now
    cluster.finished += 1
    if cluster.now <= entry.deadline:
        cluster.value += entry.value
    cluster.wasted += entry.processors * state.restore
    remember(site, entry)


@internal
def preempt_latest(site: Site) -> None:
    """Take the processors of the running job that started last, which waits again."""
    cluster, settings = site.cluster, site.settings
    victim = site.running[0].job
    for k in range(1, cluster.running):
        if site.jobs[site.running[k].job].order > site.jobs[victim].order:
            victim = site.running[k].job
    state, processors = site.jobs[victim], site.log[cluster.first + victim].processors
    elapsed = cluster.now - state.start
    leave(site, victim)
    if settings.on_drop == KILL_REQUEUE:
        cluster.wasted += processors * elapsed
    else:
        restoring = min(elapsed, state.restore)
        cluster.wasted += processors * restoring
        state.worked += elapsed - restoring
    cluster.preemptions += 1
    enqueue(site, victim)
