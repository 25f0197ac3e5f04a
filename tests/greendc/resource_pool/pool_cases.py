"""Random resource-pool problems for the tests: small pools, short episodes, every option."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

import numpy as np
from pool_power import fitting
from pool_reference import ReferencePool

from greendc.energy import GRID_MODES, BatteryConfig, SiteConfig
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.jobs import JobArrays
from greendc.resource_pool.rewards import REWARDS, RewardWeights, reward_weights
from greendc.resource_pool.simulator import ResourcePoolSimulator
from greendc.traces.power import CarbonTrace, PowerTrace
from greendc.traces.prices import PriceTrace

OWN_WEIGHTS = RewardWeights(0.3, 0.9, 0.4, 0.2, 0.3, 0.7, 0.5)


class FixedWorkload:
    """A workload that always offers the same jobs."""

    def __init__(self, jobs: JobArrays, mean_value: float = 1.0) -> None:
        self.jobs = jobs
        self.counts: dict[str, int] = {}
        self.mean_duration = float(jobs.duration.mean()) if len(jobs) else 1.0
        self.mean_units = tuple(jobs.units.mean(axis=0)) if len(jobs) else (1.0,) * jobs.resource_types
        self._mean_value = mean_value

    def mean_value(self, prices: Any) -> float:
        return self._mean_value

    def sample(self, rng: np.random.Generator, steps: int) -> JobArrays:
        return self.jobs


def job_arrays(*jobs: tuple[int, int, tuple[int, ...], float], types: int = 2) -> JobArrays:
    """Jobs from tuples (arrival, duration, units, qos)."""
    return JobArrays(
        np.array([job[0] for job in jobs], np.int64),
        np.array([job[1] for job in jobs], np.int64),
        np.array([job[2] for job in jobs], np.int64).reshape(len(jobs), types),
        np.array([job[3] for job in jobs], np.float64),
    )


def random_jobs(rng: np.random.Generator, steps: int, units: int, types: int, longest: int) -> JobArrays:
    """Jobs that fit the pool, a few at a time, many of them urgent."""
    count = int(rng.poisson(rng.uniform(0.2, 1.5) * steps))
    widest = max(1, int(units * rng.uniform(0.2, 1.0)))
    demand = rng.integers(0, widest + 1, (count, types))
    demand[:, 0] = rng.integers(1, widest + 1, count)
    return JobArrays(
        np.sort(rng.integers(0, steps, count)),
        rng.integers(1, rng.integers(1, longest + 1) + 1, count),
        demand,
        np.where(rng.random(count) < 0.2, 1.0, rng.uniform(0.05, 1.0, count)),
    )


def random_trace(rng: np.random.Generator, steps: int, step_hours: float) -> PowerTrace:
    """Sun and wind that are sometimes away, and sometimes far more than the site draws."""
    solar = np.maximum(rng.normal(20, 60, steps), 0.0).clip(max=150)
    wind = np.repeat(rng.uniform(0, 260, steps), 2)[:steps] * (rng.random(steps) < 0.8)
    return PowerTrace(solar, wind, step_hours, datetime(2021, 6, 1, 5))


def random_site(rng: np.random.Generator, grids: tuple[str, ...] = GRID_MODES) -> SiteConfig:
    energy = float(rng.choice([0.0, 100.0, 600.0]))
    low, high = sorted(rng.uniform(0, 1, 2))
    battery = BatteryConfig(
        energy_kwh=energy,
        charge_kw=float(rng.uniform(0, 200)),
        discharge_kw=float(rng.uniform(0, 200)),
        efficiency=float(rng.choice([0.7, 1.0])),
        min_charge=float(low),
        max_charge=float(high),
        initial_charge=float(rng.uniform(low, high)),
    )
    grid = str(rng.choice(grids))
    return SiteConfig(
        idle_fraction=float(rng.choice([0.0, 0.3])),
        battery=battery,
        grid=grid,
        grid_cap_kw=float(rng.uniform(0, 200)) if grid == "capped" else None,
        grid_qos_above=float(rng.uniform(0, 1)) if grid == "qos_above" else None,
    )


def random_config(rng: np.random.Generator, **fixed: Any) -> ResourcePoolConfig:
    """A small problem that may use any option of the configuration."""
    pick = rng.choice
    units = int(rng.integers(1, 13)) if rng.random() < 0.9 else int(rng.integers(60, 135))
    types = int(rng.integers(1, 4))
    delays = [int(d) for d in (rng.integers(0, 3, 2) if rng.random() < 0.3 else (0, 0))]
    horizon = int(rng.integers(2, 13)) + sum(delays)
    steps = int(rng.integers(3, 25))
    units, horizon, steps = (
        fixed.get(name, value)
        for name, value in (("units", units), ("horizon", horizon), ("episode_steps", steps))
    )
    weights = {**REWARDS, "own": OWN_WEIGHTS}
    options: dict[str, Any] = {
        "units": units,
        "resource_types": types,
        "horizon": horizon,
        "ready_pool_size": int(rng.integers(1, 7)),
        "step_hours": float(pick([0.5, 1.0, 2.0])),
        "episode_steps": steps,
        "prices": tuple(rng.uniform(0.5, 2.0, types)) if rng.random() < 0.3 else None,
        "late_jobs": str(pick(["demote", "leave", "stay"])),
        "queue_order": str(pick(["arrival", "arrival", "latest_start"])),
        "placement": str(pick(["earliest", "now"])),
        "suspend": bool(rng.random() < 0.4),
        "mask": str(pick(["valid", "valid", "now", "now_on_time"])),
        "skip_forced": bool(rng.random() < 0.3),
        "start_delay": delays[0],
        "end_delay": delays[1],
        "reward": weights[str(pick(list(weights)))],
        "shaping_gamma": float(pick([0.9, 0.995, 1.0])),
        "lateness_in_reward": bool(rng.random() < 0.7),
        "cost": str(pick(["delayed", "waiting", "weighted"])),
        "power": str(pick(["constant", "on_off", "markov", "random", "trace", "trace", "trace"])),
        "power_level": float(pick([0.5, 0.7, 0.8, 1.0])),
        "power_low": float(pick([0.0, 0.4])),
        "on_steps": int(rng.integers(1, 6)),
        "off_steps": int(rng.integers(1, 4)),
        "stay_on": 0.7,
        "stay_off": 0.6,
        "forecast_error": float(pick([0.0, 0.0, 0.05, 0.3])),
        "image_dtype": str(pick(["uint8", "uint8", "float32"])),
        "context_rows": int(rng.integers(1, 15)),
    }
    options.update(fixed)
    if options["power"] == "trace":
        length = steps + horizon + int(rng.integers(0, 20))
        options.setdefault("trace", random_trace(rng, length, options["step_hours"]))
        options.setdefault("site", random_site(rng))
    if "workload" not in options:
        longest = horizon - sum(delays)
        jobs = random_jobs(rng, steps, units, types, longest)
        options["workload"] = FixedWorkload(jobs, float(rng.uniform(0.5, 20.0)))
    extra = np.random.default_rng([units, horizon, steps])  # leaves the draws of `rng` as they were
    more: dict[str, Any] = {"pausing": options["suspend"] and bool(extra.random() < 0.4)}
    if options["power"] == "trace" and extra.random() < 0.4:
        more |= {"price": 0.2, "cost": str(extra.choice(["brown", "carbon"]))}
        more["reward"] = dataclasses.replace(OWN_WEIGHTS, brown=0.1, price=0.3)
    if options.get("lookahead", 0) == 0:
        options = {**options, **more, **fixed}
    if options["cost"] == "weighted":
        options.setdefault("cost_weights", (0.5, 2.0))
    if reward_weights(options["reward"]).potential == 0.0:
        del options["shaping_gamma"]
    return ResourcePoolConfig(**fitting(options))


def random_commanded(rng: np.random.Generator, **fixed: Any) -> ResourcePoolConfig:
    """A small problem in which power is commanded, at a site whose carbon and price change."""
    units, steps, horizon = int(rng.integers(1, 13)), int(rng.integers(3, 25)), int(rng.integers(5, 31))
    hours, spare = float(rng.choice([0.5, 1.0, 2.0])), int(rng.integers(0, 20))
    trace = random_trace(rng, steps + horizon + spare, hours)
    levels = np.flatnonzero(rng.random(units + 1) < 0.5)
    cost = str(rng.choice(["delayed", "carbon", "brown", "weighted"]))
    of_energy = np.where(rng.random(4) < 0.5, rng.uniform(0, 0.3, 4), 0.0)
    carbon, brown, price, switching = (float(weight) for weight in of_energy)
    options: dict[str, Any] = {
        "units": units,
        "horizon": horizon,
        "episode_steps": steps,
        "step_hours": hours,
        "power": "trace",
        "trace": trace,
        "site": random_site(rng, ("open",)),
        "carbon": CarbonTrace(rng.uniform(0, 1.3, len(trace)), hours, trace.start),
        "price": PriceTrace(rng.uniform(0, 0.5, len(trace)), hours, trace.start),
        "power_levels": tuple(int(level) for level in levels) if any(levels) else (units,),
        "switch_delay": int(rng.integers(0, 2)),
        "switch_hours": float(rng.choice([0.0, 0.5])),
        "placement": "now",
        "skip_forced": False,
        "suspend": True,
        "pausing": bool(rng.random() < 0.7),
        "cost": cost,
        "reward": dataclasses.replace(
            OWN_WEIGHTS,
            carbon=0.0 if cost == "carbon" else carbon,
            brown=brown,
            price=price,
            switching=switching,
        ),
    }
    return random_config(rng, **{**options, **fixed})


def reference_of(simulator: ResourcePoolSimulator, index: int = 0) -> ReferencePool:
    """The plain-Python pool with the jobs and the power of a simulator that has just been reset."""
    workload = simulator.workload
    assert isinstance(workload, FixedWorkload)
    series, start_hour = simulator.power_series(index)
    mean_price = simulator.power.mean_price
    return ReferencePool(
        simulator.config, workload.jobs, series, simulator.mean_value, start_hour, mean_price
    )


def sensible_or_any(rng: np.random.Generator, mask: np.ndarray) -> int:
    """Mostly a valid action, sometimes any."""
    if rng.random() < 0.1:
        return int(rng.integers(len(mask)))
    return int(rng.choice(np.flatnonzero(mask)))
