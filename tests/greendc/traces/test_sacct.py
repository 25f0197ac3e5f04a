"""Exports of sacct: jobs that ran become a log, everything else is counted, and bad lines are named."""

import numpy as np
import pytest

from greendc.traces import TraceError
from greendc.traces.defects import DefectsError
from greendc.traces.job_logs import inspect_log, read_log
from greendc.traces.sacct import duration, read_sacct

HEADER = "JobID|User|Submit|Start|End|Elapsed|Timelimit|NCPUS|NNodes|State|Priority"
DAY = "2024-03-01T"
LINES = (
    f"101|ann|{DAY}10:00:00|{DAY}10:05:00|{DAY}11:05:00|01:00:00|1-02:03:04|4|1|COMPLETED|7",
    f"101.batch||{DAY}10:05:00|{DAY}10:05:00|{DAY}11:05:00|01:00:00||4|1|COMPLETED|",
    f"102|bob|{DAY}09:00:00|{DAY}10:00:00|{DAY}10:30:00|30:00|UNLIMITED|8|2|CANCELLED by 1000|1",
    f"103|ann|{DAY}10:10:00|Unknown|{DAY}10:20:00|00:00:00|01:00:00|1|1|CANCELLED by 1000|1",
    f"104|ann|{DAY}10:11:00|{DAY}10:12:00|Unknown|05:00:00|Partition_Limit|1|1|RUNNING|1",
    f"105|ann|{DAY}10:12:00|Unknown|Unknown|00:00:00|10:00|1|1|PENDING|1",
    f"106_3|eve|{DAY}10:13:00|{DAY}10:13:00|2024-03-03T11:13:00|2-01:00:00|3-00:00:00|6|2|TIMEOUT|9",
)


def write(tmp_path, *lines, header=HEADER):
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_jobs_that_ran_become_a_log_in_order_of_submission(tmp_path):
    log = read_sacct(write(tmp_path, *LINES))
    assert log.column("submit_time").tolist() == [0.0, 3600.0, 4380.0]
    assert log.column("wait_time").tolist() == [3600.0, 300.0, 0.0]
    assert log.column("run_time").tolist() == [1800.0, 3600.0, 49 * 3600.0]
    assert log.processors.tolist() == [8.0, 4.0, 6.0]
    assert np.isnan(log.column("requested_time")[0])  # UNLIMITED
    assert log.column("requested_time")[1:].tolist() == [86_400 + 2 * 3600 + 184.0, 3 * 86_400.0]
    assert log.column("status").tolist() == [5.0, 1.0, 0.0]
    assert log.column("user").tolist() == [1.0, 2.0, 3.0]
    assert log.header["UnixStartTime"] == "1709283600"  # nine in the morning of the first of March
    # 102 and 101 overlap from 10:05, and 106 runs beside them from 10:13: 8 + 4 + 6
    assert log.machine_processors == 18


def test_blank_lines_before_the_header_are_passed_over(tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_text("\n \n" + "\n".join([HEADER, *LINES, "107|cut"]) + "\n")
    found = inspect_log(path)
    assert found.kind == "sacct" and len(found.log) == 3
    assert [defect.line for defect in found.inspection.defects] == [11]


def test_a_last_line_without_an_end_can_be_left_out(tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join([HEADER, *LINES, LINES[0]])[:-20])
    (defect,) = inspect_log(path).inspection.defects
    assert defect.line == len(LINES) + 2 and "no end" in defect.what and defect.mend == "left out"
    with pytest.raises(DefectsError, match=f"jobs.txt:{len(LINES) + 2}: the last line has no end"):
        read_sacct(path)
    for end in ("\n", "\n "):
        path.write_text("\n".join([HEADER, *LINES]) + end)
        assert inspect_log(path).inspection.defects == ()


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda text: text.replace("|", ";"), "between semicolons"),
        (lambda text: text.replace("|", ","), "between commas"),
        (lambda text: text.replace("|", "\t"), "between tabs"),
        (lambda text: text.replace("|", "  "), "without -P"),
        (lambda text: text.partition("\n")[2], "without its header"),
    ],
)
def test_an_export_in_another_form_is_not_called_empty(tmp_path, change, hint):
    path = tmp_path / "jobs.txt"
    path.write_text(change("\n".join([HEADER, *LINES]) + "\n"))
    for read in (inspect_log, read_log):
        with pytest.raises(TraceError, match=f"it looks like a table of sacct .*{hint}") as raised:
            read(path)
        assert "line 1" in str(raised.value) and "empty" not in str(raised.value)


def test_a_log_of_which_no_line_can_be_read_is_not_called_empty(tmp_path):
    path = tmp_path / "jobs.txt"
    for text in ("these are no jobs\nat all\n", "; a log\nthese are no jobs\n", "one line"):
        path.write_text(text)
        with pytest.raises(TraceError, match=r"line [12]: (.*field|the file is truncated)"):
            inspect_log(path)


def test_what_did_not_run_is_counted(tmp_path):
    assert read_sacct(write(tmp_path, *LINES)).counts == {
        "cancelled_before_start": 1,
        "not_started": 1,
        "still_running": 1,
        "no_run_time": 0,
        "requeued": 0,
        "steps": 1,
        "start_before_submission": 0,
    }


def test_of_a_job_that_was_requeued_the_last_run_counts(tmp_path):
    again = LINES[0].replace("10:05:00|", "12:05:00|", 1)
    log = read_sacct(write(tmp_path, LINES[0], again))
    assert log.counts["requeued"] == 1
    assert log.column("wait_time").tolist() == [7500.0]


def test_jobs_that_were_held_are_submitted_when_they_became_eligible(tmp_path):
    line = f"1|{DAY}10:00:00|{DAY}10:30:00|{DAY}10:40:00|10:00|4|COMPLETED"
    log = read_sacct(write(tmp_path, line, header="JobID|Submit|Eligible|Start|Elapsed|AllocCPUS|State"))
    assert log.column("wait_time").tolist() == [600.0]


def test_nodes_are_the_size_where_there_are_no_processors(tmp_path):
    line = f"1|{DAY}10:00:00|{DAY}10:30:00|{DAY}10:40:00|3"
    log = read_sacct(write(tmp_path, line, header="JobID|Submit|Start|End|NNodes"))
    assert (log.processors.tolist(), log.column("run_time").tolist()) == ([3.0], [600.0])


def test_without_a_state_the_end_says_whether_a_job_is_over(tmp_path):
    lines = (
        f"1|{DAY}10:00:00|{DAY}10:30:00|{DAY}10:40:00|10:00|4",
        f"2|{DAY}10:00:00|{DAY}10:30:00|Unknown|05:00:00|4",
        f"3|{DAY}10:00:00|Unknown|Unknown|00:00:00|4",
    )
    log = read_sacct(write(tmp_path, *lines, header="JobID|Submit|Start|End|Elapsed|NCPUS"))
    assert log.column("run_time").tolist() == [600.0]
    assert np.isnan(log.column("status")).all()  # it is over; how it ended is not said
    assert {kind: count for kind, count in log.counts.items() if count} == {
        "still_running": 1,
        "not_started": 1,
    }
    no_start = [f"{line[0]}|{DAY}10:00:00|{line.split('|', 3)[3]}" for line in lines]
    again = read_sacct(write(tmp_path, *no_start, header="JobID|Submit|End|Elapsed|NCPUS"))
    assert again.counts == log.counts and again.column("run_time").tolist() == [600.0]
    empty = [line + "|" for line in lines]
    again = read_sacct(write(tmp_path, *empty, header="JobID|Submit|Start|End|Elapsed|NCPUS|State"))
    assert again.counts == log.counts
    two = (f"1|{DAY}10:00:00|10:00|4|COMPLETED", f"2|{DAY}10:00:00|10:00|4|")
    with pytest.raises(DefectsError, match=r"jobs\.txt:3: state='': must be there, .* no column end"):
        read_sacct(write(tmp_path, *two, header="JobID|Submit|Elapsed|NCPUS|State"))


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("1-02:03:04", 93_784.0),
        ("02:03:04", 7_384.0),
        ("03:04", 184.0),
        ("00:01.500", 1.0),
        ("90", 5_400.0),
        ("2-12", 216_000.0),
        ("2-12:30", 217_800.0),
        ("100:30", 6_030.0),
    ],
)
def test_durations(cell, seconds):
    assert duration(cell) == seconds


@pytest.mark.parametrize(
    "cell", ["", "1:2:3:4", "-1", "1h", "1-", "00:75:00", "01:00:60", "1-24:00", "٣", "1_0", "9" * 400]
)
def test_what_is_no_duration(cell):
    with pytest.raises(ValueError, match="must be a duration"):
        duration(cell)


def test_every_bad_line_is_named_at_once(tmp_path):
    bad = (
        LINES[0].replace("2024-03-01T10:00:00", "yesterday"),
        "104|short",
        LINES[2].replace("|8|", "|many|"),
        LINES[2].replace("UNLIMITED", "for ever"),
    )
    path = write(tmp_path, *LINES, *bad)
    with pytest.raises(DefectsError) as raised:
        read_sacct(path)
    places = [line.split(":")[1] for line in raised.value.lines]
    assert places == ["9", "10", "11", "12"]
    for said in (
        "submit='yesterday'",
        "2 field(s) instead of 11",
        "processors='many'",
        "timelimit='for ever'",
    ):
        assert said in str(raised.value)
    inspected = inspect_log(path)
    assert (inspected.kind, len(inspected.log)) == ("sacct", 3)
    assert inspected.inspection.counts == {"lines_left_out": 4}
    assert inspected.columns["priority"] == ["1", "7", "9"]  # of the jobs of the log, in its order


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("JobID|Submit|Elapsed", "no column one of ncpus"),
        ("JobID|Elapsed|NCPUS", "no column submit"),
        ("JobID|Submit|Start|NCPUS", "no column elapsed, or start and end"),
        ("JobID|Submit|Start|Elapsed|NCPUS", r"no column state, or end \(has jobid, submit, start"),
    ],
)
def test_a_column_that_is_missing_is_named(tmp_path, header, message):
    with pytest.raises(TraceError, match=message):
        read_sacct(write(tmp_path, "1|2|3|4", header=header))


def test_a_reader_that_mends_nothing_names_no_option_for_it(tmp_path):
    for bad in ([*LINES, "104|short"], ["104|short"]):
        path = write(tmp_path, *bad)
        for read in (read_sacct, read_log):
            with pytest.raises(DefectsError, match=r"field\(s\) instead of 11") as raised:
                read(path)
            assert "--repair" not in str(raised.value)
            assert str(raised.value).endswith("1 defect(s) in the input")


def test_without_a_sound_line_the_defects_are_named(tmp_path):
    wrong = [LINES[k].replace(f"{DAY}10:05:00", "03/01/2024-10:05:00") for k in (0, 0)]
    path = write(tmp_path, *wrong, LINES[3])
    for read in (read_sacct, read_log, inspect_log):
        with pytest.raises(DefectsError) as raised:
            read(path)
        assert [line.partition("jobs.txt:")[2] for line in raised.value.lines] == [
            *(
                f"{k}: start='03/01/2024-10:05:00': must be a time such as 2024-01-31T13:45:00; "
                "cannot be mended"
                for k in (2, 3)
            ),
            " no job of its other lines ran (1 cancelled before start)",
        ]


@pytest.mark.parametrize(
    ("start", "end", "state", "seconds"),
    [
        ("01:50", "01:10", "COMPLETED", 1200.0),  # the clock went back from 2:00 to 1:00
        ("01:50", "01:49:59", "FAILED", 3599.0),
        ("01:50", "02:10", "COMPLETED", 1200.0),
        ("01:50", "01:50", "FAILED", None),
        ("01:50", "00:50", "COMPLETED", None),
        ("01:50", "01:10", "CANCELLED by 7", None),
        ("13:50", "13:49:59", "FAILED", None),  # no clock is put back at noon
    ],
)
def test_a_job_that_ran_while_the_clock_was_put_back(tmp_path, start, end, state, seconds):
    day = "2024-11-03T"
    lines = [
        f"1|{day}01:00:00|{day}03:00|{day}04:00|4|COMPLETED",
        f"2|{day}01:00:00|{day}{start}|{day}{end}|4|{state}",
    ]
    log = read_sacct(write(tmp_path, *lines, header="JobID|Submit|Start|End|NCPUS|State"))
    assert log.column("run_time").tolist() == [3600.0, *([] if seconds is None else [seconds])]
    left_out = log.counts["no_run_time"] + log.counts["cancelled_before_start"]
    assert left_out == (seconds is None)


@pytest.mark.parametrize(
    ("submit", "start", "seconds"),
    [
        ("02:50:00", "02:10:00", 1200.0),  # the clock went back from 3:00 to 2:00
        ("02:10:00", "02:09:59", 3599.0),
        ("02:10:00", "02:10:00", 0.0),
        ("02:10:00", "02:20:00", 600.0),
        ("02:10:00", "01:10:00", None),
        ("13:10:00", "13:09:59", None),  # no clock is put back at noon
    ],
)
def test_a_job_that_waited_while_the_clock_was_put_back(tmp_path, submit, start, seconds):
    day = "2024-10-27T"
    lines = [
        f"1|{day}01:00:00|{day}01:00:00|10:00|4|COMPLETED",
        f"2|{day}{submit}|{day}{start}|10:00|4|COMPLETED",
    ]
    log = read_sacct(write(tmp_path, *lines, header="JobID|Submit|Start|Elapsed|NCPUS|State"))
    wait = log.column("wait_time")[1]
    assert np.isnan(wait) if seconds is None else wait == seconds
    assert log.counts["start_before_submission"] == (seconds is None)
    assert log.column("run_time").tolist() == [600.0, 600.0]


def test_no_clock_is_put_back_in_june(tmp_path):
    day = "2024-06-12T"
    lines = [f"{k}|{day}01:00:01|{day}01:00:0{k}|10:00|4|COMPLETED" for k in (1, 0)]
    log = read_sacct(write(tmp_path, *lines, header="JobID|Submit|Start|Elapsed|NCPUS|State"))
    assert log.counts["start_before_submission"] == 1 and np.isnan(log.column("wait_time")).sum() == 1


def test_exports_of_one_cluster_one_after_the_other(tmp_path):
    header = "Cluster|JobID|Submit|Start|Elapsed|NCPUS|State"
    lines = [f"a|{k}|{DAY}1{k}:00:00|{DAY}1{k}:05:00|10:00|4|COMPLETED" for k in (1, 2)]
    with pytest.raises(TraceError) as caught:
        read_sacct(write(tmp_path, lines[0], header, lines[1], header=header))
    assert "clusters" not in str(caught.value)


def test_an_export_of_several_clusters_is_refused(tmp_path):
    header = "Cluster|JobID|Submit|Start|Elapsed|NCPUS|State"
    lines = [f"{name}|7|{DAY}1{k}:00:00|{DAY}1{k}:05:00|10:00|4|COMPLETED" for k, name in enumerate("abb")]
    says = r"jobs\.txt: has jobs of 2 clusters \(a, b\), .*; export one: sacct --clusters=a$"
    path = write(tmp_path, *lines, header=header)
    for read in (read_sacct, read_log, inspect_log):
        with pytest.raises(TraceError, match=says):
            read(path)
    log = read_sacct(write(tmp_path, *lines[1:], header=header))
    assert (len(log), log.counts["requeued"]) == (1, 1)
    many = [line.replace("a|", f"c{k}|") for k, line in enumerate(lines[:1] * 12)]
    with pytest.raises(TraceError, match=r"of 12 clusters \(c0, c1, c2, c3, c4, c5, c6, c7, \.\.\.\)"):
        read_sacct(write(tmp_path, *many, header=header))


def test_an_export_of_which_no_job_ran(tmp_path):
    with pytest.raises(TraceError, match=r"no job of it ran \(1 cancelled before start\)"):
        read_sacct(write(tmp_path, LINES[3]))


@pytest.mark.parametrize(
    ("there", "instead", "said"),
    [
        ("|8|", "|1_0|", "processors='1_0'"),  # int() would take it for 10
        ("|8|", "|٣|", "processors='٣'"),
        ("|8|", "|99999999999|", "processors=1e"),
        (f"{DAY}09:00:00", f"{DAY}09:00:00+05:00", "submit="),
        (f"{DAY}09:00:00", "20240301", "submit="),
        (f"{DAY}09:00:00", "2924-03-01T09:00:00", "the year must be from 1900 to 2100"),
        ("UNLIMITED", "999999999-00:00:00", "timelimit="),
    ],
)
def test_what_only_looks_like_a_number_or_a_time_is_refused(tmp_path, there, instead, said):
    with pytest.raises(DefectsError, match=r"jobs\.txt:4: ") as raised:
        read_sacct(write(tmp_path, *LINES[:2], LINES[2].replace(there, instead)))
    assert said in str(raised.value)


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(TraceError, match="line 1: column start is there 2 times"):
        read_sacct(write(tmp_path, *LINES, header=HEADER.replace("End", "Start")))
