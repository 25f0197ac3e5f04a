"""Decides for a live queue of a cluster with the rules and planners of the simulator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np

from greendc.cluster import ClusterSimulator
from greendc.cluster.config import ADMISSIONS, BACKFILLS
from greendc.config import require, require_kinds, require_one_of
from greendc.json_records import SnapshotError
from greendc.live.cluster_policies import Choose, cluster_policy
from greendc.live.decision import Decision, PassedOver
from greendc.live.guards import require_fresh
from greendc.live.power_plan import PowerPlan
from greendc.live.restore import Restored, View, restore
from greendc.live.snapshot import Snapshot, WaitingJob

_KINDS = {
    "horizon_hours": "int | None",
    "oldest_first_hours": "float | None",
    "work_conserving": "bool",
    "stale_seconds": "float",
}


class ClusterScheduler:
    """Says which waiting jobs of a cluster should start now. It keeps nothing between calls.

    The cluster is taken for one of equal processors (the profile ``easy`` of
    :class:`~greendc.cluster.ClusterConfig`). What that does not model, such as partitions, dependencies or
    memory, must be left out of the snapshot, or be its running jobs.

    A network sees that half of an episode's jobs have yet to arrive, since a live queue does not end, and
    the time of day that the snapshot's ``time`` says, else that of ``now``.

    :param policy: a rule of :data:`greendc.live.cluster_policies.LIVE_RULES`, ``"rollout"``
        (:class:`~greendc.baselines.cluster.GuardedRollout`), or the folder of a trained run
    :param backfill: which jobs overtake one that cannot start: ``"none"``, ``"easy"`` or ``"conservative"``;
        default: ``"easy"``, for a trained run that of its training, as for the next two
    :param admission: a job may start if it fits ``"now"``, or under the ``"forecast"`` until its limit;
        default: ``"now"``
    :param horizon_hours: how far plans look into the forecast, which must reach as far; default: 24
    :param oldest_first_hours: jobs that have waited longer come first, the oldest of them before all others;
        ``None``: the policy alone decides
    :param work_conserving: where nothing runs and the policy waits, the first job by WSPT that fits starts;
        off, the policy alone decides
    :param stale_seconds: a snapshot with a ``time`` that is older is refused
    :param options: of the policy: ``fitting`` and ``predicted`` of rules, those of ``GuardedRollout``
    :raises ValueError: for a wrong setting; names it
    """

    def __init__(
        self,
        policy: str = "wspt",
        *,
        backfill: str | None = None,
        admission: str | None = None,
        horizon_hours: int | None = None,
        oldest_first_hours: float | None = None,
        work_conserving: bool = True,
        stale_seconds: float = 300.0,
        **options: Any,
    ) -> None:
        if backfill is not None:
            require_one_of("backfill", backfill, BACKFILLS)
        if admission is not None:
            require_one_of("admission", admission, ADMISSIONS)
        require_kinds(
            _KINDS,
            {
                "horizon_hours": horizon_hours,
                "oldest_first_hours": oldest_first_hours,
                "work_conserving": work_conserving,
                "stale_seconds": stale_seconds,
            },
        )
        if horizon_hours is not None:
            require(1 <= horizon_hours <= 8784, "horizon_hours", horizon_hours, "from 1 to 8784")
        if oldest_first_hours is not None:
            require(oldest_first_hours >= 0, "oldest_first_hours", oldest_first_hours, "0 or more, or None")
        require(stale_seconds > 0, "stale_seconds", stale_seconds, "above 0")
        self.policy, self._policy = policy, cluster_policy(policy, options)
        usual = self._policy.settings
        self.backfill = usual["backfill"] if backfill is None else backfill
        self.admission = usual["admission"] if admission is None else admission
        self.horizon_hours: int = usual["horizon_hours"] if horizon_hours is None else horizon_hours
        self.oldest_first_hours, self.stale_seconds = oldest_first_hours, stale_seconds
        self.work_conserving = work_conserving

    def decide(self, snapshot: Snapshot, now: datetime | None = None) -> Decision:
        """Return which jobs should start now, and why the others wait.

        :param snapshot: the cluster
        :param now: the time, for the age of the snapshot; default: the clock's
        :raises SnapshotError: for a snapshot that is stale or contradicts itself, or a forecast that ends
            before the horizon
        """
        require_fresh(snapshot.time, self.stale_seconds, now)
        seconds = self.horizon_hours * 3600
        found = snapshot.forecast_seconds
        if found < seconds and (found > 0 or snapshot.forecast):
            raise SnapshotError(
                f"forecast_seconds={found}: must be at least {seconds}, horizon_hours={self.horizon_hours}"
            )
        excess, told = max(snapshot.used - snapshot.capacity, 0), snapshot
        snapshot = snapshot.without_drained()
        # A job that power suffices for at no time within the horizon holds up no other.
        most = self._most(snapshot)
        fitting = [job for job in snapshot.waiting if job.processors <= most]
        decided = _Outcome([], None)
        if fitting and snapshot.used < snapshot.capacity:
            decided = self._decided(snapshot, fitting, now)
        started = set(decided.start)
        left = [job for job in snapshot.waiting if job.id not in started]
        reason = self._reasons(snapshot, decided, told.processors)
        return Decision(
            start=tuple(decided.start),
            passed_over=tuple(
                PassedOver(job.id, reason(job)) for job in sorted(left, key=lambda job: -job.waited_seconds)
            ),
            valid_seconds=_valid_seconds(told, started),
            excess=excess,
            policy=self.policy,
        )

    def notes(self, snapshot: Snapshot, decision: Decision) -> tuple[str, ...]:
        """Return which jobs start though the forecast does not say whether they keep their power."""
        if self.admission != "forecast" or not snapshot.forecast_seconds:
            return ()
        started = set(decision.start)
        return tuple(
            f"job {job.id} may run beyond the end of the forecast: what power it has then is not known"
            for job in snapshot.waiting
            if job.id in started and job.limit_seconds > snapshot.forecast_seconds
        )

    def _decided(self, snapshot: Snapshot, fitting: list[WaitingJob], now: datetime | None) -> _Outcome:
        """Return what starts; by forecast without jobs that would lose their power.

        The simulator starts jobs that no time within the horizon has room for. They are left out of its
        queue, so that others may have their room.
        """
        if self.admission != "forecast":
            return self._play(self._restored(snapshot, fitting, now))
        seconds, jobs = self.horizon_hours * 3600, {job.id: job for job in fitting}
        plan, lost, started = PowerPlan(snapshot, seconds), set[str](), set[str]()
        while True:
            # Also those that would start next, beside what has started: each attempt takes its time.
            tried = lost | started
            lost |= plan.would_lose([job for job in fitting if job.id not in tried])
            left = [job for job in fitting if job.id not in lost]
            decided = self._play(self._restored(snapshot, left, now)) if left else _Outcome([], None)
            plan = PowerPlan(snapshot, seconds)
            more = plan.losing(jobs[name] for name in decided.start)
            if not more:
                return decided._replace(lost=frozenset(lost), plan=plan)
            lost |= more
            started = set(decided.start) - more

    def _restored(self, snapshot: Snapshot, fitting: list[WaitingJob], now: datetime | None) -> Restored:
        """Return a simulator that stands where the cluster stands, as the policy knows clusters."""
        view = None
        if self._policy.visible_jobs is not None:
            when = (now or datetime.now(timezone.utc)) if snapshot.time is None else snapshot.taken_at()
            view = View(self._policy.visible_jobs, when.hour * 3600 + when.minute * 60 + when.second)
        return restore(snapshot, fitting, self.backfill, self.admission, self.horizon_hours, view)

    def _play(self, restored: Restored) -> _Outcome:
        """Take decisions in the simulator for as long as its clock stands still."""
        simulator = restored.simulator
        cluster, jobs = simulator.state.cluster[0], simulator.state.jobs[0]
        now, before = int(cluster["now"]), int(cluster["starts"])
        choose = self._chooser(simulator)
        head = None
        while not cluster["over"] and cluster["now"] == now and cluster["waiting"] > 0:
            overdue = self._overdue(simulator)
            job = choose() if overdue is None else overdue
            if job is None and self.work_conserving and cluster["running"] == 0:
                job = simulator.first(0, "wspt", fitting=True)
            if job is None:
                break
            head = job
            simulator.take(0, job)
        new = np.flatnonzero((jobs["start"] == now) & (jobs["order"] >= before))
        new = new[np.argsort(jobs["order"][new])]
        held = None if head is None or head in new else restored.ids[head]
        return _Outcome([restored.ids[k] for k in new], held)

    def _chooser(self, simulator: ClusterSimulator) -> Choose:
        """Return what names the job to take next."""
        try:
            return self._policy.bind(simulator)
        except ValueError as error:
            raise SnapshotError(f"policy={self.policy!r} does not fit the cluster: {error}") from None

    def _overdue(self, simulator: ClusterSimulator) -> int | None:
        """Return the oldest job that has waited too long."""
        if self.oldest_first_hours is None:
            return None
        cluster = simulator.state.cluster[0]
        oldest = int(simulator.state.queue[0, 0])
        waited = int(cluster["now"]) - int(simulator.episode_jobs(0)["submit"][oldest])
        return oldest if waited > self.oldest_first_hours * 3600 else None

    def _most(self, snapshot: Snapshot) -> int:
        """Return how many processors have power at some time within the horizon, at most."""
        seconds = self.horizon_hours * 3600
        within = [change.processors for change in snapshot.forecast if change.after_seconds < seconds]
        return max([snapshot.capacity, *within])

    def _reasons(self, snapshot: Snapshot, decided: _Outcome, processors: int) -> Callable[[WaitingJob], str]:
        """Return what says why a job waits."""
        seconds, most, held = self.horizon_hours * 3600, self._most(snapshot), decided.held
        started = set(decided.start)
        taken = sum(job.processors for job in snapshot.waiting if job.id in started)
        free = max(snapshot.capacity - snapshot.used - taken, 0)

        def reason(job: WaitingJob) -> str:
            need = job.processors
            if need > processors:
                return f"needs {need} processors, the cluster has {processors}"
            if need > most:
                return f"needs {need} processors, at most {most} have power within {self.horizon_hours} h"
            if job.id in decided.lost and job.limit_seconds <= seconds:
                return f"has power until its limit at no time within {self.horizon_hours} h"
            if job.id in decided.lost:
                return "power is forecast to fall before its time limit"
            if need > free:
                return f"needs {need} processors, {free} are free"
            plan = decided.plan
            if held == job.id or (held is None and plan is not None and not plan.keeps(job)):
                return "power is forecast to fall before its time limit"
            if held is not None:
                return f"might delay job {held}, which is next"
            return "the policy waits"

        return reason


class _Outcome(NamedTuple):
    """What the simulator did while its clock stood still."""

    start: list[str]
    held: str | None
    """The job that is next and cannot start."""
    lost: frozenset[str] = frozenset()
    """Jobs that would start and lose their power before their limits."""
    plan: PowerPlan | None = None
    """What is free when these jobs have started; ``None``: admission does not look at it."""


def _valid_seconds(snapshot: Snapshot, started: set[str]) -> int | None:
    """Return when a job reaches its limit, or power changes, whichever is first."""
    ends = [job.limit_seconds - job.elapsed_seconds for job in snapshot.running]
    ends += [job.limit_seconds for job in snapshot.waiting if job.id in started]
    changes = [change.after_seconds for change in snapshot.forecast]
    return min((max(seconds, 1) for seconds in ends + changes), default=None)
