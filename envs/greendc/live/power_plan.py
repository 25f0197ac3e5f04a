"""The processors that will have power and run nothing: what may start now and keep its power."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from greendc.live.snapshot import Snapshot, WaitingJob


class PowerPlan:
    """Processors that are free, from now until the forecast ends, if running jobs end at their limits.

    :param snapshot: the cluster
    :param horizon_seconds: how far to look for a later time for a job
    """

    def __init__(self, snapshot: Snapshot, horizon_seconds: int) -> None:
        self.horizon_seconds = horizon_seconds
        changes = [(change.after_seconds, change.processors) for change in snapshot.forecast]
        ends = [(max(job.limit_seconds - job.elapsed_seconds, 1), job.processors) for job in snapshot.running]
        self.times = np.unique([0, *(time for time, _ in changes), *(time for time, _ in ends)])
        levels = np.array([snapshot.capacity, *(level for _, level in changes)])
        powered = levels[np.searchsorted([time for time, _ in changes], self.times, side="right")]
        ended = np.zeros(len(self.times), np.int64)
        np.add.at(ended, np.searchsorted(self.times, [time for time, _ in ends]), [size for _, size in ends])
        self.free = powered - snapshot.used + np.cumsum(ended)
        self.least = np.minimum.accumulate(self.free)

    def keeps(self, job: WaitingJob) -> bool:
        """Tell whether a job that starts now has power until its limit, or the end of the forecast."""
        last = int(np.searchsorted(self.times, job.limit_seconds)) - 1
        return bool(self.least[last] >= job.processors)

    def later(self, job: WaitingJob) -> bool:
        """Tell whether a job that starts later has power until its limit, and ends within the horizon."""
        last = self.horizon_seconds - job.limit_seconds
        fits = self.free >= job.processors
        starts = self.times[fits & (self.times <= last)]
        lacks = np.append(self.times[~fits], np.iinfo(np.int64).max)
        return bool((lacks[np.searchsorted(lacks, starts)] - starts >= job.limit_seconds).any())

    def would_lose(self, job: WaitingJob) -> bool:
        """Tell whether a job fits now, and keeps its power neither now nor later within the horizon."""
        return bool(job.processors <= self.free[0]) and not self.keeps(job) and not self.later(job)

    def take(self, job: WaitingJob) -> None:
        """Start a job now."""
        if job.limit_seconds not in self.times:
            place = int(np.searchsorted(self.times, job.limit_seconds))
            self.times = np.insert(self.times, place, job.limit_seconds)
            self.free = np.insert(self.free, place, self.free[place - 1])
        self.free[self.times < job.limit_seconds] -= job.processors
        self.least = np.minimum.accumulate(self.free)

    def losing(self, jobs: Iterable[WaitingJob]) -> set[str]:
        """Return which of these jobs would lose power before their limits if they started now, in order."""
        lost = set()
        for job in jobs:
            if self.keeps(job):
                self.take(job)
            else:
                lost.add(job.id)
        return lost
