"""The rules of the cluster in plain Python: one environment, lists and integers, nothing clever.

The compiled simulator equals it bit for bit (``test_cluster_kernel.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rules_reference import score
from series_reference import FOREVER, Series

from greendc.cluster.config import ClusterConfig

DAY = 86_400


@dataclass
class Job:
    id: int
    submit: int
    run: int
    request: int
    processors: int
    user: int
    deadline: int
    value: float
    phase: str = "to come"
    start: int | None = None
    worked: int = 0
    restore: int = 0
    finish: int | None = None
    order: int = 0
    delay: int = 0
    slowdown: float = 0.0


def groups_of(job):
    """Whose past tells how long a job will run, the jobs most like it first."""
    if job.user < 0:
        return []
    return [(job.user, job.request, job.processors), (job.user, job.request), (job.user,)]


@dataclass
class Reference:
    config: ClusterConfig
    processors: int
    jobs: list[Job]
    power: Series | None
    forecast: Series | None
    carbon: Series
    greatest: int
    shift: int
    carbon_shift: int
    midnight: int
    groups: dict[tuple[int, ...], list[int]]
    """Run times of the jobs that are done, the latest last: each user's, those with one request, too, ..."""
    mean_value: float
    now: int = 0
    capacity: int = 0
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    """In order of start."""
    arrived: int = 0
    starts: int = 0
    over: bool = False
    busy: int = 0
    powered: int = 0
    excess: int = 0
    wasted: int = 0
    preemptions: int = 0
    invalid: int = 0
    carbon_kg: float = 0.0
    slowdown: float = 0.0
    delay: int = 0
    value: float = 0.0
    paid: tuple = (0.0, 0, 0.0, 0.0)

    def begin(self):
        self.now = self.jobs[0].submit
        self.limit = self.now + round(self.config.limit_days * DAY)
        self.capacity = self.processors if self.power is None else self.power.at(self.now + self.shift)
        if self.frozen:
            self.arrive()
            return
        while self.next_arrival() <= self.now:
            self.arrive()
        if not self.somebody_can_start():
            self.to_next_decision()

    @property
    def frozen(self):
        return self.config.profile == "rlscheduler"

    # --- what happens --------------------------------------------------------------------------------

    @property
    def used(self):
        return sum(job.processors for job in self.running)

    @property
    def free(self):
        return self.capacity - self.used

    def remaining(self, job):
        """Seconds for which a job would run if it started now."""
        return self.restore_of(job) + job.run - job.worked

    def remaining_request(self, job):
        return self.restore_of(job) + job.request - job.worked

    def restore_of(self, job):
        return self.config.checkpoint_seconds if self.config.on_drop == "checkpoint" and job.worked else 0

    def end_of(self, job):
        return job.start + job.restore + job.run - job.worked

    def estimate_of(self, job):
        return job.start + job.restore + job.request - job.worked

    def charge(self, job):
        delay = self.now + self.remaining(job) - job.submit - job.run
        slowdown = max(1.0, (delay + job.run) * (1.0 / max(job.run, 10)))
        self.delay += delay - job.delay
        self.slowdown += slowdown - job.slowdown
        job.delay, job.slowdown = delay, slowdown

    def start(self, job):
        self.charge(job)
        self.queue.remove(job)
        job.restore = self.restore_of(job)
        job.start, job.order, job.phase = self.now, self.starts, "running"
        self.starts += 1
        self.running.append(job)

    def release(self):
        """End the job that ends first; of several the one that started first."""
        job = min(self.running, key=self.end_of)
        self.running.remove(job)
        job.phase, job.finish = "done", self.now
        self.wasted += job.processors * job.restore
        if self.now <= job.deadline:
            self.value += job.value
        self.remember(job)

    def remember(self, job):
        for group in groups_of(job):
            self.groups.setdefault(group, []).append(job.run)

    def arrive(self):
        job = self.jobs[self.arrived]
        self.arrived += 1
        job.phase = "waiting"
        self.queue.append(job)

    def suspend(self):
        job = self.running.pop()
        elapsed = self.now - job.start
        if self.config.on_drop == "kill_requeue":
            self.wasted += job.processors * elapsed
        else:
            restoring = min(elapsed, job.restore)
            self.wasted += job.processors * restoring
            job.worked += elapsed - restoring
        self.preemptions += 1
        job.phase = "waiting"
        self.queue.append(job)
        self.queue.sort(key=lambda other: other.id)

    def elapse(self, time):
        seconds = time - self.now
        if seconds <= 0:
            return
        used = self.used
        self.busy += used * seconds
        self.powered += self.capacity * seconds
        self.excess += max(used - self.capacity, 0) * seconds
        before, after = (self.carbon.integral(t + self.carbon_shift) for t in (self.now, time))
        busy_kw, idle_kw = self.config.busy_watts / 1000.0, self.config.idle_watts / 1000.0
        kilowatts = used * busy_kw + max(self.capacity - used, 0) * idle_kw
        self.carbon_kg += kilowatts * (after - before) / 3600.0
        self.now = time

    def next_arrival(self):
        return self.jobs[self.arrived].submit if self.arrived < len(self.jobs) else FOREVER

    def next_end(self):
        return min(map(self.end_of, self.running), default=FOREVER)

    def next_change(self):
        if self.power is None or len(self.power.times) == 1:
            return FOREVER
        return self.power.next_change(self.now + self.shift) - self.shift

    def next_event(self):
        return min(self.next_arrival(), self.next_end(), self.next_change())

    def happen(self, time):
        self.elapse(time)
        while self.next_end() <= time:
            self.release()
        if self.power is not None:
            self.capacity = self.power.at(time + self.shift)
            while self.config.on_drop != "admit_only" and self.used > self.capacity:
                self.suspend()
        while self.next_arrival() <= time:
            self.arrive()

    def to_next_decision(self):
        while any(job.phase != "done" for job in self.jobs):
            time = self.next_event()
            if time >= self.limit:
                self.elapse(self.limit)
                for job in self.queue:
                    self.charge(job)
                break
            self.happen(time)
            if self.somebody_can_start():
                return
        self.over = True

    # --- plans -----------------------------------------------------------------------------------------

    def expected_capacity(self, time):
        """What is expected now of the capacity at a later time."""
        if self.forecast is None:
            return self.capacity
        if time >= self.now + 3600 * self.config.forecast_hours:
            return self.greatest
        if time < self.forecast.next_change(self.now + self.shift) - self.shift:
            return self.capacity
        return self.forecast.at(time + self.shift)

    def plan_times(self):
        """When the number of free processors can change, by estimates and forecast."""
        times = {self.now} | {max(self.estimate_of(job), self.now + 1) for job in self.running}
        if self.forecast is not None:
            horizon = self.now + 3600 * self.config.forecast_hours
            times.add(horizon)
            time = self.now
            while (time := self.forecast.next_change(time + self.shift) - self.shift) < horizon:
                times.add(time)
        return times

    def planned_free(self, time, promises=()):
        used = sum(
            job.processors
            for job in self.running
            if time == self.now or max(self.estimate_of(job), self.now + 1) > time
        )
        used += sum(processors for start, end, processors in promises if start <= time < end)
        return self.expected_capacity(time) - used

    def earliest(self, job, promises=()):
        """The first time of the plan from which on a job has room for as long as it requests."""
        seconds = self.remaining_request(job)
        times = sorted(self.plan_times() | {end for _, end, _ in promises})
        free = [self.planned_free(time, promises) for time in times]
        for k, begin in enumerate(times):
            inside = [f for t, f in zip(times[k:], free[k:], strict=True) if t < begin + seconds]
            if min(inside) >= job.processors:
                return begin
        raise AssertionError("a job that never fits")

    def can_start(self, job):
        if job.processors > self.free:
            return False
        if self.config.admission == "now" or self.forecast is None:
            return True
        time = self.earliest(job)
        end = time + self.remaining_request(job)
        return time == self.now or end > self.now + 3600 * self.config.forecast_hours

    def somebody_can_start(self):
        return any(self.can_start(job) for job in self.queue)

    # --- decisions ----------------------------------------------------------------------------------------

    def choose(self, job):
        if self.frozen:
            self.commit(job)
        elif self.can_start(job):
            self.start(job)
            if not self.somebody_can_start():
                self.to_next_decision()
        else:
            if self.config.backfill == "easy":
                self.backfill_easy(job)
            elif self.config.backfill == "conservative":
                self.backfill_conservative(job)
            self.to_next_decision()

    def backfill_easy(self, head):
        times = sorted(self.plan_times())
        shadow = min(t for t in times if self.planned_free(t) >= head.processors)
        run = [shadow]
        if self.config.admission == "forecast" and self.forecast is not None:
            begin, seconds = self.earliest(head), self.remaining_request(head)
            if begin + seconds <= self.now + 3600 * self.config.forecast_hours:
                shadow, run = begin, [t for t in times if begin <= t < begin + seconds]
        spare = min(self.planned_free(t) for t in run) - head.processors
        for job in list(self.queue):
            before = self.now + self.remaining_request(job) <= shadow
            if job is not head and (before or job.processors <= spare) and self.can_start(job):
                spare -= 0 if before else job.processors
                self.start(job)

    def backfill_conservative(self, head):
        promises = []
        # What starts in this pass is in the plan by its promise alone.
        begun = []
        for job in [head, *[other for other in self.queue if other is not head]]:
            time = self.earliest(job, promises)
            promises.append((time, time + self.remaining_request(job), job.processors))
            if time == self.now:
                begun.append(job)
        for job in begun:
            self.start(job)

    def commit(self, head):
        if head.processors > self.free:
            free, shadow = self.free, FOREVER
            for job in sorted(self.running, key=lambda other: other.start + other.request):
                free += job.processors
                if free >= head.processors:
                    shadow = job.start + job.request
                    break
            while head.processors > self.free:
                if self.config.backfill == "easy":
                    for job in list(self.queue):
                        if job.processors <= self.free and self.now + job.request < shadow:
                            self.start(job)
                self.one_event()
        self.start(head)
        while not self.queue and self.arrived < len(self.jobs):
            self.one_event()
        if not self.queue:
            while self.running:
                self.one_event()
            self.over = True

    def one_event(self):
        submit, end = self.next_arrival(), self.next_end()
        if submit <= end:
            self.elapse(submit)
            self.arrive()
        else:
            self.elapse(end)
            self.release()

    def visible(self):
        most = self.config.visible_jobs
        if len(self.queue) <= most:
            return list(self.queue)
        oldest = self.queue[: most // 2]
        rest = sorted(self.queue[most // 2 :], key=lambda job: (self.weight(job), job.id))
        return oldest + rest[: most - len(oldest)]

    def totals(self):
        slowdown, delay = self.slowdown, self.delay
        if self.config.reward in ("slowdown", "wait"):
            for job in self.queue:
                late = self.now + self.remaining(job) - job.submit - job.run
                delay += late - job.delay
                slowdown += max(1.0, (late + job.run) * (1.0 / max(job.run, 10))) - max(1.0, job.slowdown)
        return slowdown, delay, self.value, self.carbon_kg

    def act(self, action):
        before = self.paid
        visible = self.visible()
        if action == self.config.visible_jobs and not self.frozen and self.next_event() < FOREVER:
            self.to_next_decision()
        else:
            if action >= len(visible):
                self.invalid += 1
                action = 0
            self.choose(visible[action])
        n, now = len(self.jobs), self.totals()
        self.paid = now
        return {
            "slowdown": (before[0] - now[0]) / n,
            "wait": (before[1] - now[1]) / (3600.0 * n),
            "value": (now[2] - before[2]) / self.mean_value,
            "carbon": before[3] - now[3],
        }[self.config.reward]

    # --- orders ---------------------------------------------------------------------------------------------

    def weight(self, job):
        return float(job.request) * job.processors * max(float(job.request), 10)

    def expected_run(self, job):
        return min(self.expected(job, lambda run: float(run)), float(job.request))

    def expected_inverse(self, job):
        expected = self.expected(job, lambda run: 1.0 / max(run, 10))
        return 0.98 * expected + 0.02 / 10 if job.user >= 0 else expected

    def expected(self, job, value_of):
        """A mean: of each group, the narrowest first, less what the wider ones and the request are due."""
        mean, share = 0.0, 1.0
        for group in groups_of(job):
            total = count = 0.0
            for run in self.groups.get(group, []):
                total, count = 0.6 * total + value_of(run), 0.6 * count + 1.0
            mean += share * total / (count + 1.0)
            share *= 1.0 / (count + 1.0)
        return mean + share * value_of(job.request)

    def best(self, rule, fitting, predicted):
        def key(job):
            return (not self.can_start(job) if fitting else False, score(self, job, rule, predicted))

        return min(self.queue, key=key)

    def play(self, rule, fitting, predicted, weights=None):
        self.weights = weights
        while not self.over:
            self.choose(self.best(rule, fitting, predicted))

    # --- observations --------------------------------------------------------------------------------------

    def observation(self):
        """Job rows, ``cluster``, ``capacity`` and mask, as numbers."""
        k, total = self.config.visible_jobs, self.processors
        jobs = [self.job_row(job) for job in self.visible()]
        can = [row[3] for row in jobs]
        jobs += [[0.0] * 12 for _ in range(k - len(jobs))]
        blind = not self.frozen and self.config.backfill == "none"
        mask = [int(not blind or c) for c in can] + [0] * (k - len(can))
        if not self.frozen:
            mask.append(int(not self.over and self.next_event() < FOREVER))
        waiting = len(self.queue)
        angle = 2.0 * math.pi / DAY * ((self.now + self.midnight) % DAY)
        offsets = [900 * 2**i for i in range(10)]
        times = sorted(self.plan_times())
        last = [max(t for t in times if t <= self.now + offset) for offset in offsets]
        cluster = [
            self.free / total,
            waiting / (waiting + k),
            len(self.running) / (len(self.running) + k),
            1.0 - self.arrived / len(self.jobs),
            math.sin(angle),
            math.cos(angle),
            *(self.planned_free(t) / total for t in last),
        ]
        if self.forecast is None:
            capacity = [self.capacity / total] * 14
        else:
            capacity = [self.forecast.at(self.now + o + self.shift) / total for o in offsets]
            for hours in (1, 4, 12, 24):
                capacity.append(self.least(3600 * hours) / total)
        return jobs, cluster, capacity, mask

    def least(self, seconds):
        """The least forecast capacity from now on."""
        least = self.capacity
        if self.forecast is not None:
            time = self.now
            while (time := self.forecast.next_change(time + self.shift) - self.shift) < self.now + seconds:
                least = min(least, self.forecast.at(time + self.shift))
        return least

    def job_row(self, job):
        wait = self.now - job.submit
        until = 0
        if job.processors > self.free:
            until = min(t for t in self.plan_times() if self.planned_free(t) >= job.processors) - self.now
        seconds = self.remaining_request(job)
        slowdown = max(1.0, (wait + seconds) / max(job.request, 10))
        by_weight = sorted(self.queue, key=lambda other: (self.weight(other), other.id))
        horizon = max(3600 * self.config.forecast_hours, DAY)
        return [
            log(1.0 + wait),
            log(1.0 + job.request),
            job.processors / self.processors,
            float(self.can_start(job)),
            log(1.0 + until),
            log(slowdown),
            log(1.0 + job.request * job.processors),
            by_weight.index(job) / len(self.queue),
            log(1.0 + self.expected_run(job)),
            10 * self.expected_inverse(job),
            self.least(min(seconds, horizon)) / self.processors,
            1.0,
        ]


def log(value):
    return min(math.log(value) / math.log(30 * 86_400.0), 2.0)
