"""Snapshots of resource pools: what is loaded looks, plans and goes on as what was stored."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator

import numpy as np
import pytest
from pool_cases import random_commanded, random_config, sensible_or_any

from greendc.baselines.resource_pool import BASELINES, HEURISTICS, POWER_RULES
from greendc.json_records import SnapshotError
from greendc.resource_pool import PoolJob, PoolPower, PoolSnapshot, ResourcePoolConfig, ResourcePoolSimulator
from greendc.resource_pool.jobs import JobArrays
from greendc.resource_pool.presets import presets
from greendc.simulator import Observation

LARGE = int(os.environ.get("GREENDC_SNAPSHOT_STATES", "10000"))
"""States of the large round trip."""


def random_problem(seed: int) -> ResourcePoolConfig:
    """A preset, or a pool with any options, in which power may be commanded."""
    rng = np.random.default_rng(seed)
    if seed % 8 == 0:
        options = list(presets().values())[seed // 8 % len(presets())]
        return ResourcePoolConfig(**{**options, "episode_steps": 24, "offered_load": 1.3})
    if seed % 4 == 1:
        return random_commanded(rng, observation=str(rng.choice(["dict", "flat"])))
    further = {"lookahead": int(rng.choice([0, 0, 6])), "fragmentation": bool(rng.random() < 0.3)}
    return random_config(rng, observation=str(rng.choice(["dict", "flat"])), **further)


def begun(config: ResourcePoolConfig, seed: int, num_envs: int = 1) -> ResourcePoolSimulator:
    simulator = ResourcePoolSimulator(config, num_envs)
    for i in range(num_envs):
        simulator.reset_env(i, np.random.default_rng(seed + i))
    return simulator


def seen(simulator: ResourcePoolSimulator, index: int = 0) -> dict[str, np.ndarray]:
    """All that an agent is shown of an environment."""
    out = simulator.empty_observations()
    simulator.observe(out, index)
    parts = out if isinstance(out, dict) else {"flat": out}
    return {**{key: part[index] for key, part in parts.items()}, "mask": simulator.action_masks()[index]}


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray], where: object) -> None:
    for key in one:
        np.testing.assert_array_equal(one[key], other[key], err_msg=f"{where}: {key}")


def act(simulator: ResourcePoolSimulator, action: int) -> Observation:
    out = simulator.empty_observations()
    simulator.step(np.array([action]), out)
    return out


def walk(simulator: ResourcePoolSimulator, seed: int) -> Iterator[np.random.Generator]:
    """Play a random episode, and stop at each of its states."""
    rng = np.random.default_rng(seed)
    while not simulator.truncated[0]:
        yield rng
        act(simulator, sensible_or_any(rng, simulator.action_masks()[0]))


@pytest.mark.parametrize("states", [250, pytest.param(LARGE, marks=pytest.mark.slow)])
def test_what_is_loaded_from_json_looks_as_what_was_stored(states):
    done = seed = commanded = wrong = placed = 0
    while done < states:
        config = random_problem(seed)
        simulator, other = begun(config, seed), begun(config, seed + 1, num_envs=2)
        before = seen(other, 0)
        for _ in walk(simulator, seed):
            snapshot = simulator.snapshot()
            read = PoolSnapshot.from_json(snapshot.to_json())
            assert read == snapshot
            other.load(read, index=1)
            where = f"seed {seed}, step {snapshot.step}"
            assert_same(seen(simulator), seen(other, 1), where)
            assert simulator.episode_metrics(0) == other.episode_metrics(1), where
            assert simulator.view().queue.tolist() == other.view(1).queue.tolist()
            done += 1
            commanded += config.power_levels is not None
            wrong += config.forecast_error > 0.0
            placed += len(simulator.view().placed) > 0
        assert_same(before, seen(other, 0), "the other environment")
        seed += 1
    assert min(commanded, wrong, placed) > states / 20


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 300), marks=pytest.mark.slow)])
def test_with_its_future_an_episode_goes_on_as_the_one_that_it_was_taken_from(seeds):
    for seed in seeds:
        config, rng = random_problem(seed), np.random.default_rng(seed)
        simulator, twins, decision = begun(config, seed), [], 0
        while not simulator.truncated[0]:
            if decision in (0, 5, 17):
                twins.append(ResourcePoolSimulator(config))
                twins[-1].load(PoolSnapshot.from_json(simulator.snapshot(future=True).to_json()))
            action = sensible_or_any(rng, simulator.action_masks()[0])
            for each in (simulator, *twins):
                act(each, action)
            for twin in twins:
                assert_same(seen(simulator), seen(twin), f"seed {seed}, decision {decision}")
                assert simulator.rewards[0] == twin.rewards[0]
                assert simulator.step_info["cost"] == twin.step_info["cost"]
                assert simulator.episode_metrics(0) == twin.episode_metrics(0)
            decision += 1
        assert all(twin.truncated[0] for twin in twins)


OPTIONS = {
    "rollout": {"futures": 5, "depth": 12},
    "foresight": {"futures": 5, "depth": 12},
    "plan": {"futures": 1, "depth": 8},
    "power_plan": {"rows": 12},
    "by_the_past": {"rows": 12, "forecast": "climatology"},
}
PLANNERS = {**BASELINES.policies, "by_the_past": BASELINES.policies["power_plan"]}


def pairs(names, simulator, other):
    """The same policies twice, for the simulator and for the one that is loaded."""
    for name in names:
        policies = [PLANNERS[name](each, **OPTIONS.get(name, {})) for each in (simulator, other)]
        yield name, *policies


def compare(policies, simulator, other, where):
    for name, ours, theirs in policies:
        outs = [each.empty_observations() for each in (simulator, other)]
        simulator.observe(outs[0])
        other.observe(outs[1])
        assert ours.act(outs[0]).tolist() == theirs.act(outs[1]).tolist(), f"{where}: {name}"
        if name in ("rollout", "foresight"):
            np.testing.assert_array_equal(ours.advantages(outs[0]), theirs.advantages(outs[1]), err_msg=where)


SMALL = {"units": 6, "horizon": 14, "episode_steps": 30, "offered_load": 1.5, "ready_pool_size": 5}
POOLS = {
    "plain": {},
    "suspending": {"suspend": True, "reward": "dense", "mask": "now_on_time"},
    "green": {"power": "trace", "site": {"grid": "qos_above", "grid_qos_above": 0.8}},
    "uncertain": {"power": "trace", "forecast_error": 0.1, "late_jobs": "leave"},
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_planners_decide_alike_with_the_same_futures(name, every):
    """Without the true future, all but ``foresight``; with it, that as well."""
    config = ResourcePoolConfig(**{**SMALL, **POOLS[name]})
    simulator, other = begun(config, 1), begun(config, 2)
    policies = list(pairs([*HEURISTICS, "rollout", "plan"], simulator, other))
    told = list(pairs(["foresight"], simulator, other))
    compared = 0
    for k, _ in enumerate(walk(simulator, 3)):
        if k % every == 0:
            other.load(PoolSnapshot.from_json(simulator.snapshot().to_json()))
            compare(policies, simulator, other, f"decision {k}")
            other.load(simulator.snapshot(future=True))
            compare(told, simulator, other, f"decision {k}")
            compared += 1
    assert compared >= 4


@pytest.mark.parametrize("error", [0.0, 0.2])
@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_who_commands_power_decides_alike(error, every):
    """With wrong forecasts, those planners that look at the true power need it in the snapshot."""
    options = {**presets()["ResourcePoolCarbon-10-v0"], **SMALL, "forecast_error": error}
    options |= {"power_levels": (0, 2, 4, 6), "horizon": 20, "episode_steps": 60}
    config = ResourcePoolConfig(**options)
    simulator, other = begun(config, 1), begun(config, 2)
    policies = list(pairs([*POWER_RULES, "power_plan", "by_the_past"], simulator, other))
    for k, _ in enumerate(walk(simulator, 3)):
        if k % every == 0:
            other.load(simulator.snapshot(future=error > 0.0))
            compare(policies, simulator, other, f"decision {k}")


def test_a_snapshot_tells_nothing_of_what_is_to_come():
    config = ResourcePoolConfig(**{**SMALL, **POOLS["green"]})
    simulator = begun(config, 0)
    for k, _ in enumerate(walk(simulator, 0)):
        if k == 20:
            break
    now = simulator.view().now
    told = simulator.snapshot()
    simulator.state.series[0, now + config.horizon :] = 7.0
    simulator.state.jobs["qos"][0, simulator.state.env["next_arrival"][0] :] = 0.5
    assert simulator.snapshot() == told != simulator.snapshot(future=True)


def test_sampled_futures_can_be_added_for_a_search():
    config = ResourcePoolConfig(**SMALL)
    simulator, other = begun(config, 0), ResourcePoolSimulator(config)
    for k, _ in enumerate(walk(simulator, 0)):
        if k == 12:
            break
    snapshot = simulator.snapshot()
    jobs: JobArrays = simulator.workload.sample(np.random.default_rng(5), 10)
    coming = [
        PoolJob("future", -1 - int(jobs.arrival[j]), int(jobs.duration[j]), tuple(jobs.units[j].tolist()),
                float(jobs.qos[j]))
        for j in range(len(jobs))
    ]  # fmt: skip
    other.load(dataclasses.replace(snapshot, jobs=(*snapshot.jobs, *coming)))
    assert_same(seen(simulator), seen(other), "now")
    for _ in range(4):
        act(other, config.no_op)
    arrived = (1 + jobs.arrival <= 4).sum()
    assert other.episode_metrics(0)["arrived_jobs"] == len(snapshot.jobs) + arrived > len(snapshot.jobs)


# --- a pool described by hand, and what is wrong with it ----------------------------------------------------

TINY = {"units": 4, "resource_types": 1, "horizon": 6, "episode_steps": 20, "ready_pool_size": 3}


def job(state: str = "waiting", ago: int = 1, steps: int = 3, units: int = 2, **more) -> dict:
    return {
        "state": state,
        "arrived_steps_ago": ago,
        "duration_steps": steps,
        "units": [units],
        "qos": 0.5,
        **more,
    }


RUNNING = job("running", 4, start_steps=-1, block=[0])
BY_HAND = {
    "jobs": [RUNNING, job("reserved", 2, start_steps=2, block=[1]), job(steps=2)],
    "power": [{"level": 1.0}] * 6,
}


def by_hand(**changes) -> str:
    return json.dumps({**BY_HAND, **changes})


def test_a_pool_described_by_hand_is_what_it_says():
    simulator = ResourcePoolSimulator(ResourcePoolConfig(**TINY))
    simulator.load(PoolSnapshot.from_json(by_hand()))
    shown = seen(simulator)["resources"]
    assert (shown != 0).tolist() == [
        [True, True, False, False],
        [True, True, False, False],
        [False, True, True, False],
        [False, True, True, False],
        [False, True, True, False],
        [False] * 4,
    ]
    assert simulator.view().queue.tolist() == [2]
    assert simulator.action_masks()[0].tolist() == [True, False, False, False, True]
    act(simulator, 0)
    table = simulator.view().job_table()
    assert table["start"].tolist() == [-1, 2, 0] and table["block"][:, 0].tolist() == [0, 1, 2]
    assert table["latest_finish"].tolist() == [2, 4, 3] and table["first_start"].tolist() == [0, -1, 0]
    assert simulator.episode_metrics(0)["arrived_jobs"] == 3


def test_a_forecast_that_ends_repeats_its_last_day():
    config = ResourcePoolConfig(**{**TINY, "horizon": 24, "power": "random", "episode_steps": 60})
    levels = [0.25 * (h % 4) for h in range(24)]
    simulator = ResourcePoolSimulator(config)
    simulator.load(PoolSnapshot((), tuple(PoolPower(level) for level in levels)))
    for _ in range(30):
        act(simulator, config.no_op)
    assert simulator.view().levels.tolist() == [(30 + h) % 24 % 4 for h in range(24)]


WRONG = {
    "unit": ({"jobs": [job(duration_hours=3)]}, r"jobs\[0\].duration_hours: unknown field; did you mean"),
    "field": ({"battery": 3}, "battery: unknown field"),
    "missing": ({"jobs": [{"state": "waiting"}]}, r"jobs\[0\].arrived_steps_ago: missing"),
    "state": ({"jobs": [job("asleep")]}, r"jobs\[0\].state='asleep': must be one of future"),
    "whole": ({"jobs": [job(steps=2.5)]}, r"jobs\[0\].duration_steps=2.5: must be whole steps"),
    "share": ({"power": [{"level": 1.5}] * 6}, r"power\[0\].level=1.5: must be a share, from 0"),
    "qos": ({"jobs": [job(qos=0)]}, r"jobs\[0\].qos=0: must be above 0"),
    "types": ({"jobs": [job() | {"units": [1, 1]}]}, r"jobs\[0\].units=\[1, 1\]: must be 1 numbers"),
    "size": ({"jobs": [job(units=5)]}, r"jobs\[0\].units=\[5\]: must be at most 4"),
    "long": ({"jobs": [job(steps=7)]}, r"jobs\[0\].duration_steps=7: must be at most 6"),
    "order": ({"jobs": [job(ago=1), job(ago=2)]}, r"jobs\[1\].arrived_steps_ago=2: must be at most 1"),
    "elapsed": (
        {"jobs": [RUNNING | {"start_steps": -3}]},
        r"jobs\[0\].start_steps=-3: must be above -3: it occupies 3 steps",
    ),
    "early": (
        {"jobs": [RUNNING | {"arrived_steps_ago": 0}]},
        r"jobs\[0\].start_steps=-1: must be at least 0",
    ),
    "beyond": (
        {"jobs": [job("reserved", start_steps=4, block=[0])]},
        r"jobs\[0\].start_steps=4: must be at most 3: it must end within the horizon",
    ),
    "left": (
        {"jobs": [job(remaining_steps=4)]},
        r"jobs\[0\].remaining_steps=4: must be at most duration_steps=3",
    ),
    "block": ({"jobs": [job("running", start_steps=0)]}, r"jobs\[0\].block=None: must be given: running"),
    "waits": ({"jobs": [job(start_steps=1)]}, r"jobs\[0\].start_steps=1: must be null: waiting"),
    "outside": (
        {"jobs": [RUNNING | {"block": [3]}]},
        r"jobs\[0\].block=\[3\]: must be such that units=\[2\] end",
    ),
    "too many": (
        {"jobs": [RUNNING, RUNNING, RUNNING]},
        "jobs='running on 6 units of type 0': must be at most 4 units",
    ),
    "twice": ({"jobs": [RUNNING, RUNNING | {"block": [1]}]}, r"jobs\[1\].block=\[1\]: must be units without"),
    "dark": (
        {"power": [{"level": 0.25}] * 6},
        r"jobs\[0\].block=\[0\]: must be units without another job, with",
    ),
    "foreseen": (
        {"power": [{"level": 1.0}] * 4 + [{"level": 0.0}] * 2},
        r"jobs\[1\].block=\[1\]: must be units without another job, with power now, of a reservation in all",
    ),
    "short": ({"power": [{"level": 1.0}] * 5}, "power='5 rows': must be from 6, the horizon, to 26 rows"),
    "site": (
        {"power": [{"solar_kw": 1.0, "wind_kw": 0.0}] * 6},
        r'power\[0\].level=None: must be given: power="c',
    ),
    "past": ({"past_power": [{"level": 1.0}]}, "past_power='1 rows': must be at most step=0"),
    "battery": ({"stored_kwh": 3.0}, "stored_kwh=3.0: must be null: no site"),
    "units on": ({"units_on": 3}, "units_on=3: must be null: power is not commanded"),
    "over": ({"step": 20}, "step=20: must be below 20, the steps of an episode"),
    "total": ({"totals": {"decision": 3}}, "totals='decision': must be one of decisions"),
    "count": ({"totals": {"decisions": 0.5}}, "totals.decisions=0.5: must be a whole number"),
    "configuration": (
        {"configuration": {"units": 5}},
        "configuration.units=5: must be 4, as in this simulator",
    ),
    "nested": (
        {"configuration": {"reward": {"on_time": 0.5}}},
        "configuration.reward.on_time=0.5: must be 1.0, as in this simulator",
    ),
    "unknown": ({"configuration": {"unit": 4}}, "configuration.unit: unknown field; did you mean 'units'"),
    "number": ({"start_hour": float("nan")}, "start_hour=nan: must be hours, from 0.0 to 24.0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_snapshot_is_refused_by_the_name_of_the_field_and_changes_nothing(case):
    changes, message = WRONG[case]
    simulator = begun(ResourcePoolConfig(**TINY), 0)
    act(simulator, simulator.config.no_op)
    before = [array.copy() for array in simulator.state]
    with pytest.raises(SnapshotError, match=message):
        simulator.load(PoolSnapshot.from_json(by_hand(**changes)))
    for array, kept in zip(simulator.state, before, strict=True):
        assert array.tobytes() == kept.tobytes()
    assert simulator.episodes.tolist() == [1]


def test_a_snapshot_of_another_configuration_is_refused():
    snapshot = begun(ResourcePoolConfig(**SMALL), 0).snapshot()
    for change, name in (
        ({"units": 7}, "units"),
        ({"workload": "hpc"}, "workload"),
        ({"suspend": True}, "susp"),
    ):
        simulator = ResourcePoolSimulator(ResourcePoolConfig(**{**SMALL, **change}))
        with pytest.raises(SnapshotError, match=f"configuration.{name}"):
            simulator.load(snapshot)
        assert simulator.episodes.tolist() == [0]


def test_a_site_needs_its_battery_and_an_episode_must_go_on():
    config = ResourcePoolConfig(**{**SMALL, **POOLS["green"]})
    simulator = begun(config, 0)
    snapshot = simulator.snapshot()
    for stored in (None, 1e6):
        with pytest.raises(SnapshotError, match=r"stored_kwh=.*: must be from 0 to 1000 kWh"):
            simulator.load(dataclasses.replace(snapshot, stored_kwh=stored))
    with pytest.raises(TypeError, match="snapshot: must be a PoolSnapshot, not dict"):
        simulator.load(json.loads(snapshot.to_json()))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="index=1: must be an environment"):
        simulator.load(snapshot, index=1)
    for _ in walk(simulator, 0):
        pass
    with pytest.raises(RuntimeError, match="environment 0: the episode is over"):
        simulator.snapshot()
    with pytest.raises(RuntimeError, match="environment 0: no episode has begun"):
        ResourcePoolSimulator(config).snapshot()


def test_the_schema_names_required_fields_and_units():
    schema = PoolSnapshot.schema()
    assert schema["required"] == ["jobs", "power"]
    row = schema["properties"]["jobs"]["items"]
    assert row["required"] == ["state", "arrived_steps_ago", "duration_steps", "units", "qos"]
    assert row["properties"]["duration_steps"]["description"] == "steps"
