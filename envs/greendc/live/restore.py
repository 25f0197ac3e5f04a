"""From a snapshot to a simulator that stands where the cluster stands, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from greendc.cluster import CapacitySeries, ClusterConfig, ClusterJobs, ClusterSimulator, layout
from greendc.cluster.kernel import remember_jobs
from greendc.live.snapshot import CapacityChange, FinishedJob, RunningJob, Snapshot, WaitingJob
from greendc.records import Ints

FOREVER_DAYS = 36_500


class Restored(NamedTuple):
    """A simulator of one environment, and what its jobs are called."""

    simulator: ClusterSimulator
    ids: list[str]
    """Of each job of the episode; empty for finished ones."""


class View(NamedTuple):
    """What a network sees of a cluster that no snapshot says."""

    jobs: int
    """That it sees waiting, at most."""
    second_of_day: int


def restore(
    snapshot: Snapshot,
    waiting: Sequence[WaitingJob],
    backfill: str = "easy",
    admission: str = "now",
    horizon_hours: int = 24,
    view: View | None = None,
) -> Restored:
    """Return a simulator in the state of the snapshot, with these jobs waiting.

    All jobs, finished ones included, are the jobs of one episode, in order of submission. Running jobs are
    taken to end at their limits. Beyond the forecast all processors have power; without one the capacity
    stays as it is, and finished jobs that were larger are taken to have been as large.

    :param snapshot: the cluster
    :param waiting: jobs that fit the cluster, the waiting ones or some of them
    :param backfill: as in :class:`~greendc.cluster.ClusterConfig`, like ``admission``
    :param horizon_hours: how far plans look into the forecast
    :param view: for observations: then as many jobs as there are have yet to arrive, in a hundred years
    """
    greatest = _greatest(snapshot, waiting)
    rows: list[RunningJob | WaitingJob | FinishedJob] = [
        *(job for job in snapshot.finished if job.processors <= snapshot.processors),
        *snapshot.running,
        *waiting,
    ]
    ago = np.array([_submitted_ago(job) for job in rows], np.int64)
    now = 1 + int(ago.max(initial=0))
    if view is not None:
        now += (view.second_of_day - now) % layout.DAY
    submit = now - ago
    order = np.argsort(submit, kind="stable")
    rows, submit = [rows[k] for k in order], submit[order]
    request = np.array([job.limit_seconds for job in rows], np.int64)
    run = np.array([_run(job) for job in rows], np.int64)
    to_come = 0 if view is None else len(rows)
    users = {
        name: code for code, name in enumerate(sorted({job.user for job in rows if job.user is not None}))
    }
    jobs = ClusterJobs(
        submit=_with_more(submit, to_come, now + FOREVER_DAYS * layout.DAY),
        run=_with_more(run, to_come, 1),
        request=_with_more(request, to_come, 1),
        processors=_with_more([min(job.processors, greatest) for job in rows], to_come, 1),
        machine=snapshot.processors,
        user=_with_more(
            [layout.NOBODY if job.user is None else users[job.user] for job in rows], to_come, layout.NOBODY
        ),
    )
    config = ClusterConfig(
        backfill=backfill,
        workload=jobs,
        episode_jobs=len(jobs),
        visible_jobs=1 if view is None else view.jobs,
        forecast_hours=horizon_hours,
        limit_days=FOREVER_DAYS,
        record_pieces=0,
        **_power(snapshot, greatest, now, horizon_hours, admission),
    )
    simulator = ClusterSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0))
    _write(simulator, snapshot, rows, now)
    return Restored(simulator, ["" if isinstance(job, FinishedJob) else job.id for job in rows])


def _with_more(values: Sequence[int] | Ints, count: int, value: int) -> Ints:
    """Return values with another one ``count`` times after them."""
    return np.concatenate([np.asarray(values, np.int64), np.full(count, value, np.int64)])


def _submitted_ago(job: RunningJob | WaitingJob | FinishedJob) -> int:
    if isinstance(job, FinishedJob):
        return job.submitted_seconds_ago
    return job.elapsed_seconds if isinstance(job, RunningJob) else job.waited_seconds


def _run(job: RunningJob | WaitingJob | FinishedJob) -> int:
    return min(job.run_seconds, job.limit_seconds) if isinstance(job, FinishedJob) else job.limit_seconds


def _greatest(snapshot: Snapshot, waiting: Sequence[WaitingJob]) -> int:
    """Return how many processors have power after the forecast: all; without one as many as now."""
    if snapshot.forecast_seconds > 0:
        return snapshot.processors
    sizes = [job.processors for job in snapshot.running] + [job.processors for job in waiting]
    return max([snapshot.capacity, *sizes])


def _power(snapshot: Snapshot, greatest: int, now: int, horizon_hours: int, admission: str) -> dict[str, Any]:
    """Return the settings of the capacity: that of now, the forecast, then the greatest."""
    if snapshot.capacity == snapshot.processors and not snapshot.forecast:
        return {}
    times, values = [0], [snapshot.capacity]
    for change in snapshot.forecast:
        times.append(now + change.after_seconds)
        values.append(change.processors)
    times.append(now + max(snapshot.forecast_seconds, horizon_hours * 3600))
    values.append(greatest)
    series = CapacitySeries(np.array(times), np.array(values), FOREVER_DAYS * layout.DAY)
    return {"power": series, "power_start": "log", "admission": admission}


def _write(simulator: ClusterSimulator, snapshot: Snapshot, rows: Sequence[Any], now: int) -> None:
    """Overwrite the state of an episode that has just begun."""
    state, log = simulator.state, simulator.world.log
    cluster, jobs = state.cluster[0], state.jobs[0, : len(rows)]
    running = np.array([isinstance(job, RunningJob) for job in rows], np.bool_)
    waiting = np.array([isinstance(job, WaitingJob) for job in rows], np.bool_)
    done = ~running & ~waiting
    elapsed = np.array([job.elapsed_seconds if isinstance(job, RunningJob) else 0 for job in rows], np.int64)
    ended = [job.ended_seconds_ago if isinstance(job, FinishedJob) else 0 for job in rows]
    jobs["phase"] = np.select([running, waiting], [layout.RUNNING, layout.WAITING], layout.DONE)
    jobs["start"] = jobs["first_start"] = np.where(running, now - elapsed, layout.NEVER)
    jobs["finish"] = np.where(done, now - np.array(ended, np.int64), layout.NEVER)
    jobs["order"] = 0
    by_start = np.flatnonzero(running)[np.argsort(-elapsed[running], kind="stable")]
    jobs["order"][by_start] = np.arange(len(by_start))
    jobs["delay"], jobs["charged"] = 0, 0.0

    queue = np.flatnonzero(waiting).astype(np.int32)
    state.queue[0, : len(queue)] = queue
    state.light[0, : len(queue)] = queue[np.argsort(log["weight"][queue], kind="stable")]
    estimate = jobs["start"][by_start] + log["request"][by_start]
    by_end = by_start[np.argsort(estimate, kind="stable")]
    estimate = np.sort(estimate, kind="stable")
    state.running["estimate"][0, : len(by_end)] = estimate
    state.running["processors"][0, : len(by_end)] = log["processors"][by_end]
    state.running["job"][0, : len(by_end)] = by_end
    state.endings["end"][0, : len(by_end)] = np.maximum(estimate, now + 1)
    state.endings["job"][0, : len(by_end)] = by_end
    _remember(simulator, np.flatnonzero(done))

    cluster["now"], cluster["over"] = now, 0
    cluster["limit"] = layout.NEVER // 2
    cluster["capacity"], cluster["used"] = snapshot.capacity, snapshot.used
    changes = [now + change.after_seconds for change in snapshot.forecast]
    if simulator.config.power is not None:
        assert isinstance(simulator.config.power, CapacitySeries)
        later = simulator.config.power.times
        changes = later[later > now].tolist()
    cluster["next_change"] = min(changes, default=layout.NEVER)
    cluster["waiting"], cluster["running"] = len(queue), len(by_end)
    cluster["arrived"], cluster["finished"] = len(rows), int(done.sum())
    cluster["starts"] = len(by_end)


def _remember(simulator: ClusterSimulator, done: Ints) -> None:
    """Count the finished jobs in their groups, in the order in which they ended; of several as they began."""
    finish, run = simulator.state.jobs["finish"][0, done], simulator.world.log["run"][done]
    remember_jobs(0, done[np.lexsort((finish - run, finish))], simulator.world, simulator.state)


def snapshot_of(simulator: ClusterSimulator, index: int = 0, horizon_hours: int = 24) -> Snapshot:
    """Return what a simulated cluster looks like now, with the numbers of jobs in the episode as ids.

    :param simulator: in an episode
    :param index: the environment
    :param horizon_hours: how far the forecast reaches
    :raises RuntimeError: if no episode has begun
    """
    cluster = simulator.state.cluster[simulator.in_episode(index)]
    log, jobs, now = simulator.episode_jobs(index), simulator.state.jobs[index], int(cluster["now"])
    arrived = range(int(cluster["arrived"]))

    def user(k: int) -> str | None:
        return None if log["user"][k] == layout.NOBODY else str(log["user"][k])

    def common(k: int) -> dict[str, Any]:
        return {
            "processors": int(log["processors"][k]),
            "limit_seconds": int(log["request"][k]),
            "user": user(k),
        }

    def in_phase(phase: int) -> list[int]:
        return [k for k in arrived if jobs["phase"][k] == phase]

    capacity, changes = int(cluster["capacity"]), []
    config = simulator.config
    seconds = horizon_hours * 3600 if config.power is not None else 0
    forecast = config.forecast if isinstance(config.forecast, CapacitySeries) else None
    if config.power is not None:
        world, period = simulator.world, int(simulator.world.settings["forecast_period"][0])
        forecast = CapacitySeries(world.forecast_times, world.forecast, period)
        clock = now + int(cluster["shift"])
        last = capacity
        for turn in range(clock // period, (clock + seconds) // period + 1):
            for time, value in zip(forecast.times, forecast.processors, strict=True):
                after = int(turn * period + time - clock)
                if 0 < after < seconds and value != last:
                    changes.append(CapacityChange(after, int(value)))
                    last = int(value)
    return Snapshot(
        processors=int(simulator.world.settings["processors"][0]),
        capacity=capacity,
        running=tuple(
            RunningJob(id=str(k), elapsed_seconds=now - int(jobs["start"][k]), **common(k))
            for k in in_phase(layout.RUNNING)
        ),
        waiting=tuple(
            WaitingJob(id=str(k), waited_seconds=now - int(log["submit"][k]), **common(k))
            for k in in_phase(layout.WAITING)
        ),
        finished=tuple(
            FinishedJob(
                run_seconds=int(log["run"][k]),
                submitted_seconds_ago=now - int(log["submit"][k]),
                ended_seconds_ago=now - int(jobs["finish"][k]),
                **common(k),
            )
            for k in in_phase(layout.DONE)
        ),
        forecast=tuple(changes),
        forecast_seconds=seconds,
    )
