"""Small VCC problems for tests of the baselines."""

from __future__ import annotations

import numpy as np

from greendc.traces.jobs import JobTrace
from greendc.traces.moer import MoerSeries
from greendc.vcc import VCCConfig, VCCSimulator


def trace_of(*jobs, days=1):
    """A trace of ``(submit_hour, duration, cpu in machine units, priority)``."""
    hour, duration, cpu, priority = zip(*sorted(jobs), strict=True)
    return JobTrace(
        submit_hour=np.array(hour),
        duration=np.array(duration),
        cpu=np.rint(np.array(cpu) * 1e6).astype(np.int64),
        priority=np.array(priority),
        days=days,
    )


def random_trace(seed, days=3, jobs_per_day=60):
    """Jobs of all classes, some of them long."""
    rng = np.random.default_rng(seed)
    n = days * jobs_per_day
    long = rng.random(n) < 0.15
    return JobTrace(
        submit_hour=np.sort(rng.integers(0, 24 * days, n)),
        duration=np.where(long, rng.integers(8, 60, n), rng.integers(1, 5, n)),
        cpu=rng.integers(1_000, 120_000, n),
        priority=rng.choice([200, 118, 105, 50], n, p=[0.25, 0.15, 0.3, 0.3]),
        days=days,
    )


def series_of(moer):
    """Emissions from 30 January 2020, 08:00 UTC, so that February begins 48 h later by Pacific time."""
    moer = np.asarray(moer, dtype=np.float64)
    return MoerSeries("test", np.datetime64("2020-01-30T08", "h"), moer, np.repeat(moer[:, None], 3, axis=1))


def daily_emissions(seed=0, hours=1000):
    """Emissions with a daily cycle and noise."""
    rng = np.random.default_rng(seed)
    cycle = 0.3 + 0.2 * np.sin(2 * np.pi * np.arange(hours) / 24)
    return np.maximum(0.0, cycle + 0.05 * rng.standard_normal(hours))


def small_config(**options):
    """A configuration of two days on random jobs, with options laid over it."""
    defaults = {
        "month": "2020-02",
        "moer": series_of(daily_emissions()),
        "days": 2,
        "workload": random_trace(0),
    }
    return VCCConfig(**{**defaults, **options})


def fresh(config, num_envs=1, seed=0):
    """A simulator whose environment ``i`` is reset with seed ``seed + i``, and its observations."""
    simulator = VCCSimulator(config, num_envs)
    for i in range(num_envs):
        simulator.reset_env(i, np.random.default_rng(seed + i))
    observations = simulator.empty_observations()
    simulator.observe(observations)
    return simulator, observations


def play(policy, observations):
    """Run the policy to the end of the episode; return its actions ``(hours, n, ...)``."""
    simulator, actions = policy.simulator, []
    for _ in range(simulator.hours):
        actions.append(policy.predict(observations)[0])
        simulator.step(actions[-1], observations)
    return np.array(actions)
