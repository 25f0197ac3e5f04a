"""Slurm as a client: which jobs and nodes are taken into account, and what is said of the others."""

from __future__ import annotations

import os
import stat
import time
from datetime import datetime, timedelta, timezone

import pytest
from slurm_cases import CLOCK, NODES, NOTHING_ASKED, NOW, RUNNING, answers, job, node, power_table

from greendc.live import RunningJob, Scheduler
from greendc.live.reservations import Layer, Reservation, power_layers
from greendc.live.slurm import commands, read_history, read_queue
from greendc.live.slurm_answers import SlurmError, run_command
from greendc.live.snapshot import MOST_SECONDS

CENTURIES = 99_999 * 1440
"""Minutes of ``--time=99999-00:00:00``."""


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "about to start"])
def test_a_limit_of_centuries_is_the_longest_that_there_is(state):
    if state == "about to start":
        one = job(3, reason="Priority", cpus=1, time_limit=CENTURIES)
    else:
        one = job(3, state, cpus=1, time_limit=CENTURIES)
    queue = read_queue(run=answers([RUNNING, one, job(4)], NODES)[0], now=NOW)
    found = [*queue.snapshot.running, *queue.snapshot.waiting]
    assert {job.id: job.limit_seconds for job in found}["3"] == MOST_SECONDS
    start = Scheduler("fcfs").decide(queue.snapshot, NOW).start
    assert start == (("3", "4") if state == "PENDING" else ("4",))


@pytest.mark.parametrize("version", ["22.05", "23.11"])
def test_components_of_a_heterogeneous_job_are_left_to_slurm(version):
    jobs = [job(2, cpus=1, het_job_id=2), job(3, cpus=9, het_job_id=2), job(4, het_job_id=0)]
    queue = read_queue(run=answers([RUNNING, *jobs], NODES, version=version)[0], now=NOW)
    assert queue.left == dict.fromkeys(["2", "3"], "is part of a heterogeneous job")
    lines = commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW))
    assert lines == [["scontrol", "release", "4"]]


ASKED = [
    ("tres_per_node", "gres:gpu:1", None),
    ("tres_per_job", "gres:gpu:1", None),
    ("tres_per_socket", "gres:gpu:tesla:2", None),
    ("tres_per_task", "gres:gpu:1", None),
    ("tres_per_task", "cpu:1,gres/gpu:1", "tres_per_task=gres/gpu:1"),
    ("tres_req_str", "cpu=4,mem=8G,node=1,billing=4,gres/gpu=2", "tres_req_str=gres/gpu=2"),
    ("tres_req_str", "cpu=4,license/matlab=2,bb/datawarp=9", None),
    ("gres_detail", ["gpu:1(IDX:0)"], "gres_detail=gpu:1(IDX:0)"),
    ("licenses", "matlab:2", None),
    ("features", "fast&big", None),
    ("required_nodes", "n2", None),
    ("required_nodes", ["n2", "n3"], "required_nodes=n2,n3"),
    ("excluded_nodes", "n1", None),
    ("contiguous", True, None),
    ("burst_buffer", "#BB", None),
    ("resv_name", "course", None),
]
"""Fields as Slurm 22.05 prints them for ``--gres``, ``--gpus`` and so on, and as later versions do."""


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize(("field", "value", "told"), ASKED)
def test_jobs_that_ask_for_more_than_processors_are_left_to_slurm(field, value, told, hold):
    if field == "tres_req_str" and told is None:
        told = "tres_req_str=license/matlab=2, tres_req_str=bb/datawarp=9"
    jobs = [job(2, cpus=1, **{**NOTHING_ASKED, field: value}), job(3, **NOTHING_ASKED)]
    queue = read_queue(run=answers([RUNNING, *jobs], NODES)[0], now=NOW, hold=hold)
    assert queue.left == {"2": f"asks for what is not modelled ({told or f'{field}={value}'})"}
    lines = commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW))
    assert lines == [["scontrol", "release", "3"]]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        NOTHING_ASKED,
        dict.fromkeys(NOTHING_ASKED),
        {"tres_per_task": "cpu=2", "tres_req_str": "billing=8,cpu=4,mem=1024000M,node=1"},
        {"tres_per_task": "cpu:2", "licenses": "(null)", "required_nodes": [], "prefer": "fast"},
    ],
)
def test_jobs_that_ask_for_processors_and_memory_alone_are_ours(fields):
    queue = read_queue(run=answers([RUNNING, job(3, **fields)], NODES)[0], now=NOW)
    assert (queue.left, [waiting.id for waiting in queue.snapshot.waiting]) == ({}, ["3"])


def test_a_job_that_slurm_starts_takes_its_room_whatever_it_asks_for():
    """With ``--hold`` it is not held either, and one that runs counts."""
    jobs = [
        job(1, "RUNNING", "None", 6, licenses="matlab:1"),
        job(2, reason="Priority", cpus=3, features="fast"),
        job(3),
    ]
    for hold in (False, True):
        queue = read_queue(run=answers(jobs, NODES)[0], now=NOW, hold=hold)
        assert queue.starting == {"2"} and queue.snapshot.used == 9
        assert commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW)) == []


def test_the_reasons_of_slurm_are_told():
    reasons = {
        "JobHoldMaxRequeue": "held by Slurm (JobHoldMaxRequeue)",
        "launch_failed_requeued_held": "held by Slurm (launch_failed_requeued_held)",
        "Dependency": "not held (Dependency)",
        "QOSMaxCpuPerUserLimit": "not held (QOSMaxCpuPerUserLimit)",
        "Priority": "not held: Slurm starts it",
    }
    jobs = [job(k, reason=reason) for k, reason in enumerate(reasons, start=2)]
    queue = read_queue(run=answers([RUNNING, *jobs], NODES)[0], now=NOW)
    assert list(queue.left.values()) == list(reasons.values())
    queue = read_queue(run=answers([RUNNING, *jobs], NODES)[0], now=NOW, hold=True)
    assert list(queue.left.values()) == list(reasons.values())[:-1]


@pytest.mark.parametrize(
    ("reservation", "capacity"), [("greendc-all-17-18-4", 6), ("course", 2), ("greendc-all", 2), (None, 2)]
)
def test_nodes_that_others_have_reserved_are_not_free(reservation, capacity):
    fields = {} if reservation is None else {"reservation": reservation}
    nodes = [{**node("a", 4, flags=["RESERVED"]), **fields}, node("b", 2)]
    for version in ("22.05", "23.11"):
        snapshot = read_queue(run=answers([], nodes, version=version)[0], now=NOW).snapshot
        assert (snapshot.processors, snapshot.capacity) == (6, capacity)


@pytest.mark.parametrize("foreseen", [False, True])
def test_a_node_that_is_down_stays_so_in_the_forecast_too(foreseen, tmp_path):
    """A job that waits for the node holds up none that has room on the other one."""
    jobs = [job(3, cpus=6, time_limit=60), job(5, cpus=3, time_limit=600)]
    nodes = [node("a", 4, state="down"), node("b", 4)]
    path = power_table(tmp_path / "power.csv", *((3600 * k - 60, 8) for k in range(30)))
    run = answers(jobs, nodes)[0]
    snapshot = read_queue(forecast=path if foreseen else None, run=run, now=NOW).snapshot
    assert (snapshot.processors, snapshot.capacity) == (8, 4)
    assert {change.processors for change in snapshot.forecast} == ({4} if foreseen else set())
    for admission in ("now", "forecast"):
        scheduler = Scheduler("fcfs", backfill="easy", admission=admission)
        assert scheduler.decide(snapshot, NOW).start == ("5",)


class Held:
    """A Slurm that does what it is told: releases, holds and priorities change its queue, and none starts."""

    def __init__(self, jobs, nodes) -> None:
        self.jobs, self.nodes = {str(job["job_id"]): job for job in jobs}, nodes

    def call(self, policy: str, hold: bool) -> list[list[str]]:
        queue = read_queue(run=answers(list(self.jobs.values()), self.nodes)[0], now=NOW, hold=hold)
        lines = commands(queue, Scheduler(policy).decide(queue.snapshot, NOW), priorities=True)
        for _, verb, *rest in lines:
            if verb == "update":
                name, priority = (part.partition("=")[2] for part in rest)
                self.jobs[name]["priority"] = int(priority)
            else:
                reason, priority = ("Priority", 1) if verb == "release" else ("JobHeldUser", 0)
                self.jobs[rest[0]].update(state_reason=reason, priority=priority)
        return lines


@pytest.mark.parametrize("policy", ["fcfs", "smallest", "wspt"])
@pytest.mark.parametrize("hold", [False, True])
def test_a_queue_that_does_not_change_gets_its_priorities_once(hold, policy):
    jobs = [
        RUNNING,
        job(2, reason="Resources", cpus=9, priority=100, array_task_string="1-3"),
        *(job(3, cpus=1, priority=0), job(4, cpus=2, priority=0), job(5, cpus=9, priority=0)),
        job(6, reason="Priority", cpus=1, priority=900),
    ]
    slurm = Held([{**one} for one in jobs], NODES)
    first = slurm.call(policy, hold)
    assert any(line[1] == "update" for line in first)
    assert [slurm.call(policy, hold) for _ in range(3)] == [[], [], []]


def test_priorities_are_one_above_those_of_others_alone():
    jobs = [
        RUNNING,
        job(2, reason="Resources", cpus=9, priority=100, array_task_string="1-3"),
        job(3, reason="Priority", cpus=1, priority=102),
        job(4, reason="Priority", cpus=1, priority=300),
    ]
    queue = read_queue(run=answers(jobs, NODES)[0], now=NOW, hold=True)
    assert queue.priorities == {"3": 102, "4": 300}
    lines = commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW), priorities=True)
    assert lines == [["scontrol", "update", "JobId=4", "Priority=101"]]


@pytest.fixture
def zone(monkeypatch):
    """Sets the time zone of this process."""

    def put(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


TWICE = 1_792_888_200
"""0:30 UTC, which is 2:30 in Berlin, where clocks go back from 3 to 2 on 25 October 2026, at 1 UTC."""


def test_reservations_name_instants_also_in_the_hour_that_comes_twice(zone):
    zone("Europe/Berlin")
    assert time.localtime(TWICE)[:6] == time.localtime(TWICE + 3600)[:6]
    line = Reservation.of("all", TWICE - 60, Layer(60, 3660, 2), 1).command("all")
    assert f"StartTime=uts{TWICE}" in line and f"EndTime=uts{TWICE + 3600}" in line


def test_a_snapshot_tells_the_local_time(zone, tmp_path):
    zone("Asia/Kolkata")
    path = power_table(tmp_path / "power.csv", (-(10**9), 7), (10**9, 7))
    before = time.time()
    snapshot = read_queue(forecast=path, run=answers([RUNNING], NODES)[0]).snapshot
    taken = snapshot.taken_at()
    assert taken.utcoffset() == timedelta(hours=5, minutes=30)
    assert before - 1 <= taken.timestamp() <= time.time()
    assert Scheduler("fcfs").decide(snapshot).start == ()  # it is of now
    seen = datetime.fromtimestamp(taken.timestamp())
    assert (taken.hour, taken.minute) == (seen.hour, seen.minute)


def test_jobs_of_the_hour_that_comes_twice_are_told_apart_by_seconds(zone):
    """Local times, as in what was recorded, are read too; in this hour they are those before it turns."""
    zone("Europe/Berlin")
    now = datetime.fromtimestamp(TWICE + 7200, timezone.utc)

    def ended_ago(*times: str) -> list[int]:
        lines = "\n".join(sacct_line("2026-10-25T01:00:00", end) for end in times)
        run = answers([RUNNING], NODES, lines)[0]
        return [past.ended_seconds_ago for past in read_history("all", 5, run, now)]

    assert ended_ago(str(TWICE), str(TWICE + 3600)) == [7200, 3600]
    assert ended_ago("2026-10-25T02:30:00", "2026-10-25T03:15:00", "Unknown") == [7200, 900]
    run = answers([RUNNING], NODES, sacct_line(str(TWICE - 60), str(TWICE)))[0]
    assert read_history("all", 5, run, now)[0].submitted_seconds_ago == 7260


def test_days_of_history_below_0_are_refused():
    run, asked = answers([RUNNING], NODES, "a|b")
    with pytest.raises(ValueError, match=r"^history_days=-3: must be 0 or more$"):
        read_queue(history_days=-3, run=run, now=NOW)
    assert asked == []


def sacct_line(submit: str, end: str, limit: int = 60) -> str:
    return f"7|ada|4|{limit}|3600|{submit}|{end}|all"


def local(ago: float) -> str:
    return (NOW - timedelta(hours=ago)).astimezone().strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize("end", ["9" * 30, "\u0663", "25.11. 13:00", "Ystday 20:13", "2026-11-25", ""])
def test_times_of_accounting_in_another_format_are_refused(end):
    run = answers([RUNNING], NODES, sacct_line(local(3), local(1)) + "\n" + sacct_line(local(3), end))[0]
    with pytest.raises(SlurmError) as error:
        read_queue(history_days=5, run=run, now=NOW)
    assert str(error.value) == (
        f"sacct, line 2: End={end!r}: must be seconds since 1970, a time such as 2026-03-01T12:00:00, "
        "or Unknown"
    )


def test_jobs_of_accounting_without_an_end_and_with_long_limits_are_read():
    lines = [
        sacct_line(local(3), "Unknown"),
        sacct_line("None", local(1)),
        sacct_line(local(3), local(1), CENTURIES),
    ]
    snapshot = read_queue(
        history_days=5, run=answers([RUNNING], NODES, "\n".join(lines))[0], now=NOW
    ).snapshot
    assert [past.limit_seconds for past in snapshot.finished] == [MOST_SECONDS]


def test_commands_print_times_as_where_no_format_is_set_and_sacct_prints_seconds(tmp_path, monkeypatch):
    for name in ("sacct", "squeue"):
        path = tmp_path / name
        path.write_text('#!/bin/sh\necho "$SLURM_TIME_FORMAT"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    assert (run_command(["sacct"]), run_command(["squeue"])) == ("%s\n", "standard\n")
    assert os.environ["SLURM_TIME_FORMAT"] == "relative"


def test_a_partition_with_a_job_that_never_ends_can_be_reserved(tmp_path):
    """Two of four CPUs have no power for an hour; a job without an end keeps one of them."""
    path = power_table(tmp_path / "power.csv", (-60, 4), (1800, 2), (200_000, 4))
    jobs = [job(1, "RUNNING", "None", 1, time_limit=CENTURIES)]
    nodes = [node(f"n{k}", used=int(k < 1)) for k in range(4)]
    queue = read_queue(forecast=path, run=answers(jobs, nodes)[0], now=NOW, reserve=True)
    (line,) = commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW))
    assert "CoreCnt=2" in line
    assert power_layers([], 100, 4, [RunningJob("a", 1, MOST_SECONDS, 0)]) == []


def test_a_task_of_an_array_that_is_a_record_of_its_own_is_left_to_slurm():
    # As Slurm 22.05 prints two tasks after each was changed by itself: releasing 9 would release both.
    fields = {"cpus": 1, "array_job_id": 9, "array_task_string": ""}
    tasks = [job(8, array_task_id=1, **fields), job(9, array_task_id=2, **fields)]
    queue = read_queue(run=answers([RUNNING, *tasks, job(10, array_job_id=0)], NODES)[0], now=NOW)
    assert queue.left == dict.fromkeys(["8", "9"], "an array of jobs")
    assert [waiting.id for waiting in queue.snapshot.waiting] == ["10"]


@pytest.mark.parametrize("reason", ["PartitionDown", "PartitionInactive"])
def test_what_is_released_into_a_partition_that_is_down_takes_its_room(reason):
    jobs = [RUNNING, job(2, reason=reason, cpus=4), job(3, cpus=1)]
    queue = read_queue(run=answers(jobs, NODES)[0], now=NOW)
    assert queue.starting == {"2"}
    assert Scheduler("fcfs").decide(queue.snapshot, NOW).start == ()
    held = read_queue(run=answers(jobs, NODES)[0], now=NOW, hold=True)
    assert [waiting.id for waiting in held.snapshot.waiting] == ["2", "3"]


@pytest.mark.parametrize("state", ["SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"])
def test_jobs_that_will_go_on_keep_their_cpus(state):
    jobs = [RUNNING, job(2, state, "None", 4, start_time=CLOCK - 60), job(3, cpus=1)]
    queue = read_queue(run=answers(jobs, NODES)[0], now=NOW)
    assert queue.used == 10
    assert {one.id: one.elapsed_seconds for one in queue.snapshot.running}["2"] == 60
    assert Scheduler("fcfs").decide(queue.snapshot, NOW).start == ()
    assert [note.startswith("suspended: 2;") for note in queue.notes] == [True] * (state == "SUSPENDED")


def test_cpus_of_suspended_jobs_are_beside_those_that_nodes_say_others_use():
    nodes = [node("a", 8, 3, partitions=("all", "other"))]  # 3 of others; the 4 of job 2 are not counted
    queue = read_queue("all", run=answers([job(2, "SUSPENDED", "None", 4)], nodes)[0], now=NOW)
    assert {one.id: one.processors for one in queue.snapshot.running} == {"2": 4, "other partitions": 3}


def test_jobs_of_other_partitions_on_our_nodes_alone_end_by_their_limits():
    nodes = [node(f"n{k}", used=1, partitions=("all", "short")) for k in range(4)]
    nodes += [node(f"n{k}", partitions=("all",)) for k in range(4, 8)] + [
        node("s1", 2, 2, partitions=("short",))
    ]
    other = {"partition": "short", "time_limit": 1, "start_time": CLOCK - 40}
    jobs = [
        job(1, "RUNNING", "None", 2, nodes="n[0-1]", **other),
        job(2, "RUNNING", "None", 2, nodes="n2,s1", **other),
        job(5, "RUNNING", "None", 5, nodes="n3", **other),  # begun after the nodes were read
        job(3, cpus=6),
        job(4, cpus=4, time_limit=6000),
    ]
    queue = read_queue("all", run=answers(jobs, nodes)[0], now=NOW)
    found = {one.id: (one.processors, one.limit_seconds) for one in queue.snapshot.running}
    assert found == {"1": (2, 60), "other partitions": (2, MOST_SECONDS)}
    assert queue.notes == (
        "4 CPUs of all run jobs of other partitions, "
        "2 of them also have other nodes, or none is told: taken to be busy for good",
    )
    # Job 1 ends in 20 seconds, and then job 3 has room: job 4 would be in its way for days.
    assert Scheduler("fcfs", backfill="easy").decide(queue.snapshot, NOW).start == ()


def test_what_is_wrong_with_a_job_is_told_with_its_number():
    for fields, said in (
        ({"cpus": 0}, "cpus=0 of job 3: must be from 1"),
        ({"time_limit": -5}, "time_limit=-5 of job 3: must be 0 or more minutes"),
        ({"user_name": 5}, "user_name=5 of job 3: must be a name"),
        ({"job_state": None}, "job_state of job 3: missing"),
    ):
        with pytest.raises(SlurmError, match=said):
            read_queue(run=answers([RUNNING, {**job(3), **fields}], NODES)[0], now=NOW)


@pytest.mark.parametrize("column", [2, 3, 4])
def test_numbers_of_accounting_that_no_job_has_are_told_with_their_line(column):
    cells = ["1", "ada", "2", "10", "60", str(CLOCK - 900), str(CLOCK - 60), "all"]
    cells[column] = "9" * 5000
    with pytest.raises(
        SlurmError, match=r"sacct, line 1: (NCPUS|TimelimitRaw|ElapsedRaw)=9{24}: must be at most"
    ):
        read_history("all", 1, lambda command: "|".join(cells), NOW)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            '{"jobs": [], "errors": [{"description": "Failed while looking for jobs"}]}',
            "Failed while looking",
        ),
        ('{"jobs": [], "errors": [{"error": "Unable to contact"}, "more"]}', "Unable to contact,more"),
        ('{"jobs": [', "is no whole JSON text"),
        ("[" * 100_000, "is no whole JSON text"),
        ("", "is empty"),
        ("[]", "is no JSON object"),
    ],
)
def test_an_answer_that_is_none_is_no_empty_queue(answer, said):
    run, _ = answers([], NODES)
    with pytest.raises(SlurmError, match=f"squeue --json: .*{said}"):
        read_queue(run=lambda command: answer if command[0] == "squeue" else run(command), now=NOW)


def test_a_partition_that_is_not_given_is_asked_for():
    nodes = [node("n1"), node("n2", partitions=("gpu",))]
    with pytest.raises(SlurmError, match="partition: must be given, one of all, gpu"):
        read_queue(run=answers([], nodes)[0], now=NOW)
    with pytest.raises(SlurmError, match="partition='cpu': must be one of all, gpu"):
        read_queue("cpu", run=answers([], nodes)[0], now=NOW)
