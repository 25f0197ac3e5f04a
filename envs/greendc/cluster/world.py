"""Builds what the environments of a batch run on: the log, power and carbon as the kernel reads them."""

from __future__ import annotations

import dataclasses
import warnings
from datetime import datetime
from pathlib import Path

import numpy as np

from greendc.cluster import columns, layout
from greendc.cluster.clocks import Clocks, read_start, seconds_on, whole_days
from greendc.cluster.config import ADMISSIONS, BACKFILLS, ON_DROP, PROFILES, REWARDS, ClusterConfig
from greendc.cluster.jobs import ClusterJobs, lublin_jobs, read_jobs
from greendc.cluster.power import HOUR, CapacitySeries, CarbonSeries, green_capacity
from greendc.config import require
from greendc.records import Ints, Records
from greendc.traces.log_clock import fixed

NO_TIMES = np.zeros(1, np.int64)


def load_jobs(config: ClusterConfig) -> ClusterJobs:
    """Return the jobs that a configuration names; warn of those of a log that are wider than the cluster.

    :raises ValueError: for a path where there is no file, or jobs that do not fit the configuration
    """
    workload = config.workload
    if isinstance(workload, str) and workload == "lublin":
        processors = 256 if config.processors is None else config.processors
        seed, count = config.workload_seed, config.workload_jobs
        jobs = lublin_jobs(seed, count, processors, config.overestimate)
    elif isinstance(workload, ClusterJobs):
        jobs = workload
    else:
        require(Path(workload).is_file(), "workload", str(workload), "'lublin', ClusterJobs, or a file")
        reading = "rlscheduler" if config.profile == "rlscheduler" else "strict"
        jobs = read_jobs(workload, reading, config.processors)
        if wide := jobs.counts["above_machine"]:
            said = f"{wide:,} of the {jobs.counts['read']:,} jobs of {workload} are left out"
            warnings.warn(f"{said}: they need more than {jobs.machine:,} processors", stacklevel=2)
    if config.log_start is not None:
        jobs = dataclasses.replace(jobs, start=read_start("log_start", config.log_start))
    if config.min_qos is not None:
        jobs = jobs.with_qos(config.min_qos, config.workload_seed)
    if config.reward == "value":
        worth = jobs.value is not None and float(jobs.value.mean()) > 0
        require(worth, "reward", config.reward, "another one: the jobs have no values (min_qos gives them)")
    last = len(jobs) if config.last_job is None else config.last_job
    require(last <= len(jobs), "last_job", config.last_job, f"at most the {len(jobs)} jobs of the log")
    allowed = f"below last_job={last}, where the rows that episodes may use end"
    require(config.first_job < last, "first_job", config.first_job, allowed)
    room = last - config.first_job
    allowed = f"at most the {room} jobs from first_job={config.first_job} to last_job={last}"
    require(config.episode_jobs <= room, "episode_jobs", config.episode_jobs, allowed)
    if config.profile == "rlscheduler":
        _require_countable(config, jobs, last)
    return jobs


def _require_countable(config: ClusterConfig, jobs: ClusterJobs, last: int) -> None:
    """Refuse jobs whose processor-seconds may not fit into 64 bits in an episode that nothing cuts."""
    processors = jobs.machine if config.processors is None else config.processors
    seconds = float(jobs.submit[last - 1]) + float(jobs.run[config.first_job : last].sum(dtype=np.float64))
    found = f"up to {seconds:.3g} s on {processors} processors"
    allowed = f"less than {layout.NEVER:.3g} processor-seconds in the profile 'rlscheduler'"
    require(seconds * processors < layout.NEVER, "workload", found, allowed)


def capacities(
    config: ClusterConfig, jobs: ClusterJobs, processors: int
) -> tuple[CapacitySeries | None, CapacitySeries | None]:
    """Return the capacity and its forecast, both ``None`` without power that changes.

    :raises ValueError: for a job of an episode that no capacity will ever hold; names it
    """
    power = config.power
    largest = config.first_job + int(jobs.processors[config.first_job : config.last_job].argmax())
    size = int(jobs.processors[largest])
    name = f"job {largest if jobs.number is None else jobs.number[largest]} of {size} processors"
    require(size <= processors, "workload", name, f"one of jobs of at most {processors}, the cluster's")
    if power is None:
        return None, None
    if not isinstance(power, CapacitySeries):
        busy_kw = config.busy_watts / 1000.0
        power = green_capacity(processors, busy_kw, config.power_floor, config.power_share)
        if jobs.start is not None:  # generated power is of any year
            power = dataclasses.replace(power, start=_new_year(jobs.start))
    in_days = jobs.start is not None and power.start is not None
    power = power.in_days() if in_days else power
    require(size <= power.greatest, "workload", name, f"at most {power.greatest}, the greatest capacity")
    most = f"at most the {processors} processors of the cluster"
    require(power.greatest <= processors, "power", f"up to {power.greatest}", most)
    days = power.period / layout.DAY
    require(config.limit_days >= days, "limit_days", config.limit_days, f"at least power's period, {days:g}")
    if isinstance(config.forecast, CapacitySeries):
        require(config.forecast.greatest <= processors, "forecast", f"up to {config.forecast.greatest}", most)
        found = f"a series of {config.forecast.period} s"
        require(config.forecast.period >= HOUR, "forecast", found, "one of an hour or more")
        _require_together(config.forecast, power)
        return power, config.forecast.in_days("forecast") if in_days else config.forecast
    return power, power if config.forecast == "exact" else power.delayed(layout.DAY)


def _new_year(time: datetime) -> datetime:
    return fixed(time).replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)


def _require_together(forecast: CapacitySeries, power: CapacitySeries) -> None:
    """Refuse a forecast that says to begin at another time than the power."""
    if forecast.start is None:
        return
    allowed = f"one that begins with power, at {power.start}"
    found = f"a series from {forecast.start}"
    require(power.start is not None, "forecast", found, allowed)
    assert power.start is not None
    begin = seconds_on("power", power.start, power.start, "power")
    require(seconds_on("forecast", forecast.start, power.start, "power") == begin, "forecast", found, allowed)


def log_table(
    config: ClusterConfig, jobs: ClusterJobs, processors: int, users: Ints, narrowest: Ints
) -> Records:
    """Return the jobs as :class:`~greendc.cluster.layout.LogJob` records."""
    table = np.zeros(len(jobs), layout.LOG_JOB)
    enforce = config.profile != "rlscheduler"
    table["submit"], table["request"], table["processors"] = jobs.submit, jobs.request, jobs.processors
    table["run"] = np.minimum(jobs.run, jobs.request) if enforce else jobs.run
    table["inverse"] = 1.0 / np.maximum(table["run"], layout.SHORT_RUN)
    table["user"], table["group"] = users, narrowest
    table["deadline"] = layout.NEVER if jobs.deadline is None else jobs.deadline
    table["value"] = 0.0 if jobs.value is None else jobs.value
    request = jobs.request.astype(np.float64)
    area = request * jobs.processors
    table["weight"] = area * np.maximum(request, layout.SHORT_RUN)
    for name, values in (("log_request", request), ("log_area", area)):
        table[name] = np.minimum(np.log1p(values) * columns.LOG_SCALE, columns.MOST_LOG)
    table["share"] = jobs.processors / processors
    return table


def groups_of(jobs: ClusterJobs) -> tuple[Ints, Ints, Ints]:
    """Return each job's user as a number from 0 up (``NOBODY`` stays) and its group, and all wider groups.

    Users are the first groups; then come those of one user and one request, then those of one number of
    processors, too.
    """
    users, narrowest = np.full((2, len(jobs)), layout.NOBODY)
    if jobs.user is None:
        return users, narrowest, np.zeros(0, np.int64)
    known = np.flatnonzero(jobs.user >= 0)
    names, within = np.unique(jobs.user[known], return_inverse=True)
    users[known], wider = within, [np.full(len(names), layout.NOBODY)]
    count = len(names)
    for trait in (jobs.request, jobs.processors):
        values, codes = np.unique(trait[known], return_inverse=True)
        groups, within = np.unique(within * len(values) + codes, return_inverse=True)
        wider.append(groups // len(values))
        within += count
        count += len(groups)
    narrowest[known] = within
    return users, narrowest, np.concatenate(wider)


def build_world(config: ClusterConfig, jobs: ClusterJobs) -> tuple[layout.World, Clocks]:
    """Return what a batch runs on, and where episodes begin in the series."""
    processors = jobs.machine if config.processors is None else config.processors
    power, forecast = capacities(config, jobs, processors)
    carbon = CarbonSeries.of(config.carbon)
    kg, step = carbon.kg_per_kwh, carbon.step_seconds
    times, period = step * np.arange(len(kg), dtype=np.int64), step * len(kg)
    if jobs.start is not None and carbon.start is not None:
        times, kg, period = whole_days("carbon", times, kg, period)
    last = len(jobs) if config.last_job is None else config.last_job
    clocks = Clocks(
        jobs.start,
        (int(jobs.submit[config.first_job]), int(jobs.submit[last - 1])),
        None if power is None else (power.start, power.period),
        (carbon.start, period),
        config.power_start == "random",
    )
    users, narrowest, wider = groups_of(jobs)
    done = jobs.submit + jobs.run if jobs.done is None else jobs.done
    settings = np.zeros(1, layout.SETTINGS)
    names = {"profile": PROFILES, "backfill": BACKFILLS, "on_drop": ON_DROP, "admission": ADMISSIONS}
    for field, known in {**names, "reward": REWARDS}.items():
        settings[field] = known.index(getattr(config, field))
    settings["processors"], settings["jobs"] = processors, config.episode_jobs
    settings["limit"] = round(config.limit_days * layout.DAY)
    if config.profile == "rlscheduler":
        settings["limit"] = layout.NEVER // 2
    settings["checkpoint"] = config.checkpoint_seconds
    settings["horizon"] = config.forecast_hours * HOUR
    settings["visible"] = config.visible_jobs
    settings["busy_kw"], settings["idle_kw"] = config.busy_watts / 1000.0, config.idle_watts / 1000.0
    settings["mean_value"] = 1.0 if jobs.value is None else max(float(jobs.value.mean()), 1e-300)
    settings["carbon_period"], settings["midnight"] = period, clocks.midnight
    settings["greatest"] = processors
    in_horizon = 0
    if power is not None and forecast is not None:
        settings["power_period"], settings["forecast_period"] = power.period, forecast.period
        settings["greatest"] = max(power.greatest, forecast.greatest)
        reach = max(int(settings["horizon"][0]), layout.DAY)
        in_horizon = len(forecast.times) * (reach // forecast.period + 2)
    world = layout.World(
        settings=settings,
        log=log_table(config, jobs, processors, users, narrowest),
        done_before=done.copy(),
        by_done=np.argsort(done, kind="stable"),
        wider=wider,
        power_times=NO_TIMES if power is None else power.times.copy(),
        power=NO_TIMES if power is None else power.processors.copy(),
        forecast_times=NO_TIMES if forecast is None else forecast.times.copy(),
        forecast=NO_TIMES if forecast is None else forecast.processors.copy(),
        carbon_times=times,
        carbon=kg.astype(np.float64),
        carbon_sums=np.r_[0.0, np.cumsum(kg * np.diff(np.r_[times, period]))],
        points=np.zeros(3 * config.episode_jobs + in_horizon + 8, layout.POINT),
        minima=np.zeros(in_horizon + 2, layout.POINT),
        rank=np.zeros(config.episode_jobs, np.int32),
    )
    return world, clocks
