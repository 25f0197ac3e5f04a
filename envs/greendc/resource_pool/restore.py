"""From a snapshot to a pool that stands where the snapshot was taken, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.config import nearest
from greendc.json_records import SnapshotError, require
from greendc.resource_pool import kernel
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.jobs import JobArrays, job_values, latest_finish
from greendc.resource_pool.layout import PoolState
from greendc.resource_pool.plans import day_steps
from greendc.resource_pool.snapshot import PLACED, PoolJob, PoolPower, PoolSnapshot
from greendc.resource_pool.view import STATUS_NAMES

COMMANDED = ("units_on", "units_next", "units_starting")
MEANS = ("mean_value", "mean_price")
"""Beside the fields of a configuration: they tell other jobs and prices apart."""


def snapshot_of(config: ResourcePoolConfig, state: PoolState, index: int, future: bool) -> PoolSnapshot:
    """Return what environment ``index`` looks like now; see the simulator's ``snapshot``."""
    env, series = state.env[index], state.series[index]
    now = int(env["now"])
    count = int(env["n_jobs"] if future else env["next_arrival"])
    site, commanded = config.power == "trace", config.power_levels is not None
    commands: dict[str, Any] = {name: int(env[name]) if commanded else None for name in COMMANDED}
    coming = series[now:] if future else _forecast(config, series[now : now + config.horizon])
    return PoolSnapshot(
        jobs=tuple(_job(state, index, j) for j in range(count)),
        power=tuple(_power(row, site) for row in coming),
        past_power=tuple(_power(row, site) for row in series[:now]),
        step=now,
        start_hour=float(env["start_hour"]),
        stored_kwh=float(env["stored_kwh"]) if site else None,
        potential=float(env["potential"]),
        totals={
            **{name: int(env[name]) for name in at.COUNTS},
            **{name: float(env[name]) for name in at.SUMS},
        },
        configuration=configuration_of(config, state),
        **commands,
    )


def configuration_of(config: ResourcePoolConfig, state: PoolState) -> dict[str, Any]:
    """Return the configuration as JSON has it; of workloads and series that are objects, their classes.

    The means of job values and of prices are there, too.
    """
    fields = {field.name: plain(getattr(config, field.name)) for field in dataclasses.fields(config)}
    means = {name: float(state.config[name][0]) for name in MEANS}
    return {**fields, **means}


def plain(value: Any) -> Any:
    """Return a value of a configuration as JSON has it; see :func:`configuration_of`."""
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("greendc."):
        small = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if not any(isinstance(part, np.ndarray) for part in small.values()):
            return {name: plain(part) for name, part in small.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    for kind, numbers in ((bool, bool | np.bool_), (int, int | np.integer), (float, float | np.floating)):
        if isinstance(value, numbers):
            return kind(value)
    return value if value is None or isinstance(value, str) else _name(value)


def _name(value: object) -> str:
    return str(value) if isinstance(value, Path) else type(value).__name__


def _forecast(config: ResourcePoolConfig, series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the power of the next rows as it is foreseen, which then has no error."""
    walk = series[:, at.WALK]
    factor = np.maximum(0.0, 1.0 + config.forecast_error * (walk - walk[0]))
    seen, green = series.copy(), (series[:, at.SOLAR] + series[:, at.WIND]) * factor
    if config.power == "trace":
        # Sun and wind must have exactly the sum that the pool computes with.
        wind = series[:, at.WIND] * factor
        solar = np.where(factor == 1.0, series[:, at.SOLAR], green - wind)
        exact = (solar >= 0.0) & (solar + wind == green)
        seen[:, at.SOLAR], seen[:, at.WIND] = np.where(exact, solar, green), np.where(exact, wind, 0.0)
    else:
        seen[:, at.SOLAR] = np.minimum(green, 1.0)
    seen[:, at.WALK] = 0.0
    return seen


def _power(row: NDArray[np.float64], site: bool) -> PoolPower:
    if not site:
        return PoolPower(level=float(row[at.SOLAR]), walk=float(row[at.WALK]))
    solar, wind, carbon, walk, price = row.tolist()
    return PoolPower(None, solar, wind, carbon, price, walk)


def _job(state: PoolState, index: int, j: int) -> PoolJob:
    job, units, now = state.jobs[index, j], state.units[index], int(state.env[index]["now"])
    name = STATUS_NAMES[job["status"]]
    done, placed, ran = name == "finished", name in PLACED, job["first_start"] >= 0
    return PoolJob(
        state=name,
        arrived_steps_ago=now - int(job["arrival"]),
        duration_steps=int(job["duration"]),
        units=tuple(units[at.NEEDS, j].tolist()),
        qos=float(job["qos"]),
        remaining_steps=None if done else int(job["remaining"]),
        start_steps=int(job["start"]) - now if placed else None,
        block=tuple(units[at.BLOCKS, j].tolist()) if placed else None,
        first_started_steps_ago=now - int(job["first_start"]) if ran else None,
        finished_steps_ago=now - int(job["finish"]) if done else None,
        suspensions=int(job["suspensions"]),
        barred=bool(job["barred"] == now),
        lateness_charged=float(job["late_paid"]),
    )


def restored(config: ResourcePoolConfig, batch: PoolState, snapshot: PoolSnapshot) -> PoolState:
    """Return the state of one environment that stands where the snapshot was taken.

    :param batch: of the simulator that it is for; not changed
    :raises SnapshotError: if the snapshot does not fit the simulator, or jobs stand in each other's way
    """
    require_same(configuration_of(config, batch), snapshot.configuration, "configuration.")
    allowed = f"below {config.episode_steps}, the steps of an episode"
    require(snapshot.step < config.episode_steps, "step", snapshot.step, allowed)
    for k, job in enumerate(snapshot.jobs):
        _require_fit(config, f"jobs[{k}].", job)
    _require_capacity(config, snapshot)
    count = len(snapshot.jobs)
    state = PoolState(
        config=batch.config.copy(),
        env=np.zeros(1, at.ENV),
        counts=np.zeros((1, batch.counts.shape[1]), np.int64),
        forecast=np.zeros((1, config.horizon)),
        jobs=np.zeros((1, count), at.JOB),
        units=np.zeros((1, 3, count, config.resource_types), np.int64),
        lists=np.zeros((1, at.OVERDUE + 1, count), np.int64),
        rows=np.zeros((1, *batch.rows.shape[1:]), np.int64),
        image=np.zeros((1, *batch.image.shape[1:]), batch.image.dtype),
        series=_series(config, snapshot)[None],
    )
    _fill_clock(config, state, snapshot)
    _fill_jobs(config, state, snapshot)
    culprit = kernel.lay_out(state, 0) - 1
    if culprit >= 0:
        block = list(snapshot.jobs[culprit].block or ())
        allowed = "units without another job, with power now, of a reservation in all of its steps"
        raise SnapshotError(f"jobs[{culprit}].block={block}: must be {allowed}")
    return state


def require_same(ours: Mapping[str, Any], theirs: Mapping[str, Any], where: str) -> None:
    """Raise an error that names the first field in which two configurations differ."""
    for name, value in theirs.items():
        if name not in ours:
            raise SnapshotError(f"{where}{name}: unknown field{nearest(name, ours)}")
        if isinstance(value, Mapping) and isinstance(ours[name], Mapping):
            require_same(ours[name], value, f"{where}{name}.")
        else:
            require(value == ours[name], where + name, value, f"{ours[name]!r}, as in this simulator")


def _require_fit(config: ResourcePoolConfig, where: str, job: PoolJob) -> None:
    """Check a job against the pool."""
    types, units = config.resource_types, config.units
    for name, counts in (("units", job.units), ("block", job.block)):
        if counts is not None:
            require(len(counts) == types, where + name, list(counts), f"{types} numbers, one for each type")
    right = job.units[0] >= 1 and max(job.units) <= units
    require(right, f"{where}units", list(job.units), f"at most {units}, at least 1 of the first type")
    longest = config.longest_job
    require(job.duration_steps <= longest, f"{where}duration_steps", job.duration_steps, f"at most {longest}")
    work = job.duration_steps if job.remaining_steps is None else job.remaining_steps
    length = config.start_delay + work + config.end_delay
    require(length > 0, f"{where}remaining_steps", work, "above 0 without delays")
    if job.block is None or job.start_steps is None:
        return
    inside = all(first + need <= units for first, need in zip(job.block, job.units, strict=True))
    require(inside, f"{where}block", list(job.block), f"such that units={list(job.units)} end within {units}")
    allowed = f"above {-length}: it occupies {length} steps, with delays"
    require(job.start_steps > -length, f"{where}start_steps", job.start_steps, allowed)
    latest = config.horizon - length
    allowed = f"at most {latest}: it must end within the horizon"
    require(job.start_steps <= latest, f"{where}start_steps", job.start_steps, allowed)


def _require_capacity(config: ResourcePoolConfig, snapshot: PoolSnapshot) -> None:
    running = [job.units for job in snapshot.jobs if job.state == "running"]
    for k in range(config.resource_types):
        used = sum(units[k] for units in running)
        allowed = f"at most {config.units} units of a type in all"
        require(used <= config.units, "jobs", f"running on {used} units of type {k}", allowed)


def _series(config: ResourcePoolConfig, snapshot: PoolSnapshot) -> NDArray[np.float64]:
    """Return the power of the whole episode, ``(episode_steps + horizon, SERIES)``."""
    now, steps, count = snapshot.step, config.episode_steps + config.horizon, len(snapshot.power)
    allowed = f"from {config.horizon}, the horizon, to {steps - now} rows, where the episode ends"
    require(config.horizon <= count <= steps - now, "power", f"{count} rows", allowed)
    rows = [_numbers(config, f"past_power[{k}].", row) for k, row in enumerate(snapshot.past_power)]
    rows += [_numbers(config, f"power[{k}].", row) for k, row in enumerate(snapshot.power)]
    day = day_steps(config)
    period = day if day <= count else 1
    later = np.arange(steps - now - count) % period - period  # counted from the end of what is foreseen
    unknown = np.zeros(now - len(snapshot.past_power), np.int64)
    series: NDArray[np.float64] = np.array(rows)[np.r_[unknown, np.arange(len(rows)), later + len(rows)]]
    return series


def _numbers(config: ResourcePoolConfig, where: str, row: PoolPower) -> list[float]:
    site = config.power == "trace"
    for name, wanted in (("level", not site), ("solar_kw", site), ("wind_kw", site)):
        value = getattr(row, name)
        allowed = f'{"given" if wanted else "null"}: power="{config.power}"'
        require((value is not None) == wanted, where + name, value, allowed)
    green = (row.solar_kw, row.wind_kw) if site else (row.level, 0.0)
    return [float(x or 0.0) for x in (*green, row.carbon_kg_per_kwh, row.walk, row.price_per_kwh)]


def _fill_clock(config: ResourcePoolConfig, state: PoolState, snapshot: PoolSnapshot) -> None:
    """Write the clock, the battery, what is commanded and the sums."""
    env = state.env[0]
    env["now"], env["head"] = snapshot.step, snapshot.step % config.horizon
    env["start_hour"] = snapshot.start_hour
    most = config.site_config.battery.energy_kwh if config.power == "trace" else 0.0
    stored = snapshot.stored_kwh
    right = stored is None if config.power != "trace" else stored is not None and stored <= most * (1 + 1e-9)
    allowed = (
        f"from 0 to {most:g} kWh, what the battery holds" if config.power == "trace" else "null: no site"
    )
    require(right, "stored_kwh", stored, allowed)
    env["stored_kwh"] = stored or 0.0
    commanded = config.power_levels is not None
    for name in COMMANDED:
        value = getattr(snapshot, name)
        right = value is not None and value <= config.units if commanded else value is None
        allowed = f"from 0 to {config.units} units" if commanded else "null: power is not commanded"
        require(right, name, value, allowed)
        env[name] = value or 0
    for name, value in snapshot.totals.items():
        env[name] = value


def _fill_jobs(config: ResourcePoolConfig, state: PoolState, snapshot: PoolSnapshot) -> None:
    """Write the table of jobs, and what counts them."""
    env, jobs, units, given = state.env[0], state.jobs[0], state.units[0], snapshot.jobs
    now = int(env["now"])
    env["n_jobs"] = len(given)
    if given:
        _write_table(config, jobs, units, given, now)
    env["next_arrival"] = np.count_nonzero(jobs["status"] != at.FUTURE)
    alive = (jobs["status"] != at.FUTURE) & (jobs["status"] < at.FINISHED)
    jobs["delayed"] = alive & (jobs["latest"] < now)
    env["n_delayed"] = np.count_nonzero(jobs["delayed"])
    env["n_not_started"] = np.count_nonzero(alive & (jobs["first_start"] < 0))
    state.lists[0, at.BY_LATEST] = np.argsort(jobs["latest"], kind="stable")
    env["next_overdue"] = np.count_nonzero(jobs["latest"] < now)
    record = state.config[0]
    owing = (jobs["delayed"] != 0) & (jobs["late_paid"] < record["lateness_cap"] * jobs["value"])
    overdue = np.flatnonzero(owing) if record["charge_lateness"] > 0.0 else np.zeros(0, np.int64)
    state.lists[0, at.OVERDUE, : len(overdue)] = overdue
    env["n_overdue"] = len(overdue)
    placed = (jobs["status"] == at.RESERVED) | (jobs["status"] == at.RUNNING)
    on_time = placed & (jobs["end"] <= jobs["latest"])
    env["potential"] = sum(jobs["value"][on_time].tolist()) if record["pay_potential"] > 0.0 else 0.0
    if snapshot.potential is not None:
        env["potential"] = snapshot.potential


def _write_table(
    config: ResourcePoolConfig,
    jobs: NDArray[np.void],
    units: NDArray[np.int64],
    given: tuple[PoolJob, ...],
    now: int,
) -> None:
    def column(name: str, missing: int | None = None) -> NDArray[np.int64]:
        values = [getattr(job, name) for job in given]
        return np.array([missing if value is None else value for value in values], np.int64)

    oldest = max(given[0].arrived_steps_ago, 0)
    arrays = JobArrays(  # their arrival counts from that of the oldest job
        arrival=oldest - column("arrived_steps_ago"),
        duration=column("duration_steps"),
        units=np.array([job.units for job in given], np.int64),
        qos=np.array([job.qos for job in given], np.float64),
    )
    states = np.array([STATUS_NAMES.index(job.state) for job in given])
    shift = now - oldest
    jobs["arrival"], jobs["duration"] = arrays.arrival + shift, arrays.duration
    jobs["latest"], jobs["qos"] = latest_finish(arrays) + shift, arrays.qos
    jobs["value"], jobs["status"] = job_values(arrays, config.price_list), states
    left = column("remaining_steps", -1)
    jobs["remaining"] = np.where(left >= 0, left, arrays.duration) * (states != at.FINISHED)
    placed = np.isin(states, (at.RESERVED, at.RUNNING))
    start = column("start_steps", 0)
    jobs["start"] = np.where(placed, now + start, 0)
    length = config.start_delay + jobs["remaining"] + config.end_delay
    jobs["end"] = np.where(placed, jobs["start"] + length, 0)
    jobs["finish"] = np.where(states == at.FINISHED, now - column("finished_steps_ago", 0), -1)
    ran = column("first_started_steps_ago", -1)
    ran = np.where((ran < 0) & (states == at.RUNNING), -start, ran)
    # A job may have begun before the episode did: what counts is that it has.
    jobs["first_start"] = np.where(ran >= 0, np.maximum(now - ran, 0), -1)
    jobs["suspensions"], jobs["late_paid"] = column("suspensions"), [job.lateness_charged for job in given]
    jobs["barred"] = np.where([job.barred for job in given], now, -1)
    jobs["found_epoch"] = jobs["found_start"] = -1
    units[at.NEEDS] = arrays.units
    units[at.BLOCKS] = [job.block or (0,) * config.resource_types for job in given]
