"""Rollouts that are told the next arrivals: what they are told, what they are not, and what it is worth."""

from __future__ import annotations

import numpy as np
import pytest
from heuristic_cases import check_alone_as_in_a_batch, wander

from greendc.baselines import make_policy, names
from greendc.baselines.resource_pool import Foresight, Rollout
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator, ResourcePoolVectorEnv

OPTIONS = {"futures": 6, "depth": 20, "min_qos": 0.2, "dispatch": "easy"}


def simulator_of(num_envs, **options):
    simulator = ResourcePoolSimulator(ResourcePoolConfig(**{"offered_load": 1.2, **options}), num_envs)
    for i in range(num_envs):
        simulator.reset_env(i, np.random.default_rng(i))
    return simulator


@pytest.mark.parametrize("options", [{}, {"suspend": True}, {"start_delay": 1, "power": "markov"}])
def test_told_nothing_it_is_a_rollout(options):
    simulator = simulator_of(3, **options)
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(20):
        out = wander(simulator, rng, 5)
        blind = Rollout(simulator, **OPTIONS).advantages(out)
        np.testing.assert_array_equal(Foresight(simulator, 0, **OPTIONS).advantages(out), blind)
        compared += int(np.isfinite(blind).sum(axis=1).max() > 1)
    assert compared > 10


@pytest.mark.parametrize("known_arrivals", [1, 5, 12])
def test_it_knows_the_jobs_of_the_steps_that_it_is_told_and_no_more(known_arrivals):
    simulator = simulator_of(1)
    policy = Foresight(simulator, known_arrivals, **OPTIONS)
    out, changed = simulator.empty_observations(), 0
    simulator.observe(out)
    for _ in range(150):
        before = policy.advantages(out)
        jobs, now = simulator.state.jobs[0], simulator.view().now
        kept = jobs.copy()
        coming = jobs["arrival"] > now
        jobs["value"][coming & (jobs["arrival"] > now + known_arrivals)] = 1e3
        np.testing.assert_array_equal(policy.advantages(out), before)
        jobs["value"][coming] = 1e3
        changed += int((policy.advantages(out) != before)[np.isfinite(before)].any())
        jobs[:] = kept
        simulator.step(policy.predict(out)[0], out)
    assert changed > 3


def test_told_all_that_it_looks_at_one_future_is_enough():
    simulator = simulator_of(2)
    rng = np.random.default_rng(2)
    for _ in range(10):
        out = wander(simulator, rng, 5)
        one, many = (
            Foresight(simulator, 20, **{**OPTIONS, "futures": futures, "seed": futures}) for futures in (1, 6)
        )
        np.testing.assert_array_equal(one.advantages(out), many.advantages(out))


def test_alone_and_in_a_batch_it_decides_alike():
    check_alone_as_in_a_batch("foresight", known_arrivals=5, **OPTIONS)


def test_foresight_pays():
    ratios = {}
    for known_arrivals in (0, 19):
        env = ResourcePoolVectorEnv(32, offered_load=0.8, mask="now_on_time", skip_forced=True)
        policy = make_policy("foresight", env, known_arrivals=known_arrivals, **OPTIONS)
        observations, _ = env.reset(seed=0)
        done = np.full(32, np.nan)
        while np.isnan(done).any():
            observations, _, _, over, infos = env.step(policy.predict(observations)[0])
            for i in np.flatnonzero(over & np.isnan(done)):
                done[i] = infos["final_info"][i]["episode_metrics"]["total_job_value_ratio"]
        ratios[known_arrivals] = done
    gain = ratios[19] - ratios[0]
    assert gain.mean() > 3.0 * gain.std() / np.sqrt(len(gain))


def test_it_is_no_policy_to_compare_with():
    assert "foresight" not in names("resource_pool")
    assert "foresight" in names("resource_pool", hindsight=True)


@pytest.mark.parametrize(
    ("option", "value"), [("known_arrivals", -1), ("known_arrivals", 1.5), ("futures", 0)]
)
def test_bad_options_are_named(option, value):
    with pytest.raises(ValueError, match=f"{option}={value}"):
        make_policy("foresight", ResourcePoolVectorEnv(1), **{option: value})
