"""Random clusters, and the plain reference of a simulator's environment."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone

import numpy as np
from cluster_reference import Job, Reference
from series_reference import Series, place, wall

from greendc.cluster import CapacitySeries, ClusterConfig, ClusterJobs, ClusterSimulator
from greendc.traces.power import CarbonTrace

DAY = 86_400
SECONDS = (1, 5, 60, 600, 3600, 20_000)


def random_jobs(rng: np.random.Generator, count: int, machine: int) -> ClusterJobs:
    """Jobs with many ties and coincidences, some of them longer than requested."""
    unit = int(rng.choice(SECONDS[:5]))
    gaps = unit * rng.integers(0, 4, count)
    request = unit * rng.integers(1, 12, count)
    run = np.maximum(1, np.where(rng.random(count) < 0.3, request, rng.integers(1, 13 * unit, count)))
    processors = rng.integers(1, machine + 1, count) if rng.random() < 0.5 else rng.integers(1, 4, count)
    submit = np.cumsum(gaps) + int(rng.integers(0, 200_000))
    users = rng.integers(-1, 4, count) if rng.random() < 0.7 else None
    jobs = ClusterJobs(submit, run, request, np.minimum(processors, machine), machine, user=users)
    return jobs.with_qos(0.3, int(rng.integers(100)))


def random_series(rng: np.random.Generator, machine: int, least_peak: int) -> CapacitySeries:
    period = int(rng.choice([3600, 10_000, 86_400, 3 * 86_400]))
    count = int(rng.integers(1, 12))
    times = np.unique(np.r_[0, rng.integers(1, period, count)])
    values = rng.integers(0, machine + 1, len(times))
    values[rng.integers(len(times))] = int(rng.integers(least_peak, machine + 1))
    return CapacitySeries(times, values, period)


def random_config(rng: np.random.Generator, jobs_from: int = 8, jobs_to: int = 40) -> ClusterConfig:
    """A configuration of any kind, on random jobs."""
    machine = int(rng.integers(1, 17))
    count = int(rng.integers(jobs_from, jobs_to))
    jobs = random_jobs(rng, count, machine)
    frozen = rng.random() < 0.25
    options = {
        "profile": "rlscheduler" if frozen else "easy",
        "backfill": str(rng.choice(["none", "easy"] if frozen else ["none", "easy", "conservative"])),
        "workload": jobs,
        "episode_jobs": int(rng.integers(1, count + 1)),
        "visible_jobs": int(rng.choice([1, 2, 3, 5, 64])),
        "reward": str(rng.choice(["slowdown", "wait", "value", "carbon"])),
        "carbon": random_carbon(rng),
        "record_pieces": int(rng.choice([0, 3, 1000])),
    }
    if not frozen and rng.random() < 0.7:
        peak = int(jobs.processors.max())
        options["power"] = random_series(rng, machine, peak)
        options["forecast"] = rng.choice(np.array(["exact", "yesterday", "other"], object))
        if options["forecast"] == "other":
            options["forecast"] = random_series(rng, machine, peak)
        options["on_drop"] = str(rng.choice(["admit_only", "kill_requeue", "suspend", "checkpoint"]))
        if options["on_drop"] == "checkpoint":
            options["checkpoint_seconds"] = int(rng.choice([0, 1, 30, 500]))
        options["admission"] = str(rng.choice(["now", "forecast"]))
        options["forecast_hours"] = int(rng.choice([1, 5, 48]))
        options["limit_days"] = float(rng.choice([4.0, 30.0]))
        options["power_start"] = str(rng.choice(["random", "log"]))
    return ClusterConfig(**(with_clocks(rng, options) if rng.random() < 0.5 else options))


def random_carbon(rng: np.random.Generator) -> float | CarbonTrace:
    if rng.random() < 0.3:
        return float(rng.random())
    return CarbonTrace(rng.random(int(rng.integers(2, 30))), float(rng.choice([0.25, 1.0])))


def with_clocks(rng: np.random.Generator, options: dict) -> dict:
    """Give a log and its series clocks: by date, of another year, or for every day or week."""
    jobs = options["workload"]
    start = datetime(2019, 1, 1) + timedelta(seconds=int(rng.integers(6 * 365 * DAY)))
    zone = None if rng.random() < 0.5 else timezone(timedelta(hours=int(rng.integers(-11, 12))))
    utc = None if zone is None else timezone.utc
    start = start.replace(tzinfo=zone)
    submitted = [int(jobs.submit[k]) for k in (0, -1)]

    def span(kinds: list[str], step: int) -> tuple[datetime, int]:
        """Start and period of a series in steps of so many seconds."""
        kind = str(rng.choice(np.array(kinds)))
        begin = datetime(int(rng.integers(2015, 2024)), int(rng.integers(1, 13)), 1, int(rng.integers(24)))
        if kind == "date":
            before = timedelta(seconds=submitted[0] - int(rng.integers(2 * DAY)))
            length = submitted[1] - submitted[0] + 2 * DAY + int(rng.integers(3 * DAY))
            return start.astimezone(utc) + before if zone else start + before, -(-length // step) * step
        days = {"day": 1, "week": 7, "year": int(rng.integers(365, 800))}[kind]
        return begin.replace(tzinfo=utc), days * DAY

    kinds, dated = ["date", "day", "week", "year"], False
    if "power" in options and rng.random() < 0.7:
        begin, period = span(kinds, 1)
        count = int(rng.integers(1, 12))
        times = np.unique(np.r_[0, rng.integers(1, period, count), rng.integers(1, DAY, 3)])
        values = rng.integers(0, jobs.machine + 1, len(times))
        values[rng.integers(len(times))] = jobs.machine
        options["power"] = CapacitySeries(times, values, period, begin)
        options["limit_days"] = 900.0
        dated = options["power_start"] == "random" and period not in (DAY, 7 * DAY)
        if isinstance(options["forecast"], CapacitySeries):
            options["forecast"] = CapacitySeries(times, rng.permutation(values), period)
    if not isinstance(options["carbon"], float):
        drawn = "power" in options and options["power_start"] == "random"
        begin, period = span(kinds[1:] if drawn or dated else kinds, 21_600)
        options["carbon"] = CarbonTrace(rng.random(period // 21_600), 6.0, begin)
    start_of = str(start) if rng.random() < 0.5 else None
    if start_of is None:
        options["workload"] = dataclasses.replace(jobs, start=start)
    return {**options, "log_start": start_of}


def clock_of(simulator: ClusterSimulator, first: int, shift: int) -> tuple[int, int, int]:
    """Shifts of power and carbon, and the log's midnight; of a drawn day of power, ``shift`` tells."""
    config, world, jobs = simulator.config, simulator.world, simulator.jobs
    submit = int(jobs.submit[first])
    start = jobs.start
    power = config.power if isinstance(config.power, CapacitySeries) and config.power.start else None
    if start is None:
        return shift, shift, 0
    when = wall(start, start) + timedelta(seconds=submit)
    midnight = wall(start, start)
    midnight = (midnight - datetime.combine(midnight.date(), datetime.min.time())).seconds
    powered = int(world.settings["power_period"][0])
    drawn = config.power is not None and config.power_start == "random" and powered >= 2 * DAY
    carbon_when, expected = when, 0
    if power is not None:
        begin = wall(power.start, start)
        if not drawn:
            expected = place(begin, powered, when) - submit
        else:
            expected, read = shift, begin + timedelta(seconds=shift + submit)
            assert read.time() == when.time() and 0 <= shift + submit < powered
            days = timedelta(days=(shift + submit) // DAY)
            carbon_when = when + days if powered == 7 * DAY else read
    elif drawn:
        assert shift % DAY == 0 and 0 <= shift < powered
        expected, carbon_when = shift, when + timedelta(seconds=shift)
    if isinstance(config.carbon, CarbonTrace):
        begin = wall(config.carbon.start, start)
        period = int(world.settings["carbon_period"][0])
        return expected, place(begin, period, carbon_when) - submit, midnight
    return expected, expected, midnight


def reference_of(simulator: ClusterSimulator, index: int) -> Reference:
    """The reference of an environment that has just been reset."""
    config, table, world = simulator.config, simulator.jobs, simulator.world
    cluster = simulator.state.cluster[index]
    first = int(cluster["first"])
    rows = range(first, first + config.episode_jobs)
    enforce = config.profile != "rlscheduler"

    def field(name, row, missing):
        values = getattr(table, name)
        return missing if values is None else values[row].item()

    def run_of(row):
        run, request = table.run[row].item(), table.request[row].item()
        return min(run, request) if enforce else run

    def job_of(row):
        return Job(
            id=row - first,
            submit=table.submit[row].item(),
            run=run_of(row),
            request=table.request[row].item(),
            processors=table.processors[row].item(),
            user=field("user", row, -1),
            deadline=field("deadline", row, 2**62),
            value=field("value", row, 0.0),
        )

    def done_of(row):
        return field("done", row, table.submit[row].item() + table.run[row].item())

    jobs = [job_of(row) for row in rows]

    def series(name):
        period = int(world.settings[f"{name}_period"][0])
        if period == 0:
            return None
        return Series(getattr(world, f"{name}_times").tolist(), getattr(world, name).tolist(), period)

    power, forecast, carbon = map(series, ("power", "forecast", "carbon"))
    processors = int(world.settings["processors"][0])
    shift, carbon_shift, midnight = clock_of(simulator, first, int(cluster["shift"]))
    reference = Reference(
        config=config,
        processors=processors,
        jobs=jobs,
        power=power,
        forecast=forecast,
        carbon=carbon,
        greatest=max([processors] if power is None else [*power.values, *forecast.values]),
        shift=shift,
        carbon_shift=carbon_shift,
        midnight=midnight,
        groups={},
        mean_value=table.value.mean().item(),
    )
    for row in sorted(range(first), key=done_of):
        if done_of(row) <= jobs[0].submit:
            reference.remember(job_of(row))
    reference.begin()
    return reference
