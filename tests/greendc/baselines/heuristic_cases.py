"""Pools for the tests of heuristics, and heuristics written out in plain Python."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pool_power import fitting

from greendc.baselines import make_policy
from greendc.energy import BatteryConfig, SiteConfig
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator, ResourcePoolVectorEnv
from greendc.resource_pool.jobs import JobArrays
from greendc.resource_pool.observation import JOB_FEATURES
from greendc.traces.power import PowerTrace

Job = tuple[int, int, tuple[int, ...], float]
COLUMN = {name: i for i, name in enumerate(JOB_FEATURES)}


def job_arrays(*jobs: Job) -> JobArrays:
    """Jobs from tuples (arrival, duration, units, qos)."""
    arrival, duration, units, qos = zip(*jobs, strict=True)
    return JobArrays(
        np.array(arrival, np.int64),
        np.array(duration, np.int64),
        np.array(units, np.int64),
        np.array(qos, float),
    )


def pool_with(*jobs: Job, **options: Any) -> tuple[ResourcePoolSimulator, dict[str, NDArray[Any]]]:
    """A pool of 4 CPU and 4 GPU units with these jobs, and its first observations."""
    config = ResourcePoolConfig(**{"units": 4, "horizon": 20, "episode_steps": 50, **options})
    simulator = ResourcePoolSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0), {"jobs": job_arrays(*jobs)})
    observations = simulator.empty_observations()
    simulator.observe(observations)
    assert isinstance(observations, dict)
    return simulator, observations


def random_config(rng: np.random.Generator, **fixed: Any) -> ResourcePoolConfig:
    """A pool under any rule for late jobs, mask, placement and kind of power."""
    pick = rng.choice
    options: dict[str, Any] = {
        "units": int(pick([4, 10, 70])),
        "resource_types": int(rng.integers(1, 4)),
        "horizon": int(rng.integers(12, 40)),
        "ready_pool_size": int(rng.integers(1, 12)),
        "episode_steps": 60,
        "offered_load": float(pick([0.5, 1.0, 1.5])),
        "late_jobs": str(pick(["demote", "leave", "stay"])),
        "placement": str(pick(["earliest", "earliest", "now"])),
        "mask": str(pick(["valid", "valid", "now", "now_on_time"])),
        "start_delay": int(pick([0, 0, 1])),
        "end_delay": int(pick([0, 0, 2])),
        "image_dtype": str(pick(["uint8", "float32"])),
        "power": str(pick(["constant", "markov", "trace"])),
        "power_level": 0.9,
        "power_low": 0.4,
        "forecast_error": float(pick([0.0, 0.1])),
    }
    options.update(fixed)
    if options["power"] == "trace":
        hours = options["episode_steps"] + options["horizon"] + 5
        solar, wind = rng.uniform(0, 150, hours), np.repeat(rng.uniform(0, 300, hours), 3)[:hours]
        options["trace"] = PowerTrace(solar, wind, 1.0, datetime(2021, 6, 1, 5))
        brown = {"grid": "qos_above", "grid_qos_above": 0.6} if rng.random() < 0.6 else {}
        options["site"] = SiteConfig(battery=BatteryConfig(energy_kwh=300.0), **brown)
    return ResourcePoolConfig(**fitting(options))


def sort_keys(name: str, jobs: NDArray[np.float32]) -> NDArray[np.float64]:
    """What the order sorts the ready slots of one observation by, least first."""
    table = jobs.astype(np.float64)
    column = {feature: table[:, i] for feature, i in COLUMN.items()}
    worth = column["value"] / (1.0 - column["value"])
    width = table[:, len(JOB_FEATURES) :].max(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "sjf": column["remaining"],
            "qos": -column["qos"],
            "hvf": -worth,
            "fcfs": -column["age"],
            "edf": column["latest_finish"],
            "density": -worth / (column["duration"] * width),
            "deadline_last": -column["qos"],
            "deadline_never": -column["qos"],
        }[name]


def plain_choice(name: str, dispatch: str, jobs: NDArray[np.float32], mask_rule: str) -> int:
    """The heuristic in a few plain lines: the ready slot it takes, or ``n + 1``; all but EASY."""
    column = {feature: jobs[:, i] for feature, i in COLUMN.items()}
    late = column["on_time"] == 0 if dispatch == "reserve" else column["hopeless"] > 0
    keys, no_op = sort_keys(name, jobs), len(jobs) + 1
    takes_part = column["present"] > 0
    if name == "deadline_never":
        takes_part = takes_part & ~late
    if mask_rule == "now_on_time":
        takes_part = takes_part & (column["hopeless"] == 0)
    slots = np.flatnonzero(takes_part).tolist()
    slots.sort(key=lambda slot: (bool(late[slot]) and name == "deadline_last", keys[slot], slot))
    for slot in slots:
        if column["valid"][slot] and (column["starts_now"][slot] or dispatch == "reserve"):
            return int(slot)
        if dispatch == "block":
            return no_op
    return no_op


def wander(simulator, rng, decisions):
    """Take random valid actions; reservations and late starts among them."""
    out = simulator.empty_observations()
    for _ in range(decisions):
        masks = simulator.action_masks()
        simulator.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in masks]), out)
    return out


def check_alone_as_in_a_batch(name, **options):
    """Let a policy decide for a batch, and for each of its environments alone."""
    batch = ResourcePoolVectorEnv(3, offered_load=1.2)
    policy = make_policy(name, batch, **options)
    observations, _ = batch.reset(seed=5)
    singles = [ResourcePoolVectorEnv(1, offered_load=1.2) for _ in range(3)]
    alone = [single.reset(seed=5 + i)[0] for i, single in enumerate(singles)]
    deciders = [make_policy(name, single, **options) for single in singles]
    for _ in range(150):
        actions = policy.predict(observations)[0]
        for i, (single, decider) in enumerate(zip(singles, deciders, strict=True)):
            assert decider.predict(alone[i])[0] == actions[i]
            alone[i] = single.step(actions[i : i + 1])[0]
        observations = batch.step(actions)[0]
