"""What guarded rollouts try: parts of the past from the time of day that it is, and candidates in rounds."""

from __future__ import annotations

import numpy as np
import pytest

from greendc.baselines.cluster import GuardedRollout
from greendc.cluster import ClusterConfig, ClusterJobs, ClusterSimulator

DAY, HOUR = 86_400, 3600
WAITING, HORIZON, FUTURES = 3, 1, 8


def days_and_nights(days=10, hour=13.0):
    """A job of 100 s at noon and one of 900 s at ten at night, for days; then three at once, at an hour."""
    start = np.arange(days) * DAY
    submit = np.concatenate([np.stack([start + 12 * HOUR, start + 22 * HOUR], axis=1).ravel(), np.zeros(3)])
    submit[-WAITING:] = days * DAY + hour * HOUR
    run = np.concatenate([np.tile([100, 900], days), [300, 300, 300]])
    whole = np.full(len(run), 4)
    return ClusterJobs(submit.astype(np.int64), run, run, whole, 4)


def futures_of(policy, waiting=WAITING, horizon=HORIZON):
    """Decide, and return the run times of the jobs to come in each future."""
    policy.decide(0)
    futures = policy.options.futures
    plans = policy._plan_world.log[: futures * (waiting + horizon)].reshape(futures, waiting + horizon)
    return plans["run"][:, waiting:]


def at_the_last_jobs(jobs):
    config = ClusterConfig(workload=jobs, episode_jobs=WAITING, visible_jobs=WAITING)
    simulator = ClusterSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0), {"start": len(jobs) - WAITING})
    return simulator


@pytest.mark.parametrize(
    ("daytime", "runs"), [(1.0, {900}), (0.5, {100, 900}), (4.0, {900}), (9.5, {100, 900}), (12, {100, 900})]
)
def test_futures_repeat_what_came_at_this_time_of_day(daytime, runs):
    # A future is what came after a job: after one at noon, that at night. None came within half an hour.
    simulator = at_the_last_jobs(days_and_nights())
    policy = GuardedRollout(simulator, futures=FUTURES, horizon=HORIZON, daytime=daytime)
    found = futures_of(policy)
    assert found.shape == (FUTURES, HORIZON)
    assert runs <= set(found.ravel()) <= {*runs, 300}


def test_the_time_of_day_goes_round():
    late = at_the_last_jobs(days_and_nights(hour=23.5))
    assert 900 not in futures_of(GuardedRollout(late, futures=FUTURES, horizon=HORIZON))
    early = at_the_last_jobs(days_and_nights(hour=24 - 1.5 + 12))
    assert 100 not in futures_of(GuardedRollout(early, futures=FUTURES, horizon=HORIZON))
    after_midnight = at_the_last_jobs(days_and_nights(hour=24.25))
    assert 900 not in futures_of(
        GuardedRollout(after_midnight, futures=FUTURES, horizon=HORIZON, daytime=2.5)
    )


def test_where_too_few_came_at_this_time_of_day_any_part_of_the_past_does():
    simulator = at_the_last_jobs(days_and_nights(days=FUTURES - 2))  # as many at noon, and two of the three
    found = futures_of(GuardedRollout(simulator, futures=FUTURES, horizon=HORIZON, daytime=1.0))
    assert 900 in found and 100 not in found
    simulator = at_the_last_jobs(days_and_nights(days=FUTURES - 3))
    found = futures_of(GuardedRollout(simulator, futures=FUTURES, horizon=HORIZON, daytime=1.0))
    assert {100, 900} <= set(found.ravel())


def test_futures_are_spread_evenly_over_the_past():
    count = 800
    submit, run = np.arange(count) * 20, np.arange(count) + 1  # a job's run time tells which it is
    submit[-WAITING:] = submit[-WAITING]
    jobs = ClusterJobs(submit, run, run, np.full(count, 4), 4)
    policy = GuardedRollout(at_the_last_jobs(jobs), futures=32, horizon=1, history=count, daytime=12)
    repeated = np.sort(futures_of(policy).ravel())
    gaps = np.diff([0, *repeated, count])
    assert gaps.max() < 3 * count / 32  # 32 independent ones leave a gap of 100 or more nine times of ten


def crowd(count=24):
    rng = np.random.default_rng(0)
    submit = np.sort(np.concatenate([rng.integers(0, 40_000, 200), np.full(count, 40_000)]))
    run, size = rng.integers(10, 4000, len(submit)), rng.integers(1, 5, len(submit))
    jobs = ClusterJobs(submit, run, run, size, 4)
    simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=count, visible_jobs=count))
    simulator.reset_env(0, np.random.default_rng(0), {"start": 200})
    while simulator.state.cluster[0]["waiting"] < count - 4:
        simulator.take(0, simulator.first(0, "fcfs"))
    return simulator


def test_the_better_half_of_the_candidates_goes_on():
    policy = GuardedRollout(crowd(), futures=24, first_round=3)
    costs = policy._scratch.costs
    costs[:] = np.nan
    job = policy.decide(0)
    tried = np.isfinite(costs).sum(axis=1)
    count = int((tried > 0).sum())
    assert count >= 16 and tried[0] == 24
    left, going_on = count, np.arange(count)
    for played in (3, 6, 12):
        totals = costs[:, :played].sum(axis=1)
        others = sorted(going_on[1:], key=lambda c: totals[c])
        left = 1 + left // 2
        dropped, going_on = others[left - 1 :], np.array([0, *others[: left - 1]])
        assert (tried[dropped] == played).all()
    assert (tried[going_on] == 24).all()
    gains = costs[0] - costs[going_on]
    safe = gains.mean(axis=1) - gains.std(axis=1, ddof=1) / np.sqrt(24)
    best = going_on[np.where(safe > 0, gains.mean(axis=1), 0.0).argmax()]
    assert job == policy._scratch.candidates[best]


@pytest.mark.parametrize("first_round", [8, 9, 1000])
def test_none_drops_out_where_the_first_round_has_every_future(first_round):
    policy = GuardedRollout(crowd(), futures=8, first_round=first_round)
    costs = policy._scratch.costs
    costs[:] = np.nan
    policy.decide(0)
    tried = np.isfinite(costs).sum(axis=1)
    assert set(tried) == {0, 8} and (tried == 8).sum() >= 16


def test_what_all_candidates_are_worth_is_of_all_futures():
    simulator = crowd()
    out = simulator.empty_observations()
    simulator.observe(out)
    rounds = GuardedRollout(simulator, futures=8, first_round=1).advantages(out)
    whole = GuardedRollout(simulator, futures=8, first_round=8).advantages(out)
    np.testing.assert_array_equal(rounds, whole)
