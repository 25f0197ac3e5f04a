"""Run times that users' jobs so far let expect."""

import numpy as np
import pytest

from greendc.baselines.cluster import GuardedRollout
from greendc.cluster import ClusterConfig, ClusterJobs, ClusterSimulator, layout
from greendc.cluster.columns import EXPECTED_INVERSE
from greendc.cluster.kernel_groups import FAILING, OLDER, PRIOR


def expected_of_last(past, request=1000, processors=1, user=0, **columns):
    """Ten seconds over the run time expected of a job that arrives when the jobs of ``past`` are done."""
    runs, requests, widths, users = zip(*past, strict=True)
    count = len(past)
    jobs = ClusterJobs(
        submit=np.r_[1000 * np.arange(count), np.full(2, 10**6)],
        run=np.array([*runs, 500, 500]),
        request=np.array([*requests, request, 1]),
        processors=np.array([*widths, processors, 1]),
        machine=8,
        user=np.array([*users, user, layout.NOBODY]),
        **columns,
    )
    config = ClusterConfig(profile="rlscheduler", workload=jobs, episode_jobs=2, visible_jobs=1)
    simulator = ClusterSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0), {"start": count})
    seen = simulator.empty_observations()
    simulator.observe(seen)
    return seen["jobs"][0, 0, EXPECTED_INVERSE].item()


def mixed(known, wider):
    """What inverse run times in one group, the latest last, and the wider one let expect."""
    total = count = 0.0
    for inverse in known:
        total, count = OLDER * total + inverse, OLDER * count + 1.0
    return (total + PRIOR * wider) / (count + PRIOR)


def with_failures(inverse):
    return (1.0 - FAILING) * inverse + FAILING / layout.SHORT_RUN


def test_what_a_user_requests_is_the_least_that_is_known():
    assert expected_of_last([(20, 50, 1, 1)]) == pytest.approx(10 * with_failures(1 / 1000))


def test_of_a_user_the_latest_jobs_count_most():
    of_user = mixed([1 / 20, 1 / 400], 1 / 1000)
    found = expected_of_last([(20, 50, 1, 0), (400, 500, 1, 0)])
    assert found == pytest.approx(10 * with_failures(of_user))
    assert found < expected_of_last([(400, 500, 1, 0), (20, 50, 1, 0)])


def test_jobs_with_the_same_request_and_of_the_same_width_count_again():
    of_user = mixed([1 / 20, 1 / 400, 1 / 600], 1 / 1000)
    alike = mixed([1 / 20, 1 / 400], of_user)
    same = mixed([1 / 400], alike)
    found = expected_of_last([(20, 1000, 1, 0), (400, 1000, 4, 0), (600, 900, 4, 0)], processors=4)
    assert found == pytest.approx(10 * with_failures(same))


def test_the_latest_is_the_one_that_ended_last():
    past = [(20, 50, 1, 0), (400, 500, 1, 0)]
    ended_last = np.array([9000, 6000, 10**6 + 500, 10**6 + 500])
    turned = expected_of_last(past, done=ended_last)
    assert turned == pytest.approx(expected_of_last([(400, 500, 1, 0), (20, 50, 1, 0)]))
    unfinished = np.array([10**6 + 1, 6000, 10**6 + 500, 10**6 + 500])
    assert expected_of_last(past, done=unfinished) == pytest.approx(expected_of_last([(400, 500, 1, 0)]))


def test_nothing_is_expected_of_a_job_whose_user_is_not_known_but_its_request():
    past = [(20, 1000, 1, 0), (20, 1000, 1, layout.NOBODY)]
    assert expected_of_last(past, user=layout.NOBODY) == pytest.approx(10 / 1000)


@pytest.fixture(scope="module")
def plans():
    """Run times, weights and inverse run times of two waiting jobs in a thousand futures.

    The first is of a user whose jobs before took 100 s and 400 s; of the second the user is not known.
    """
    jobs = ClusterJobs(
        submit=np.array([0, 1000, 10**6, 10**6, 10**6]),
        run=np.array([100, 400, 50, 50, 50]),
        request=np.array([1000, 1000, 1000, 1000, 300]),
        processors=np.array([1, 1, 4, 2, 2]),
        machine=4,
        user=np.array([0, 0, layout.NOBODY, 0, layout.NOBODY]),
    )
    simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=3))
    simulator.reset_env(0, np.random.default_rng(0), {"start": 2})
    policy = GuardedRollout(simulator, futures=1000, horizon=1, lightest=3)
    simulator.take(0, 0)
    policy.decide(0)
    waiting, horizon = 2, 1
    log = policy._plan_world.log[: 1000 * (waiting + horizon)].reshape(1000, -1)
    return {name: log[name][:, :waiting] for name in ("run", "weight", "inverse")}


def test_futures_draw_how_long_a_known_users_jobs_run(plans):
    runs = plans["run"][:, 0]
    assert len(np.unique(runs)) > 100
    assert runs.min() >= 1 and runs.max() <= 1000
    assert (plans["inverse"][:, 0] == 1 / np.maximum(runs, 10)).all()
    assert (plans["run"][:, 1] == 300).all() and (plans["inverse"][:, 1] == 1 / 300).all()


def test_drawn_run_times_lie_about_the_expected_one(plans):
    run = mixed([100, 400], mixed([100, 400], 1000))  # of its user, and of those with its request
    inverse = with_failures(mixed([1 / 100, 1 / 400], mixed([1 / 100, 1 / 400], 1 / 1000)))
    low, middle, high = np.quantile(np.log(plans["run"][:, 0]), [0.25, 0.5, 0.75])
    assert middle == pytest.approx(0.5 * np.log(run / inverse), abs=0.1)
    scale = np.sqrt(np.log(run * inverse)) * np.sqrt(3) / np.pi
    assert high - low == pytest.approx(2 * np.log(3) * scale, rel=0.15)


def test_rules_go_by_what_is_expected_in_every_future(plans):
    assert len(np.unique(plans["weight"][:, 0])) == 1
