"""The clock of an episode is its log's: what a job sees at two o'clock is what the series say of it."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from greendc.baselines.cluster import GuardedRollout
from greendc.cluster import CapacitySeries, ClusterConfig, ClusterJobs, ClusterSimulator, read_jobs
from greendc.cluster.clocks import Calendar, read_start, whole_days
from greendc.cluster.columns import COS_DAY, SIN_DAY
from greendc.cluster.power import green_capacity
from greendc.cluster.rlscheduler import read_trace
from greendc.traces.gleamm_like import generate
from greendc.traces.log_clock import log_start
from greendc.traces.moer import MoerSeries
from greendc.traces.power import CarbonTrace, read_carbon
from greendc.traces.swf import parse_swf

HOUR, DAY = 3600, 86_400
FIRST = datetime(2024, 3, 1, 8, 47)
"""When the first job of the logs is submitted; one follows each hour, and runs for an hour."""
PARIS, CHICAGO = timezone(timedelta(hours=1)), timezone(timedelta(hours=-6))
JOB = "{0} {1} 0 3600 4 -1 -1 4 3600 -1 1 1 -1 -1 -1 -1 -1 -1"


def swf(*header, jobs=200):
    lines = ["; MaxProcs: 4", *header, *(JOB.format(k + 1, HOUR * k) for k in range(jobs))]
    return "\n".join([*lines, ""])


def sacct():
    lines = ["JobID|User|Submit|Start|End|Elapsed|Timelimit|NCPUS|State"]
    for k in range(200):
        times = [(FIRST + timedelta(hours=hour)).isoformat() for hour in (k, k, k + 1)]
        lines.append(f"{k + 1}|ann|{'|'.join(times)}|01:00:00|01:00:00|4|COMPLETED")
    return "\n".join([*lines, ""])


def carbon_csv(path, offset, year=2024):
    """A year whose energy emits 900 g/kWh from two to three in the afternoon, and nothing else."""
    rows = ["time,carbon_kg_per_kwh"]
    for k in range(366 * 24):
        time = datetime(year, 1, 1) + timedelta(hours=k)
        rows.append(f"{time:%Y-%m-%d %H:%M}{offset},{0.9 if time.hour == 14 else 0.0}")
    path.write_text("\n".join([*rows, ""]))
    return read_carbon(path)


def jobs_of(start, count=200, submit=None):
    submit = HOUR * np.arange(count) if submit is None else np.array(submit)
    hour = np.full(len(submit), HOUR)
    return ClusterJobs(submit, hour, hour, np.full(len(submit), 4), 4, start=start)


def simulator_of(jobs, **options):
    fields = {"episode_jobs": 1, "busy_watts": 1000.0, "idle_watts": 0.0, **options}
    return ClusterSimulator(ClusterConfig(workload=jobs, **fields))


def seen(simulator, row):
    """Hour of the day that the agent sees when the job in a row arrives, and kg that it emits at once."""
    simulator.reset_env(0, np.random.default_rng(0), {"start": row})
    out = simulator.empty_observations()
    simulator.observe(out)
    cluster = out["cluster"][0]
    simulator.play(0, "fcfs")
    hour = np.arctan2(cluster[SIN_DAY], cluster[COS_DAY]) / (2 * np.pi) * 24 % 24
    return round(float(hour), 3), simulator.episode_metrics(0)["carbon_kg"]


def carbon_read(simulator, row, seed=0):
    """The carbon intensity with which the episode from a row begins."""
    simulator.reset_env(0, np.random.default_rng(seed), {"start": row})
    cluster, world = simulator.state.cluster[0], simulator.world
    time = (cluster["now"] + cluster["carbon_shift"]) % world.settings["carbon_period"][0]
    return float(world.carbon[np.searchsorted(world.carbon_times, time, side="right") - 1])


@pytest.mark.parametrize("year", [2024, 2021])
@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (
            swf(f"; UnixStartTime: {FIRST.replace(tzinfo=PARIS).timestamp():.0f}", "; TimeZone: 3600"),
            "+01:00",
        ),
        (
            swf(
                f"; UnixStartTime: {FIRST.replace(tzinfo=PARIS).timestamp():.0f}",
                "; TimeZone: 7200",
                "; TimeZoneString: Europe/Paris",
            ),
            "+01:00",
        ),
        (sacct(), ""),
    ],
    ids=["swf", "swf-zone", "sacct"],
)
def test_a_job_of_two_o_clock_sees_the_carbon_of_two_o_clock(tmp_path, text, offset, year):
    path = tmp_path / "log.txt"
    path.write_text(text)
    simulator = simulator_of(path, carbon=carbon_csv(tmp_path / "carbon.csv", offset, year))
    for row in (0, 5, 6, 29, 101):  # windows that begin in the midst of the log, too
        time = FIRST + timedelta(hours=row)
        minutes = {13: 47, 14: 13}.get(time.hour, 0)
        hour, kg = seen(simulator, row)
        assert hour == pytest.approx(time.hour + time.minute / 60, abs=0.001)
        assert kg == pytest.approx(4 * 0.9 * minutes / 60, abs=1e-9)
    manner = "by date" if year == 2024 else "by date where it has that, else by month, day and time of day"
    assert simulator.clocks.describe() == {"log": "second 0 is 2024-03-01 08:47:00", "carbon": manner}


def test_instants_count_where_offsets_differ():
    values = np.arange(8784) / 8784
    moer = MoerSeries("X", np.datetime64("2020-01-01T00"), values, np.zeros((8784, 3)))
    simulator = simulator_of(jobs_of(datetime(2020, 6, 1, 20, tzinfo=CHICAGO)), carbon=moer)
    hours = (datetime(2020, 6, 2, 2) - datetime(2020, 1, 1)).days * 24 + 2
    assert [carbon_read(simulator, row) for row in (0, 30)] == [values[hours], values[hours + 30]]
    assert seen(simulator, 1)[0] == 21.0


@pytest.mark.parametrize(
    ("header", "start"),
    [
        ({}, None),
        ({"UnixStartTime": "-1", "TimeZone": "3600"}, None),
        ({"UnixStartTime": "0"}, None),
        ({"UnixStartTime": "864000 (a remark)"}, datetime(1970, 1, 11, tzinfo=timezone.utc)),
        ({"UnixStartTime": "864000", "TimeZone": "0"}, datetime(1970, 1, 11)),
        ({"UnixStartTime": "864000", "TimeZone": "-21600"}, datetime(1970, 1, 10, 18, tzinfo=CHICAGO)),
        (
            {"UnixStartTime": "864000", "TimeZone": "0", "TimeZoneString": "America/Chicago"},
            datetime(1970, 1, 10, 18, tzinfo=CHICAGO),
        ),
    ],
)
def test_the_header_tells_the_clock(header, start):
    log = parse_swf(swf(*(f"; {key}: {value}" for key, value in header.items())).encode(), "a.swf")
    found = log_start(log)
    assert found == start
    assert start is None or (found.isoformat(), found.utcoffset()) == (start.isoformat(), start.utcoffset())
    assert ClusterJobs.from_log(log).start == ClusterJobs.from_log(log, "rlscheduler").start == found


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"UnixStartTime": "Monday"}, "a.swf: header UnixStartTime='Monday': must be a number of seconds"),
        ({"UnixStartTime": "nan"}, "header UnixStartTime='nan': must be"),
        ({"UnixStartTime": "1e15"}, "header UnixStartTime=.*: must be before the year 2100"),
        ({"TimeZone": "CET"}, "header TimeZone='CET': must be a number of seconds"),
        ({"TimeZone": "-6"}, "header TimeZone=-6.0: must be a number of seconds ahead of UTC"),
        ({"TimeZone": "90000"}, "header TimeZone=90000.0: must be"),
        ({"TimeZoneString": "Europe/Pariss"}, "header TimeZoneString='Europe/Pariss': must be the name"),
        ({"TimeZoneString": "../etc"}, r"header TimeZoneString='../etc': must be the name"),
    ],
)
def test_a_header_that_cannot_be_read_is_named(header, words):
    header = {"UnixStartTime": "1709253136", **header}
    log = parse_swf(swf(*(f"; {key}: {value}" for key, value in header.items())).encode(), "a.swf")
    with pytest.raises(ValueError, match=words):
        log_start(log)


def test_submissions_since_1970_are_not_added_to_the_start_of_the_log():
    jobs = "".join(f"{JOB.format(k + 1, 1709253136 + HOUR * k)}\n" for k in range(3))
    log = parse_swf(f"; UnixStartTime: 1709253136\n{jobs}".encode(), "a.swf")
    words = r"^a.swf: submit_time=1709253136 of the first job: must be seconds since the header's Unix"
    with pytest.raises(ValueError, match=words):
        log_start(log)


def test_the_benchmark_does_not_look_at_clocks(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(swf("; UnixStartTime: 1709253136"))
    assert read_trace(path).start is None and read_jobs(path).start is not None


def test_log_start_comes_before_what_the_log_says():
    jobs = jobs_of(datetime(2020, 6, 1, 20))
    simulator = simulator_of(jobs, log_start="2021-02-03 04:30:00Z")
    assert simulator.jobs.start == datetime(2021, 2, 3, 4, 30, tzinfo=timezone.utc)
    assert seen(simulator, 2)[0] == 6.5
    generated = ClusterConfig(log_start="2021-02-03T04:30:00", workload_jobs=50, episode_jobs=5)
    assert ClusterSimulator(generated).clocks.midnight == 16_200
    assert read_start("x", "2021-02-03") == datetime(2021, 2, 3)


DAILY = CarbonTrace(np.arange(24) / 100, 1.0)
ONE = np.zeros(1, np.int64)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log_start": "yesterday"}, "log_start='yesterday': must be a date and time such as '2024-03-01T"),
        ({"log_start": "1024-03-01"}, "log_start='1024-03-01 00:00:00': must be of the years"),
        ({"log_start": 5}, "log_start=5: must be text or None"),
        (
            {"carbon": DAILY, "log_start": "2024-03-01T00:00:00+01:00"},
            "carbon='times without a time zone': must be on the log's clock, whose times are with one; log",
        ),
        (
            {"carbon": CarbonTrace(np.ones(48), 1.0, datetime(2024, 3, 1, tzinfo=PARIS))},
            "carbon='times with a time zone': must be on the log's clock, whose times are without one",
        ),
        (
            {"carbon": CarbonTrace(np.ones(48), 1.0, datetime(2024, 3, 1))},
            "carbon='2024-03-01 00:00:00 to 2024-03-03 00:00:00': must be a series that covers "
            "2024-03-01 08:47:00 to 2024-03-09 15:47:00, or one of a year or more",
        ),
        (
            {"carbon": CarbonTrace(np.ones(20), 1.0, FIRST)},
            "carbon='a series of 72000 s': must be one of a day",
        ),
        (
            {"carbon": CarbonTrace(np.ones(8760), 1.0, FIRST, closed_up=((1416.0, 24.0),))},
            "carbon='a series that leaves out 24 h': must be one without gaps",
        ),
        *(
            (
                {"carbon": CarbonTrace(np.ones(70_000), seconds / 3600.0, FIRST)},
                f"carbon='a series in steps of {seconds:g} s': must be one in steps of whole seconds",
            )
            for seconds in (0.25, 514.25)
        ),
        (
            {"power": CapacitySeries(ONE, ONE + 4, 2 * DAY, datetime(2024, 3, 2)), "power_start": "log"},
            "power='2024-03-02 00:00:00 to 2024-03-04 00:00:00': must be a series that covers",
        ),
        (
            {"power": CapacitySeries(ONE, ONE + 4, 3600, FIRST)},
            "power='a series of 3600 s': must be one of a day or more, since the log has a clock",
        ),
        (
            {
                "power": CapacitySeries(ONE, ONE + 4, DAY, FIRST),
                "forecast": CapacitySeries(ONE, ONE + 4, DAY, datetime(2024, 3, 1)),
            },
            "forecast='a series from 2024-03-01 00:00:00': must be one that begins with power, at 2024-03-01",
        ),
        (
            {
                "power": CapacitySeries(ONE, ONE + 4, DAY),
                "forecast": CapacitySeries(ONE, ONE + 4, DAY, FIRST),
            },
            "forecast='a series from 2024-03-01 08:47:00': must be one that begins with power, at None",
        ),
    ],
)
def test_clocks_that_do_not_agree_are_one_clear_error(options, words):
    with pytest.raises(ValueError, match=words):
        simulator_of(jobs_of(FIRST), **options)


def test_what_no_calendar_holds_is_refused():
    late = jobs_of(FIRST, submit=[0, 2**39])
    with pytest.raises(ValueError, match="submit='549755813888 s after second 0': must be within 1000"):
        simulator_of(late, carbon=DAILY)
    carbon = CarbonTrace(np.ones(3), 3e6, FIRST)
    with pytest.raises(
        ValueError, match="carbon='a series of 32400000000 s': must be one of at most 1000 years"
    ):
        simulator_of(jobs_of(FIRST), carbon=carbon)


def test_a_start_must_be_a_time():
    with pytest.raises(ValueError, match="start='noon': must be a datetime, or None"):
        jobs_of("noon")
    with pytest.raises(ValueError, match="start=5: must be a datetime, or None"):
        CapacitySeries(ONE, ONE, DAY, 5)


def test_power_and_carbon_of_different_clocks_are_refused_without_a_log_s():
    power = CapacitySeries(ONE, ONE + 4, 366 * DAY, datetime(2024, 1, 1, tzinfo=PARIS))
    with pytest.raises(ValueError, match="carbon='times without a time zone': must be on power's clock"):
        simulator_of(jobs_of(None), power=power, carbon=DAILY)


def test_a_day_and_a_week_are_patterns():
    simulator = simulator_of(jobs_of(FIRST), carbon=DAILY)
    assert [carbon_read(simulator, row) for row in (0, 5, 53)] == [0.08, 0.13, 0.13]
    week = CarbonTrace(np.arange(7) / 10, 24.0, datetime(2023, 5, 1))  # a Monday
    simulator = simulator_of(jobs_of(FIRST), carbon=week)
    assert FIRST.weekday() == 4
    assert [carbon_read(simulator, row) for row in (0, 24, 72, 96)] == [0.4, 0.5, 0.0, 0.1]
    assert simulator.clocks.describe()["carbon"] == "every week alike"


def test_a_year_is_laid_on_by_the_calendar():
    begin = round((datetime(2021, 1, 1) - datetime(1970, 1, 1)).total_seconds())
    year = Calendar("carbon", begin, 365 * DAY)

    def day(*date):
        return year.second(round((datetime(*date) - datetime(1970, 1, 1)).total_seconds())) / DAY

    assert [day(2021, 1, 1), day(2021, 12, 31, 12), day(2024, 1, 1, 6)] == [0, 364.5, 0.25]
    assert [day(2024, 2, 28), day(2024, 2, 29), day(2024, 3, 1)] == [58, 58, 59]
    assert [day(2024, 12, 31), day(1999, 7, 1)] == [364, 181]
    leap = Calendar("carbon", begin - 366 * DAY, 365 * DAY)  # 2020 without its last day
    assert leap.second(begin + 364 * DAY) == 364 * DAY  # 31 December 2021: that of the day before


def test_what_begins_again_keeps_the_time_of_day():
    times, values, period = whole_days(
        "x", np.array([0, 5 * HOUR, 30 * HOUR]), np.array([1, 2, 3]), 31 * HOUR
    )
    # Seven of its hours are missing up to midnight of the second day: those of the first day.
    assert (times.tolist(), period) == ([0, 5 * HOUR, 30 * HOUR, 31 * HOUR], 48 * HOUR)
    assert values.tolist() == [1, 2, 3, 2]
    times, values, period = whole_days("x", np.array([0, 9 * HOUR]), np.array([1, 2]), 26 * HOUR)
    assert (times.tolist(), values.tolist()) == ([0, 9 * HOUR, 26 * HOUR, 33 * HOUR], [1, 2, 1, 2])
    carbon = CarbonTrace(np.arange(30) / 100, 1.0, FIRST.replace(minute=0))
    simulator = simulator_of(jobs_of(FIRST, 21), carbon=carbon, episode_jobs=21)
    simulator.reset_env(0, np.random.default_rng(0), {"start": 0})
    settings = simulator.world.settings[0]
    assert (settings["carbon_period"], len(simulator.world.carbon)) == (48 * HOUR, 48)
    assert simulator.world.carbon[30:].tolist() == (np.arange(6, 24) / 100).tolist()
    assert simulator.world.carbon_sums[-1] == pytest.approx(HOUR * simulator.world.carbon.sum())


TWO_DAYS = CapacitySeries(
    np.array([0, 14, 15, 38]) * HOUR, np.array([4, 5, 6, 7]), 40 * HOUR, datetime(2024, 3, 1)
)


def capacities(simulator, rows, seed=0):
    found = []
    for row in rows:
        simulator.reset_env(0, np.random.default_rng(seed), {"start": row})
        found.append(int(simulator.state.cluster[0]["capacity"]))
    return found


def test_power_is_read_at_the_log_s_date():
    options = {"power": TWO_DAYS, "power_start": "log", "processors": 7}
    simulator = simulator_of(jobs_of(FIRST, 31), **options)
    # Rows 5 and 6 arrive at 13:47 and 14:47, row 30 a day later at 14:47.
    assert capacities(simulator, [0, 5, 6, 7, 29, 30]) == [4, 4, 5, 6, 6, 7]
    assert simulator.clocks.describe()["power"] == "by date"


def test_a_drawn_day_has_the_log_s_time_of_day():
    power = CapacitySeries(np.arange(10 * 24) * HOUR, np.arange(240) % 24 + 4, 10 * DAY, datetime(2021, 5, 5))
    values = np.arange(8784) / 8784
    carbon = CarbonTrace(values, 1.0, datetime(2021, 1, 1))
    simulator = simulator_of(jobs_of(FIRST), power=power, processors=27, carbon=carbon)
    drawn = set()
    for seed in range(60):
        for row in (0, 30):
            time = FIRST + timedelta(hours=row)
            assert capacities(simulator, [row], seed) == [time.hour + 4]
            # The carbon is that of the same hour as the power, not of the log's year.
            hour = round(carbon_read(simulator, row, seed) * 8784)
            date = datetime(2021, 1, 1) + timedelta(hours=hour)
            drawn.add(date.date())
            assert date.hour == time.hour and datetime(2021, 5, 5) <= date < datetime(2021, 5, 15)
    assert len(drawn) == 10
    words = simulator.clocks.describe()
    assert words["power"] == "a day of 10, drawn by the seed, at the log's time of day"
    assert words["carbon"] == "by date, at the dates of the power"


def test_generated_power_is_of_the_log_s_time_of_year():
    options = {"power": "green", "power_floor": 0.0, "on_drop": "suspend", "limit_days": 400.0}
    simulator = simulator_of(jobs_of(FIRST.replace(tzinfo=CHICAGO)), power_start="log", **options)
    series = green_capacity(4, 1.0, 0.0)
    for row in (0, 100):
        since = FIRST + timedelta(hours=row) - datetime(2024, 1, 1)
        capacities(simulator, [row])
        cluster = simulator.state.cluster[0]
        assert cluster["shift"] + HOUR * row == since.total_seconds()
        # The first decision is where power suffices.
        assert cluster["capacity"] == series.at(int(cluster["now"] + cluster["shift"])) == 4
    trace = generate(0)
    assert green_capacity(4, 1.0, 0.0, trace=trace).start == trace.start and series.start is None


def test_a_log_without_a_clock_begins_at_midnight():
    carbon = CarbonTrace(np.arange(48) / 100, 1.0, datetime(2024, 3, 1, 21))
    simulator = simulator_of(jobs_of(None), carbon=carbon)
    assert [carbon_read(simulator, row) for row in (0, 14, 50)] == [0.03, 0.17, 0.05]
    assert seen(simulator, 14)[0] == 14.0
    assert simulator.clocks.describe() == {
        "log": "not known: second 0 is taken for midnight",
        "carbon": "from its first midnight on",
    }
    power = dataclasses.replace(TWO_DAYS, start=datetime(2024, 3, 1, 20))
    simulator = simulator_of(jobs_of(None, 30), power=power, power_start="log", processors=7)
    assert capacities(simulator, [9, 10, 11]) == [4, 5, 6]


def test_rollouts_know_the_clock_of_the_carbon():
    rng = np.random.default_rng(5)
    jobs = jobs_of(datetime(2024, 3, 1, 8), submit=np.arange(40) * 600)
    sizes = rng.integers(1, 5, 40)
    long = HOUR * rng.integers(1, 9, 40)
    jobs = dataclasses.replace(jobs, processors=sizes, run=long, request=long)
    values = (np.arange(24) >= 12) * 0.9 + rng.random(24) / 50
    turned = CarbonTrace(np.roll(values, -8), 1.0)
    found = []
    for workload, carbon in (
        (jobs, CarbonTrace(values, 1.0)),
        (dataclasses.replace(jobs, start=None), turned),
    ):
        options = {"episode_jobs": 40, "reward": "carbon", "backfill": "easy", "idle_watts": 50.0}
        simulator = simulator_of(workload, carbon=carbon, **options)
        simulator.reset_env(0, np.random.default_rng(0))
        GuardedRollout(simulator, futures=3, horizon=4).play(0)
        found.append((simulator.state.jobs[0]["start"].tolist(), simulator.episode_metrics(0)["carbon_kg"]))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1])
