"""The processors that will have power and run nothing: what may start now and keep its power."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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

    def longest(self, processors: int) -> int:
        """Return the longest limit with which a job of so many processors keeps its power at some time.

        It ends within the horizon; 0 where there is no such time.
        """
        fits = np.concatenate([[False], self.free >= processors, [False]])
        turns = np.flatnonzero(fits[1:] != fits[:-1])
        starts = self.times[turns[::2]]
        ends = np.append(self.times, np.iinfo(np.int64).max)[turns[1::2]]
        most = np.minimum(ends, self.horizon_seconds) - starts
        return max(int(most.max(initial=0)), 0)

    def would_lose(self, jobs: Sequence[WaitingJob]) -> set[str]:
        """Return which jobs fit now, and keep their power neither now nor later within the horizon."""
        sizes = np.array([job.processors for job in jobs], np.int64)
        limits = np.array([job.limit_seconds for job in jobs], np.int64)
        keeps = self.least[np.searchsorted(self.times, limits) - 1] >= sizes
        doubtful = np.flatnonzero((sizes <= self.free[0]) & ~keeps)
        longest = {int(size): self.longest(int(size)) for size in np.unique(sizes[doubtful])}
        return {jobs[k].id for k in doubtful.tolist() if jobs[k].limit_seconds > longest[jobs[k].processors]}

    def take(self, job: WaitingJob) -> None:
        """Start a job now."""
        self._cut([job.limit_seconds])
        self._take(job)

    def losing(self, jobs: Iterable[WaitingJob]) -> set[str]:
        """Return which of these jobs would lose power before their limits if they started now, in order."""
        in_order, lost = list(jobs), set()
        self._cut([job.limit_seconds for job in in_order])
        for job in in_order:
            if self.keeps(job):
                self._take(job)
            else:
                lost.add(job.id)
        return lost

    def _cut(self, limits: Sequence[int]) -> None:
        """Let the plan have a point at each of these times."""
        times = np.union1d(self.times, np.array(limits, np.int64))
        self.free = self.free[np.searchsorted(self.times, times, side="right") - 1]
        self.times, self.least = times, np.minimum.accumulate(self.free)

    def _take(self, job: WaitingJob) -> None:
        """Start a job at whose limit the plan has a point."""
        self.free[: np.searchsorted(self.times, job.limit_seconds)] -= job.processors
        self.least = np.minimum.accumulate(self.free)
