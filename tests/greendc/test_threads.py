"""A batch split among threads: the same numbers, the same errors."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import greendc
from greendc.threads import Threads

CASES = {
    "pool": ("ResourcePoolSuspend-10", {"episode_steps": 15, "lookahead": 12, "fragmentation": True}),
    "power commands": ("ResourcePoolCarbon-10", {}),
    "flat": ("ResourcePool-10", {"episode_steps": 15, "observation": "flat", "info_jobs": True}),
    "vcc": ("VCC-v1", {"days": 2, "forecast": "noisy"}),
    "cluster": ("ClusterGreen-v0", {"episode_jobs": 60}),
}


def act(env, rng):
    """Return valid random actions."""
    if isinstance(env.single_action_space.sample(), np.ndarray):
        return rng.random((env.num_envs, 1))
    masks = env.action_masks()
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


def arrays(*values):
    """Yield the arrays in dictionaries and lists, in order."""
    for value in values:
        if isinstance(value, dict):
            yield from arrays(*value.values())
        elif isinstance(value, np.ndarray) and value.dtype == object:
            yield from arrays(*value)
        elif value is not None:
            yield np.asarray(value)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_one_thread(case, threads):
    env_id, settings = CASES[case]
    alone, shared = (greendc.make_vec(env_id, 7, threads=n, **settings) for n in (1, threads))
    for env in (alone, shared):
        env.reset(seed=3)
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(150):
        actions = act(alone, rng)
        steps = [env.step(actions) for env in (alone, shared)]
        expected, found = (list(arrays(*step)) for step in steps)
        assert len(expected) == len(found)
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, other)
        ended += int(steps[0][3].sum())
    assert ended or case == "power commands"


@pytest.mark.parametrize("case", ["pool", "vcc", "cluster"])
def test_where_one_environment_refuses_none_is_stepped(case):
    env_id, settings = CASES[case]
    env = greendc.make_vec(env_id, 4, threads=2, **settings)
    env.reset(seed=0)
    before = [array.copy() for array in env.simulator.state]
    actions = act(env, np.random.default_rng(0))
    actions[3] = 10**6
    with pytest.raises(ValueError, match=r"actions?\[3\]=.*1000000"):
        env.simulator.step(actions, env.simulator.empty_observations())
    for old, new in zip(before, env.simulator.state, strict=True):
        np.testing.assert_array_equal(old, new)
    fresh = greendc.make_vec(env_id, 4, threads=2, **settings)
    with pytest.raises(RuntimeError, match=r"environment 0: .*reset"):
        fresh.simulator.step(act(env, np.random.default_rng(0)), fresh.simulator.empty_observations())


def test_copies_have_threads_of_their_own():
    env = greendc.make_vec("ResourcePool-10", 4, threads=2)
    env.reset(seed=0)
    env.step(np.full(4, env.single_action_space.n - 1))
    copied = copy.deepcopy(env.simulator)
    out = copied.empty_observations()
    for simulator in (env.simulator, copied, env.simulator.alone(2)):
        simulator.step(
            np.full(simulator.num_envs, env.single_action_space.n - 1), simulator.empty_observations()
        )
    env.simulator.observe(out)
    again = copied.empty_observations()
    copied.observe(again)
    for key in out:
        np.testing.assert_array_equal(out[key], again[key])


def test_each_share_runs_once_and_an_error_gets_out():
    threads = Threads(3, 8)
    assert [(part.start, part.stop) for part in threads.shares] == [(0, 2), (2, 5), (5, 8)]
    seen = []
    threads.run(lambda k, share: seen.append((k, share.stop)), list(enumerate(threads.shares)))
    assert sorted(seen) == [(0, 2), (1, 5), (2, 8)]
    with pytest.raises(ZeroDivisionError):
        threads.run(lambda k: 1 // (k - 2), [(0,), (1,), (2,)])


@pytest.mark.parametrize("threads", [0, 5, 1.5])
@pytest.mark.parametrize("env_id", ["ResourcePool-10", "VCC-v1", "Cluster-v0"])
def test_numbers_of_threads_that_are_refused(env_id, threads):
    with pytest.raises(ValueError, match="threads"):
        greendc.make_vec(env_id, 4, threads=threads)
