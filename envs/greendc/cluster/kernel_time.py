# mypy: warn-return-any=False
"""Compiled time: what changes when, and what it costs until then."""

from __future__ import annotations

from greendc.cluster.kernel_queue import enqueue, preempt_latest, release
from greendc.cluster.layout import ADMIT_ONLY, NEVER, Site
from greendc.compiled import compiled, internal
from greendc.records import Floats, Ints


@internal
def stretch(times: Ints, time: int) -> int:
    """Return in which stretch of a series, which begins at 0, a time of 0 or more lies."""
    low, high = 0, times.shape[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if times[middle] <= time:
            low = middle
        else:
            high = middle
    return low


@internal
def value_at(times: Ints, values: Ints, period: int, time: int) -> int:
    """Return the value of a periodic series at a time of 0 or more."""
    return values[stretch(times, time % period)]


@internal
def change_after(times: Ints, period: int, time: int) -> int:
    """Return when a periodic series, whose neighbors differ, changes for the first time after ``time``."""
    if times.shape[0] < 2:
        return NEVER
    phase = time % period
    k = stretch(times, phase) + 1
    return time - phase + (times[k] if k < times.shape[0] else period)


@internal
def carbon_until(times: Ints, values: Floats, sums: Floats, period: int, time: int) -> float:
    """Return the integral of the carbon intensity from 0 to a time of 0 or more, kg s/kWh."""
    phase = time % period
    k = stretch(times, phase)
    return (time // period) * sums[times.shape[0]] + (sums[k] + values[k] * (phase - times[k]))


@internal
def elapse(site: Site, time: int) -> None:
    """Let time pass to ``time`` while nothing else changes."""
    cluster, settings = site.cluster, site.settings
    seconds = time - cluster.now
    if seconds <= 0:
        return
    used, idle = cluster.used, max(cluster.capacity - cluster.used, 0)
    cluster.busy += used * seconds
    cluster.powered += cluster.capacity * seconds
    cluster.excess += max(used - cluster.capacity, 0) * seconds
    if settings.carbon_period > 0:
        period, shift = settings.carbon_period, cluster.carbon_shift
        before = carbon_until(site.carbon_times, site.carbon, site.carbon_sums, period, cluster.now + shift)
        after = carbon_until(site.carbon_times, site.carbon, site.carbon_sums, period, time + shift)
        kilowatts = used * settings.busy_kw + idle * settings.idle_kw
        cluster.carbon += kilowatts * (after - before) / 3600.0
    cluster.now = time


@internal
def arrive(site: Site) -> None:
    """Let the next job arrive."""
    job = site.cluster.arrived
    site.cluster.arrived += 1
    enqueue(site, job)


@internal
def next_arrival(site: Site) -> int:
    """Return when the next job arrives, ``NEVER`` if none does."""
    cluster = site.cluster
    if cluster.arrived >= site.settings.jobs:
        return NEVER
    return site.log[cluster.first + cluster.arrived].submit


@internal
def next_end(site: Site) -> int:
    """Return when the next job ends, ``NEVER`` if none runs."""
    return site.endings[0].end if site.cluster.running > 0 else NEVER


@internal
def next_event(site: Site) -> int:
    """Return when something happens by itself."""
    return min(min(next_arrival(site), next_end(site)), site.cluster.next_change)


@compiled
def read_power(site: Site) -> None:
    """Let the capacity be that of now."""
    cluster, settings = site.cluster, site.settings
    if settings.power_period > 0:
        time = cluster.now + cluster.shift
        cluster.capacity = value_at(site.power_times, site.power, settings.power_period, time)
        change = change_after(site.power_times, settings.power_period, time)
        cluster.next_change = NEVER if change == NEVER else change - cluster.shift


@internal
def happen(site: Site, time: int) -> None:
    """Let everything happen that happens at ``time``: ends, power, preemptions, arrivals."""
    cluster = site.cluster
    elapse(site, time)
    while next_end(site) <= time:
        release(site)
    if cluster.next_change <= time:
        read_power(site)
        if site.settings.on_drop != ADMIT_ONLY:
            while cluster.used > cluster.capacity:
                preempt_latest(site)
    while next_arrival(site) <= time:
        arrive(site)


@internal
def one_event(site: Site) -> None:
    """Let one thing happen, as in RLScheduler: an arrival no later than the next end, or else one end."""
    submit, end = next_arrival(site), next_end(site)
    if submit <= end:
        elapse(site, submit)
        arrive(site)
    else:
        elapse(site, end)
        release(site)
