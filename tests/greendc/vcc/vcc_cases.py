"""Random small VCC problems for the tests: jobs, emissions, configurations, and their plain reference."""

from __future__ import annotations

import numpy as np
from vcc_reference import Job, Reference

from greendc.traces.jobs import JobTrace
from greendc.traces.moer import MoerSeries
from greendc.vcc import VCCConfig, VCCSimulator

PRIORITIES = np.array([400, 200, 118, 105, 50])


def random_trace(rng, days=3, jobs_per_day=40, largest_cpu=0.6):
    """A job trace with some long jobs, some large ones, and all priority classes."""
    hours = np.sort(rng.integers(0, 24 * days, size=jobs_per_day * days))
    return JobTrace(
        submit_hour=hours.astype(np.int32),
        duration=np.where(
            rng.random(len(hours)) < 0.2, rng.integers(10, 90, len(hours)), rng.integers(1, 6, len(hours))
        ).astype(np.int32),
        cpu=np.maximum(1, (largest_cpu * rng.random(len(hours)) ** 2 * 1e6)).astype(np.int64),
        priority=rng.choice(PRIORITIES, len(hours), p=[0.05, 0.15, 0.2, 0.3, 0.3]).astype(np.int16),
        days=days,
    )


def random_moer(rng, hours=2000):
    """Emissions with a diurnal cycle, zeros, and an archived forecast, from 2020-01-01 00:00 UTC."""
    cycle = 0.3 + 0.2 * np.sin(2 * np.pi * np.arange(hours) / 24)
    moer = np.maximum(0.0, cycle + 0.15 * rng.standard_normal(hours))
    forecast = np.abs(moer[:, None] + 0.05 * rng.standard_normal((hours, 3)))
    return MoerSeries("random", np.datetime64("2020-01-01T00", "h"), moer, forecast)


def random_config(rng, **fixed):
    """A configuration with every option drawn at random."""
    slo = rng.choice(["overdue", "overdue", "page"])
    options = {
        "month": "2020-02",
        "moer": random_moer(rng),
        "days": int(rng.integers(1, 5)),
        "forecast": str(rng.choice(["oracle", "sgip", "noisy", "persistence"])),
        "workload": random_trace(
            rng, int(rng.integers(1, 9)), int(rng.integers(1, 60)), rng.choice([0.1, 0.6, 1.0])
        ),
        "resample_days": True,
        "warm_start": bool(rng.random() < 0.7),
        "target_load": float(rng.uniform(0.3, 0.8)),
        "kw_per_unit": float(rng.uniform(0, 2)),
        "carbon_weight": float(rng.uniform(0, 2)),
        "slo_weight": float(rng.uniform(0, 2)),
        "slo": str(slo),
        "charge": "day_end" if slo == "page" else str(rng.choice(["day_end", "incurred"])),
        "reward_baseline": str(rng.choice(["none", "no_delay"])),
        "constrained": bool(rng.random() < 0.2),
        "evict": bool(rng.random() < 0.8),
        "eviction_loss_hours": int(rng.choice([0, 0, 1, 3])),
        "observation": str(rng.choice(["page", "extended"])),
        "normalize": False,
    }
    options |= fixed
    if not options["evict"]:
        options["eviction_loss_hours"] = 0
    return VCCConfig(**options)


def random_actions(rng, hours):
    """Actions in stretches: steady, all or nothing, or anew each hour."""
    kind = rng.integers(3)
    if kind == 0:
        return np.full(hours, rng.random())
    if kind == 1:
        return np.repeat(rng.integers(0, 2, hours), rng.integers(1, 9))[:hours].astype(float)
    return rng.random(hours)


def reference_of(simulator: VCCSimulator, index: int) -> Reference:
    """The reference of one environment of a simulator that has just been reset."""
    config, trace = simulator.config, simulator.trace
    days = simulator.world.days[index]
    offsets = trace.day_offsets
    arrivals: list[list[Job]] = [[] for _ in range(24 * config.days)]
    earlier, next_id = [], 0
    for slot in range(0 if config.warm_start else 1, config.days + 1):
        for j in range(offsets[days[slot]], offsets[days[slot] + 1]):
            submit = int(trace.submit_hour[j]) % 24 + 24 * (slot - 1)
            job = Job(next_id, int(trace.cpu[j]), int(trace.duration[j]), submit, int(trace.job_class[j]))
            (earlier if slot == 0 else arrivals[submit]).append(job)
            next_id += 1
    cluster = simulator.state.cluster[index]
    return Reference(
        config=config,
        capacity=simulator.capacity,
        mean_load=trace.mean_load,
        arrivals=arrivals,
        earlier=earlier,
        moer=simulator.world.moer[cluster["month"]].tolist(),
        forecast=simulator.world.forecast[cluster["forecast"], :, :24].tolist(),
    )
