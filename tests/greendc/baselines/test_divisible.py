"""Divisible jobs with unknown arrivals: feasible, blind to what comes, and better than whole jobs."""

from __future__ import annotations

import numpy as np
import pytest
from heuristic_cases import job_arrays
from tiny_pools import play, tiny_config

from greendc.baselines.linear import NoBoundError
from greendc.baselines.resource_pool.divisible import DivisibleSchedule, divisible_schedule
from greendc.baselines.resource_pool.exact import ExactPool
from greendc.baselines.resource_pool.exact_policy import ExactPolicy
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.resource_pool.jobs import JobArrays


def pool_of(*jobs, **options):
    """Four units of one type in which nothing more is expected to come."""
    settings = {"units": 4, "resource_types": 1, "horizon": 20, "episode_steps": 30, "offered_load": 0.0}
    simulator = ResourcePoolSimulator(ResourcePoolConfig(**{**settings, **options}))
    simulator.reset_env(0, np.random.default_rng(0), {"jobs": job_arrays(*jobs)} if jobs else None)
    return simulator


def test_a_job_that_does_not_fit_as_a_whole_starts_in_part():
    # Neither can wait. The better one has its three units; of the other, a third fits on the fourth.
    simulator = pool_of((0, 4, (3,), 0.9), (0, 4, (3,), 0.8))
    schedule = divisible_schedule(simulator)
    assert dict(zip(schedule.job.tolist(), schedule.share.tolist(), strict=True)) == pytest.approx(
        {0: 1.0, 1: 1 / 3}
    )
    assert schedule.start.tolist() == [0, 0]
    assert schedule.value(recorded_instance(simulator)) == pytest.approx(12 * 0.9 + 12 * 0.8 / 3)


def test_what_comes_is_not_known():
    # A poor job has the pool when a better one comes; who knew it would have waited.
    poor, better = (0, 10, (4,), 0.95), (1, 9, (4,), 1.0)
    simulator = pool_of(poor, better)
    assert divisible_schedule(simulator).job.tolist() == [0]
    assert lp_bound(recorded_instance(simulator)).value == pytest.approx(38.0, abs=0.1)


def test_starts_do_not_depend_on_later_arrivals():
    config = ResourcePoolConfig(units=6, horizon=16, episode_steps=40, offered_load=3.0)
    simulator = ResourcePoolSimulator(config)
    jobs = simulator.workload.sample(np.random.default_rng(3), 40)
    before = jobs.arrival < 20
    other = JobArrays(jobs.arrival[before], jobs.duration[before], jobs.units[before], jobs.qos[before])
    started = []
    for known in (jobs, other):
        simulator.reset_env(0, np.random.default_rng(0), {"jobs": known})
        schedule, ids = divisible_schedule(simulator, futures=3, depth=12), recorded_instance(simulator).job
        early = schedule.start < 20
        started.append(
            list(zip(ids[schedule.job[early]], schedule.start[early], schedule.share[early], strict=True))
        )
    assert len(started[0]) > 5
    assert started[0] == started[1]


def test_it_keeps_room_for_what_it_expects():
    poor = (0, 18, (4,), 0.2)
    options = {"units": 4, "episode_steps": 40, "resource_types": 1}
    assert divisible_schedule(pool_of(poor, **options, offered_load=0.0)).start[0] == 0
    crowded = divisible_schedule(pool_of(poor, **options, offered_load=3.0))
    assert not ((crowded.start == 0) & (crowded.share > 0.9)).any()


def test_it_is_between_whole_jobs_and_the_bound():
    # On a tiny pool the best policy of whole jobs is known.
    simulator = ResourcePoolSimulator(tiny_config(episode_steps=25), 12)
    pool = ExactPool(simulator.config)
    earned = play(ExactPolicy(simulator, pool, pool.optimum()), simulator)
    divided, bounds = [], []
    for seed in range(12):
        simulator.reset_env(0, np.random.default_rng(seed))
        instance = recorded_instance(simulator)
        divided.append(divisible_schedule(simulator, futures=3, depth=8).value(instance))
        bounds.append(lp_bound(instance).value)
    gain = np.array(divided) - earned
    assert gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(12)
    assert (np.array(divided) <= np.array(bounds) + 1e-6).all()


@pytest.mark.parametrize(
    ("job", "start", "share", "said"),
    [
        ((0, 0), (0, 4), (0.6, 0.5), "job 0: a share of 1.100000 starts"),
        ((0,), (30,), (1.0,), "job 0: starts in step 30, must be within its time 0 .. 8"),
        ((0, 1), (2, 3), (1.0, 0.5), "step 3: 5.000000 units in use, must be at most 4"),
    ],
)
def test_what_cannot_be_is_refused(job, start, share, said):
    instance = recorded_instance(pool_of((0, 4, (3,), 0.5), (0, 4, (4,), 0.5)))
    schedule = DivisibleSchedule(np.array(job), np.array(start), np.array(share))
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        schedule.require_feasible(instance)


def test_where_it_does_not_apply():
    with pytest.raises(NoBoundError, match="jobs can be suspended"):
        divisible_schedule(pool_of(suspend=True))
    with pytest.raises(NoBoundError, match="a battery"):
        divisible_schedule(pool_of(power="trace"))
    with pytest.raises(ValueError, match="futures=0"):
        divisible_schedule(pool_of(), futures=0)
