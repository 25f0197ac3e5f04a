"""Job logs: every line is taken, counted, or the error that names it."""

import gzip

import numpy as np
import pytest

from greendc.traces import JobLog, TraceError, read_swf
from greendc.traces.swf import SWF_FIELDS

JOB = "1 100 5 3600 4 -1 -1 8 7200 -1 1 3 2 -1 0 -1 -1 -1"


def line(**fields):
    values = dict(zip(SWF_FIELDS, JOB.split(), strict=True)) | {
        key: str(value) for key, value in fields.items()
    }
    return " ".join(values.values())


def read(tmp_path, *lines, name="log.swf"):
    path = tmp_path / name
    text = "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_swf(path)


def odd(log: JobLog) -> dict[str, int]:
    return {kind: count for kind, count in log.counts.items() if count}


def test_the_18_fields_of_a_line_with_missing_ones_as_nan(tmp_path):
    log = read(tmp_path, JOB)
    expected = [float(word) if word != "-1" else np.nan for word in JOB.split()]
    np.testing.assert_array_equal(log.table, [expected])
    assert log.column("run_time")[0] == 3600
    assert np.isnan(log.column("used_memory")[0])
    assert odd(log) == {}


def test_an_unknown_column_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'run_time'"):
        read(tmp_path, JOB).column("runtime")


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_plain_and_packed_logs_read_alike(tmp_path, name):
    assert len(read(tmp_path, "; MaxProcs: 64", JOB, "", "  " + line(job=2), name=name)) == 2


def test_a_size_in_digits_of_other_scripts_is_words(tmp_path):
    assert read(tmp_path, "; MaxProcs: ٣128", JOB).machine_processors < 100


def test_header_keeps_repeated_and_continued_entries(tmp_path):
    log = read(
        tmp_path,
        "; Version: 2.2",
        ";  Information: http://a.example/log.html",
        ";               http://b.example/",
        ";",
        "; Note: first: with a colon",
        "; Note: second",
        "; MaxProcs: 128 (of 144)",
        "; MaxNodes: 32",
        JOB,
        "; Note: a comment after the first job is not header",
    )
    assert log.header == {
        "Version": "2.2",
        "Information": "http://a.example/log.html\nhttp://b.example/",
        "Note": "first: with a colon\nsecond",
        "MaxProcs": "128 (of 144)",
        "MaxNodes": "32",
    }
    assert log.machine_processors == 128


def test_machine_size_without_header_is_that_of_the_largest_job(tmp_path):
    log = read(tmp_path, JOB, line(job=2, allocated_processors=-1, requested_processors=48))
    np.testing.assert_array_equal(log.processors, [4, 48])
    assert log.machine_processors == 48


def test_odd_lines_are_kept_and_counted(tmp_path):
    log = read(
        tmp_path,
        "; MaxRecords: 11",
        "; MaxProcs: 10",
        line(job=1, submit_time=100),
        line(job=2, submit_time=90),
        line(job=3, submit_time=95),
        line(job=4, submit_time=-1),
        line(job=5, run_time=0),
        line(job=6, run_time=-1),
        line(job=7, allocated_processors=0, requested_processors=-1),
        line(job=8, allocated_processors=11),
        line(job=9, wait_time=-7),
    )
    assert odd(log) == {
        "unsorted": 1,
        "no_submit_time": 1,
        "no_run_time": 2,
        "no_processors": 1,
        "above_machine": 1,
        "negative": 1,
        "missing_lines": 2,
    }
    # Sorted by submit time, ties in the order of the file, those without one last.
    np.testing.assert_array_equal(log.column("job"), [2, 3, 1, 5, 6, 7, 8, 9, 4])
    assert np.isnan(log.column("wait_time")[log.column("job") == 9])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1 2 3", r"line 3: a job has 18 fields, but this line has 3: '1 2 3'"),
        (JOB + " 7", "line 3: a job has 18 fields, but this line has 19"),
        (JOB + " 7 8", "line 3: a job has 18 fields, but this line has 20"),
        (line(submit_time="soon"), "line 3: submit_time='soon': must be a number"),
        (line(user='"3"'), "line 3: user='\"3\"': must be a number"),
        (line(user='"3'), "line 3: user='\"3': must be a number"),
        (line(run_time="nan"), "line 3: run_time='nan': must be a number"),
        (line(run_time="inf"), "line 3: run_time='inf': must be a number"),
        (line(run_time=4e8), "line 3: run_time=400000000.0: must be at most 3.2e\\+08"),
        (line(submit_time=1e30), "line 3: submit_time=1e\\+30: must be at most 1e\\+11"),
        (
            line(allocated_processors=10**10),
            "line 3: allocated_processors=10000000000: must be at most 1e\\+09",
        ),
        ("<html>not found</html>", "line 3: a job has 18 fields"),
    ],
)
@pytest.mark.parametrize("position", ["first", "between"])
def test_a_bad_line_is_one_error_with_file_and_line(tmp_path, bad, message, position):
    before = ["", "; comment"] if position == "first" else ["; comment", JOB]
    with pytest.raises(TraceError, match=f"log.swf, {message}") as error:
        read(tmp_path, *before, bad, JOB)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [([], "the file is empty"), (["; MaxJobs: 0", ""], "the log is empty")],
)
def test_an_empty_log_is_an_error(tmp_path, lines, message):
    with pytest.raises(TraceError, match=message):
        read(tmp_path, *lines)


def test_missing_empty_and_truncated_files(tmp_path):
    with pytest.raises(TraceError, match=r"none.swf: cannot be read"):
        read_swf(tmp_path / "none.swf")
    (tmp_path / "empty.swf").touch()
    with pytest.raises(TraceError, match=r"empty.swf: the file is empty"):
        read_swf(tmp_path / "empty.swf")
    packed = gzip.compress("\n".join([JOB] * 1000).encode())
    (tmp_path / "cut.swf.gz").write_bytes(packed[:-20])
    with pytest.raises(TraceError, match="truncated or damaged gzip"):
        read_swf(tmp_path / "cut.swf.gz")


def test_a_million_lines(tmp_path):
    """Read whole, and the first bad line is still named."""
    rest = JOB.split(" ", 2)[2]
    text = "".join(f"{job} {1000 + job % 1000} {rest}\n" for job in range(1_000_000))
    path = tmp_path / "long.swf"
    path.write_text(text)
    log = read_swf(path)
    assert len(log) == 1_000_000
    assert log.counts["unsorted"] == 999
    assert log.column("submit_time").sum() == 1000 * sum(range(1000, 2000))
    cut = text.index("\n600000 ") + 1
    path.write_text(text[:cut] + "17 oops\n" + text[cut:] + "x\n")
    with pytest.raises(TraceError, match="line 600001: a job has 18 fields, but this line has 2"):
        read_swf(path)


@pytest.mark.parametrize(
    ("name", "jobs", "machine", "odd_lines", "run_seconds"),
    [
        (
            "swf/KTH-SP2_swf_unfiltered_log.swf.gz",
            28_489,
            100,
            {"no_run_time": 8, "missing_lines": 1},
            252_883_787,
        ),
        ("swf/lublin_256.swf.gz", 10_000, 256, {}, 48_627_667),
        ("derived/mira_2018_from_lumos.swf.gz", 22_508, 49_152, {}, 181_612_328),
    ],
)
def test_real_logs_are_read_whole(shared_file, name, jobs, machine, odd_lines, run_seconds):
    log = read_swf(shared_file(name))
    assert len(log) == jobs
    assert log.machine_processors == machine
    assert odd(log) == odd_lines
    assert np.nansum(log.column("run_time")) == run_seconds
