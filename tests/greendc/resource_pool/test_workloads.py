"""Workloads: the stated distributions, the offered load, logs job by job, and nothing dropped uncounted."""

import pickle
import re
from collections import Counter

import numpy as np
import pytest

from greendc.resource_pool.hpc_workloads import log_workload, lublin_workload
from greendc.resource_pool.jobs import JobArrays, job_values, require_fit
from greendc.resource_pool.workloads import SyntheticWorkload, Workload, make_workload
from greendc.traces import read_swf
from greendc.traces.sacct import read_sacct
from greendc.traces.swf import parse_swf

POOL = {"units": 10, "resource_types": 2, "horizon": 48}
NAMES = ("synthetic", "bernoulli", "jobs_per_step", "lublin", "hpc")
LOGS = (
    "swf/KTH-SP2_swf_unfiltered_log.swf.gz",
    "swf/lublin_256.swf.gz",
    "derived/mira_2018_from_lumos.swf.gz",
)


def sample(workload, steps, seed=0):
    return workload.sample(np.random.default_rng(seed), steps)


def episodes(workload, steps=500, count=400):
    rng = np.random.default_rng(1)
    return [workload.sample(rng, steps) for _ in range(count)]


def offered_load(jobs, units, steps):
    """Return the work of the busiest type as a share of what the pool can do."""
    return sum((job.units * job.duration[:, None]).sum(axis=0) for job in jobs).max() / (
        units * steps * len(jobs)
    )


def make_log(jobs, header="; MaxProcs: 100\n"):
    """Build a log from (submit seconds, run seconds, processors)."""
    rows = [
        f"{n} {submit} -1 {run} {processors} -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1"
        for n, (submit, run, processors) in enumerate(jobs)
    ]
    return parse_swf((header + "\n".join(rows) + "\n").encode(), "test.swf")


def close(shares, expected, count):
    """Whether shares of ``count`` draws are within five standard errors."""
    expected = np.asarray(expected)
    return (np.abs(shares - expected) < 5 * np.sqrt(expected * (1 - expected) / count) + 1e-12).all()


# Every workload


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("units", "types", "horizon", "load"), [(10, 2, 48, 1.0), (50, 1, 12, 0.4), (300, 3, 72, 0.8)]
)
def test_means_and_fit(name, units, types, horizon, load):
    workload = make_workload(name, units=units, resource_types=types, horizon=horizon, offered_load=load)
    assert isinstance(workload, Workload)
    jobs = episodes(workload)
    for episode in jobs:
        require_fit(episode, units, horizon)
        assert episode.resource_types == types
        assert len(episode) == 0 or episode.arrival[-1] < 500
    duration = np.concatenate([episode.duration for episode in jobs])
    demand = np.concatenate([episode.units for episode in jobs])
    prices = (1.0, 0.5, 2.0)[:types]
    value = np.concatenate([job_values(episode, prices) for episode in jobs])
    for found, stated in (
        (duration, workload.mean_duration),
        *zip(demand.T, workload.mean_units, strict=True),
        (value, workload.mean_value(prices)),
    ):
        # Windows of a recording overlap: their error is that of the recording's independent parts.
        assert found.mean() == pytest.approx(stated, rel=0.02, abs=1e-12)


@pytest.mark.parametrize("name", ["synthetic", "lublin", "hpc"])
@pytest.mark.parametrize(("units", "load"), [(10, 1.0), (50, 0.4), (300, 1.2)])
@pytest.mark.parametrize("horizon", [48, 8])
def test_offered_load(name, units, load, horizon):
    workload = make_workload(name, units=units, resource_types=2, horizon=horizon, offered_load=load)
    # All of a recording, or many jobs.
    steps = 100_000 if name == "synthetic" else round(workload.length)
    jobs = sample(workload, steps)
    assert len(jobs) / steps == pytest.approx(workload.jobs_per_step, rel=0.02)
    assert offered_load([jobs], units, steps) == pytest.approx(load, rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_the_generator_alone_fixes_the_sample(name):
    workload = make_workload(name, **POOL)
    first = sample(workload, 300, seed=7)
    assert len(first) > 20
    sample(workload, 300, seed=8)
    for other in (workload, pickle.loads(pickle.dumps(workload)), make_workload(name, **POOL)):
        again = sample(other, 300, seed=7)
        for field in ("arrival", "duration", "units", "qos"):
            np.testing.assert_array_equal(getattr(first, field), getattr(again, field))
    assert not np.array_equal(sample(workload, 300, seed=8).qos, first.qos)


# Synthetic jobs


def test_synthetic_distributions():
    jobs = sample(
        SyntheticWorkload(units=11, resource_types=3, offered_load=1.0, arrivals="jobs_per_step"), 200_000
    )
    count = len(jobs)
    assert count == pytest.approx(200_000, abs=5 * np.sqrt(200_000))
    expected = np.zeros(31)
    expected[1:11] += 0.7 / 10
    expected[10:31] += 0.3 / 21
    assert close(np.bincount(jobs.duration, minlength=31) / count, expected, count)
    assert close(np.bincount(jobs.units[:, 0], minlength=6) / count, [0, *[1 / 5] * 5], count)
    for column in (1, 2):
        assert close(np.bincount(jobs.units[:, column], minlength=6) / count, [1 / 6] * 6, count)
    assert close(np.histogram(jobs.qos, bins=8, range=(0.1, 0.9))[0] / count, [1 / 8] * 8, count)
    table = np.column_stack([jobs.duration, jobs.units, jobs.qos])
    correlation = np.corrcoef(table.T) - np.eye(5)
    assert np.abs(correlation).max() < 5 / np.sqrt(count)


def test_poisson_arrivals():
    """Counts of a step are Poisson, and independent of those of the step before."""
    workload = make_workload("synthetic", **POOL)
    assert workload.jobs_per_step == pytest.approx(10 / (9.85 * 3.0))
    counts = np.bincount(sample(workload, 100_000).arrival, minlength=100_000)
    rate = workload.jobs_per_step
    assert counts.mean() == pytest.approx(rate, rel=0.03)
    assert counts.var() == pytest.approx(rate, rel=0.05)
    assert abs(np.corrcoef(counts[1:], counts[:-1])[0, 1]) < 0.02


def test_bernoulli_arrivals():
    """SC20's 50 %: a job every other step, never two."""
    workload = make_workload("bernoulli", **POOL, offered_load=0.5)
    counts = np.bincount(sample(workload, 10_000).arrival, minlength=10_000)
    assert counts.max() == 1
    assert close(counts.mean(), 0.5, 10_000)
    every = make_workload("bernoulli", **POOL, offered_load=1.0)
    np.testing.assert_array_equal(sample(every, 100).arrival, np.arange(100))


def test_clipped_synthetic_jobs_are_counted():
    workload = SyntheticWorkload(units=10, horizon=12)
    jobs = sample(workload, 50_000)
    assert jobs.duration.max() == 12
    assert workload.counts["sampled"] == len(jobs)
    # Of the durations 10 to 30 of the long jobs, 18 of 21 are above 12.
    assert close(workload.counts["clipped_duration"] / len(jobs), 0.3 * 18 / 21, len(jobs))
    assert SyntheticWorkload(units=10, horizon=30).counts == {"sampled": 0, "clipped_duration": 0}


def test_a_pool_of_one_unit():
    jobs = sample(SyntheticWorkload(units=1), 1000)
    assert set(jobs.units[:, 0]) == {1}
    assert set(jobs.units[:, 1]) == {0, 1}


# Logs


def test_a_log_job_by_job():
    """Hand-made, in its own time: the header says that second 0 is 22:00 of the day before."""
    log = make_log(
        [
            (7200 + 1800, 3600, 10),  # 00:30, one step, 1 of 10 units
            (7200 + 3600, 3601, 11),  # 01:00, a second more than a step, a processor more than a unit
            (7200 + 24 * 3600, 1, 1),  # 24:00
            (7200 + 40 * 3600 - 1, 60 * 3600, 100),  # 39:59:59, longer than the horizon
        ],
        "; MaxProcs: 100\n; UnixStartTime: 864000\n; TimeZone: -7200\n",
    )
    workload = log_workload(log, **POOL, offered_load=None)
    assert workload.length == 48
    seen = set()
    for seed in range(10):
        jobs = sample(workload, 24, seed)
        seen.add(tuple(jobs.arrival))
        if jobs.arrival[0] == 0 and len(jobs) == 2 and jobs.arrival[1] == 1:
            np.testing.assert_array_equal(jobs.duration, [1, 2])
            np.testing.assert_array_equal(jobs.units[:, 0], [1, 2])
        else:
            np.testing.assert_array_equal(jobs.duration, [1, 48])
            np.testing.assert_array_equal(jobs.units[:, 0], [1, 10])
    assert seen == {(0, 1), (0, 15)}  # both days
    assert {kind: n for kind, n in workload.counts.items() if n} == {"clipped_duration": 1, "jobs": 4}


def test_a_log_whose_zone_has_a_name_alone_begins_on_its_own_clock():
    """1 July 1993, 22:30 in UTC: in San Diego half past three in the afternoon, in summer time."""
    jobs = [(3600.0 * k, 3600, 10) for k in range(48)]
    headers = (
        "; MaxProcs: 100\n; UnixStartTime: 741565800\n; TimeZoneString: US/Pacific\n",
        "; MaxProcs: 100\n; UnixStartTime: 741565800\n; TimeZone: -25200\n",
        "; MaxProcs: 100\n; UnixStartTime: 741565800\n",
    )
    named, offset, utc = (
        log_workload(make_log(jobs, header), **POOL, offered_load=None) for header in headers
    )
    windows = [sample(workload, 24, seed=0).arrival for workload in (named, offset, utc)]
    np.testing.assert_array_equal(windows[0], windows[1])
    assert named.length == offset.length
    assert not np.array_equal(windows[0], windows[2])


def test_a_window_longer_than_the_log_goes_around():
    log = make_log([(3600 * n, 3600 * (n + 1), 10) for n in range(5)])
    workload = log_workload(log, **POOL, offered_load=0.05)
    laps = 7
    jobs = sample(workload, round(workload.length * laps), seed=3)
    assert Counter(jobs.duration) == dict.fromkeys(range(1, 6), laps)
    # Consecutive: each job is followed by the next one of the log.
    np.testing.assert_array_equal(np.diff(jobs.duration) % 5, 1)
    # The ring closes with a mean gap: here, each job comes as long after the one before, six steps.
    assert workload.jobs_per_step == pytest.approx(1 / 6)
    assert set(np.diff(jobs.arrival)) <= {5, 6, 7}


@pytest.mark.parametrize("load", [0.3, 1.0, 2.5])
def test_a_log_has_the_offered_load_as_a_whole(load):
    rng = np.random.default_rng(5)
    times = np.cumsum(rng.exponential(1000.0, 3000)).astype(int)
    # Wide jobs are long: the load is that of their work, not the product of the means.
    width = rng.integers(1, 101, 3000)
    log = make_log(zip(times, width * 600, width, strict=True))
    workload = log_workload(log, units=10, horizon=48, offered_load=load)
    lap = sample(workload, int(workload.length), seed=1)
    assert offered_load([lap], 10, int(workload.length)) == pytest.approx(load, rel=0.01)


def test_windows_begin_at_any_time_with_equal_probability():
    """Half of the log's jobs come in a tenth of its time: windows that began at jobs would see too many."""
    times = np.concatenate([np.arange(500) * 720, np.linspace(360_000, 3_600_000, 500)]).astype(int)
    workload = log_workload(make_log([(time, 3600, 10) for time in times]), **POOL, offered_load=1.0)
    counts = [len(jobs) for jobs in episodes(workload, steps=20, count=4000)]
    assert np.mean(counts) == pytest.approx(20 * workload.jobs_per_step, rel=0.05)


def test_unusable_lines_are_left_out_by_rule_and_counted():
    log = parse_swf(
        b"""; MaxProcs: 100
        1 0 -1 60 10 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
        2 -1 -1 60 10 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
        3 9 -1 0 10 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
        4 9 -1 -1 -1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
        5 9 -1 60 -1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
        6 9 -1 60 10 -1 -1 -1 -1 -1 2 -1 -1 -1 -1 -1 -1 -1
        7 9 -1 60 10 -1 -1 -1 -1 -1 0 -1 -1 -1 -1 -1 -1 -1
        8 9 -1 60 -1 -1 -1 101 -1 -1 5 -1 -1 -1 -1 -1 -1 -1
        9 9 -1 172801 10 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
        """,
        "test.swf",
    )
    left_out = {"no_submit_time": 1, "no_run_time": 2, "no_processors": 1, "partial_executions": 1}
    clip = log_workload(log, **POOL)
    assert clip.counts == left_out | {"clipped_units": 1, "clipped_duration": 1, "jobs": 4}
    np.testing.assert_array_equal(np.sort(clip.cpu), [1, 1, 1, 10])
    np.testing.assert_array_equal(np.sort(clip.duration), [1, 1, 1, 48])
    drop = log_workload(log, **POOL, too_large="drop")
    assert drop.counts == left_out | {"dropped_units": 1, "dropped_duration": 1, "jobs": 2}
    np.testing.assert_array_equal(drop.cpu, [1, 1])


def test_a_log_of_which_no_job_fits_is_an_error():
    log = make_log([(0, 100 * 3600, 5), (50, 3600, 40)])
    message = "test.swf: none of its 2 jobs fits a pool of 10 units and a horizon of 48 steps"
    with pytest.raises(ValueError, match=f"{message}.*'dropped_units': 1, 'dropped_duration': 1"):
        log_workload(log, **POOL, too_large="drop", machine_processors=10)
    with pytest.raises(ValueError, match=r"none of its 1 jobs fits .*'no_run_time': 1"):
        log_workload(make_log([(0, 0, 5)]), **POOL)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"units": "10"}, "units='10': must be a whole number"),
        ({"units": 2.5}, "units=2.5: must be a whole number"),
        ({"horizon": "x"}, "horizon='x': must be a whole number"),
        ({"step_hours": "1"}, "step_hours='1': must be a number"),
        ({"resource_types": "2"}, "resource_types='2': must be a whole number"),
        ({"resource_types": 0}, "resource_types=0: must be at least 1"),
        ({"offered_load": "x"}, "offered_load='x': must be greater than 0"),
        ({"other_demand": "no"}, "other_demand='no': must be true or false"),
        ({"machine_processors": "x"}, "machine_processors='x': must be a number of at least 1"),
    ],
)
def test_wrong_settings_of_a_log_are_named(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        log_workload(make_log([(0, 3600, 1), (60, 3600, 2)]), **{**POOL, **wrong})


def test_sizes_as_they_are_in_the_log():
    log = make_log([(n * 60, 60, n) for n in range(1, 13)])
    workload = log_workload(log, **POOL, machine_processors=10)
    np.testing.assert_array_equal(workload.cpu, [*range(1, 11), 10, 10])
    assert workload.counts["clipped_units"] == 2


def test_a_part_of_a_processor_is_one_that_a_job_needs():
    workload = log_workload(make_log([(0, 60, 0.5), (60, 60, 2.5)]), **POOL, machine_processors=10)
    np.testing.assert_array_equal(workload.cpu, [1, 3])


def test_other_demand_is_uniform_up_to_the_cpu_demand():
    log = make_log([(n * 60, 60, 40) for n in range(100)])
    workload = log_workload(log, units=10, resource_types=3, horizon=48)
    jobs = sample(workload, 2_000)
    assert len(jobs) > 3000
    for column in (1, 2):
        assert close(np.bincount(jobs.units[:, column], minlength=5) / len(jobs), [1 / 5] * 5, len(jobs))
    assert abs(np.corrcoef(jobs.units[:, 1], jobs.units[:, 2])[0, 1]) < 5 / np.sqrt(len(jobs))
    assert close(np.histogram(jobs.qos, bins=8, range=(0.1, 0.9))[0] / len(jobs), [1 / 8] * 8, len(jobs))
    none = log_workload(log, units=10, resource_types=3, horizon=48, other_demand=False)
    assert sample(none, 500).units[:, 1:].max() == 0
    assert none.mean_units == (4.0, 0.0, 0.0)


@pytest.mark.parametrize("step_hours", [0.25, 1.0, 2.0])
def test_steps_of_other_lengths(step_hours):
    log = make_log([(0, 5400, 10), (7200, 7200, 20)], "; MaxProcs: 100\n")
    workload = log_workload(log, **POOL, step_hours=step_hours, offered_load=None)
    assert workload.length == 24 / step_hours
    jobs = sample(workload, round(24 / step_hours))
    np.testing.assert_array_equal(jobs.arrival, [0, 2 / step_hours])
    np.testing.assert_array_equal(jobs.duration, np.ceil([1.5 / step_hours, 2 / step_hours]))


@pytest.mark.parametrize("step_hours", [0.05, 0.1, 0.2, 0.4, 0.8, 0.9, 1.1])
def test_a_job_arrives_in_the_step_in_which_it_was_submitted(step_hours):
    """A job at the beginning of each step, and one at each midnight, whatever rounding does to the steps."""
    count = int(24 / step_hours)
    log = make_log([(round(3600 * step_hours * k), 360, 10) for k in range(count)])
    workload = log_workload(log, **POOL, step_hours=step_hours, offered_load=None)
    np.testing.assert_array_equal(sample(workload, count).arrival, np.arange(count))
    midnights = make_log([(86_400 * day, 360, 10) for day in range(60)])
    workload = log_workload(midnights, **POOL, step_hours=step_hours, offered_load=None)
    assert {tuple(sample(workload, 3, seed).arrival) for seed in range(200)} == {(0,)}


@pytest.mark.parametrize("name", LOGS)
def test_real_logs_run_whole(shared_file, name):
    """Every job of the log comes once a lap, at the offered load; what is odd or too long is counted."""
    log = read_swf(shared_file(name))
    workload = make_workload(log, **POOL, offered_load=0.8)
    counts = workload.counts
    dropped = sum(
        counts[rule] for rule in ("no_submit_time", "no_run_time", "no_processors", "partial_executions")
    )
    assert counts["jobs"] == len(log) - dropped
    too_long = np.count_nonzero(log.column("run_time") > 48 * 3600)
    assert (counts["clipped_duration"], counts["clipped_units"]) == (too_long, 0)
    steps = int(workload.length)
    lap = sample(workload, steps)
    assert abs(len(lap) - counts["jobs"]) <= 5
    assert offered_load([lap], 10, steps) == pytest.approx(0.8, rel=0.01)
    own = make_workload(log, **POOL, offered_load=None)
    span = log.column("submit_time")[-1] - log.column("submit_time")[0]
    assert own.jobs_per_step == pytest.approx(len(own) / (span / 3600), rel=0.01)


# The Lublin-Feitelson model


def test_lublin_windows_begin_at_midnight_and_follow_the_day():
    workload = lublin_workload(**POOL, offered_load=0.5)
    hours = np.zeros(24)
    for jobs in episodes(workload, steps=240, count=200):
        hours += np.bincount(jobs.arrival % 24, minlength=24)
    assert np.argmax(hours) in (12, 13, 14, 15)
    assert np.argmin(hours) in (3, 4, 5)
    assert hours.max() > 5 * hours.min()


def test_lublin_jobs_need_cpu_only_and_hpc_jobs_gpus_too():
    assert sample(make_workload("lublin", **POOL), 500).units[:, 1].max() == 0
    assert sample(make_workload("hpc", **POOL), 500).units[:, 1].max() > 1


def test_lublin_jobs_too_long_for_the_horizon():
    clip = lublin_workload(units=10, horizon=5)
    drop = lublin_workload(units=10, horizon=5, too_large="drop")
    assert clip.counts["clipped_duration"] == drop.counts["dropped_duration"] > 100
    assert clip.counts["jobs"] - drop.counts["jobs"] == drop.counts["dropped_duration"]
    assert clip.duration.max() == drop.duration.max() == 5


# The way in


def test_an_export_of_sacct_is_a_log(tmp_path):
    path = tmp_path / "jobs.txt"
    rows = [
        f"{n}|2026-01-01T{n // 60:02}:{n % 60:02}:00|2026-01-01T{n // 60:02}:{n % 60:02}:00|"
        f"2026-01-01T{n // 60 + 1:02}:{n % 60:02}:00|10|COMPLETED"
        for n in range(50)
    ]
    path.write_text("JobID|Submit|Start|End|AllocCPUS|State\n" + "\n".join(rows) + "\n")
    expected = sample(make_workload(read_sacct(path), **POOL), 100)
    for spec in (path, str(path)):
        np.testing.assert_array_equal(sample(make_workload(spec, **POOL), 100).units, expected.units)


def test_paths_logs_and_objects(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(
        "; MaxProcs: 100\n"
        + "".join(f"{n} {60 * n} -1 60 10 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n" for n in range(50))
    )
    expected = sample(make_workload(read_swf(path), **POOL), 100)
    for spec in (path, str(path)):
        np.testing.assert_array_equal(sample(make_workload(spec, **POOL), 100).units, expected.units)

    class OneJob:
        counts: dict[str, int] = {}  # noqa: RUF012
        mean_duration = 1.0
        mean_units = (1.0, 0.0)

        def mean_value(self, prices):
            return prices[0]

        def sample(self, rng, steps):
            return JobArrays(np.array([0]), np.array([1]), np.array([[1, 0]]), np.array([1.0]))

    mine = OneJob()
    assert make_workload(mine, **POOL) is mine
    with pytest.raises(ValueError, match="must be for 3 resource types, not 2"):
        make_workload(mine, units=10, resource_types=3, horizon=48)
    assert make_workload(mine, **POOL, offered_load=None) is mine
    with pytest.raises(ValueError, match=r"offered_load=0.3: must be None .* with a workload object"):
        make_workload(mine, **POOL, offered_load=0.3)
    del OneJob.mean_value
    with pytest.raises(ValueError, match="workload=OneJob: lacks mean_value; a workload has counts, mean_"):
        make_workload(mine, **POOL)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("syntetic", {}, "workload='syntetic': must be 'synthetic', .* did you mean 'synthetic'?"),
        (3, {}, "workload=3: must be"),
        ("none.swf", {}, "none.swf: cannot be read"),
        ("none.txt", {}, "workload='none.txt': must be .* the path of a job log"),
        ("synthetic", {"offered_load": None}, "offered_load=None: must be a number for workload 'synthetic'"),
        ("synthetic", {"offered_load": -0.1}, "offered_load=-0.1: must be finite and at least 0"),
        ("bernoulli", {"offered_load": 1.2}, r"offered_load=1.2: must be a probability in [0, 1]"),
        ("lublin", {"offered_load": 0.0}, "offered_load=0.0: must be greater than 0"),
        ("hpc", {"too_large": "cut"}, "too_large='cut': must be one of 'clip', 'drop'"),
        ("hpc", {"step_hours": 0.0}, "step_hours=0.0: must be greater than 0"),
        ("synthetic", {"units": 0}, "units=0: must be at least 1"),
        ("synthetic", {"horizon": 0}, "horizon=0: must be at least 1"),
    ],
)
def test_wrong_values_are_named(spec, options, message):
    with pytest.raises(ValueError, match=re.escape(message).replace(r"\.\*", ".*")):
        make_workload(spec, **(POOL | options))
