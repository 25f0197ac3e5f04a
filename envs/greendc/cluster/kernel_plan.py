# mypy: warn-return-any=False
"""Compiled plans: how many processors will be free when, by estimates and forecast, and what fits then."""

from __future__ import annotations

from greendc.cluster.kernel_queue import requested
from greendc.cluster.kernel_time import stretch, value_at
from greendc.cluster.layout import ADMIT_FORECAST, DAY, NEVER, Site
from greendc.compiled import compiled, internal


@compiled
def plan(site: Site) -> int:
    """Write the free processors from now on into ``points``, and return how many points there are.

    Running jobs end by their estimates; those beyond it, in a second. The capacity of now lasts until the
    forecast changes, the forecast until the horizon, and after that the greatest capacity.
    """
    cluster, settings = site.cluster, site.settings
    now, used, capacity = cluster.now, cluster.used, cluster.capacity
    site.points[0].time, site.points[0].free = now, capacity - used
    size, k = 1, 0
    horizon, change, period, place = NEVER, NEVER, settings.forecast_period, 0
    if period > 0:
        horizon = now + settings.horizon
        phase = (now + cluster.shift) % period
        place = stretch(site.forecast_times, phase)
        change = change_from(site, place, now - phase)
    while True:
        end = max(site.running[k].estimate, now + 1) if k < cluster.running else NEVER
        turn = min(change, horizon)
        time = min(end, turn)
        if time == NEVER:
            return size
        if end <= turn:
            used -= site.running[k].processors
            k += 1
        elif time == horizon:
            capacity, horizon, change = settings.greatest, NEVER, NEVER
        else:
            place = place + 1 if place + 1 < site.forecast_times.shape[0] else 0
            capacity = site.forecast[place]
            change = change_from(site, place, time - site.forecast_times[place])
        if site.points[size - 1].time < time:
            site.points[size].time = time
            size += 1
        site.points[size - 1].free = capacity - used


@internal
def change_from(site: Site, place: int, begin: int) -> int:
    """Return when a stretch of the forecast ends, if time 0 of the series is ``begin``."""
    times = site.forecast_times
    if times.shape[0] < 2:
        return NEVER
    return begin + (times[place + 1] if place + 1 < times.shape[0] else site.settings.forecast_period)


@internal
def minima(site: Site) -> int:
    """Write the least forecast capacity from now on until each of its changes into ``minima``.

    Entry k has the least until entry k + 1's time, the last one until the horizon, at least
    a day ahead. Return how many there are.
    """
    cluster, settings = site.cluster, site.settings
    least, now = cluster.capacity, cluster.now
    site.minima[0].time, site.minima[0].free = now, least
    if settings.forecast_period == 0:
        return 1
    phase = (now + cluster.shift) % settings.forecast_period
    place, size = stretch(site.forecast_times, phase), 1
    change = change_from(site, place, now - phase)
    end = now + max(settings.horizon, DAY)
    while change < end:
        place = place + 1 if place + 1 < site.forecast_times.shape[0] else 0
        if site.forecast[place] < least:
            least = site.forecast[place]
            site.minima[size].time, site.minima[size].free = change, least
            size += 1
        change = change_from(site, place, change - site.forecast_times[place])
    return size


@internal
def least_until(site: Site, size: int, time: int) -> int:
    """Return the least forecast capacity from now to before ``time``, from ``size`` entries of minima."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) >> 1
        if site.minima[middle].time < time:
            low = middle
        else:
            high = middle
    return site.minima[low].free


@internal
def forecast_at(site: Site, time: int) -> int:
    """Return the forecast capacity at a time."""
    period = site.settings.forecast_period
    return value_at(site.forecast_times, site.forecast, period, time + site.cluster.shift)


@internal
def obstacle(site: Site, size: int, k: int, processors: int, seconds: int) -> int:
    """Return the first point at which a run from point ``k`` on lacks processors, or ``size`` if none."""
    end = site.points[k].time + seconds
    for point in range(k, size):
        if site.points[point].time >= end:
            return size
        if site.points[point].free < processors:
            return point
    return size


@internal
def earliest(site: Site, size: int, processors: int, seconds: int) -> int:
    """Return the first of the plan's points from which on so many processors are free for so long."""
    k = 0
    while k < size:
        lacking = obstacle(site, size, k, processors, seconds)
        if lacking == size:
            return k
        k = lacking + 1
    return size


@internal
def promise(site: Site, size: int, k: int, processors: int, seconds: int) -> int:
    """Take processors from point ``k`` of the plan on; return how many points there are then."""
    end = site.points[k].time + seconds
    last = k
    while last < size and site.points[last].time < end:
        last += 1
    if last == size or site.points[last].time > end:
        for i in range(size, last, -1):
            site.points[i] = site.points[i - 1]
        site.points[last].time = end
        site.points[last].free = site.points[last - 1].free
        size += 1
    for i in range(k, last):
        site.points[i].free -= processors
    return size


@internal
def time_until(site: Site, size: int, processors: int) -> int:
    """Return the seconds until the plan has so many free processors."""
    for k in range(size):
        if site.points[k].free >= processors:
            return site.points[k].time - site.cluster.now
    return site.points[size - 1].time - site.cluster.now


@internal
def free_now(site: Site) -> int:
    """Return the processors that have power and run nothing."""
    return site.cluster.capacity - site.cluster.used


@internal
def admitted(site: Site, size: int, job: int) -> bool:
    """Tell whether a job may start now, by ``size`` points of a plan if the admission looks at it.

    By forecast, a job waits if it has room later for all of it within the horizon, and now has not.
    """
    processors = site.log[site.cluster.first + job].processors
    if processors > free_now(site):
        return False
    if not looks_ahead(site):
        return True
    seconds = requested(site, job)
    k = earliest(site, size, processors, seconds)
    return k == 0 or site.points[k].time + seconds > site.cluster.now + site.settings.horizon


@internal
def plan_for_admission(site: Site) -> int:
    """Make a plan if :func:`admitted` needs one."""
    return plan(site) if looks_ahead(site) else 0


@internal
def looks_ahead(site: Site) -> bool:
    """Tell whether a job must fit under the forecast to start."""
    return site.settings.admission == ADMIT_FORECAST and site.settings.forecast_period > 0


@internal
def any_can_start(site: Site) -> bool:
    """Tell whether some waiting job may start now."""
    if free_now(site) <= 0:
        return False
    size = plan_for_admission(site)
    for k in range(site.cluster.waiting):  # noqa: SIM110 (a generator cannot be compiled)
        if admitted(site, size, site.queue[k]):
            return True
    return False
