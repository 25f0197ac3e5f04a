"""Advice for a live resource pool: what a policy does in the environment, from a snapshot alone."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import greendc
from greendc.baselines import make_policy
from greendc.baselines.resource_pool import HEURISTICS, POWER_RULES, WorkConserving
from greendc.live import (
    PoolDecision,
    PoolJob,
    PoolPower,
    PoolSnapshot,
    Scheduler,
    Snapshot,
    SnapshotError,
    read_snapshot,
)
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator

sys.path.append(str(Path(__file__).parents[1] / "resource_pool"))
from pool_cases import random_commanded, random_config

STATES = int(os.environ.get("GREENDC_DECISION_STATES", "3000"))
"""Of the long round trip."""
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUNNING, WAITING, RESERVED = 3, 1, 2


def random_pool(rng: np.random.Generator) -> ResourcePoolConfig:
    """A small pool of any kind, in which power may be commanded."""
    if rng.random() < 0.25:
        return random_commanded(rng, observation=str(rng.choice(["dict", "flat"])))
    further = {"lookahead": int(rng.choice([0, 0, 6])), "fragmentation": bool(rng.random() < 0.3)}
    config = random_config(rng, observation=str(rng.choice(["dict", "flat"])), **further)
    return dataclasses.replace(config, skip_forced=False)


def random_policy(rng: np.random.Generator, config: ResourcePoolConfig) -> tuple[str, dict[str, Any]]:
    """The name of a policy that can act in a pool, and options of it."""
    if config.power_levels is not None and rng.random() < 0.6:
        name = str(rng.choice([*POWER_RULES, "power_plan"]))
        return name, {"rows": 8} if name == "power_plan" else {}
    plans = config.power_levels is None and not config.pausing
    if plans and rng.random() < 0.3:
        name = str(rng.choice(["rollout", "plan"]))
        return name, {"futures": 3, "depth": 8} if name == "rollout" else {"futures": 1, "depth": 6}
    options = {
        "dispatch": str(rng.choice(["skip", "block", "reserve", "easy"])),
        "scope": str(rng.choice(["ready", "ready", "queue"])),
        "suspend": config.suspend and bool(rng.random() < 0.5),
    }
    return str(rng.choice(list(HEURISTICS))), options


def play_a_step(simulator: ResourcePoolSimulator, policy: Any) -> tuple[list[int], np.ndarray]:
    """Let a policy act until time goes on; return its actions, and the states of jobs just before that."""
    now, actions, out = simulator.view().now, [], simulator.empty_observations()
    while True:
        simulator.observe(out)
        action = int(policy.predict(out, deterministic=True)[0][0])
        status = simulator.view().job_table()["status"]
        actions.append(action)
        simulator.step(np.array([action]), out)
        if simulator.view().now > now:
            return actions, status


@pytest.mark.parametrize("states", [250, pytest.param(STATES, marks=pytest.mark.slow)])
def test_a_decision_is_what_the_policy_does_in_the_environment(states: int) -> None:
    done = seed = placed = gave_way = commanded = 0
    while done < states:
        rng = np.random.default_rng(seed)
        config = random_pool(rng)
        name, options = random_policy(rng, config)
        guard = bool(rng.random() < 0.5)
        simulator = ResourcePoolSimulator(config)
        simulator.reset_env(0, np.random.default_rng(seed))
        scheduler = Scheduler.load(name, env=config, work_conserving=guard, **options)
        foreseen = config.forecast_error > 0.0 and config.power_levels is not None
        while not simulator.truncated[0]:
            where = f"seed {seed}, step {simulator.view().now}: {name} {options}, guarded: {guard}"
            text = simulator.snapshot(future=foreseen).to_json()
            decision = scheduler.decide(json.loads(text))
            before = simulator.view().job_table()
            policy: Any = make_policy(name, SimpleNamespace(simulator=simulator), **options)
            if guard:
                policy = WorkConserving(simulator, policy)
            actions, after = play_a_step(simulator, policy)
            assert list(decision.actions) == actions, where
            changed = {
                (old, new): [str(j) for j in np.flatnonzero((before["status"] == old) & (after == new))]
                for old, new in ((WAITING, RUNNING), (WAITING, RESERVED), (RUNNING, WAITING))
            }
            assert sorted(decision.start) == sorted(changed[WAITING, RUNNING]), where
            reserved = [place.id for place in decision.places if place.start_steps > 0]
            assert sorted(reserved) == sorted(changed[WAITING, RESERVED]), where
            assert sorted(decision.suspend) == sorted(changed[RUNNING, WAITING]), where
            waits = [passed.id for passed in decision.passed_over]
            assert waits == [str(j) for j in np.flatnonzero(after == WAITING)], where
            blocks = simulator.view().job_table()["block"]
            assert all(list(place.block) == blocks[int(place.id)].tolist() for place in decision.places)
            if config.power_levels is not None and not simulator.truncated[0]:
                assert decision.units_ordered == simulator.state.env[0]["units_next"], where
                commanded += 1
            placed += len(decision.start)
            gave_way += len(decision.suspend)
            done += 1
        seed += 1
    assert placed > states / 10 and commanded and gave_way


@pytest.mark.parametrize("name", ["ResourcePool-10", "ResourcePoolSuspend-10", "ResourcePoolGreen-10"])
def test_a_shipped_network_decides_as_in_its_environment(name: str) -> None:
    policy = greendc.load_policy(name)
    env: Any = policy.make_env(offered_load=2.5)
    env.reset(seed=1)
    simulator: ResourcePoolSimulator = env.unwrapped.simulator
    scheduler = Scheduler.load(name, work_conserving=False)
    started = 0
    for k in range(40):
        told = PoolSnapshot.from_json(simulator.snapshot().to_json())
        decision = scheduler.decide(told)
        assert list(decision.actions) == play_a_step(simulator, policy)[0]
        # Nothing of what it chooses from or sees depends on what the snapshot says of that.
        if k % 10 == 0:
            others = {**told.configuration, "mask": "valid", "lookahead": 0, "observation": "flat"}
            others["queue_order"] = "latest_start"
            assert scheduler.decide(dataclasses.replace(told, configuration=others)) == decision
        started += len(decision.start)
    assert started > 5


def test_a_network_fits_pools_of_other_sizes_and_not_of_another_horizon() -> None:
    simulator: Any = greendc.make_simulator("ResourcePool-50", units=37, ready_pool_size=7)
    simulator.reset_env(0, np.random.default_rng(0))
    for _ in range(3):
        play_a_step(simulator, make_policy("fcfs", SimpleNamespace(simulator=simulator)))
    snapshot = simulator.snapshot()
    assert Scheduler.load("ResourcePool-10").decide(snapshot).actions[-1] == simulator.config.no_op
    short = PoolSnapshot((), (PoolPower(1.0),) * 24, configuration={"horizon": 24})
    message = "policy='ResourcePool-10' does not fit the pool: horizon=24: must be 48"
    with pytest.raises(SnapshotError, match=message):
        Scheduler.load("ResourcePool-10").decide(short)


# --- a pool described by hand -------------------------------------------------------------------------------

TINY = {"units": 4, "resource_types": 1, "horizon": 6, "episode_steps": 20, "ready_pool_size": 3}


def job(state: str = "waiting", ago: int = 1, steps: int = 3, units: int = 2, **more: Any) -> dict[str, Any]:
    row = {"state": state, "arrived_steps_ago": ago, "duration_steps": steps, "units": [units], "qos": 0.5}
    return {**row, **more}


BY_HAND = {
    "jobs": [
        job("running", 4, start_steps=-1, block=[0], id="a"),
        job(steps=6, units=3, id="wide"),
        job(steps=2, id="short"),
        job(ago=0, steps=1, units=1, id="last"),
        job(ago=0, steps=1, units=1),
    ],
    "power": [{"level": 1.0}] * 6,
    "configuration": TINY,
}


def by_hand(**changes: Any) -> PoolSnapshot:
    snapshot = read_snapshot(json.dumps({**BY_HAND, **changes}))
    assert isinstance(snapshot, PoolSnapshot)
    return snapshot


def test_jobs_are_called_by_their_ids_and_those_that_wait_say_why() -> None:
    decision = Scheduler("fcfs").decide(by_hand())
    assert decision.start == ("short",)
    assert [(place.id, place.start_steps, place.block) for place in decision.places] == [("short", 0, (2,))]
    reasons = {passed.id: passed.reason for passed in decision.passed_over}
    assert list(reasons) == ["wide", "last", "4"]
    assert reasons["wide"] == "finds no room for its 6 steps within the 6 that are planned"
    assert reasons["last"] == "finds room in 2 steps at the earliest"
    assert decision.valid_seconds == 3600 and decision.suspend == () and decision.units_ordered is None


def test_the_guard_starts_a_job_in_an_idle_pool_and_can_be_left_out() -> None:
    idle = by_hand(jobs=[job(ago=0, steps=4, units=4)])
    never = {"min_qos": 0.9, "futures": 4, "depth": 6}
    alone = Scheduler.load("rollout", work_conserving=False, **never).decide(idle)
    guarded = Scheduler.load("rollout", **never).decide(idle)
    assert guarded.start == ("0",)
    assert alone.start in ((), ("0",)) and alone.policy == "rollout"
    simulator = ResourcePoolSimulator(ResourcePoolConfig(**TINY))
    simulator.load(dataclasses.replace(idle, configuration={}))
    waits = SimpleNamespace(predict=lambda observation, *_, **__: (np.array([4]), None))
    assert WorkConserving(simulator, waits).predict(simulator.empty_observations())[0].tolist() == [0]


def test_what_is_kept_of_a_pool_changes_no_decision() -> None:
    snapshots = []
    for seed, name in enumerate(("ResourcePool-10", "ResourcePool-20", "ResourcePool-10", "ResourcePool-10")):
        simulator: Any = greendc.make_simulator(name, offered_load=1.5)
        simulator.reset_env(0, np.random.default_rng(seed))
        for _ in range(3 + 4 * seed):
            simulator.step(np.array([simulator.config.no_op]), simulator.empty_observations())
        snapshots.append(simulator.snapshot())
    for name, options in (("rollout", {"futures": 4}), ("ResourcePool-10", {}), ("random", {})):
        scheduler = Scheduler.load(name, **options)
        fresh = [Scheduler.load(name, **options).decide(snapshot) for snapshot in snapshots]
        assert [scheduler.decide(snapshot) for snapshot in snapshots] == fresh
        broken = dataclasses.replace(snapshots[3], potential=None, power=snapshots[3].power[:5])
        with pytest.raises(SnapshotError, match="power='5 rows'"):
            scheduler.decide(broken)
        assert scheduler.decide(snapshots[2]) == fresh[2]


def test_reservations_have_their_starts() -> None:
    reserving = Scheduler("fcfs", dispatch="reserve").decide(by_hand(jobs=[BY_HAND["jobs"][0], job(units=4)]))  # type: ignore[index]
    assert reserving.start == ()
    assert [(place.id, place.start_steps) for place in reserving.places] == [("1", 2)]


def test_both_kinds_of_snapshots_go_through_one_scheduler() -> None:
    scheduler = Scheduler.load("sjf")
    cluster = Snapshot(processors=4, capacity=4)
    assert scheduler.decide(cluster).start == ()
    assert isinstance(scheduler.decide(by_hand()), PoolDecision)
    assert read_snapshot(cluster.to_json()) == cluster
    assert Scheduler().decide(by_hand()).policy == "deadline_never"
    assert Scheduler().decide(cluster).policy == "wspt"
    for name, snapshot, message in (
        ("wspt", by_hand(), "the snapshot is of a resource pool: policy='wspt': must be one of sjf"),
        ("density", cluster, "the snapshot is of a cluster: policy='density': must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            Scheduler(name).decide(snapshot)
    with pytest.raises(
        ValueError, match="the snapshot is of a resource pool: backfill: no option of policy='sjf'"
    ):
        Scheduler("sjf", backfill="none").decide(by_hand())


SETTINGS = {
    "name": (("densty", {}), "policy='densty'.*did you mean 'density'"),
    "foresight": (("foresight", {}), "policy='foresight': must be one of"),
    "neither": (
        ("nope", {}),
        "policy='nope': must be one of fcfs.*; of a pool: policy='nope': must be one of",
    ),
    "network": (("ResourcePool-11", {}), "policy='ResourcePool-11': must be one of.*ResourcePool-10"),
    "family": (("VCC-2019", {}), "policy='VCC-2019': must be for resource pools, not for VCC-2019"),
    "option": (
        ("density", {"dispach": "easy"}),
        "dispach: no option of policy='density'; did you mean",
    ),
    "both": (("sjf", {"futures": 3}), "futures: no option of policy='sjf'.*; of a pool: futures: no option"),
    "of a network": (("ResourcePool-10", {"futures": 3}), "futures: no option of policy='ResourcePool-10'"),
    "kind": (("density", {"scope": 3}), "density: scope=3: must be text"),
    "of both kinds": (
        (None, {"env": "ResourcePool-10", "horizon_hours": 3}),
        "^env is an option of resource pools, horizon_hours of clusters: must not be given together$",
    ),
    "of both kinds, several": (
        ("sjf", {"horizon_hours": 3, "env": "ResourcePool-10", "backfill": "none"}),
        "^env is an option of resource pools, horizon_hours and backfill of clusters: must not be",
    ),
    "env": (("density", {"env": "VCC-2019"}), "env='VCC-2019': must be a resource pool's id"),
    "unknown env": (("density", {"env": "ResourcePol-10"}), "unknown environment 'ResourcePol-10'; did you"),
    "guard": (("density", {"work_conserving": 3}), "work_conserving=3: must be true or false"),
    "stale": (("density", {"stale_seconds": 0}), "stale_seconds=0: must be above 0"),
    "run": (("runs/absent", {}), "model runs/absent: no such file"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_wrong_setting_is_named(case: str) -> None:
    (name, settings), message = SETTINGS[case]
    with pytest.raises(ValueError, match=message):
        Scheduler(name, **settings)


def configured(**changes: Any) -> dict[str, Any]:
    return {"configuration": {**TINY, **changes}}


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "mixed": ({"processors": 3}, "processors: unknown field"),
    "missing": ({"power": None}, "power: must be a list"),
    "twice": ({"jobs": [job(id="x"), job(id="x")]}, r"jobs\[1\].id='x': must be new: jobs\[0\] is called so"),
    "number": ({"jobs": [job(), job(id="0")]}, r"jobs\[1\].id='0': must be new"),
    "id": ({"jobs": [job(id=3)]}, r"jobs\[0\].id=3: must be text or null"),
    "too many": (
        {"jobs": [job("running", 4, units=3, start_steps=-1, block=[0])] * 2},
        r"jobs='running on 6 units of type 0'",
    ),
    "taken": (
        {"jobs": [job("running", 4, start_steps=-1, block=[0])] * 2},
        r"jobs\[1\].block=\[0\]: must be units without",
    ),
    "elapsed": (
        {"jobs": [job("running", 9, start_steps=-5, block=[0])]},
        r"jobs\[0\].start_steps=-5: must be above -3",
    ),
    "short": ({"power": [{"level": 1.0}] * 5}, "power='5 rows': must be from 6, the horizon"),
    "time": ({"time": "noon"}, "time='noon': must be a time such as"),
    "field": (configured(unit=3), "configuration.unit: unknown field; did you mean 'units'"),
    "value": (configured(units=0), "configuration.units=0: must be at least 1"),
    "type": (configured(units="4"), "configuration.units='4': must be a whole number"),
    "huge": (configured(units=10**12), "configuration.units=1000000000000: must be such that the pool fits"),
    "long": (configured(episode_steps=10**12), "configuration.episode_steps=1000000000000: must be such"),
    "ready": (configured(ready_pool_size=10**9), "configuration.ready_pool_size=1000000000: must be such"),
    "fine": (configured(step_hours=1e-9), "configuration.step_hours=1e-09: must be such that"),
    "file": (
        configured(workload="/etc/passwd"),
        "configuration.workload='/etc/passwd': must be what env",
    ),
    "object": (configured(workload="JobLog"), "configuration.workload='JobLog': must be what env has"),
    "trace": (configured(power="trace", trace="/etc/passwd"), "configuration.trace='/etc/passwd': must be"),
    "carbon": (configured(carbon="carbon.csv"), "configuration.carbon='carbon.csv': must be what env has, a"),
    "price": (configured(price="PriceTrace"), "configuration.price='PriceTrace': must be what env has, or a"),
    "worth": (configured(mean_value=3.0), "configuration.mean_value=3.0: must be .*, as in this simulator"),
    "power": (configured(power="wind"), "configuration.power='wind': must be one of 'constant'"),
    "site": (configured(power="trace", site={"pv": 3}), "configuration.*unknown option 'pv'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_snapshot_is_refused_by_one_error_that_names_the_field(case: str) -> None:
    changes, message = HOSTILE[case]
    with pytest.raises(SnapshotError, match=message):
        Scheduler.load("density").decide({**BY_HAND, **changes})


def test_a_stale_snapshot_of_a_pool_is_refused() -> None:
    snapshot = by_hand(time=NOW.isoformat())
    scheduler = Scheduler("fcfs", stale_seconds=60)
    assert scheduler.decide(snapshot, NOW + timedelta(seconds=59)).start == ("short",)
    with pytest.raises(SnapshotError, match="within 60 s of now, not 61 s before"):
        scheduler.decide(snapshot, NOW + timedelta(seconds=61))


def test_decisions_have_a_schema_of_all_their_fields() -> None:
    decision = Scheduler("fcfs").decide(by_hand())
    schema, told = PoolDecision.schema(), json.loads(decision.to_json())
    assert set(schema["properties"]) == set(told) == set(schema["required"])
    assert schema["properties"]["start"] == {"type": "array", "items": {"type": "string"}}
    assert set(schema["properties"]["places"]["items"]["properties"]) == set(told["places"][0])


def test_ids_and_times_survive_the_json_form_and_a_name_is_the_number_by_default() -> None:
    snapshot = by_hand(time=NOW.isoformat())
    assert PoolSnapshot.from_json(snapshot.to_json()) == snapshot
    assert [snapshot.name_of(k) for k in range(5)] == ["a", "wide", "short", "last", "4"]
    assert PoolJob("waiting", 0, 1, (1,), 0.5).id is None
