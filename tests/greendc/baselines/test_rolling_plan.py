"""The rolling plan: what it starts, what it keeps room for; it sees no future, and plans hold their time."""

from __future__ import annotations

import numpy as np
import pytest
from heuristic_cases import job_arrays, pool_with

from greendc.baselines import make_policy
from greendc.baselines.resource_pool.rolling import RollingPlan
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator, ResourcePoolVectorEnv

NO_OP = 11


class Holder:
    def __init__(self, simulator):
        self.simulator = simulator


def quiet_pool(*jobs, **options):
    """A pool of four units of one type in which nothing more is expected to come."""
    return pool_with(*jobs, resource_types=1, offered_load=0.0, **options)


def test_it_prefers_the_jobs_that_are_worth_more():
    # Two jobs for the whole pool, neither of which can wait for the other.
    pool, observations = quiet_pool((0, 4, (4,), 0.5), (0, 6, (4,), 0.9))
    assert RollingPlan(pool).predict(observations)[0] == 1


def test_it_lets_a_job_wait_that_can():
    # The first has time to go second; by QoS value or arrival it would go first.
    pool, observations = quiet_pool((0, 4, (4,), 0.3), (0, 4, (4,), 0.9), (0, 1, (4,), 0.95))
    policy = RollingPlan(pool)
    assert policy.predict(observations)[0] != 0
    out = pool.empty_observations()
    while pool.view().now < 40:
        pool.observe(out)
        pool.step(policy.predict(out)[0], out)
    # All but one of the two urgent ones.
    assert pool.episode_metrics(0)["total_job_value"] == pytest.approx(16 * 0.3 + 16 * 0.9)


def test_it_plans_on_the_units_that_are_left():
    waiting = (0, 4, (4,), 0.9), (0, 10, (1,), 0.3)
    for taken in (0, 3):
        running = [(0, 6, (taken,), 0.9)] if taken else []
        pool, observations = quiet_pool(*running, *waiting)
        if taken:
            pool.step(np.array([0]), observations)
        policy = RollingPlan(pool)
        policy.predict(observations)
        # Only now would the first be on time; a plan may split it.
        assert policy._plans[0].shares[0, 0] == pytest.approx(1 - taken / 4)


def test_it_keeps_room_for_what_it_expects():
    worthless = (0, 20, (4,), 0.2)
    pool, observations = pool_with(worthless, resource_types=1, horizon=24, offered_load=1.5)
    assert make_policy("deadline_never", Holder(pool)).predict(observations)[0] == 0
    assert RollingPlan(pool, depth=24).predict(observations)[0] == NO_OP
    alone, observations = quiet_pool(worthless, horizon=24)
    assert RollingPlan(alone, depth=24).predict(observations)[0] == 0


def test_a_plan_holds_until_the_next_one(monkeypatch):
    env = ResourcePoolVectorEnv(2, offered_load=1.2, episode_steps=60)
    policy = make_policy("plan", env, futures=2, every=4)
    made = []
    make_plan = policy._make_plan
    monkeypatch.setattr(
        policy,
        "_make_plan",
        lambda index: made.append((index, env.simulator.view(index).now)) or make_plan(index),
    )
    observations, _ = env.reset(seed=0)
    for _ in range(120):
        observations = env.step(policy.predict(observations)[0])[0]
    for index in range(2):
        steps = np.array([now for i, now in made if i == index])
        new_episode = np.flatnonzero(np.diff(steps) < 0)
        gaps = np.delete(np.diff(steps), new_episode)
        assert len(steps) > 3
        assert (gaps >= 4).all()


def test_a_plan_does_not_outlive_its_episode():
    pool, observations = quiet_pool((0, 4, (4,), 0.5), (0, 6, (4,), 0.9))
    policy = RollingPlan(pool, every=8)
    assert policy.predict(observations)[0] == 1
    pool.reset_env(0, np.random.default_rng(0), {"jobs": job_arrays((0, 6, (4,), 0.9), (0, 4, (4,), 0.5))})
    pool.observe(observations)
    assert policy.predict(observations)[0] == 0


@pytest.mark.parametrize("power", ["constant", "markov"])
def test_it_does_not_see_the_future(power):
    low = {"power_low": 0.5} if power == "markov" else {}
    simulator = ResourcePoolSimulator(ResourcePoolConfig(power=power, offered_load=1.2, **low))
    simulator.reset_env(0, np.random.default_rng(4))
    policy, out = RollingPlan(simulator, futures=2), simulator.empty_observations()
    for _ in range(60):
        simulator.observe(out)
        policy._plans.clear()
        action = policy.predict(out)[0]
        state, now = simulator.state, simulator.view().now
        kept = state.jobs.copy(), state.series.copy()
        coming = state.jobs[0, state.env["next_arrival"][0] :]
        for name in ("duration", "latest", "remaining"):
            coming[name] = 1
        coming["value"] = coming["qos"] = 1e6
        state.series[0, now + 1 :] = 0.0
        policy._plans.clear()
        assert policy.predict(out)[0] == action
        state.jobs[:], state.series[:] = kept
        simulator.step(action, out)


@pytest.mark.parametrize(
    ("option", "value"),
    [("futures", 0), ("depth", 0), ("every", 0), ("every", 31), ("threshold", 0.0), ("seed", -1)],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(ValueError, match=option):
        make_policy("plan", ResourcePoolVectorEnv(1), **{option: value})


@pytest.mark.parametrize("options", [{"power": "trace"}, {"units": 70}, {"start_delay": 1, "end_delay": 2}])
def test_it_runs_in_every_kind_of_pool(options):
    env = ResourcePoolVectorEnv(1, offered_load=1.2, **options)
    policy = make_policy("plan", env, futures=2)
    observations, _ = env.reset(seed=0)
    started = 0
    for _ in range(40):
        actions = policy.predict(observations)[0]
        assert env.action_masks()[0, actions[0]]
        started += actions[0] < NO_OP - 1
        observations = env.step(actions)[0]
    assert started > 0
