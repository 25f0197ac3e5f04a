"""The lookahead in the observation: what actions are worth if no jobs came, whatever really comes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from greendc.baselines.resource_pool import Rollout
from greendc.resource_pool import (
    ResourcePoolConfig,
    ResourcePoolEnv,
    ResourcePoolSimulator,
    ResourcePoolVectorEnv,
)
from greendc.resource_pool.jobs import JobArrays
from greendc.resource_pool.observation import JOB_FEATURES, SUSPEND_FEATURES, context_features

OPTIONS = (
    {},
    {"suspend": True, "power": "markov", "power_low": 0.5},
    {"units": 70, "resource_types": 1, "start_delay": 1, "mask": "now_on_time"},
    {"power": "trace", "site": {"grid": "qos_above", "grid_qos_above": 0.7}},
)


class NoJobs:
    """A workload of which rollouts draw futures without jobs."""

    def __init__(self, workload, types):
        self.workload, self.types = workload, types

    def __getattr__(self, name):
        return getattr(self.workload, name)

    def sample(self, rng, steps):
        nothing = np.zeros(0, np.int64)
        return JobArrays(nothing, nothing, np.zeros((0, self.types), np.int64), np.zeros(0))


def simulator_of(num_envs=1, **options):
    simulator = ResourcePoolSimulator(
        ResourcePoolConfig(**{"offered_load": 1.2, "mask": "now", **options}), num_envs
    )
    for i in range(num_envs):
        simulator.reset_env(i, np.random.default_rng(i))
    return simulator


def wander(simulator, rng, decisions):
    """Take random valid actions, half of them ``no_op``."""
    out = simulator.empty_observations()
    for _ in range(decisions):
        masks = simulator.action_masks()
        actions = [
            rng.choice(np.flatnonzero(mask)) if rng.random() < 0.5 else len(mask) - 1 for mask in masks
        ]
        simulator.step(np.array(actions), out)
    return out


@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_what_rollouts_say_of_a_future_without_jobs(options):
    simulator = simulator_of(3, lookahead=20, **options)
    config = simulator.config
    workload, simulator.workload = simulator.workload, NoJobs(simulator.workload, config.resource_types)
    rollout = Rollout(simulator, futures=1, depth=20, dispatch="easy")
    simulator.workload = workload
    rng = np.random.default_rng(0)
    seen = {"starts": 0, "suspensions": 0}
    for _ in range(60):
        out = wander(simulator, rng, 5)
        values = rollout._values(rollout._candidates()) / simulator.mean_value
        x = values - values[:, -1:]
        expected = np.nan_to_num(x / (1.0 + np.abs(x)))
        np.testing.assert_allclose(out["jobs"][:, :, -1], expected[:, :-2], atol=1e-6)
        seen["starts"] += int((expected[:, :-2] != 0.0).sum())
        if config.suspend:
            np.testing.assert_allclose(out["context"][:, -1], expected[:, -2], atol=1e-6)
            seen["suspensions"] += int((expected[:, -2] != 0.0).sum())
    assert seen["starts"] > 20
    assert seen["suspensions"] > 5 or not config.suspend


@pytest.mark.parametrize("options", OPTIONS)
def test_all_else_in_the_observation_stays(options):
    pools = [simulator_of(2, lookahead=lookahead, **options) for lookahead in (0, 12)]
    for _ in range(5):
        without, with_it = (wander(pool, np.random.default_rng(1), 20) for pool in pools)
        np.testing.assert_array_equal(with_it["resources"], without["resources"])
        np.testing.assert_array_equal(with_it["jobs"][:, :, :-1], without["jobs"])
        kept = without["context"].shape[1]
        told = 1 + 2 * (len(SUSPEND_FEATURES) + pools[0].config.resource_types)
        assert with_it["context"].shape[1] == kept + told * pools[0].config.suspend
        np.testing.assert_array_equal(with_it["context"][:, :kept], without["context"])
    for pool in pools:
        spaces = pool.observation_space
        assert spaces["jobs"].shape[1] == len(JOB_FEATURES) + pool.config.resource_types + (pool is pools[1])
        assert spaces["context"].shape[0] == len(context_features(pool.config))


def test_it_tells_who_gives_way_and_who_starts():
    # The first job (value 24, due at 11) fills the pool; after two steps it has 4 to go, ending at 6.
    jobs = JobArrays(
        np.zeros(3, np.int64), np.array([6, 4, 3]), np.array([[4], [2], [3]]), np.array([0.55, 0.5, 0.25])
    )
    env = ResourcePoolEnv(lookahead=24, units=4, resource_types=1, horizon=20, suspend=True)
    names = context_features(env.simulator.config)
    observation, _ = env.reset(seed=0, options={"jobs": jobs})

    def told():
        return {
            job: {
                name.removeprefix(f"{job}_"): float(observation["context"][i])
                for i, name in enumerate(names)
                if name.startswith(job)
            }
            for job in ("victim", "successor")
        }

    nothing = {"value": 0.0, "remaining": 0.0, "slack": 0.0, "units_0": 0.0}
    assert told() == {"victim": nothing, "successor": nothing}
    env.step(0)
    env.step(env.action_space.n - 1)
    observation, *_ = env.step(env.action_space.n - 1)
    mean = env.simulator.mean_value
    first, second = 6 * 4 * 0.55, 4 * 2 * 0.5
    assert told()["victim"] == pytest.approx(
        {"value": first / (first + mean), "remaining": 4 / 20, "slack": 4 / 20, "units_0": 1.0}
    )
    # Due at 8, it would end at 6.
    assert told()["successor"] == pytest.approx(
        {"value": second / (second + mean), "remaining": 4 / 20, "slack": 2 / 20, "units_0": 0.5}
    )


def test_it_does_not_see_the_future():
    simulator = simulator_of(lookahead=24)
    rng = np.random.default_rng(2)
    for _ in range(10):
        before = wander(simulator, rng, 7)
        after = simulator.empty_observations()
        jobs = simulator.state.jobs[0]
        kept, coming = jobs.copy(), jobs[simulator.state.env["next_arrival"][0] :]
        coming["arrival"], coming["value"], coming["qos"] = simulator.view().now + 1, 1e6, 1e6
        simulator.observe(after)
        np.testing.assert_array_equal(after["jobs"], before["jobs"])
        jobs[:] = kept


def test_a_start_that_keeps_a_better_job_out_looks_bad():
    # Half of the pool is free now, all of it in four steps; a long job of little worth would fill the half.
    env = ResourcePoolEnv(lookahead=24, units=4, resource_types=1, horizon=24, late_jobs="stay")
    jobs = JobArrays(
        np.zeros(3, np.int64), np.array([4, 6, 12]), np.array([[2], [4], [2]]), np.array([0.95, 0.55, 0.1])
    )
    env.reset(seed=0, options={"jobs": jobs})
    observation, *_ = env.step(0)
    lookahead = observation["jobs"][:3, -1]
    starts_now = observation["jobs"][:3, JOB_FEATURES.index("starts_now")]
    long_job = np.flatnonzero(starts_now)
    assert len(long_job) == 1
    assert lookahead[long_job[0]] < -0.05


@pytest.mark.parametrize("kind", ["dict", "flat"])
def test_single_batch_and_reset_say_the_same(kind):
    options = {"lookahead": 16, "offered_load": 1.2, "observation": kind, "suspend": True}
    single = gym.make("ResourcePool-v0", **options)
    batch = ResourcePoolVectorEnv(2, **options)
    flat = (lambda x: x) if kind == "flat" else (lambda x: np.concatenate([v.ravel() for v in x.values()]))
    one, _ = single.reset(seed=3)
    all_of_them, _ = batch.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(100):
        first = all_of_them[0] if kind == "flat" else {key: part[0] for key, part in all_of_them.items()}
        np.testing.assert_array_equal(flat(first), flat(one))
        assert single.observation_space.contains(one)
        action = rng.choice(np.flatnonzero(batch.action_masks()[0]))
        one, *_ = single.step(action)
        all_of_them, *_ = batch.step(np.array([action, batch.action_space.nvec[0] - 1]))


def test_many_waiting_jobs():
    env = ResourcePoolVectorEnv(2, lookahead=24, workload="jobs_per_step", offered_load=3.0)
    env.reset(seed=0)
    for _ in range(300):
        env.step(np.full(2, env.action_space.nvec[0] - 1))
    assert max(len(env.simulator.view(i).queue) for i in range(2)) > 64


@pytest.mark.parametrize("value", [-1, 2.5, "all"])
def test_a_wrong_number_of_steps_is_refused(value):
    with pytest.raises(ValueError, match="lookahead="):
        ResourcePoolEnv(lookahead=value)
