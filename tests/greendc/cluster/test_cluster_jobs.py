"""Jobs from logs, generated jobs, and power as processors."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from greendc.cluster import (
    CapacitySeries,
    ClusterConfig,
    ClusterJobs,
    ClusterSimulator,
    lublin_jobs,
    read_jobs,
)
from greendc.cluster.power import green_capacity
from greendc.traces.swf import parse_swf

LINES = """; MaxProcs: 16
1 0.5 3 100.2 4 -1 -1 2 200 -1 1 7 -1 -1 -1 -1 -1 -1
2 5 -1 -1 2 -1 -1 2 50 -1 1 7 -1 -1 -1 -1 -1 -1
4 9 0 30 8 -1 -1 -1 -1 -1 1 9 -1 -1 -1 -1 -1 -1
3 9 0 80 -1 -1 -1 3 60 -1 1 -1 -1 -1 -1 -1 -1 -1
5 12 0 0 1 -1 -1 1 60 -1 1 9 -1 -1 -1 -1 -1 -1
6 13 0 10 1 -1 -1 1 60 -1 3 9 -1 -1 -1 -1 -1 -1
7 14 0 10 99 -1 -1 1 60 -1 1 9 -1 -1 -1 -1 -1 -1
"""
LOG = parse_swf(LINES.encode(), "test.swf")


def columns(jobs, *names):
    return [getattr(jobs, name).tolist() for name in names]


def test_a_log_is_read_strictly():
    jobs = ClusterJobs.from_log(LOG)
    found = columns(jobs, "number", "submit", "run", "request", "processors", "user", "done")
    assert found == [[1, 4, 3], [0, 9, 9], [101, 30, 80], [200, 30, 60], [4, 8, 3], [7, 9, -1], [104, 39, 89]]
    assert jobs.machine == 16
    left_out = {"partial_executions": 1, "never_ran": 2, "above_machine": 1, "beyond_most": 0}
    assert jobs.counts == {"read": 7, **left_out, "no_request": 1, "beyond_request": 1}
    assert ClusterJobs.from_log(LOG, most=1).counts["beyond_most"] == 2
    table = LOG.table.copy()
    table[table[:, 10] == 3, 3] = np.nan  # a part that did not run is one of the parts alone
    assert ClusterJobs.from_log(dataclasses.replace(LOG, table=table)).counts == jobs.counts


def test_a_log_is_read_as_rlscheduler_reads_it():
    jobs = ClusterJobs.from_log(dataclasses.replace(LOG, table=LOG.table[:6]), "rlscheduler")
    found = columns(jobs, "number", "run", "request", "processors")
    assert found == [[1, 2, 3, 4, 6], [101, 10, 80, 30, 10], [200, 50, 60, 30, 60], [4, 2, 3, 8, 1]]
    assert len(ClusterJobs.from_log(LOG, "rlscheduler", processors=128, most=2)) == 2


ARRAYS = {
    name: np.array(values) for name, values in {"submit": [0, 5], "run": [1, 1], "request": [2, 2]}.items()
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"submit": np.array([5, 0])}, r"submit\[1\]='0 after 5': must be no earlier"),
        ({"run": np.array([0, 1])}, r"run\[0\]=0: must be from 1"),
        ({"request": np.array([1.5, 1.0])}, "request='of dtype float64': must be whole numbers"),
        ({"processors": np.array([1, 9])}, r"processors\[1\]=9: must be from 1 to 8"),
        ({"user": np.array([1])}, "user='of shape"),
        ({"value": np.array([1.0, np.nan])}, "value="),
        ({"machine": 0}, "machine=0"),
        ({"submit": np.array([], np.int64)}, "submit='of shape"),
    ],
)
def test_errors_name_the_array(change, words):
    arguments = {**ARRAYS, "processors": np.array([1, 8]), "machine": 8, **change}
    with pytest.raises(ValueError, match=words):
        ClusterJobs(**arguments)


def test_generated_jobs_are_those_of_their_seed():
    jobs, padded = lublin_jobs(1, 500), lublin_jobs(1, 500, overestimate=3.0)
    assert columns(jobs, "submit", "run") == columns(lublin_jobs(1, 500), "submit", "run")
    assert (jobs.request == jobs.run).all() and (padded.run == jobs.run).all()
    factors = padded.request / padded.run
    assert factors.min() >= 1 and 1.8 < np.median(factors) < 2.2 and factors.max() <= 3 + 1
    assert jobs.processors.max() <= 256 and jobs.machine == 256


def test_qos_values_make_deadlines_and_values():
    jobs = lublin_jobs(0, 300).with_qos(0.25, 5)
    slack = (jobs.deadline - jobs.submit) / jobs.request
    assert slack.min() >= 1 - 1 / jobs.request.min() and slack.max() <= 4
    assert (jobs.value <= jobs.request * jobs.processors / 3600).all()


def test_capacity_repeats_and_can_be_delayed():
    series = CapacitySeries(np.array([0, 10, 20, 30]), np.array([5, 5, 0, 7]), 40)
    assert series.times.tolist() == [0, 20, 30]  # what changes nothing is left out
    assert [series.at(t) for t in (0, 19, 20, 29, 30, 39, 40, 60)] == [5, 5, 0, 0, 7, 7, 5, 0]
    later = series.delayed(15)
    assert [later.at(t) for t in range(80)] == [series.at(t + 25) for t in range(80)]
    assert series.greatest == 7


@pytest.mark.parametrize(
    ("times", "processors", "period", "words"),
    [
        ([1, 2], [1, 1], 9, r"times\[0\]=1: must be 0"),
        ([0, 2, 2], [1, 2, 3], 9, "times=.*rising"),
        ([0, 9], [1, 2], 9, r"times\[1\]=9: must be below period=9"),
        ([0, 1], [1, -2], 9, "processors="),
        ([0, 1], [1], 9, "processors='of shape"),
        ([0], [1], 0, "period=0"),
    ],
)
def test_errors_of_capacity_name_the_array(times, processors, period, words):
    with pytest.raises(ValueError, match=words):
        CapacitySeries(np.array(times), np.array(processors), period)


def test_green_capacity_keeps_to_floor_and_mean():
    series = green_capacity(100, 0.2, floor=0.3, share=0.5)
    assert series.period == 8760 * 3600
    assert series.processors.min() == 30 and series.processors.max() == 100
    hours = np.array([series.at(3600 * hour) for hour in range(0, 8760, 7)])
    assert 45 < hours.mean() < 65


def test_a_job_that_no_capacity_will_hold_is_refused_by_name():
    jobs = dataclasses.replace(lublin_jobs(0, 50), number=np.arange(1000, 1050))
    largest = int(jobs.processors.argmax())
    size = int(jobs.processors[largest])
    power = CapacitySeries(np.array([0]), np.array([size - 1]), 86_400)
    config = ClusterConfig(workload=jobs, episode_jobs=10, power=power)
    with pytest.raises(ValueError, match=f"workload='job {1000 + largest} of {size} processors'"):
        ClusterSimulator(config)


def test_an_export_of_sacct_is_a_workload(tmp_path):
    day = "2024-03-01T"
    lines = (
        "JobID|User|Submit|Start|End|Elapsed|Timelimit|NCPUS|State",
        f"101|ann|{day}09:10:00|{day}10:05:00|{day}11:05:00|01:00:00|02:00:00|4|COMPLETED",
        f"101.batch||{day}10:05:00|{day}10:05:00|{day}11:05:00|01:00:00||4|COMPLETED",
        f"102|bob|{day}09:00:00|{day}10:00:00|{day}10:30:00|30:00|UNLIMITED|8|COMPLETED",
        f"103|ann|{day}09:30:00|Unknown|Unknown|00:00:00|10:00|1|PENDING",
        f"104|ann|{day}09:40:00|{day}10:40:00|{day}10:50:00|10:00|20:00|2|FAILED",
    )
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join(lines) + "\n")
    jobs = read_jobs(path, processors=16)
    assert columns(jobs, "submit", "run", "request", "processors") == [
        [0, 600, 2400],
        [1800, 3600, 600],
        [1800, 7200, 1200],
        [8, 4, 2],
    ]
    assert (jobs.counts["steps"], jobs.counts["not_started"], jobs.counts["no_request"]) == (1, 1, 1)
    with pytest.warns(UserWarning, match=r"1 of the 3 jobs of .*jobs.txt are left out: .* more than 4 proc"):
        ClusterSimulator(ClusterConfig(workload=path, episode_jobs=2, processors=4))
    simulator = ClusterSimulator(ClusterConfig(workload=path, episode_jobs=3, processors=12))
    simulator.reset_env(0, np.random.default_rng(0))
    simulator.play(0, "fcfs")
    assert simulator.episode_metrics(0)["finished_jobs"] == 3
    path.write_text("\n".join(lines).replace("01:00:00|02", "later|02") + "\n")
    with pytest.raises(ValueError, match=r"jobs.txt:2: elapsed=.later.: must be a duration"):
        read_jobs(path)


def test_no_processor_is_lost_to_rounding():
    assert CapacitySeries.from_kilowatts(np.array([0.6]), 1.0, 10, 0.2, 0.0).processors.tolist() == [3]
    assert CapacitySeries.from_kilowatts(np.array([0.0]), 1.0, 100, 0.2, 0.29).processors.tolist() == [29]


def test_a_request_of_no_time_and_a_part_of_a_processor():
    lines = (
        "1 0 0 100 0.5 -1 -1 -1 0 -1 1 7 -1 -1 -1 -1 -1 -1",
        "2 5 0 50 2.5 -1 -1 -1 10 -1 1 7 -1 -1 -1 -1 -1 -1",
    )
    jobs = ClusterJobs.from_log(parse_swf("\n".join((*lines, "")).encode(), "test.swf"), processors=4)
    assert columns(jobs, "processors", "request") == [[1, 3], [100, 10]]
    assert jobs.counts["no_request"] == 1


def test_rlscheduler_reads_logs_whose_numbers_rise_with_submission():
    lines = (
        "1 100 0 10 4 -1 -1 4 20 -1 1 7 -1 -1 -1 -1 -1 -1",
        "2 50 0 10 2 -1 -1 2 20 -1 1 7 -1 -1 -1 -1 -1 -1",
    )
    log = parse_swf("\n".join((*lines, "")).encode(), "test.swf")
    with pytest.raises(
        ValueError, match=r"test\.swf: job 2 was submitted at 50, after job 1 at 100: reading="
    ):
        ClusterJobs.from_log(log, "rlscheduler")
    assert columns(ClusterJobs.from_log(log), "submit") == [[50, 100]]


def test_generated_jobs_need_some_processors():
    with pytest.raises(ValueError, match="processors=4: must be at least 16 for generated jobs"):
        ClusterSimulator(ClusterConfig(processors=4))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"power_start": "log"}, "power_start='log': has no effect without power that changes"),
        ({"power_floor": 0.1}, "power_floor=0.1: has no effect without power='green'"),
        (
            {"power_share": 0.1, "power": CapacitySeries(np.zeros(1, np.int64), np.ones(1, np.int64), 9)},
            "power_share=0.1: has no effect without power='green'",
        ),
        ({"workload": "my.swf", "overestimate": 2.0}, "overestimate=2.0: has no effect beside a log"),
        ({"workload": "my.swf", "workload_jobs": 9}, "workload_jobs=9: has no effect beside a log"),
        ({"carbon": True}, "carbon=True: must be 0 to 5 kg"),
        ({"carbon": np.float32(9)}, "carbon=.*9.*: must be 0 to 5 kg"),
    ],
)
def test_options_without_an_effect_and_wrong_numbers_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ClusterConfig(**options)
    assert ClusterConfig(carbon=np.float32(0.25)).carbon == 0.25


def test_an_episode_that_nothing_cuts_has_processor_seconds_that_can_be_counted():
    run = np.array([2**40, 5])
    table = ClusterJobs(np.array([0, 2**40]), run, run, np.full(2, 10**9), 10**9)
    options = {"workload": table, "episode_jobs": 2}
    with pytest.raises(ValueError, match=r"workload='up to 2.2e.12 s on 1000000000 processors'"):
        ClusterSimulator(ClusterConfig(profile="rlscheduler", **options))
    ClusterSimulator(ClusterConfig(**options))  # the profile easy is cut after limit_days


def test_a_log_of_which_no_job_fits_says_on_how_many_processors():
    with pytest.raises(ValueError, match=r"log='test.swf': must be one with a job that ran, on at most 2"):
        ClusterJobs.from_log(LOG, processors=2)
