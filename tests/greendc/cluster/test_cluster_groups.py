"""Run times that users' jobs so far let expect."""

import numpy as np
import pytest

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
