"""The rules of the cluster, on cases small enough to solve by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from greendc.cluster import CapacitySeries, ClusterConfig, ClusterJobs, ClusterSimulator
from greendc.cluster.columns import CAN_START, LEAST_CAPACITY, LOG_UNTIL_FIT
from greendc.cluster.layout import NEVER


def cluster_of(jobs, machine=4, **options):
    """A cluster of one episode: jobs are ``(submit, run, request, processors)``."""
    submit, run, request, processors = np.array(jobs).T
    table = ClusterJobs(submit, run, request, processors, machine)
    simulator = ClusterSimulator(ClusterConfig(workload=table, episode_jobs=len(jobs), **options))
    simulator.reset_env(0, np.random.default_rng(0))
    return simulator


def starts(simulator, rule="fcfs", **options):
    simulator.play(0, rule, **options)
    return simulator.state.jobs[0]["first_start"].tolist()


def finishes(simulator):
    simulator.play(0, "fcfs")
    return simulator.state.jobs[0]["finish"].tolist()


SHADOW = [(0, 10, 10, 3), (1, 10, 10, 4), (1, 9, 9, 1), (1, 20, 20, 1)]
"""The second job waits for the first; the third would end just when it can start."""


def test_easy_lets_jobs_pass_that_end_when_the_head_can_start():
    assert starts(cluster_of(SHADOW, backfill="easy")) == [0, 10, 1, 20]
    assert starts(cluster_of(SHADOW)) == [0, 10, 20, 20]


def test_rlscheduler_lets_jobs_pass_that_end_strictly_before():
    assert starts(cluster_of(SHADOW, profile="rlscheduler", backfill="easy")) == [0, 10, 20, 20]
    sooner = [*SHADOW[:2], (1, 8, 8, 1), SHADOW[3]]
    assert starts(cluster_of(sooner, profile="rlscheduler", backfill="easy")) == [0, 10, 1, 20]


def test_easy_gives_away_the_processors_that_the_head_will_spare():
    jobs = [(0, 10, 10, 3), (1, 10, 10, 3), (1, 100, 100, 1), (1, 100, 100, 1)]
    assert starts(cluster_of(jobs, backfill="easy")) == [0, 10, 1, 20]
    assert starts(cluster_of(jobs, backfill="easy", profile="rlscheduler")) == [0, 10, 10, 20]


def test_easy_gives_a_spare_processor_away_once():
    jobs = [(0, 10, 10, 3), (1, 10, 10, 5), (1, 100, 100, 1), (1, 100, 100, 1)]
    assert starts(cluster_of(jobs, machine=6, backfill="easy")) == [0, 10, 1, 20]


def test_conservative_delays_nobody_who_came_before():
    jobs = [(0, 10, 10, 2), (1, 10, 10, 3), (1, 10, 10, 4), (1, 30, 30, 1)]
    assert starts(cluster_of(jobs, backfill="easy")) == [0, 10, 31, 1]
    assert starts(cluster_of(jobs, backfill="conservative")) == [0, 10, 20, 30]


def test_conservative_keeps_what_was_promised_to_one_behind_a_job_that_starts():
    # The third starts. The fourth has room from 6 to 10, just before the second: the last may not take it.
    jobs = [(0, 10, 10, 3), (1, 10, 10, 5), (1, 5, 5, 1), (1, 4, 4, 3), (1, 9, 9, 1)]
    assert starts(cluster_of(jobs, machine=6, backfill="easy")) == [0, 10, 1, 20, 1]
    assert starts(cluster_of(jobs, machine=6, backfill="conservative")) == [0, 10, 1, 6, 10]


def test_rlscheduler_takes_arrivals_before_an_end_of_the_same_instant():
    jobs = [(0, 10, 10, 4), (5, 3, 3, 4), (10, 2, 2, 4), (10, 1, 1, 4)]
    # Both jobs of 10 wait before the first one ends, so that the shorter is next after the job chosen at 5.
    assert starts(cluster_of(jobs, profile="rlscheduler"), "sjf") == [0, 10, 14, 13]
    assert starts(cluster_of(jobs), "sjf") == [0, 13, 11, 10]


def test_rlscheduler_takes_arrivals_of_one_instant_one_at_a_time():
    jobs = [(0, 1, 1, 4), (10, 2, 2, 4), (10, 1, 1, 4)]
    assert starts(cluster_of(jobs, profile="rlscheduler"), "sjf") == [0, 10, 12]
    assert starts(cluster_of(jobs), "sjf") == [0, 11, 10]


def test_jobs_are_killed_at_their_limit_in_easy_and_not_in_rlscheduler():
    jobs = [(0, 50, 20, 4), (1, 5, 5, 4)]
    assert finishes(cluster_of(jobs)) == [20, 25]
    assert finishes(cluster_of(jobs, profile="rlscheduler")) == [50, 55]


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        ("fcfs", [1, 2, 3, 4]),
        ("sjf", [2, 3, 1, 4]),
        ("smallest", [1, 4, 3, 2]),
        ("saf", [2, 3, 1, 4]),
        ("wspt", [2, 3, 1, 4]),
        ("f1", [1, 3, 4, 2]),
    ],
)
def test_rules_order_the_queue(rule, order):
    # Any two of the waiting jobs exceed the cluster, so that they run one after the other.
    jobs = [(100, 10, 10, 97), (101, 60, 60, 49), (101, 20, 20, 97), (101, 30, 30, 70), (101, 100, 100, 60)]
    found = starts(cluster_of(jobs, machine=97), rule)
    assert sorted(range(1, 5), key=lambda job: found[job]) == order


def test_wfp3_takes_the_third_power_of_the_wait():
    # When the first ends, the others have waited 1.95 and 1.5 times their length: the smaller one is next by
    # third powers (371 to 304), the larger one would be by squares (190 to 203).
    found = starts(cluster_of([(0, 40, 40, 97), (1, 20, 20, 50), (10, 20, 20, 90)], machine=97), "wfp3")
    assert found == [0, 40, 60]


ON_DROP = {
    # Finishes of both jobs, processor-seconds wasted and beyond the capacity, preemptions.
    "admit_only": ([150, 200], 0, 100, 0),
    "kill_requeue": ([150, 300], 100, 0, 1),
    "suspend": ([150, 250], 0, 0, 1),
    "checkpoint": ([150, 257], 14, 0, 1),
}


@pytest.mark.parametrize("on_drop", ON_DROP)
def test_the_latest_started_gives_way_when_power_falls(on_drop):
    power = CapacitySeries(np.array([0, 100]), np.array([4, 2]), 1000)
    cost = 7 if on_drop == "checkpoint" else 0
    jobs = [(0, 150, 150, 2), (50, 150, 150, 2)]
    simulator = cluster_of(jobs, power=power, on_drop=on_drop, checkpoint_seconds=cost)
    finish, wasted, excess, preemptions = ON_DROP[on_drop]
    assert finishes(simulator) == finish
    cluster = simulator.state.cluster[0]
    assert (cluster["wasted"], cluster["excess"], cluster["preemptions"]) == (wasted, excess, preemptions)
    busy = 2 * (150 + 150) + wasted
    assert cluster["busy"] == busy
    powered = 4 * 100 + 2 * (finish[-1] - 100)
    assert simulator.episode_metrics(0)["utilization"] == (busy - excess) / powered <= 1.0


def test_what_runs_beyond_the_power_is_no_use_of_it():
    power = CapacitySeries(np.array([0, 3600]), np.array([4, 1]), 86_400)
    simulator = cluster_of([(0, 7200, 7200, 4)], power=power, busy_watts=1000.0, idle_watts=100.0)
    simulator.play(0, "fcfs")
    metrics = simulator.episode_metrics(0)
    assert metrics["utilization"] == 1.0  # of 4 processors for an hour, then of one
    assert metrics["excess_processor_hours"] == 3.0
    assert metrics["energy_kwh"] == pytest.approx(8.0)  # all that ran


def test_one_processor_too_many_is_too_many():
    power = CapacitySeries(np.array([0, 100]), np.array([4, 2]), 1000)
    simulator = cluster_of([(0, 150, 150, 3)], power=power, on_drop="suspend")
    assert finishes(simulator) == [1050]
    assert simulator.state.cluster[0]["excess"] == 0


def test_restoring_a_checkpoint_is_no_work():
    power = CapacitySeries(np.array([0, 100, 200, 250, 400]), np.array([4, 2, 4, 2, 4]), 10_000)
    simulator = cluster_of([(0, 300, 300, 4)], power=power, on_drop="checkpoint", checkpoint_seconds=7)
    # 100 s of work, then 7 s of restoring and 43 s of work, then 7 s and the other 157 s
    assert finishes(simulator) == [400 + 7 + 157]
    assert simulator.state.cluster[0]["wasted"] == 4 * (7 + 7)


def test_at_one_instant_jobs_end_before_power_falls_and_wait_after_it():
    power = CapacitySeries(np.array([0, 100]), np.array([4, 2]), 1000)
    # The first ends at 100, so the second may go on; the third, which comes then, waits for it.
    jobs = [(0, 100, 100, 2), (10, 200, 200, 2), (100, 5, 5, 2)]
    simulator = cluster_of(jobs, power=power, on_drop="kill_requeue")
    assert finishes(simulator) == [100, 210, 215]
    assert simulator.state.cluster[0]["preemptions"] == 0


def test_admission_by_forecast_waits_where_all_of_a_job_has_room_later():
    power = CapacitySeries(np.array([0, 100, 300]), np.array([4, 1, 4]), 10_000)
    jobs = [(0, 150, 150, 2), (0, 50, 50, 2)]
    options = {"power": power, "on_drop": "kill_requeue"}
    assert starts(cluster_of(jobs, **options)) == [0, 0]
    by_forecast = cluster_of(jobs, admission="forecast", **options)
    assert starts(by_forecast, fitting=True) == [300, 0]
    assert by_forecast.state.cluster[0]["wasted"] == 0


def test_a_job_that_no_time_of_the_forecast_holds_starts_as_soon_as_it_fits():
    power = CapacitySeries(np.array([0, 100, 300]), np.array([4, 1, 4]), 1000)
    simulator = cluster_of([(0, 5000, 5000, 4)], power=power, on_drop="suspend", admission="forecast")
    assert starts(simulator) == [0]
    # It is suspended from 100 to 300 of every 1,000: 800 s of work in each, and 200 after six of them.
    assert simulator.state.jobs[0]["finish"][0] == 6 * 1000 + 100 + 200 + 100
    assert simulator.state.cluster[0]["preemptions"] == 7


def test_nothing_depends_on_the_run_time_of_a_job_that_is_not_done():
    rng = np.random.default_rng(3)
    count = 40
    submit = np.cumsum(rng.integers(0, 40, count))
    request = rng.integers(50, 400, count)
    jobs = np.stack([submit, request, request, rng.integers(1, 5, count)], axis=1)
    first = cluster_of(jobs, backfill="easy")
    jobs[0, 1] = jobs[0, 2] // 2
    second = cluster_of(jobs, backfill="easy")
    one, other = first.empty_observations(), second.empty_observations()
    first.observe(one)
    second.observe(other)
    steps = 0
    end = int(jobs[0, 0] + jobs[0, 1])
    while first.state.cluster["now"][0] < end and second.state.cluster["now"][0] < end:
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])
        action = np.flatnonzero(one["action_mask"][0])[:1]
        first.step(action, one)
        second.step(action, other)
        steps += 1
    assert steps > 3


def test_observation_says_when_a_job_can_start_and_under_what_power():
    power = CapacitySeries(np.array([0, 3600]), np.array([4, 2]), 86_400)
    simulator = cluster_of([(0, 900, 900, 3), (0, 7200, 7200, 3), (0, 60, 60, 1)], power=power)
    out = simulator.empty_observations()
    simulator.step(np.array([0]), simulator.empty_observations())
    simulator.observe(out)
    rows = out["jobs"][0]
    assert rows[:2, CAN_START].tolist() == [0.0, 1.0]
    assert rows[0, LOG_UNTIL_FIT] == pytest.approx(np.log(901) / np.log(30 * 86_400))
    assert rows[:2, LEAST_CAPACITY].tolist() == [0.5, 1.0]
    assert out["action_mask"][0].tolist()[:3] == [0, 1, 0]
    assert out["action_mask"][0, -1] == 1
    assert out["cluster"][0, 0] == 0.25
    np.testing.assert_array_equal(out["capacity"][0, :4], [1.0, 1.0, 0.5, 0.5])


def test_rewards_add_up_to_the_mean_bounded_slowdown():
    jobs = [(0, 30, 30, 4), (0, 5, 5, 4), (10, 40, 40, 4)]
    simulator = cluster_of(jobs)
    out = simulator.empty_observations()
    rewards = []
    while not simulator.truncated[0]:
        simulator.step(np.array([0]), out)
        rewards.append(simulator.rewards[0])
    slowdowns = [1.0, 35 / 10, 65 / 40]
    assert sum(rewards) == pytest.approx(-sum(slowdowns) / 3)
    waits = [30 / 10 - 5 / 10 + 20 / 40, 5 / 40, 0.0]  # while each ran; 5 s are free
    np.testing.assert_allclose(rewards, [-(1.0 + wait) / 3 for wait in waits], rtol=1e-12)
    metrics = simulator.episode_metrics(0)
    assert metrics["mean_bounded_slowdown"] == pytest.approx(sum(slowdowns) / 3)
    assert metrics["longest_wait_h"] == pytest.approx(30 / 3600)
    assert metrics["utilization"] == 1.0
    assert metrics["energy_kwh"] == pytest.approx(75 * 4 * 0.2 / 3600)
    assert metrics["carbon_kg"] == pytest.approx(0.4 * metrics["energy_kwh"])
    assert metrics["finished_jobs"] == 3


def test_hours_of_waiting_are_paid_while_they_pass():
    simulator = cluster_of([(0, 3600, 3600, 4), (0, 1800, 1800, 4), (1800, 60, 60, 4)], reward="wait")
    out, rewards = simulator.empty_observations(), []
    while not simulator.truncated[0]:
        simulator.step(np.array([0]), out)
        rewards.append(simulator.rewards[0])
    np.testing.assert_allclose(rewards, [-(1.0 + 0.5) / 3, -0.5 / 3, 0.0], atol=1e-12)


def test_an_episode_is_cut_and_who_waits_pays():
    power = CapacitySeries(np.array([0, 3600]), np.array([4, 1]), 86_400)
    simulator = cluster_of([(0, 60, 60, 1), (0, 60, 60, 4)], power=power, limit_days=1.0)
    out, total = simulator.empty_observations(), 0.0
    for action in (0, 128):  # start the first; when it is done, wait
        assert not simulator.truncated[0]
        simulator.step(np.array([action]), out)
        total += simulator.rewards[0]
    assert simulator.truncated[0] and simulator.state.cluster["now"][0] == 86_400
    assert total == pytest.approx(-(1.0 + (86_400 + 60) / 60) / 2)
    assert simulator.state.jobs[0]["first_start"].tolist() == [0, NEVER]


def test_time_and_value_of_jobs_with_deadlines():
    submit, run, request, processors = np.array([(0, 3600, 3600, 4), (0, 3600, 3600, 4)]).T
    table = ClusterJobs(submit, run, request, processors, 4)
    jobs = dataclasses.replace(table, deadline=np.array([3600, 7199]), value=np.array([2.0, 5.0]))
    simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=2, reward="value"))
    simulator.reset_env(0, np.random.default_rng(0))
    out, total = simulator.empty_observations(), 0.0
    while not simulator.truncated[0]:
        simulator.step(np.array([0]), out)
        total += simulator.rewards[0]
    metrics = simulator.episode_metrics(0)
    assert (metrics["value"], metrics["on_time_share"]) == (2.0, 0.5)
    assert total == pytest.approx(2.0 / 3.5)


def test_no_more_than_the_visible_jobs_are_seen_half_of_them_the_oldest():
    jobs = [(0, 9, 9, 4)] + [(1, 1000 - 10 * k, 1000 - 10 * k, 4) for k in range(20)]
    simulator = cluster_of(jobs, visible_jobs=6)
    simulator.step(np.array([0]), simulator.empty_observations())
    assert simulator.state.visible[0].tolist() == [1, 2, 3, 20, 19, 18]


@pytest.mark.parametrize("option", ["fitting", "predicted"])
@pytest.mark.parametrize("value", ["yes", 3, 0.5, None])
def test_an_option_of_a_rule_that_is_neither_true_nor_false_is_named(option, value):
    simulator = ClusterSimulator(ClusterConfig(workload_jobs=10, episode_jobs=5))
    simulator.reset_env(0, np.random.default_rng(0), {})
    for method in (simulator.play, simulator.first):
        with pytest.raises(ValueError, match=f"{option}=.*: must be true or false"):
            method(0, "sjf", **{option: value})
