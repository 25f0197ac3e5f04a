"""Rollouts: their values are those of the simulator, they do not see the future, and they help."""

from __future__ import annotations

import copy
from types import MappingProxyType

import numpy as np
import pytest
from heuristic_cases import check_alone_as_in_a_batch, pool_with, wander
from pool_power import fitting

from greendc.baselines import make_policy
from greendc.baselines.resource_pool.rollout import BASES, Rollout
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator, ResourcePoolVectorEnv
from greendc.resource_pool.jobs import JobArrays

DEPTH = 10


class KnownJobs:
    """A workload that always draws the same jobs, so that every sampled future is the true one."""

    counts = MappingProxyType({})
    mean_duration = 4.0

    def __init__(self, jobs):
        self.jobs = jobs
        self.mean_units = (1.0,) * jobs.resource_types

    def mean_value(self, prices):
        return 10.0

    def sample(self, rng, steps):
        return self.jobs


def random_jobs(rng, units, types, n=60, steps=40, longest=8):
    needs = rng.integers(0, units // 2 + 1, (n, types))
    needs[:, 0] = rng.integers(1, units // 2 + 1, n)
    arrival = np.sort(rng.integers(0, steps, n))
    return JobArrays(arrival, rng.integers(1, longest + 1, n), needs, rng.uniform(0.1, 0.9, n))


def random_pool(rng, **options):
    """A pool whose workload is its own future, and whose forecast covers all that rollouts look at."""
    pick = rng.choice
    units, types = int(pick([4, 10, 70])), int(rng.integers(1, 4))
    config = {
        "units": units,
        "resource_types": types,
        "horizon": 24,
        "ready_pool_size": int(rng.integers(1, 12)),
        "episode_steps": 60,
        "late_jobs": str(pick(["demote", "leave", "stay"])),
        "suspend": bool(pick([True, False])),
        "start_delay": int(pick([0, 1])),
        "end_delay": int(pick([0, 2])),
        "power": str(pick(["constant", "markov", "on_off"])),
        "on_steps": 5,
        "off_steps": 3,
        "power_low": 0.5,
        "step_hours": 0.1,  # a day of 240 steps: a future's first day is the whole episode
        "workload": KnownJobs(random_jobs(rng, units, types)),
        **options,
    }
    simulator = ResourcePoolSimulator(ResourcePoolConfig(**fitting(config)))
    simulator.reset_env(0, np.random.default_rng(int(rng.integers(1000))))
    return simulator


def promised(simulator, end, before=()):
    """The value of what is placed to be on time, of late parts the share before ``end``."""
    table, total = simulator.view().job_table(), 0.0
    for j, status in enumerate(table["status"]):
        if status in (2, 3, 4) and table["end"][j] <= table["latest_finish"][j] and j not in before:
            length = table["end"][j] - table["start"][j]
            total += table["value"][j] * np.clip((end - table["start"][j]) / length, 0, 1)
    return total


def simulated_value(simulator, action):
    """What the action is worth if ``deadline_never`` goes on, by the simulator itself."""
    simulator = copy.deepcopy(simulator)
    out, now = simulator.empty_observations(), simulator.view().now
    placed = set(simulator.view().placed.tolist()) | {
        j for j, status in enumerate(simulator.view().job_table()["status"]) if status == 4
    }
    lost = 0.0
    if action == simulator.config.ready_pool_size:
        victim = int(simulator.state.env["victim"][0])
        table = simulator.view().job_table()
        lost = table["value"][victim] * (table["end"][victim] <= table["latest_finish"][victim])
        placed.discard(victim)
    simulator.step(np.array([action]), out)
    policy = make_policy("deadline_never", _Holder(simulator), scope="queue")
    while simulator.view().now < now + DEPTH:
        simulator.step(policy.predict(out)[0], out)
    return promised(simulator, now + DEPTH, placed) - lost


class _Holder:
    def __init__(self, simulator):
        self.simulator = simulator


def test_values_are_those_of_the_simulator():
    seen = {"schedule": 0, "suspend": 0, "no_op": 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        simulator = random_pool(rng)
        policy = Rollout(simulator, futures=2, depth=DEPTH)
        for _ in range(4):
            wander(simulator, rng, int(rng.integers(1, 25)))
            masks = simulator.action_masks()
            if simulator.view().now + DEPTH >= 60 or masks.sum() == 1:
                continue
            values = policy._values(masks)[0]
            for action in np.flatnonzero(masks[0]):
                expected = simulated_value(simulator, action)
                assert values[action] == pytest.approx(expected, rel=1e-12), (seed, action)
                kind = ("schedule", "suspend", "no_op")[max(0, action - len(values) + 3)]
                seen[kind] += 1
    assert min(seen.values()) > 20, seen


@pytest.mark.parametrize("power", ["constant", "markov", "trace"])
def test_it_does_not_see_the_future(power):
    options = {"forecast_error": 0.1} if power == "trace" else {}
    low = {"power_low": 0.3} if power == "markov" else {}
    config = ResourcePoolConfig(power=power, offered_load=1.2, **low, **options)
    rng = np.random.default_rng(3)
    simulator = ResourcePoolSimulator(config)
    simulator.reset_env(0, np.random.default_rng(3))
    policy = Rollout(simulator, futures=8)
    compared = 0
    for _ in range(12):
        out = wander(simulator, rng, 5)
        before = policy.advantages(out)
        state, now = simulator.state, simulator.view().now
        kept = state.jobs.copy(), state.series.copy()
        coming = state.jobs[0, state.env["next_arrival"][0] :]
        for name in ("duration", "latest", "remaining"):
            coming[name] = 1
        coming["arrival"] = now + 1
        coming["value"] = coming["qos"] = 1e6
        state.series[0, now + 1 :] = 0.0
        np.testing.assert_array_equal(policy.advantages(out), before)
        state.jobs[:], state.series[:] = kept
        compared += int(np.isfinite(before).sum() > 1)
    assert compared > 5


def test_alone_and_in_a_batch_it_decides_alike():
    check_alone_as_in_a_batch("rollout", futures=8)


def test_advantages():
    env = ResourcePoolVectorEnv(8, offered_load=1.5, suspend=True)
    policy = make_policy("rollout", env, futures=16)
    observations, _ = env.reset(seed=0)
    dominated = 0
    for _ in range(120):
        advantages, masks = policy.advantages(observations), env.action_masks()
        assert advantages.dtype == np.float32
        np.testing.assert_array_equal(np.isnan(advantages), ~masks)
        np.testing.assert_allclose(np.nanmean(advantages, axis=1), 0.0, atol=1e-5)
        jobs = observations["jobs"]
        open_ended = masks.copy()
        open_ended[:, :-2] &= (jobs[:, :, 9] == 0) | (jobs[:, :, 11] == 1)
        open_ended[:, -2:] = False
        dominated += open_ended.sum()
        assert (np.where(open_ended, advantages, -np.inf) < advantages[:, -1:]).all()
        actions = policy.predict(observations)[0]
        rows = np.arange(8)
        assert not open_ended[rows, actions].any()
        np.testing.assert_array_equal(np.nanargmax(advantages, axis=1), actions)
        observations = env.step(actions)[0]
    assert dominated > 100


def test_it_holds_units_back_for_what_is_likely_to_come():
    # A job of little worth that would fill the pool for 20 steps. Valuable short ones keep coming.
    rng = np.random.default_rng(0)
    steady = JobArrays(
        np.arange(0, 60), np.full(60, 1, np.int64), np.full((60, 1), 4, np.int64), np.full(60, 0.95)
    )
    pool, observations = pool_with(
        (0, 20, (4,), 0.2), resource_types=1, horizon=24, workload=KnownJobs(steady), step_hours=0.1
    )
    assert make_policy("deadline_never", _Holder(pool)).predict(observations)[0] == 0
    assert Rollout(pool, futures=4, depth=int(rng.integers(30, 40))).predict(observations)[0] == 11


def test_below_the_min_qos_the_heuristic_starts_no_job():
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(20):
        simulator = random_pool(rng, suspend=False)
        wander(simulator, rng, int(rng.integers(1, 25)))
        masks = simulator.action_masks()
        if masks.sum() == 1:
            continue
        lowest = Rollout(simulator, futures=2, depth=DEPTH)._values(masks)
        np.testing.assert_array_equal(Rollout(simulator, 2, DEPTH, min_qos=0.1)._values(masks), lowest)
        highest = Rollout(simulator, futures=2, depth=DEPTH, min_qos=0.95)._values(masks)
        assert highest[0, -1] == 0.0  # no job that waits or comes is started
        assert (highest <= lowest)[masks].all()
        compared += int(lowest[0, -1] > 0.0)
    assert compared > 5


def test_units_are_held_back_only_for_jobs_above_the_min_qos():
    steady = JobArrays(
        np.arange(0, 60), np.full(60, 1, np.int64), np.full((60, 1), 4, np.int64), np.full(60, 0.95)
    )
    pool, observations = pool_with(
        (0, 20, (4,), 0.2), resource_types=1, horizon=24, workload=KnownJobs(steady), step_hours=0.1
    )
    actions = [Rollout(pool, 4, min_qos=min_qos).predict(observations)[0] for min_qos in (0.0, 0.5, 0.96)]
    assert actions == [11, 11, 0]


def test_a_prior_counts_as_so_many_futures():
    env = ResourcePoolVectorEnv(8, offered_load=1.5, mask="now_on_time")
    rng = np.random.default_rng(0)
    opinions = rng.normal(size=(8, 12))
    plain = make_policy("rollout", env, futures=8)
    mixed = make_policy("rollout", env, futures=8, prior=lambda _: opinions, trust=24)
    sure = make_policy("rollout", env, futures=8, prior=lambda _: opinions, trust=10**9)
    observations, _ = env.reset(seed=0)
    differ = 0
    for _ in range(60):
        masks = env.action_masks()
        centered = np.where(masks, opinions, np.nan)
        centered -= np.nanmean(centered, axis=1, keepdims=True)
        expected = 0.25 * plain.advantages(observations) + 0.75 * centered
        np.testing.assert_allclose(mixed.advantages(observations), expected, atol=1e-5)
        actions = mixed.predict(observations)[0]
        np.testing.assert_array_equal(actions, np.nanargmax(expected, axis=1))
        np.testing.assert_array_equal(sure.predict(observations)[0], np.nanargmax(centered, axis=1))
        differ += (actions != plain.predict(observations)[0]).sum()
        observations = env.step(actions)[0]
    assert differ > 20


def test_a_prior_does_not_make_an_action_a_candidate():
    env = ResourcePoolVectorEnv(4, offered_load=1.5)
    observations, _ = env.reset(seed=0)
    policy = make_policy("rollout", env, futures=2, prior=lambda _: np.eye(12)[[0] * 4] * 1e6)
    refused = 0
    for _ in range(80):
        actions = policy.predict(observations)[0]
        assert policy._candidates()[np.arange(4), actions].all()
        refused += (env.action_masks()[:, 0] & (actions != 0)).sum()
        observations = env.step(actions)[0]
    assert refused > 5


def test_it_beats_its_base():
    ratios = {}
    for name, options in (("deadline_never", {}), ("rollout", {"futures": 40})):
        env = ResourcePoolVectorEnv(48, offered_load=0.8, mask="now_on_time")
        policy = make_policy(name, env, **options)
        observations, _ = env.reset(seed=0)
        done = np.full(48, np.nan)
        while np.isnan(done).any():
            observations, _, _, over, infos = env.step(policy.predict(observations)[0])
            for i in np.flatnonzero(over & np.isnan(done)):
                done[i] = infos["final_info"][i]["episode_metrics"]["total_job_value_ratio"]
        ratios[name] = done
    gain = ratios["rollout"] - ratios["deadline_never"]
    assert gain.mean() > 0.01
    assert gain.mean() > 2.5 * gain.std() / np.sqrt(len(gain))


@pytest.mark.parametrize(
    ("option", "value"),
    [("futures", 0), ("depth", 0), ("seed", -1), ("base", "deadline_never"), ("min_qos", -0.1), ("trust", 0)],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(ValueError, match=option):
        make_policy("rollout", ResourcePoolVectorEnv(1), **{option: value})


@pytest.mark.parametrize("base", BASES)
def test_every_base_runs(base):
    env = ResourcePoolVectorEnv(2, offered_load=1.2)
    policy = make_policy("rollout", env, futures=4, base=base)
    observations, _ = env.reset(seed=0)
    for _ in range(30):
        observations = env.step(policy.predict(observations)[0])[0]


@pytest.mark.parametrize("units", [4, 70])  # one word of bits, and two
def test_backfilling_keeps_the_place_of_the_first_that_has_none(units):
    # Half the pool is free now, all of it in four steps; who wants all of it is worth more than a long half.
    half = units // 2
    nothing = JobArrays(*[np.zeros(0, np.int64)] * 2, np.zeros((0, 1), np.int64), np.zeros(0))
    pool, observations = pool_with(
        (0, 4, (half,), 0.95),
        (0, 6, (units,), 0.55),
        (0, 12, (half,), 0.1),
        (0, 3, (half,), 0.1),
        resource_types=1,
        units=units,
        horizon=24,
        workload=KnownJobs(nothing),
        step_hours=0.1,
    )
    pool.step(np.array([0]), observations)
    value = pool.view().job_table()["value"]
    passing, keeping = (
        Rollout(pool, 1, 20, dispatch=dispatch)._values(pool.action_masks())[0]
        for dispatch in ("skip", "easy")
    )
    # Now: the long half keeps the large one out for as long as it could be on time; the short one does not.
    assert passing[-1] == value[2] + value[3]
    assert keeping[-1] == pytest.approx(value[1] + value[2] * 10 / 12 + value[3])
    assert keeping[1] < keeping[2] == pytest.approx(keeping[-1])
