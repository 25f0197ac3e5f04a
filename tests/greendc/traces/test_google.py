"""Google's per-day files: what is dropped is counted, what is wrong is named with its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from greendc.traces import TraceError
from greendc.traces.google import read_google_jobs

HEADER = "time,task_id,duration,cpu,priority"
HOUR = 3_600_000_000
START = 600_000_000


def write(path: Path, *lines: str) -> Path:
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_rows_are_sorted_cleaned_and_counted(tmp_path: Path) -> None:
    write(
        tmp_path / "day_10.csv",
        HEADER,
        f"{START + 25 * HOUR},c-1,{2 * HOUR + 1},0.25,200",
        f"{START - 1},x-1,{HOUR},0.25,200",
        f"{START + 24 * HOUR},b-1,{HOUR},0.125,103",
    )
    write(
        tmp_path / "day_2.csv.gz",
        HEADER,
        f"{START + HOUR - 1},a-1,{HOUR},1,0",
        f"{START + HOUR},a-2,0,1,0",
        f"{START + HOUR},a-3,1,0,0",
        f"{START + HOUR},a-4,1,1.5,0",
        f"{START + 24 * HOUR},a-5,1,0.5,116",
    )
    (tmp_path / "README.md").write_text("not a table")
    jobs = read_google_jobs(tmp_path)
    assert jobs.submit_hour.tolist() == [0, 24, 24, 25]
    # At the same instant the row of day 2 is before that of day 10.
    assert jobs.cpu.tolist() == [1_000_000, 500_000, 125_000, 250_000]
    assert jobs.duration.tolist() == [1, 1, 1, 3]
    assert jobs.priority.tolist() == [0, 116, 103, 200]
    assert jobs.days == 2
    assert jobs.counts == {
        "read": 8,
        "before_start": 1,
        "after_end": 0,
        "zero_duration": 1,
        "zero_cpu": 1,
        "too_large": 1,
        "kept": 4,
    }
    assert read_google_jobs(tmp_path, days=30).days == 30
    assert read_google_jobs([tmp_path / "day_2.csv.gz"], days=1).counts["after_end"] == 1


def test_other_columns_and_another_order_are_fine(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "priority,machine,cpu,duration,time", f"103,m1,0.5,1,{START}")
    jobs = read_google_jobs(path)
    assert (jobs.priority[0], jobs.cpu[0], jobs.duration[0], jobs.submit_hour[0]) == (103, 500_000, 1, 0)


GOOD = f"{START},a-1,{HOUR},0.5,103"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["time,task_id,duration,cpus,priority", GOOD], "no column 'cpu'; did you mean 'cpus'"),
        ([GOOD, GOOD], "no column 'time'"),
        ([HEADER, GOOD, f"{START},a-1,{HOUR},0.5"], "line 3: 4 fields instead of 5"),
        ([HEADER, GOOD, f"{START},a-1,{HOUR},,103"], "line 3: cpu is missing"),
        ([HEADER, GOOD, f"nan,a-1,{HOUR},0.5,103"], "line 3: time is missing"),
        ([HEADER, GOOD, f"{START},a-1,long,0.5,103"], "line 3: duration='long': must be a finite number"),
        (
            [HEADER, GOOD, GOOD, f"-5,a-1,{HOUR},0.5,103"],
            "line 4: time=-5: must be from 0 to 3.16224e\\+13 µs",
        ),
        ([HEADER, f"{START},a-1,-1,0.5,103"], "line 2: duration=-1: must be from 0"),
        ([HEADER, f"{START},a-1,1,-0.5,103"], "line 2: cpu=-0.5: must be from 0 to 100 machines"),
        ([HEADER, f"{START},a-1,1,0.5,-1"], "line 2: priority=-1: must be from 0 to 32767"),
        ([HEADER, f"{START},a-1,1,0.5,103.5"], "line 2: priority must be a whole number"),
        ([HEADER, f"{START},a-1,1,0.5,99999"], "line 2: priority=99999: must be from 0 to 32767"),
        (
            [HEADER, "9223372036854775807,a-1,1,0.5,103"],
            "line 2: time=9.223372037e\\+18: must be from 0",
        ),
        ([HEADER], "every row was dropped: .*'read': 0"),
        ([HEADER, GOOD[:-4]], "line 2: 4 fields"),
        ([HEADER, f"{START},a-1,1,1e308,103"], r"line 2: cpu=1e\+308: must be from 0 to 100 machines"),
        ([HEADER, GOOD, GOOD.replace("a-1", "a-2"), GOOD], "line 4: task_id='a-1' is that of .*line 2, too"),
        ([HEADER + ",cpu", GOOD + ",1"], "line 1: two columns are named 'cpu'"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    path = write(tmp_path / "day_0.csv", *lines)
    with pytest.raises(TraceError, match=rf"day_0\.csv.*{message}"):
        read_google_jobs(path)


def test_the_file_that_is_bad_is_named(tmp_path: Path) -> None:
    write(tmp_path / "day_0.csv", HEADER, GOOD)
    write(tmp_path / "day_1.csv", HEADER, GOOD, GOOD.replace("0.5", "half"))
    with pytest.raises(TraceError, match=r"day_1\.csv, line 3: cpu"):
        read_google_jobs(tmp_path)


def test_missing_truncated_and_empty(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere: cannot be read"):
        read_google_jobs(tmp_path / "nowhere")
    with pytest.raises(TraceError, match=r"holds no \*\.csv"):
        read_google_jobs(tmp_path)
    path = write(tmp_path / "day_0.csv.gz", HEADER, GOOD, GOOD)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TraceError, match=r"day_0\.csv\.gz: truncated or damaged gzip"):
        read_google_jobs(tmp_path)
    plain = tmp_path / "plain.csv"
    plain.write_text(f"{HEADER}\n{GOOD}\n{GOOD[:-1]}")
    with pytest.raises(TraceError, match=r"plain\.csv, line 3: the file is truncated"):
        read_google_jobs(plain)
    with pytest.raises(TraceError, match="every row was dropped"):
        read_google_jobs(write(tmp_path / "zero.csv", HEADER, f"{START},a-1,0,0.5,103"))


def test_real_jobs(google_folder: Path) -> None:
    jobs = read_google_jobs(google_folder)
    assert jobs.days == 30
    assert jobs.counts == {
        "read": 47_276,
        "before_start": 0,
        "after_end": 0,
        "zero_duration": 78,
        "zero_cpu": 20,
        "too_large": 0,
        "kept": 47_178,
    }
    assert jobs.mean_load == pytest.approx(3.0, abs=0.01)
    assert np.all(np.diff(jobs.day_offsets) > 1000)
