"""Deadlines, priorities and values from columns: of the log, of an export, and of a table of one's own."""

import numpy as np
import pandas as pd
import pytest
from my_site_cases import by_subject, export, kept_qos, prepared

from greendc.resource_pool.workloads import make_workload
from greendc.traces.swf import read_swf
from greendc.traces.trace_files import TraceError


def test_deadlines_priorities_and_values_come_from_columns(inputs, tmp_path):
    log = read_swf(tmp_path / "log.swf")
    run, submit = log.column("run_time"), log.column("submit_time")
    due = submit + 2.0 * run
    due[0], due[1] = np.nan, submit[1] + 1.0  # one without, one that cannot be met
    worth = run * log.processors * (1.0 + np.arange(len(run)) % 3)
    frame = pd.DataFrame({"job": log.column("job"), "due": due, "worth": worth, "rank": np.arange(len(run))})
    frame.sample(frac=1.0, random_state=0).to_csv(tmp_path / "mine.csv", index=False)
    mine = f"--job-columns={tmp_path / 'mine.csv'}"
    site = prepared(inputs, tmp_path / "kept", mine, "--deadlines=due")
    qos = kept_qos(site)
    assert qos[2:] == pytest.approx(0.5)
    assert qos[1] == 1.0
    assert 0.1 <= qos[0] <= 0.9
    said = by_subject(site)["deadlines and values"]
    assert said.told
    assert "1 deadlines too early to be met" in said.said
    assert "1 drawn at random, for want of a value" in said.said
    values = kept_qos(prepared(inputs, tmp_path / "kept", mine, "--values=worth"))
    assert values == pytest.approx(0.9 * (1.0 + np.arange(len(run)) % 3) / 3.0)
    ranks = kept_qos(prepared(inputs, tmp_path / "kept", mine, "--priorities=rank"))
    assert ranks == pytest.approx(np.linspace(0.1, 0.9, len(run)))
    of_log = kept_qos(prepared(inputs, tmp_path / "kept", "--priorities=run_time"))
    assert (np.argsort(of_log, kind="stable") == np.argsort(run, kind="stable")).all()


def test_the_environment_plays_the_jobs_own_urgency(inputs, tmp_path):
    site = prepared(inputs, tmp_path / "kept", "--priorities=run_time")
    workload = make_workload(site.scenario.env_kwargs["workload"], units=10, resource_types=1, horizon=48)
    jobs = workload.sample(np.random.default_rng(0), 100)
    longest, shortest = jobs.qos[jobs.duration == jobs.duration.max()], jobs.qos[jobs.duration == 1]
    assert longest.min() > shortest.max()
    assert workload.mean_value([1.0]) == pytest.approx(
        (workload.duration * workload.cpu * workload.qos).mean()
    )


@pytest.mark.parametrize("other", ["30_1", "30+0", "30"])
def test_columns_of_jobs_of_an_export_are_matched_by_the_text_of_their_job_id(inputs, tmp_path, other):
    jobs = [*range(2, 30), other]
    (tmp_path / "jobs.txt").write_text(export(jobs))
    table = "".join(f"{job},{rank}\n" for rank, job in reversed(list(enumerate(jobs))))
    (tmp_path / "mine.csv").write_text("job,rank\n" + table)
    arguments = [f"--jobs={tmp_path / 'jobs.txt'}", *inputs[1:], "--priorities=rank"]
    site = prepared([*arguments, f"--job-columns={tmp_path / 'mine.csv'}"], tmp_path / "kept")
    assert kept_qos(site) == pytest.approx(np.linspace(0.1, 0.9, len(jobs)))
    pd.read_csv(tmp_path / "mine.csv").iloc[1:].astype(float).to_csv(tmp_path / "mine.csv", index=False)
    again = prepared([*arguments, f"--job-columns={tmp_path / 'mine.csv'}"], tmp_path / "kept")
    assert kept_qos(again)[:-1] == pytest.approx(np.linspace(0.1, 0.9, len(jobs) - 1))


def with_deadlines(inputs, tmp_path, due, first=1):
    rows = "".join(f"{job},{cell}\n" for job, cell in enumerate(due, start=first))
    (tmp_path / "mine.csv").write_text("job,due\n" + rows)
    return prepared([*inputs, f"--job-columns={tmp_path / 'mine.csv'}", "--deadlines=due"], tmp_path / "kept")


def test_deadlines_are_times_of_the_logs_clock_or_have_their_offset(inputs, tmp_path):
    text = (tmp_path / "log.swf").read_text()
    (tmp_path / "log.swf").write_text("; TimeZone: 7200\n" + text)
    log = read_swf(tmp_path / "log.swf")
    due = log.column("submit_time") + 2.0 * log.column("run_time")
    utc = pd.to_datetime(1_600_000_000 + due, unit="s", utc=True)
    for times in (utc, utc.tz_convert("-06:00"), utc.tz_convert("+02:00").tz_localize(None), due):
        assert kept_qos(with_deadlines(inputs, tmp_path, times)) == pytest.approx(0.5)


def test_deadlines_that_cannot_be_of_the_logs_clock_are_refused(inputs, tmp_path):
    with pytest.raises(TraceError, match=r"job 1 of the log: '1600000000.0': years after the log's last job"):
        with_deadlines(inputs, tmp_path, 1_600_000_000 + 3600.0 * np.arange(400))
    text = (tmp_path / "log.swf").read_text()
    (tmp_path / "log.swf").write_text(text.replace("; UnixStartTime: 1600000000\n", ""))
    for time in ("2020-09-13 12:00", "2020-09-13T12:00Z"):
        with pytest.raises(TraceError, match="has no UnixStartTime"):
            with_deadlines(inputs, tmp_path, [time])
    (tmp_path / "jobs.txt").write_text(export(range(1, 9)))
    exported = [f"--jobs={tmp_path / 'jobs.txt'}", *inputs[1:]]
    assert kept_qos(with_deadlines(exported, tmp_path, ["2024-03-01 12:00"]))[0] == pytest.approx(0.5)
    with pytest.raises(TraceError, match="without offset, too"):
        with_deadlines(exported, tmp_path, ["2024-03-01T12:00Z"])


@pytest.mark.parametrize("cell", ["1_000_000", "0x1f", "nan0", "inf", "\u0663", "now"])
def test_a_deadline_that_is_no_number_of_a_file_is_no_time_either(inputs, tmp_path, cell):
    with pytest.raises(TraceError, match=r"job 2 of the log: .*: must be a time or the log's seconds$"):
        with_deadlines(inputs, tmp_path, ["5000", cell])


def test_dates_without_dashes_are_no_seconds(inputs, tmp_path):
    for due in (["20240402"], ["", "20200913", "2020-09-14"], ["20240402.0", "20240403.0"]):
        with pytest.raises(TraceError, match=r": is it a date\? 20(24-04-02|20-09-13) is one; numbers are"):
            with_deadlines(inputs, tmp_path, due)
    log = read_swf(tmp_path / "log.swf")
    found = kept_qos(with_deadlines(inputs, tmp_path, ["20240402", "20240403", "20240432"]))
    allowed = 20_240_402 + np.array([0, 1, 30]) - log.column("submit_time")[:3]
    assert found[:3] == pytest.approx(np.maximum(log.column("run_time")[:3] / allowed, 0.001))


def test_a_cell_that_is_refused_is_named_by_its_column_and_the_number_of_its_job(inputs, tmp_path):
    jobs = [f"77_{k}" for k in range(20)]
    (tmp_path / "jobs.txt").write_text(export(jobs))
    exported = [f"--jobs={tmp_path / 'jobs.txt'}", *inputs[1:], f"--job-columns={tmp_path / 'mine.csv'}"]
    for kind, cell, must in (
        ("priorities", "high", "'high': must be a number"),
        ("deadlines", "01.03.2024 12:00", "'01.03.2024 12:00': must be a time or the log's seconds"),
        ("values", "-3", "'-3': must be 0 or more"),
    ):
        rows = "".join(f"{job},{cell if job == '77_3' else 5000}\n" for job in reversed(jobs))
        (tmp_path / "mine.csv").write_text("job,mine\n" + rows)
        with pytest.raises(TraceError, match=f"^column 'mine' of mine.csv: job 77_3 of the log: {must}$"):
            prepared(exported, tmp_path / "kept", f"--{kind}=mine")


@pytest.mark.parametrize("kind", ["deadlines", "priorities", "values"])
def test_a_column_that_says_nothing_of_any_job_is_refused(inputs, tmp_path, kind):
    (tmp_path / "mine.csv").write_text("job,mine\n" + "".join(f"{job},\n" for job in range(1, 401)))
    mine = f"--job-columns={tmp_path / 'mine.csv'}"
    with pytest.raises(TraceError, match=r"^column 'mine' of mine.csv: is empty for every job of the log$"):
        prepared(inputs, tmp_path / "kept", mine, f"--{kind}=mine")


def test_values_of_which_too_few_are_above_0_are_refused(inputs, tmp_path):
    rows = "".join(f"{job},{int(job == 1)}\n" for job in range(1, 401))
    (tmp_path / "mine.csv").write_text("job,mine\n" + rows)
    mine = f"--job-columns={tmp_path / 'mine.csv'}"
    with pytest.raises(TraceError, match=r"^column 'mine' of mine.csv: must be above 0 for a twentieth of"):
        prepared(inputs, tmp_path / "kept", mine, "--values=mine")
