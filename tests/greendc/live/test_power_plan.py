"""Admission by forecast: a live job starts only where it keeps its power until its limit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from greendc.live import CapacityChange, RunningJob, Scheduler, Snapshot, WaitingJob
from greendc.live.power_plan import PowerPlan

HOUR = 3600
NEVER = "has power until its limit at no time within 24 h"


def snapshot(waiting, changes, running=(), processors=8, capacity=8, hours=30):
    return Snapshot(
        processors=processors,
        capacity=capacity,
        running=tuple(running),
        waiting=tuple(WaitingJob(*job, 900 - k) for k, job in enumerate(waiting)),
        forecast=tuple(CapacityChange(*change) for change in changes),
        forecast_seconds=hours * HOUR,
    )


def decide(found, policy="fcfs", **settings):
    decision = Scheduler(policy, admission="forecast", **settings).decide(found)
    return decision.start, {passed.id: passed.reason for passed in decision.passed_over}


@pytest.mark.parametrize("policy", ["fcfs", "rollout"])
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_a_job_that_keeps_its_power_at_no_time_waits_and_others_have_its_room(policy, backfill):
    """In an hour half of the power is gone for good, as far as the forecast goes."""
    jobs = [("wide", 8, 2 * HOUR), ("narrow", 4, 2 * HOUR), ("short", 4, HOUR)]
    start, reasons = decide(snapshot(jobs, [(HOUR, 4)]), policy, backfill=backfill)
    if policy == "fcfs":
        assert start == ("narrow", "short") and reasons == {"wide": NEVER}
    else:
        assert start == ("short",) and reasons == {"wide": NEVER, "narrow": "the policy waits"}
    start, reasons = decide(snapshot([("wide", 8, 2 * HOUR)], [(HOUR, 4)]), policy, backfill=backfill)
    assert start == () and reasons == {"wide": NEVER}, "also where nothing runs"


def test_what_starts_before_takes_the_power_of_what_would_start_then():
    jobs = [(name, 4, 2 * HOUR) for name in "ab"]
    falls = "power is forecast to fall before its time limit"
    assert decide(snapshot(jobs, [(HOUR, 4)])) == (("a",), {"b": falls}), "it keeps its power when a is over"
    jobs = [(name, 4, 20 * HOUR) for name in "ab"]
    assert decide(snapshot(jobs, [(HOUR, 4)])) == (("a",), {"b": NEVER})
    running = [RunningJob("r", 4, 26 * HOUR, HOUR)]
    assert decide(snapshot([("b", 4, 2 * HOUR), ("a", 4, HOUR)], [(HOUR, 4)], running)) == (
        ("a",),
        {"b": NEVER},
    )


def test_a_job_that_keeps_its_power_later_waits_for_that_time():
    start, reasons = decide(snapshot([("wide", 8, 2 * HOUR)], [(HOUR, 4), (3 * HOUR, 8)]))
    assert start == () and reasons == {"wide": "power is forecast to fall before its time limit"}


def test_a_job_longer_than_the_forecast_starts_where_power_is_not_known_to_fall():
    scheduler = Scheduler("fcfs", admission="forecast")
    found = snapshot([("long", 4, 48 * HOUR), ("day", 4, 30 * HOUR)], [(HOUR, 8)])
    decision = scheduler.decide(found)
    assert decision.start == ("long", "day")
    assert scheduler.notes(found, decision) == (
        "job long may run beyond the end of the forecast: what power it has then is not known",
    )
    for hours in (3, 28):  # within and beyond the horizon
        falls = snapshot([("long", 8, 48 * HOUR)], [(hours * HOUR, 4)])
        assert decide(falls) == ((), {"long": "power is forecast to fall before its time limit"})
    assert Scheduler("fcfs").notes(found, Scheduler("fcfs").decide(found)) == ()


def test_without_a_forecast_and_where_now_is_what_counts_nothing_changes():
    jobs = [("wide", 8, 2 * HOUR)]
    assert decide(Snapshot(processors=8, capacity=8, waiting=(WaitingJob(*jobs[0], 9),)))[0] == ("wide",)
    assert Scheduler("fcfs", admission="now").decide(snapshot(jobs, [(HOUR, 4)])).start == ("wide",)


@pytest.mark.parametrize("seed", range(30))
def test_what_starts_has_power_until_its_limit_whatever_else_starts(seed):
    rng = np.random.default_rng(seed)
    times = np.unique(rng.integers(1, 30 * HOUR, 5))
    changes = [(int(time), int(rng.integers(0, 17))) for time in times]
    running = [
        RunningJob(f"r{k}", int(rng.integers(1, 4)), int(rng.integers(100, 20 * HOUR)), 50) for k in range(3)
    ]
    jobs = [(f"w{k}", int(rng.integers(1, 9)), int(rng.integers(100, 40 * HOUR))) for k in range(12)]
    found = snapshot(jobs, changes, running, processors=16, capacity=16)
    for policy, backfill in itertools.product(("fcfs", "wspt"), ("none", "easy", "conservative")):
        start, reasons = decide(found, policy, backfill=backfill)
        busy = [(0, job.limit_seconds - job.elapsed_seconds, job.processors) for job in running]
        busy += [(0, limit, size) for name, size, limit in jobs if name in start]
        for name, _, limit in jobs:
            if name not in start:
                continue
            for second, capacity in [(0, 16), *changes]:
                if second < limit:
                    assert sum(size for _, end, size in busy if end > second) <= capacity
        for name, size, limit in jobs:
            plan = PowerPlan(found, 24 * HOUR)
            if reasons.get(name) == NEVER and limit <= 24 * HOUR:
                plan.losing(job for job in found.waiting if job.id in start)
                assert limit > plan.longest(size)


@pytest.mark.parametrize("seed", range(30))
def test_the_longest_limit_is_that_of_trying_every_start(seed):
    rng = np.random.default_rng(seed)
    times = np.unique(rng.integers(1, 60, 6))
    changes = [(int(time), int(rng.integers(0, 9))) for time in times]
    horizon = int(rng.integers(20, 70))
    plan = PowerPlan(snapshot([], changes), horizon)
    free = np.array([8, *(level for _, level in changes)])[np.searchsorted(times, np.arange(99), "right")]
    for size in range(1, 9):
        lasts = []
        for start in np.flatnonzero(free[:horizon] >= size):
            lacks = np.flatnonzero(free[start:] < size)
            lasts.append(min(lacks[0] if len(lacks) else horizon, horizon - start))
        assert plan.longest(size) == max(lasts, default=0)
