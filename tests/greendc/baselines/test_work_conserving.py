"""The guard starts a job where a policy would leave an empty pool idle, and changes nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import greendc
from greendc.baselines.resource_pool import ShortestJobFirst, WorkConserving
from greendc.baselines.resource_pool.work_conserving import start_where_idle
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.resource_pool.jobs import JobArrays

NO_OP = 4


def pool(*jobs: tuple[int, int, tuple[int, int], float], **options: Any) -> ResourcePoolSimulator:
    """A pool of four units and three slots with the jobs (arrival, duration, units, qos)."""
    config = ResourcePoolConfig(units=4, horizon=12, ready_pool_size=3, episode_steps=40, **options)
    simulator = ResourcePoolSimulator(config)
    columns = [np.array(column) for column in zip(*jobs, strict=True)]
    arrays = JobArrays(columns[0], columns[1], columns[2].reshape(-1, 2), columns[3].astype(np.float64))
    simulator.reset_env(0, np.random.default_rng(0), {"jobs": arrays})
    return simulator


def guarded(simulator: ResourcePoolSimulator, action: int = NO_OP) -> int:
    return int(start_where_idle(simulator, np.array([action]))[0])


def step(simulator: ResourcePoolSimulator, action: int) -> None:
    simulator.step(np.array([action]), simulator.empty_observations())


def test_the_job_of_most_value_per_unit_and_step_starts() -> None:
    # Of equal prices that is the QoS value, however large the job.
    assert guarded(pool((0, 9, (4, 4), 0.3), (0, 1, (1, 0), 0.5), (0, 5, (2, 2), 0.4))) == 1
    assert guarded(pool((0, 2, (1, 1), 0.5), (0, 4, (2, 1), 0.5))) == 0  # ties: the lowest slot


def test_jobs_that_would_be_late_do_not_start() -> None:
    late = pool((0, 4, (1, 1), 1.0), (0, 6, (1, 1), 0.5), late_jobs="stay")
    step(late, NO_OP)
    assert guarded(late) == 1  # the first needed to start at once
    for _ in range(12):
        step(late, NO_OP)
    assert guarded(late) == NO_OP


def test_jobs_that_cannot_start_now_do_not_start() -> None:
    dark = pool((0, 2, (3, 1), 0.2), power="on_off", power_low=0.25, on_steps=4, off_steps=4)
    assert guarded(dark) == 0
    for _ in range(3):
        step(dark, NO_OP)
    assert dark.action_masks()[0, 0]  # it has a place later, when the power is back
    assert guarded(dark) == NO_OP


def test_nothing_else_is_changed() -> None:
    simulator = pool((0, 3, (1, 1), 0.3), (0, 3, (1, 1), 0.3))
    assert [guarded(simulator, action) for action in (0, 1, 2, 3)] == [0, 1, 2, 3]
    step(simulator, 0)
    assert guarded(simulator) == NO_OP  # something runs
    empty = pool((30, 3, (1, 1), 0.3))
    assert guarded(empty) == NO_OP  # nothing waits


class Idler:
    """Does nothing, and remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        self.given.append((state, episode_start, deterministic, action_masks))
        rows = len(observation["jobs"]) if observation["jobs"].ndim == 3 else None
        return (np.int64(11) if rows is None else np.full(rows, 11)), ("state", len(self.given))


def test_around_a_policy_no_pool_idles_for_nothing() -> None:
    env = greendc.make_vec("ResourcePool-10", 3, offered_load=0.3, mask="now_on_time", episode_steps=100)
    observations, _ = env.reset(seed=5)
    idler = Idler()
    policy = WorkConserving(env.simulator, idler)
    started = 0
    for _ in range(90):
        masks, state = env.action_masks(), env.simulator.state
        idle = ~state.counts[:, :2].any(axis=1) & masks[:, :-2].any(axis=1)
        actions, kept = policy.predict(observations, "before", None, True, masks)
        np.testing.assert_array_equal(actions != 11, idle)
        assert masks[np.arange(3), actions].all()
        assert kept == ("state", len(idler.given)) and idler.given[-1][:3] == ("before", None, True)
        assert idler.given[-1][3] is masks
        started += int(idle.sum())
        observations = env.step(actions)[0]
    assert policy.interventions == started > 10


def test_one_observation_gives_one_action() -> None:
    env = greendc.make_vec("ResourcePool-10", 1)
    env.reset(seed=0)
    observations = env.simulator.empty_observations()
    while not len(env.simulator.view().queue):
        env.simulator.step(np.array([11]), observations)
    one = {key: part[0] for key, part in observations.items()}
    action, _ = WorkConserving(env.simulator, Idler()).predict(one)
    assert np.ndim(action) == 0 and action < 10


def test_policies_without_masks_are_not_given_any() -> None:
    env = greendc.make_vec("ResourcePool-10", 2)
    observations, _ = env.reset(seed=0)
    rule = ShortestJobFirst(env.simulator)
    actions, _ = WorkConserving(env.simulator, rule).predict(observations, action_masks=env.action_masks())
    np.testing.assert_array_equal(actions, rule.predict(observations)[0])


def test_bad_requests() -> None:
    with pytest.raises(ValueError, match=r"work_conserving: .* resource pool, not of VCCSimulator"):
        WorkConserving(greendc.make_simulator("VCC-2019", days=1), Idler())
    simulator = pool((0, 3, (1, 1), 0.3))
    with pytest.raises(ValueError, match=r"actions of shape \(2,\): must be one for each of 1 env"):
        start_where_idle(simulator, np.array([4, 4]))
    with pytest.raises(RuntimeError, match="no episode has begun"):
        start_where_idle(ResourcePoolSimulator(simulator.config), np.array([4]))
