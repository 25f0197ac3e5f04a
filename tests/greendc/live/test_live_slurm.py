"""Slurm as a client: what its answers become, and which commands a decision becomes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from slurm_cases import CLOCK, NODES, NOW, RUNNING, answers, job, node, power_table

from greendc.live import CapacityChange, RunningJob, Scheduler, SnapshotError
from greendc.live.reservations import our_reservations, power_layers
from greendc.live.slurm import commands, read_queue
from greendc.live.slurm_answers import SlurmError, run_command
from greendc.traces.trace_files import TraceError


def test_held_jobs_wait_and_the_others_are_left_to_slurm():
    jobs = [
        RUNNING,
        job(2, cpus=8),
        job(3),
        job(4, reason="Dependency"),
        job(5, array_task_string="1-3"),
        job(6, dependency="afterok:1(unfulfilled)"),
        job(7, time_limit=0),
        job(8, eligible_time=CLOCK + 60),
        job(9, partition="all,other"),
        job(10, partition="other"),
        job(11, state="COMPLETED"),
    ]
    queue = read_queue(run=answers(jobs, NODES)[0], now=NOW)
    snapshot = queue.snapshot
    assert (snapshot.processors, snapshot.capacity, snapshot.used) == (10, 10, 6)
    assert [waiting.id for waiting in snapshot.waiting] == ["2", "3"]
    assert snapshot.waiting[0].waited_seconds == 300 and snapshot.waiting[0].limit_seconds == 600
    assert snapshot.running[0].elapsed_seconds == 100
    assert list(queue.left) == ["4", "5", "6", "7", "8", "9"]
    decision = Scheduler("fcfs").decide(snapshot, NOW)
    assert commands(queue, decision) == [["scontrol", "release", "3"]]


@pytest.mark.parametrize("version", ["23.02", "23.11"])
def test_later_versions_say_the_same_in_other_words(version):
    jobs = [
        RUNNING,
        job(2, cpus=8),
        job(3, priority=4),
        job(7, time_limit=0),
        job(8, eligible_time=CLOCK + 60),
    ]
    jobs += [job(9, "RUNNING", "None", 1, time_limit=0), job(10, reason="Priority", cpus=1, priority=5)]
    nodes = [*NODES[:8], node("n8", used=1), node("n9", state="down*", flags=["DRAIN"])]
    old = read_queue(run=answers(jobs, nodes)[0], now=NOW)
    run, asked = answers(jobs, nodes, version=version)
    assert read_queue(run=run, now=NOW) == old
    assert asked[1] == ["scontrol", "show", "nodes", "--json"]
    assert old.snapshot.capacity == 9 and old.snapshot.used == 8 and list(old.left) == ["7", "8", "10"]


def test_where_later_versions_have_no_nodes_either_the_command_is_named():
    def run(command):
        return '{"sinfo": []}'

    with pytest.raises(SlurmError, match=r"^scontrol show nodes --json: no JSON with 'nodes'"):
        read_queue(run=run, now=NOW)


def test_jobs_that_an_administrator_holds_are_left():
    jobs = [job(2, reason="JobHeldAdmin"), job(3)]
    for hold in (False, True):
        queue = read_queue(run=answers(jobs, NODES)[0], now=NOW, hold=hold)
        assert queue.left == {"2": "held by an administrator"}
        assert [waiting.id for waiting in queue.snapshot.waiting] == ["3"]


def test_jobs_that_slurm_may_start_at_any_moment_take_their_room_already():
    jobs = [
        RUNNING,
        job(2, reason="None", cpus=3, priority=1),
        job(3, reason="Priority", cpus=2, priority=2),
        job(4, cpus=2),
    ]
    snapshot = read_queue(run=answers(jobs, NODES)[0], now=NOW).snapshot
    assert [(running.id, running.processors) for running in snapshot.running] == [("1", 6), ("3", 2)]
    assert Scheduler("fcfs").decide(snapshot, NOW).start == ("4",)
    jobs[1]["priority"] = 3
    snapshot = read_queue(run=answers(jobs, NODES)[0], now=NOW).snapshot
    assert Scheduler("fcfs").decide(snapshot, NOW).start == ()


def test_nodes_that_are_down_or_draining_have_no_power_for_new_jobs():
    nodes = [
        node("a", 4, 4, "allocated"),
        node("b", 4, 0, "down*"),
        node("c", 4, 2, "mixed", ["DRAIN"]),
        node("d", 4, 0, "idle"),
    ]
    queue = read_queue(run=answers([RUNNING], nodes)[0], now=NOW)
    assert (queue.snapshot.processors, queue.snapshot.capacity, queue.snapshot.used) == (16, 10, 6)


@pytest.mark.parametrize("version", ["22.05", "23.11"])
@pytest.mark.parametrize(
    ("state", "flags", "usable"),
    [
        ("idle", ["POWERED_DOWN"], True),
        ("idle", ["CLOUD", "POWERED_DOWN"], True),
        ("mixed", ["NOT_RESPONDING", "POWERING_UP"], True),
        ("idle", ["PLANNED"], True),
        ("idle", ["PLANNED", "RESERVED"], False),
        ("mixed", ["RESERVED"], False),
        ("mixed", ["REBOOT_REQUESTED"], True),
        ("idle", ["NOT_RESPONDING"], False),
        ("down", ["POWERED_DOWN"], False),
        ("idle", ["DRAIN", "POWERED_DOWN"], False),
        ("idle", ["POWERING_DOWN"], False),
        ("idle", ["POWER_DOWN"], False),
        ("idle", ["MAINTENANCE", "RESERVED"], False),
        ("idle", ["INVALID_REG"], False),
        ("mixed", ["REBOOT_ISSUED"], False),
        ("idle", ["FAIL"], False),
        ("idle", ["BLOCKED"], False),
        ("future", [], False),
        ("unknown", [], False),
        ("error", [], False),
    ],
)
def test_nodes_on_which_slurm_starts_jobs_have_power_also_those_that_it_wakes(state, flags, usable, version):
    nodes = [node("a", 4, 0, state, flags), node("b", 2)]
    snapshot = read_queue(run=answers([], nodes, version=version)[0], now=NOW).snapshot
    assert (snapshot.processors, snapshot.capacity) == (6, 6 if usable else 2)


def test_a_cluster_that_has_powered_down_all_nodes_wakes_them():
    nodes = [node(f"n{k}", state="idle", flags=["POWERED_DOWN"]) for k in range(4)]
    queue = read_queue(run=answers([job(3)], nodes)[0], now=NOW)
    assert commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW)) == [["scontrol", "release", "3"]]


def test_jobs_about_to_start_have_no_room_on_nodes_that_are_down():
    """Six of ten CPUs run a job, three of the others are down: of two jobs that wait one has room."""
    nodes = [*NODES[:7], *(node(f"n{k}", state="down") for k in (7, 8, 9))]
    jobs = [RUNNING, job(2, reason="Resources", cpus=4, priority=9), job(3, reason="Priority", cpus=1)]
    queue = read_queue(run=answers(jobs, nodes)[0], now=NOW)
    assert (queue.snapshot.capacity, queue.snapshot.used, queue.starting) == (7, 7, {"3"})
    assert (queue.used, queue.excess) == (6, 0)


def test_only_what_runs_is_too_much_for_the_power(tmp_path):
    jobs = [RUNNING, job(2, reason="Priority", cpus=3, priority=9)]
    path = power_table(tmp_path / "power.csv", (-60, 7), (1800, 7))
    queue = read_queue(forecast=path, run=answers(jobs, NODES)[0], now=NOW)
    assert (queue.snapshot.capacity, queue.snapshot.used, queue.used, queue.excess) == (7, 9, 6, 0)
    path = power_table(tmp_path / "power.csv", (-60, 4), (1800, 7))
    queue = read_queue(forecast=path, run=answers(jobs, NODES)[0], now=NOW)
    assert (queue.used, queue.excess) == (6, 2)


def test_cpus_that_other_partitions_use_are_busy():
    nodes = [node("a", 8, 8, "allocated", partitions=("all", "other"))]
    with pytest.raises(SlurmError, match="partition: must be given, one of all, other"):
        read_queue(run=answers([RUNNING], nodes)[0], now=NOW)
    queue = read_queue("all", run=answers([RUNNING], nodes)[0], now=NOW)
    assert queue.snapshot.used == 8 and "2 CPUs of all run jobs of other partitions" in queue.notes[0]


def test_a_job_beyond_its_limit_and_one_without_are_taken_as_they_are():
    jobs = [job(1, "RUNNING", "None", time_limit=1), job(2, "RUNNING", "None", time_limit=0)]
    running = read_queue(run=answers(jobs, NODES)[0], now=NOW).snapshot.running
    assert running[0].limit_seconds == running[0].elapsed_seconds == 100
    assert running[1].limit_seconds == 2**31


def test_a_forecast_of_power_lowers_the_capacity(tmp_path):
    path = tmp_path / "power.csv"
    rows = [(-3600, 8), (-60, 7), (1800, 4), (5400, 99)]
    lines = [f"{(NOW + timedelta(seconds=after)).isoformat()},{size}" for after, size in rows]
    path.write_text("time,processors\n" + "\n".join(lines) + "\n")
    snapshot = read_queue(forecast=path, run=answers([RUNNING], NODES)[0], now=NOW).snapshot
    assert snapshot.capacity == 7
    assert [(change.after_seconds, change.processors) for change in snapshot.forecast] == [
        (1800, 4),
        (5400, 10),
    ]
    assert snapshot.forecast_seconds == 9000
    path.write_text("time,processors\n" + "\n".join(lines[2:]) + "\n")
    with pytest.raises(TraceError, match="line 2: time must be past"):
        read_queue(forecast=path, run=answers([RUNNING], NODES)[0], now=NOW)
    path.write_text("time,processors\n" + lines[0].replace(",8", ",7.5") + "\n")
    with pytest.raises(TraceError, match="line 2: processors must be whole"):
        read_queue(forecast=path, run=answers([RUNNING], NODES)[0], now=NOW)


def test_a_forecast_that_is_over_is_refused_and_one_that_goes_on_is_not(tmp_path):
    path, run = tmp_path / "power.csv", answers([job(3)], [node(f"n{k}") for k in range(10)])[0]
    ended = datetime.fromtimestamp(CLOCK, timezone.utc).isoformat()
    with pytest.raises(TraceError) as error:
        read_queue(forecast=power_table(path, (-10_800, 8), (-5400, 3)), run=run, now=NOW + timedelta(days=9))
    assert str(error.value) == (
        f"{path}, line 3: the forecast ended at {ended}: what has power now is not said"
    )
    # The last line holds for as long as the one before it, one alone for an hour.
    queue = read_queue(forecast=power_table(path, (-10_800, 8), (-5399, 3)), run=run, now=NOW)
    assert (queue.snapshot.capacity, queue.snapshot.forecast_seconds) == (3, 2)
    with pytest.raises(SnapshotError, match="forecast_seconds=2: must be at least 86400, horizon_hours=24"):
        Scheduler("fcfs").decide(queue.snapshot, NOW)
    with pytest.raises(TraceError, match="line 2: the forecast ended at"):
        read_queue(forecast=power_table(path, (-3600, 8)), run=run, now=NOW)
    assert read_queue(forecast=power_table(path, (-3599, 8)), run=run, now=NOW).snapshot.capacity == 8
    # What does not change is said by a line that is far away.
    queue = read_queue(forecast=power_table(path, (-10_800, 3), (20 * 365 * 86_400, 3)), run=run, now=NOW)
    assert queue.snapshot.capacity == 3
    assert Scheduler("fcfs", horizon_hours=8784).decide(queue.snapshot, NOW).start == ("3",)


def test_times_of_a_forecast_have_an_offset_from_utc(tmp_path):
    path, run = tmp_path / "power.csv", answers([], NODES)[0]
    times = [(NOW + timedelta(hours=hours)).replace(tzinfo=None) for hours in (-1, 40)]
    path.write_text("time,processors\n" + "".join(f"{time},8\n" for time in times))
    message = f"line 2: time='{times[0]}': must have an offset from UTC, as in 2026-03-01T12:00:00"
    with pytest.raises(TraceError, match=message):
        read_queue(forecast=path, run=run, now=NOW)
    for write in ("{}Z,8\n", "{}+00:00,8\n", "{}+0000,8\n"):
        path.write_text("time,processors\n" + "".join(write.format(time) for time in times))
        assert read_queue(forecast=path, run=run, now=NOW).snapshot.capacity == 8


def test_times_of_a_parquet_forecast_have_an_offset_from_utc(tmp_path):
    pytest.importorskip("pyarrow")
    path, run = tmp_path / "power.parquet", answers([], NODES)[0]
    times = pd.to_datetime([NOW - timedelta(hours=1), NOW + timedelta(hours=40)])
    pd.DataFrame({"time": times, "processors": [8, 9]}).to_parquet(path)
    assert read_queue(forecast=path, run=run, now=NOW).snapshot.capacity == 8
    pd.DataFrame({"time": times.tz_localize(None), "processors": [8, 9]}).to_parquet(path)
    with pytest.raises(TraceError, match="must have an offset from UTC"):
        read_queue(forecast=path, run=run, now=NOW)


def test_jobs_start_in_the_order_of_priorities_behind_those_that_start_anyway():
    jobs = [
        RUNNING,
        job(2, reason="Priority", cpus=1, priority=77),
        job(3, reason="Resources", cpus=1, priority=70),
        job(4, reason="Resources", cpus=9, priority=900),
        *(job(k, cpus=1) for k in (5, 6)),
    ]
    queue = read_queue(run=answers(jobs, NODES)[0], now=NOW)
    lines = commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW), priorities=True)
    assert lines == [
        ["scontrol", "release", "5"],
        ["scontrol", "update", "JobId=5", "Priority=69"],
        ["scontrol", "release", "6"],
        ["scontrol", "update", "JobId=6", "Priority=68"],
    ]
    # Of those that have no room now, none is before them.
    queue = read_queue(run=answers([RUNNING, *jobs[3:]], NODES)[0], now=NOW)
    lines = commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW), priorities=True)
    assert lines[1::2] == [
        ["scontrol", "update", f"JobId={k}", f"Priority={p}"] for k, p in ((5, 902), (6, 901))
    ]


def test_with_hold_what_may_start_at_any_moment_is_decided_upon_too():
    jobs = [
        RUNNING,
        job(2, reason="None", cpus=2),
        job(3, reason="Priority", cpus=2),
        job(4),
        job(5, time_limit=0),
    ]
    nodes = [*NODES[:9], node("n9", state="down")]
    queue = read_queue(run=answers(jobs, nodes)[0], now=NOW, hold=True)
    assert [waiting.id for waiting in queue.snapshot.waiting] == ["2", "3", "4"]
    assert queue.ready == {"2", "3"} and list(queue.left) == ["5"]
    decision = Scheduler("fcfs").decide(queue.snapshot, NOW)
    assert decision.start == ("2",)
    assert commands(queue, decision) == [["scontrol", "uhold", "3"]]
    # Power has fallen below what runs: all are held.
    queue = read_queue(
        run=answers(jobs, [node(f"n{k}", 1, 1, "down") for k in range(6)])[0], now=NOW, hold=True
    )
    decision = Scheduler("fcfs").decide(queue.snapshot, NOW)
    assert commands(queue, decision) == [["scontrol", "uhold", "2"], ["scontrol", "uhold", "3"]]


def layers(*rows, seconds=1000, usable=10, running=()):
    return [
        tuple(one) for one in power_layers([CapacityChange(*row) for row in rows], seconds, usable, running)
    ]


def test_power_that_falls_is_withheld_in_layers_that_last():
    assert layers((-60, 10)) == []
    assert layers((-60, 10), (100, 6), (400, 10)) == [(100, 400, 4)]
    assert layers((-60, 8), (100, 6), (200, 9), (300, 7)) == [
        (-60, 200, 1), (-60, 1000, 1), (100, 200, 2), (300, 1000, 2)
    ]  # fmt: skip
    assert layers((-900, 6), (-60, 4), (100, 6), (200, 10)) == [(-900, 200, 4), (-60, 100, 2)], (
        "as they began"
    )
    assert layers((-900, 6), (-60, 10), (100, 6)) == [(100, 1000, 4)], "what is over is over"


def test_cpus_of_jobs_that_may_still_run_are_not_withheld():
    running = [RunningJob("a", 5, 600, 100), RunningJob("b", 3, 300, 250)]
    assert layers((-60, 10), (40, 1), (60, 1), (500, 1), running=running) == [
        (40, 1000, 2), (60, 1000, 3), (500, 1000, 4)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_layers_add_up_to_what_is_missing(seed):
    rng = np.random.default_rng(seed)
    times = np.unique(rng.integers(-500, 1000, 12))
    rows = [(int(time), int(rng.integers(0, 11))) for time in times]
    found = layers((-501, 7), *rows)
    for second in range(1, 1000, 7):
        capacity = [size for time, size in ((-501, 7), *rows) if time <= second][-1]
        assert sum(cpus for first, last, cpus in found if first <= second < last) == 10 - capacity


def test_reservations_are_made_once_and_those_of_another_forecast_deleted(tmp_path):
    path = power_table(tmp_path / "power.csv", (-60, 10), (1800, 4), (5400, 10))
    mine = f"greendc-all-{CLOCK + 1800}-{CLOCK + 5400}-6"
    made = [
        "scontrol", "create", "reservation", f"ReservationName={mine}", f"StartTime=uts{CLOCK + 1800}",
        f"EndTime=uts{CLOCK + 5400}", "CoreCnt=6", "PartitionName=all", "Users=root",
    ]  # fmt: skip
    jobs = [job(3)]

    def lines(there):
        text = "".join(f"ReservationName={name} StartTime=x EndTime=y\n" for name in there)
        run = answers(jobs, [node(f"n{k}") for k in range(10)], reservations=text)[0]
        queue = read_queue(forecast=path, run=run, now=NOW, reserve=True)
        return commands(queue, Scheduler("fcfs", horizon_hours=1).decide(queue.snapshot, NOW))

    release = ["scontrol", "release", "3"]
    assert lines([]) == [made, release]
    assert lines([mine, "maintenance"]) == [release]
    other = f"greendc-all-{CLOCK + 1800}-{CLOCK + 5400}-5"
    theirs = f"greendc-other-{CLOCK + 1800}-{CLOCK + 5400}-5"
    assert lines([other, theirs]) == [["scontrol", "delete", f"ReservationName={other}"], made, release]
    assert our_reservations("No reservations in the system\n", "all") == ()


def test_a_reservation_counts_cores_and_one_that_has_begun_starts_now(tmp_path):
    path = power_table(tmp_path / "power.csv", (-60, 5), (5400, 16))
    nodes = [{**node("a", 8, 0), "threads": 2}, {**node("b", 8, 0), "threads": 2}]
    queue = read_queue(forecast=path, run=answers([], nodes)[0], now=NOW, reserve=True)
    (line,) = commands(queue, Scheduler("fcfs", horizon_hours=1).decide(queue.snapshot, NOW))
    assert "StartTime=now" in line and "CoreCnt=6" in line  # 11 CPUs
    assert f"ReservationName=greendc-all-{CLOCK - 60}-{CLOCK + 5400}-11" in line


def test_history_comes_from_accounting():
    submit, end = NOW - timedelta(hours=3), NOW - timedelta(hours=1)
    stamp = "%Y-%m-%dT%H:%M:%S"
    local = [time.astimezone().strftime(stamp) for time in (submit, end)]
    lines = [
        f"7|ada|4|60|3600|{local[0]}|{local[1]}|all",
        f"8|ada|4|60|10|{local[0]}|Unknown|all",
        f"9|ada|4|Partition_Limit|10|{local[0]}|{local[1]}|all",
    ]
    run, asked = answers([RUNNING], NODES, "\n".join(lines))
    finished = read_queue(history_days=5, run=run, now=NOW).snapshot.finished
    assert [(job.processors, job.run_seconds, job.ended_seconds_ago) for job in finished] == [(4, 3600, 3600)]
    assert "now-5days" in asked[-1]
    with pytest.raises(SlurmError, match="sacct, line 1: 2 columns instead of 8"):
        read_queue(history_days=5, run=answers([RUNNING], NODES, "a|b")[0], now=NOW)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("no JSON", r"sinfo --json: the answer is no whole JSON text: is this Slurm 21.08 or later?"),
        ('{"jobs": []}', r"sinfo --json: no JSON with 'nodes'"),
        ('{"nodes": [3]}', r"'nodes' is no list of objects"),
        ('{"nodes": []}', r"^partition: Slurm told of none: no node has one$"),
        (
            '{"nodes": [{"name": "a", "partitions": ["p"], "cpus": "4"}]}',
            r"cpus='4' of node a: must be a number",
        ),
        ('{"nodes": [{"name": "a", "partitions": ["p"]}]}', r"cpus=None of node a: must be 0 or more"),
        ('{"nodes": [{"name": "a", "partitions": 5}]}', r"^partitions=5 of node a: must be a list of names$"),
        ('{"nodes": [{"name": "a", "partitions": "p"}]}', r"^partitions='p' of node a: must be a list of na"),
        (
            '{"nodes": [{"name": "a", "partitions": ["p"], "cpus": NaN}]}',
            r"cpus=nan of node a: must be a num",
        ),
        (
            '{"nodes": [{"name": "a", "partitions": ["p"], "cpus": 4, "state": 5}]}',
            r"^state=5 of node a: must be a list of names$",
        ),
    ],
)
def test_another_form_of_an_answer_is_named(answer, message):
    def run(command):
        return answer if command[0] == "sinfo" else '{"jobs": []}'

    with pytest.raises(SlurmError, match=message):
        read_queue(run=run, now=NOW)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("cpus", "4", "cpus='4' of job 3: must be a number: another version of Slurm?"),
        ("cpus", -1, "cpus=-1 of job 3: must be 0 or more"),
        (
            "time_limit",
            {"set": True, "infinite": False, "number": "x"},
            "time_limit='x' of job 3: must be a nu",
        ),
        ("job_state", [5], "job_state=[5] of job 3: must be a list of names"),
        ("job_id", None, "job_id=None of job None: must be 0 or more"),
    ],
)
def test_a_number_of_a_job_that_is_none_is_told_with_the_job(field, value, message):
    with pytest.raises(SlurmError) as error:
        read_queue(run=answers([{**job(3, name="my job"), field: value}], NODES)[0], now=NOW)
    assert str(error.value).startswith(message)


def test_a_command_that_is_not_there_or_fails_is_named():
    with pytest.raises(SlurmError, match="no-such-slurm: no such command: is Slurm installed here"):
        run_command(["no-such-slurm", "--json"])
    with pytest.raises(SlurmError, match=r"ls /absent: exit code 2: .*absent"):
        run_command(["ls", "/absent"])
