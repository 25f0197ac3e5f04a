"""Advice for a live queue: the same decisions as the simulator's, from a snapshot alone."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta, timezone
from functools import partial

import numpy as np
import pytest

from greendc.baselines.cluster import GuardedRollout
from greendc.cluster import CapacitySeries, ClusterConfig, ClusterJobs, ClusterSimulator
from greendc.live import (
    CapacityChange,
    FinishedJob,
    RunningJob,
    Scheduler,
    Snapshot,
    SnapshotError,
    WaitingJob,
)
from greendc.live.cluster_policies import LIVE_RULES, OF_TRACES
from greendc.live.cluster_scheduler import ClusterScheduler
from greendc.live.restore import restore, snapshot_of

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def job(
    name: str, processors: int, limit: int = 3600, waited: int = 60, user: str | None = None
) -> WaitingJob:
    return WaitingJob(name, processors, limit, waited, user)


def busy_cluster(seed: int, backfill: str, power: bool) -> ClusterSimulator:
    """A cluster of 16 processors in the middle of an episode, all of whose jobs run to their limits."""
    rng = np.random.default_rng(seed)
    count = 40
    request = rng.integers(60, 5000, count)
    jobs = ClusterJobs(
        submit=np.sort(rng.integers(0, 6000, count)),
        run=request,
        request=request,
        processors=rng.integers(1, 9, count),
        machine=16,
        user=rng.integers(-1, 3, count),
    )
    options = {}
    if power:
        times = np.array([0, 3000, 7000, 9000])
        options["power"] = CapacitySeries(times, np.array([16, 9, 12, 8]), 1_000_000)
        options["power_start"] = "log"
    config = ClusterConfig(workload=jobs, episode_jobs=count, backfill=backfill, **options)
    simulator = ClusterSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0))
    return simulator


def advance(simulator: ClusterSimulator, until: int, rule: str) -> None:
    while not simulator.state.cluster["over"][0] and simulator.state.cluster["arrived"][0] < until:
        simulator.take(0, simulator.first(0, rule))


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_a_restored_cluster_goes_on_as_the_one_that_it_was_taken_from(backfill, power):
    for seed in range(6):
        simulator = busy_cluster(seed, backfill, power)
        advance(simulator, 40, "saf")
        snapshot = snapshot_of(simulator, horizon_hours=24)
        restored = restore(snapshot, snapshot.waiting, backfill)
        assert len(snapshot.waiting) > 3
        start = int(simulator.state.cluster["now"][0])
        offset = int(restored.simulator.state.cluster["now"][0]) - start
        simulator.play(0, "saf")
        restored.simulator.play(0, "saf")
        theirs = {}
        for k, name in enumerate(restored.ids):
            if name:
                theirs[int(name)] = int(restored.simulator.state.jobs["start"][0, k]) - offset
        ours = {k: int(simulator.state.jobs["start"][0, k]) for k in theirs}
        assert theirs == ours
        assert any(began > start for began in ours.values())


def starts_at_once(simulator: ClusterSimulator, choose) -> list[str]:
    """The jobs that start in the simulator before its clock goes on."""
    cluster = simulator.state.cluster[0]
    now, before = int(cluster["now"]), simulator.state.jobs["start"][0].copy()
    while cluster["now"] == now and not cluster["over"] and (job := choose()) is not None:
        simulator.take(0, job)
    return list(map(str, np.flatnonzero((simulator.state.jobs["start"][0] == now) & (before != now))))


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("policy", [*LIVE_RULES, "rollout"])
def test_what_starts_is_what_the_simulator_starts_at_once(policy, backfill):
    """Also where the snapshot has forgotten the jobs that are done: no rule counts from the oldest job."""
    seen = 0
    options = {"horizon": 0, "predicted": False} if policy == "rollout" else {}
    for seed in range(4):
        simulator = busy_cluster(seed, backfill, power=False)
        for until in range(10, 41, 5):
            advance(simulator, until, "saf")
            if simulator.state.cluster["over"][0]:
                break
            snapshot = snapshot_of(simulator)
            scheduler = Scheduler(policy, backfill=backfill, work_conserving=False, **options)
            decision = scheduler.decide(snapshot)
            assert scheduler.decide(dataclasses.replace(snapshot, finished=())) == decision
            used = snapshot.used + sum(j.processors for j in snapshot.waiting if j.id in decision.start)
            assert used <= snapshot.capacity
            names = [*decision.start, *(passed.id for passed in decision.passed_over)]
            assert sorted(names) == sorted(j.id for j in snapshot.waiting)
            planner = GuardedRollout(simulator, **options) if policy == "rollout" else None
            choose = partial(planner.decide, 0) if planner else partial(simulator.first, 0, policy)
            started = starts_at_once(simulator, choose)
            assert sorted(decision.start) == sorted(started)
            seen += len(started)
    assert seen > 5


@pytest.mark.parametrize("policy", LIVE_RULES)
def test_a_job_that_has_ended_long_ago_changes_no_order(policy):
    rng = np.random.default_rng(1)
    old = FinishedJob(1, 60, 60, 30 * 86_400, 30 * 86_400 - 60)
    for _ in range(60):
        waiting = tuple(
            job(str(k), int(rng.integers(1, 9)), int(rng.integers(60, 90_000)), int(rng.integers(0, 90_000)))
            for k in range(6)
        )
        snapshot = Snapshot(processors=8, capacity=8, waiting=waiting)
        scheduler = Scheduler(policy, backfill="none")
        aged = dataclasses.replace(snapshot, finished=(old,))
        assert scheduler.decide(snapshot).start == scheduler.decide(aged).start


@pytest.mark.parametrize("rule", OF_TRACES)
def test_rules_that_count_from_the_start_of_a_trace_are_refused(rule):
    message = f"='{rule}': counts submit times from the start of a trace, and a live cluster has none"
    with pytest.raises(ValueError, match=f"^policy{message}; must be one of fcfs, sjf"):
        Scheduler(rule)
    with pytest.raises(ValueError, match=f"^base{message}"):
        ClusterScheduler("rollout", base=rule)


def test_short_jobs_overtake_one_that_must_wait_and_the_others_say_why():
    snapshot = Snapshot(
        processors=8,
        capacity=8,
        running=(RunningJob("a", 6, 4000, 400),),
        waiting=(job("big", 8, waited=900), job("long", 2, 7200), job("short", 2, 600), job("huge", 9)),
    )
    decision = Scheduler("fcfs").decide(snapshot)
    assert decision.start == ("short",)
    reasons = {passed.id: passed.reason for passed in decision.passed_over}
    assert reasons["big"] == "needs 8 processors, 0 are free"
    assert reasons["long"] == "needs 2 processors, 0 are free"
    assert reasons["huge"] == "needs 9 processors, the cluster has 8"
    assert decision.valid_seconds == 600
    alone = dataclasses.replace(snapshot, waiting=snapshot.waiting[:2])
    reasons = {passed.id: passed.reason for passed in Scheduler("fcfs").decide(alone).passed_over}
    assert reasons["long"] == "might delay job big, which is next"


LARGE = (job("A", 14, 600, 9000), job("B", 4, 90_000, 10))
"""The first is larger than the twelve of sixteen processors that have power."""


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
@pytest.mark.parametrize("policy", ["fcfs", "wspt", "rollout"])
def test_a_job_larger_than_the_power_to_come_holds_up_no_other(policy, backfill):
    """Power stays at 12 of 16 without a forecast, by one, and for longer than the horizon."""
    steady = Snapshot(processors=16, capacity=12, waiting=LARGE)
    known = dataclasses.replace(steady, forecast_seconds=90_000)
    later = dataclasses.replace(steady, forecast=(CapacityChange(86_400, 16),), forecast_seconds=200_000)
    scheduler = Scheduler(policy, backfill=backfill, oldest_first_hours=0)
    for snapshot in (steady, known, later):
        decision = scheduler.decide(snapshot)
        assert decision.start == ("B",)
        why = "needs 14 processors, at most 12 have power within 24 h"
        assert [(passed.id, passed.reason) for passed in decision.passed_over] == [("A", why)]


def test_a_job_for_which_power_comes_within_the_horizon_keeps_its_time():
    snapshot = Snapshot(
        processors=16,
        capacity=12,
        waiting=(*LARGE, job("C", 4, 3600, 5)),
        forecast=(CapacityChange(86_399, 16),),
        forecast_seconds=200_000,
    )
    decision = Scheduler("fcfs", backfill="easy").decide(snapshot)
    assert decision.start == ("C",)
    assert [passed.reason for passed in decision.passed_over] == [
        "needs 14 processors, 8 are free",
        "might delay job A, which is next",
    ]
    assert Scheduler("fcfs", backfill="none").decide(snapshot).start == ()


def test_without_a_forecast_power_stays_as_it_is_beyond_the_horizon_too():
    """Ten of twelve processors are free for the first job after two days; another may not take four."""
    snapshot = Snapshot(
        processors=16,
        capacity=12,
        running=(RunningJob("a", 8, 2 * 86_400, 0),),
        waiting=(job("next", 10, waited=900), job("long", 4, 9 * 86_400), job("less", 2, 9 * 86_400)),
        finished=(FinishedJob(15, 60, 60, 5000, 4000),),
    )
    for backfill in ("easy", "conservative"):
        decision = Scheduler("fcfs", backfill=backfill).decide(snapshot)
        assert decision.start == ("less",)
    assert Scheduler("rollout").decide(snapshot).start == ("less",)


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_processors_that_are_drained_do_not_come_back(backfill):
    """Four processors of sixteen take no job after the one that runs on them, and two of another one's."""
    snapshot = Snapshot(
        processors=16,
        capacity=16,
        running=(
            RunningJob("a", 4, 7 * 86_400, 0, drained_processors=4),
            RunningJob("b", 3, 3600, 600, drained_processors=2),
        ),
        waiting=(job("large", 11, 600, 9000), job("next", 10, 600, 900), job("long", 9, 8 * 86_400)),
    )
    decision = Scheduler("fcfs", backfill=backfill).decide(snapshot)
    assert decision.start == () and decision.excess == 0 and decision.valid_seconds == 3000
    assert [passed.reason for passed in decision.passed_over] == [
        "needs 11 processors, at most 10 have power within 24 h",
        "needs 10 processors, 9 are free",
        "might delay job next, which is next",
    ]
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    foreseen = dataclasses.replace(
        snapshot, forecast=(CapacityChange(7200, 12), CapacityChange(9000, 5)), forecast_seconds=90_000
    )
    left = foreseen.without_drained()
    assert (left.capacity, left.used, [run.id for run in left.running]) == (10, 1, ["b"])
    assert [change.processors for change in left.forecast] == [6, 0]
    assert left.without_drained() is left


def test_a_job_that_has_waited_too_long_comes_first():
    waiting = (job("old", 4, 50_000, 90_000), job("new", 4, 60, 10))
    snapshot = Snapshot(processors=4, capacity=4, waiting=waiting)
    assert Scheduler("wspt").decide(snapshot).start == ("new",)
    assert Scheduler("wspt", oldest_first_hours=24).decide(snapshot).start == ("old",)


def test_admission_by_forecast_looks_at_the_power_to_come():
    snapshot = Snapshot(
        processors=8,
        capacity=8,
        waiting=(job("long", 8, 7200), job("short", 8, 1800)),
        forecast=(CapacityChange(3600, 4), CapacityChange(7200, 8)),
        forecast_seconds=90_000,
    )
    assert Scheduler("fcfs").decide(snapshot).start == ("long",)
    by_forecast = Scheduler("fcfs", admission="forecast", backfill="none").decide(snapshot)
    assert by_forecast.start == ()
    assert by_forecast.passed_over[0].reason == "power is forecast to fall before its time limit"
    for policy in ("sjf", "fcfs"):  # the short one passes the long one, which has room at 7,200 s
        assert Scheduler(policy, admission="forecast").decide(snapshot).start == ("short",)


def test_power_that_has_fallen_below_what_runs_starts_nothing_and_says_so():
    snapshot = Snapshot(
        processors=8, capacity=4, running=(RunningJob("a", 6, 400, 1),), waiting=(job("b", 1),)
    )
    decision = Scheduler().decide(snapshot)
    assert decision.start == () and decision.excess == 2
    assert decision.passed_over[0].reason == "needs 1 processors, 0 are free"


def test_run_times_of_the_past_are_used():
    past = tuple(FinishedJob(1, 36_000, 30, 5000 + k, 4000, "u") for k in range(50))
    waiting = (job("quick", 1, 36_000, 60, "u"), job("slow", 1, 9_000, 50, "v"))
    snapshot = Snapshot(processors=1, capacity=1, waiting=waiting, finished=past)
    assert Scheduler("sjf").decide(snapshot).start == ("slow",)
    assert Scheduler("sjf", predicted=True).decide(snapshot).start == ("quick",)


@pytest.mark.parametrize(("long_ended_ago", "first"), [(1000, "other"), (50_000, "mine")])
def test_of_a_user_the_job_that_ended_last_counts_most(long_ended_ago, first):
    long = FinishedJob(1, 36_000, 30_000, 90_000, long_ended_ago, "u")
    short = FinishedJob(1, 36_000, 30, 40_000, 5000, "u")
    waiting = (job("mine", 1, 36_000, 60, "u"), job("other", 1, 16_000, 50, "v"))
    for past in ((long, short), (short, long)):
        snapshot = Snapshot(processors=1, capacity=1, waiting=waiting, finished=past)
        assert Scheduler("sjf", predicted=True).decide(snapshot).start == (first,)


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
@pytest.mark.parametrize("seconds", [0, 90_000])
def test_drained_processors_do_not_come_back_beyond_the_forecast(backfill, seconds):
    """The next job has room in three days, when what is not drained is free: a longer one may not pass it."""
    drained = RunningJob("a", 6, 3 * 86_400, 0, drained_processors=6)
    snapshot = Snapshot(
        processors=16,
        capacity=16,
        running=(drained, RunningJob("b", 8, 3 * 86_400, 0)),
        waiting=(job("next", 10, 600, 9000), job("long", 2, 9 * 86_400)),
        forecast_seconds=seconds,
    )
    assert Scheduler("fcfs", backfill=backfill).decide(snapshot).start == ()
    short = dataclasses.replace(snapshot, waiting=(snapshot.waiting[0], job("short", 2, 86_400)))
    assert Scheduler("fcfs", backfill=backfill).decide(short).start == ("short",)


def test_a_snapshot_survives_its_json_form_and_the_schema_names_every_field():
    snapshot = snapshot_of(busy_cluster(1, "easy", power=True))
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    schema = Snapshot.schema()
    assert set(schema["properties"]) == set(json.loads(snapshot.to_json()))
    row = schema["properties"]["running"]["items"]
    assert row["required"] == ["id", "processors", "limit_seconds", "elapsed_seconds"]


ROW = {"id": "a", "processors": 1, "limit_seconds": 9}
LATE = {"after_seconds": 9, "processors": 1}

BROKEN = {
    "running": (
        {"running": [{**ROW, "processors": 9, "elapsed_seconds": 1}]},
        "running='jobs on 9 processors': must be at most 8",
    ),
    "elapsed": (
        {"running": [{**ROW, "elapsed_seconds": 10}]},
        r"running\[0\].elapsed_seconds=10: must be at most limit_seconds=9 \(job a\)",
    ),
    "drained": (
        {"running": [{**ROW, "elapsed_seconds": 1, "drained_processors": 2}]},
        r"running\[0\].drained_processors=2: must be at most processors=1 \(job a\)",
    ),
    "unit": (
        {"waiting": [{**ROW, "waited_second": 1}]},
        r"waiting\[0\].waited_second: unknown field; did you mean 'waited_seconds'",
    ),
    "limit": (
        {"waiting": [{"id": "a", "processors": 1, "waited_seconds": 1}]},
        r"waiting\[0\].limit_seconds: missing \(job a\)",
    ),
    "text": (
        {"waiting": [{**ROW, "limit_seconds": "1h", "waited_seconds": 1}]},
        r"waiting\[0\].limit_seconds='1h': must be whole seconds",
    ),
    "twice": ({"waiting": [{**ROW, "waited_seconds": 1}] * 2}, r"waiting\[1\].id='a': must be new"),
    "capacity": ({"capacity": 99}, "capacity=99: must be at most 8"),
    "order": (
        {"forecast": [{**LATE, "after_seconds": 0}], "forecast_seconds": 9},
        r"forecast\[0\].after_seconds=0",
    ),
    "beyond": ({"forecast": [LATE], "forecast_seconds": 9}, "below forecast_seconds=9"),
    "time": ({"time": "yesterday"}, "time='yesterday': must be a time such as"),
    "bool": ({"capacity": True}, "capacity=True: must be whole processors"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_snapshot_that_is_wrong_is_refused_by_the_name_of_the_field(case):
    change, message = BROKEN[case]
    with pytest.raises(SnapshotError, match=message):
        Snapshot.from_json(json.dumps({"processors": 8, "capacity": 4, **change}))


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "3", '{"processors": 1, "processors": 2, "capacity": 1}', "[" * 10**5]
)
def test_other_text_is_no_snapshot(text):
    with pytest.raises(SnapshotError):
        Snapshot.from_json(text)


def test_a_time_without_an_offset_and_a_text_that_is_none_are_refused():
    snapshot = Snapshot(processors=1, capacity=1)
    with pytest.raises(ValueError, match=r"^now='2026-03-01T00:00:00': must have an offset from UTC$"):
        Scheduler().decide(snapshot, datetime(2026, 3, 1))
    with pytest.raises(SnapshotError, match=r"^snapshot: must be a JSON text, not NoneType$"):
        Snapshot.from_json(None)


def test_a_stale_snapshot_and_a_short_forecast_are_refused():
    snapshot = Snapshot(processors=1, capacity=1, time=NOW.isoformat())
    scheduler = Scheduler(stale_seconds=60)
    assert scheduler.decide(snapshot, NOW + timedelta(seconds=59)).start == ()
    with pytest.raises(SnapshotError, match="within 60 s of now, not 61 s before"):
        scheduler.decide(snapshot, NOW + timedelta(seconds=61))
    short = Snapshot(processors=2, capacity=2, forecast=(CapacityChange(60, 1),), forecast_seconds=3600)
    with pytest.raises(
        SnapshotError, match="forecast_seconds=3600: must be at least 86400, horizon_hours=24"
    ):
        scheduler.decide(short)
    constant = dataclasses.replace(short, forecast=())  # what does not change is known as far as it says, too
    with pytest.raises(SnapshotError, match="forecast_seconds=3600: must be at least 86400"):
        scheduler.decide(constant)
    assert scheduler.decide(dataclasses.replace(constant, forecast_seconds=0)).start == ()


def test_settings_come_from_a_file_and_wrong_ones_are_named(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"policy": "sjf", "predicted": true, "backfill": "none"}')
    scheduler = Scheduler.load(path, backfill="conservative")
    assert scheduler.policy == "sjf"
    assert scheduler.settings == {"predicted": True, "backfill": "conservative"}
    assert Scheduler.load("fcfs").policy == "fcfs"
    path.write_text('{"policy": "sjf", "futures": 3}')
    with pytest.raises(ValueError, match=r"policy.json: futures: no option of policy='sjf'"):
        Scheduler.load(path)
    with pytest.raises(ValueError, match="policy='wsp'"):
        Scheduler.load("wsp")
    with pytest.raises(ValueError, match="no such file"):
        Scheduler.load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("rollout", {"lightest": -1}, "lightest=-1: must be from 0 to 10,000 jobs"),
        ("rollout", {"base": "wsp"}, "base='wsp'.*did you mean 'wspt'"),
        ("rollout", {"guard": "much"}, "guard='much': must be a number"),
        ("wspt", {"fitting": 3}, "fitting=3: must be true or false"),
        ("wspt", {"horizon_hours": 1.5}, "^horizon_hours=1.5: must be a whole number or None"),
        ("wspt", {"horizon_hours": "24"}, "^horizon_hours='24': must be a whole number or None"),
        ("wspt", {"horizon_hours": 0}, "^horizon_hours=0: must be from 1 to 8784"),
        ("wspt", {"stale_seconds": "300"}, "^stale_seconds='300': must be a number"),
        ("wspt", {"oldest_first_hours": "4"}, "^oldest_first_hours='4': must be a number or None"),
        ("wspt", {"work_conserving": "no"}, "^work_conserving='no': must be true or false"),
    ],
)
def test_a_wrong_option_is_refused_before_the_first_decision(policy, options, message):
    with pytest.raises(ValueError, match=message):
        ClusterScheduler(policy, **options)
