"""Slurm as a client: what room there is, beside jobs about to start and nodes that take no more jobs."""

from __future__ import annotations

import pytest
from slurm_cases import CLOCK, NODES, NOW, answers, job, newer, node, power_table

from greendc.live import Scheduler
from greendc.live.slurm import commands, read_queue
from greendc.live.slurm_answers import hosts_of, tasks_of
from greendc.live.snapshot import MOST_SECONDS

VERSIONS = ["22.05", "23.02", "23.11"]
DAY = 1440
"""Minutes, as limits of Slurm are."""


def read(jobs, nodes, version="22.05", **options):
    return read_queue(run=answers(jobs, nodes, version=version)[0], now=NOW, **options)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("hold", [False, True])
def test_a_ready_job_for_several_partitions_takes_its_room_in_each(hold, version):
    nodes = [node(f"n{k}", partitions=("all", "long", "other")) for k in range(10)]
    jobs = [job(6, reason="Priority", cpus=8, partition="long,all"), job(7, cpus=3)]
    for partition, started in (("all", {"6"}), ("long", {"6"}), ("other", set())):
        queue = read(jobs, nodes, version, partition=partition, hold=hold)
        assert (queue.starting, queue.snapshot.used) == (started, 8 * len(started))
        assert commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW)) == []


def array(tasks, cpus=1, limit=0, **fields):
    return job(6, reason="Resources", cpus=cpus, array_task_string=tasks, **{
        "priority": 50, "array_job_id": 6, "array_max_tasks": limit, **fields
    })  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("tasks", "used"),
    [
        ({"tasks": "0-9"}, 10),
        ({"tasks": "0-99"}, 10),
        ({"tasks": "4"}, 1),
        ({"tasks": "1,3,5-8"}, 6),
        ({"tasks": "0-30:10"}, 4),
        ({"tasks": "0-99%5", "limit": 5}, 5),
        ({"tasks": "0-99%5"}, 5),
        ({"tasks": "0-99", "limit": 5}, 5),
        ({"tasks": "1,3%5", "limit": 5}, 2),
        ({"tasks": "1,3,5,7,9,1..."}, 10),
        ({"tasks": "1,3,5,7,9,1...%7", "limit": 7}, 7),
        ({"tasks": "0-9", "cpus": 3}, 9),
        ({"tasks": ""}, 1),
        ({"tasks": "(null)"}, 1),
        ({"tasks": None}, 1),
    ],
)
@pytest.mark.parametrize("hold", [False, True])
def test_tasks_of_a_ready_array_take_their_room_as_many_as_may_start(tasks, used, hold, version):
    """A task without room ends no list: another ready job is about to start beside it."""
    one = array(**tasks)
    if hold and used == 1 and tasks["tasks"] != "4":
        one["time_limit"] = 0  # no array, and left to Slurm for another reason
    queue = read([one], NODES_FREE, version, hold=hold)
    assert (queue.snapshot.used, queue.used, queue.excess) == (used, 0, 0)
    assert len(queue.starting) * one["cpus"] == used and "6" in queue.starting
    small = job(8, reason="Priority", cpus=1, priority=3, time_limit=0)
    queue = read([one, small], NODES_FREE, version, hold=hold)
    assert queue.snapshot.used == min(used + 1, 10)


NODES_FREE = [node(f"n{k}") for k in range(10)]


def test_tasks_that_run_count_towards_the_limit_of_their_array():
    running = [job(k, "RUNNING", "None", 1, array_job_id=6) for k in (3, 4)]
    other = job(5, "RUNNING", "None", 1, array_job_id=2)
    nodes = [*NODES_FREE[3:], *(node(f"m{k}", used=1) for k in range(3))]
    for version in VERSIONS:
        wrapped = [newer({"priority": 1, **one}, version) if version != "22.05" else one for one in running]
        assert len(read([*wrapped, other, array("0-99%5", limit=5)], nodes).starting) == 3
    assert read([*running, other, array("0-99%2", limit=2)], nodes).starting == frozenset()
    limit = {"set": True, "infinite": False, "number": 4}
    assert tasks_of({"array_task_string": "1-9", "array_max_tasks": limit}, 1) == 3
    assert tasks_of({"array_task_string": "1-9", "array_max_tasks": {**limit, "infinite": True}}) == 9


def test_room_of_a_ready_array_is_not_given_away_where_power_is_short(tmp_path):
    path = power_table(tmp_path / "power.csv", (-100, 10), (48 * 3600, 10))
    nodes = [node(f"n{k}") for k in range(20)]
    for cpus, start in ((6, []), (5, [["scontrol", "release", "7"]])):
        queue = read([array("0-99%5", limit=5), job(7, cpus=cpus)], nodes, "23.11", forecast=path)
        assert commands(queue, Scheduler("fcfs").decide(queue.snapshot, NOW)) == start


DRAINED = [node("n0", 4, 4, "mixed", ["DRAIN"]), *(node(f"n{k}", 4) for k in (1, 2, 3))]
LONG = job(1, "RUNNING", "None", 4, time_limit=7 * DAY)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_cpus_of_a_draining_node_do_not_come_back_when_its_job_ends(backfill, version):
    jobs = [LONG, job(2, cpus=14, submit_time=CLOCK - 9000), job(3, cpus=4, time_limit=8 * DAY)]
    queue = read(jobs, DRAINED, version)
    assert (queue.snapshot.processors, queue.snapshot.capacity, queue.used, queue.excess) == (16, 16, 4, 0)
    assert queue.notes == ("4 CPUs of nodes that take no jobs are in use: they have no power after that",)
    scheduler = Scheduler("fcfs", backfill=backfill, oldest_first_hours=0)
    decision = scheduler.decide(queue.snapshot, NOW)
    assert decision.start == ("3",)
    assert decision.passed_over[0].reason == "needs 14 processors, at most 12 have power within 24 h"


def drained(jobs, nodes):
    return {run.id: run.drained_processors for run in read(jobs, nodes).snapshot.running}


def test_what_is_drained_is_told_from_the_nodes_of_jobs_else_from_those_that_end_last():
    nodes = [node(f"n{k}", 4, 4, "draining" if k < 2 else "allocated", ["DRAIN"] * (k < 2)) for k in range(4)]

    def runs(number, cpus, limit, hosts=None):
        return job(number, "RUNNING", "None", cpus, time_limit=limit, nodes=hosts)

    told = [runs(1, 4, 10, "n0"), runs(2, 8, 99, "n[1-2]"), runs(3, 4, 9999, "n3")]
    assert drained(told, nodes) == {"1": 4, "2": 4, "3": 0}
    silent = [runs(1, 4, 10), runs(2, 8, 99, "(null)"), runs(3, 4, 9999)]
    assert drained(silent, nodes) == {"1": 0, "2": 4, "3": 4}
    # Nodes that fit no answer of sinfo: the CPUs are in use all the same.
    other = [runs(1, 4, 10, "x0"), runs(2, 8, 99, "x1"), runs(3, 4, 9999, "x2")]
    assert drained(other, nodes) == {"1": 0, "2": 4, "3": 4}
    assert drained([told[0]], nodes) == {"1": 4, "other partitions": 4}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n1", {"n1"}),
        ("n[1-3],login", {"n1", "n2", "n3", "login"}),
        ("n[08-10,2]", {"n08", "n09", "n10", "n2"}),
        ("r[1-2]n[0,3]-ib", {"r1n0-ib", "r1n3-ib", "r2n0-ib", "r2n3-ib"}),
        ("(null)", set()),
        ("", set()),
        (None, set()),
    ],
)
def test_names_of_nodes_in_brackets_are_read(text, found):
    assert hosts_of({"nodes": text}) == found


def test_jobs_on_drained_nodes_use_power_until_they_end(tmp_path):
    """Ten CPUs have power, four of them on a node that takes no jobs; others may have ten later."""
    path = power_table(tmp_path / "power.csv", (-100, 10), (48 * 3600, 10))
    runs = job(1, "RUNNING", "None", 4, time_limit=60, start_time=CLOCK)
    jobs = [runs, job(2, cpus=10, submit_time=CLOCK - 900), job(3, cpus=4, time_limit=59), job(4, cpus=3)]
    queue = read(jobs, DRAINED, forecast=path, reserve=True)
    assert (queue.snapshot.capacity, queue.used, queue.excess) == (10, 4, 0)
    left = queue.snapshot.without_drained()
    assert (left.capacity, left.used) == (6, 0)
    assert [(change.after_seconds, change.processors) for change in left.forecast] == [
        (3600, 10),
        (48 * 3600, 10),
    ]
    decision = Scheduler("fcfs", backfill="easy").decide(queue.snapshot, NOW)
    assert decision.start == ("3",)
    assert decision.passed_over[0].reason == "needs 10 processors, 2 are free"
    # Of the twelve CPUs that take jobs, six have no power for an hour, then two.
    assert [(one.end - CLOCK, one.cores) for one in queue.wanted] == [(3600, 4), (2 * 48 * 3600 + 100, 2)]
    # Power for less than what runs on the drained node alone.
    path = power_table(tmp_path / "power.csv", (-100, 3), (48 * 3600, 10))
    queue = read(jobs, DRAINED, forecast=path)
    assert (queue.snapshot.capacity, queue.used, queue.excess) == (3, 4, 1)
    assert Scheduler("fcfs").decide(queue.snapshot, NOW).excess == 1
    # One beyond its limit ends when it ends: nothing is planned for that.
    late = {**runs, "start_time": CLOCK - 7200}
    queue = read([late, *jobs[1:]], DRAINED, forecast=path)
    assert [change.after_seconds for change in queue.snapshot.forecast] == [48 * 3600]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("effective", "cpus"), [(6, 6), (8, 8), (0, 8), (None, 8)])
def test_cores_that_slurm_keeps_for_the_system_are_no_cpus(effective, cpus, version):
    nodes = [{**node("a", 8), "effective_cpus": effective}]
    queue = read([job(2, cpus=4, submit_time=CLOCK - 900), job(3, cpus=4)], nodes, version)
    assert (queue.snapshot.processors, queue.snapshot.capacity) == (cpus, cpus)
    start = Scheduler("fcfs").decide(queue.snapshot, NOW).start
    assert start == (("2", "3") if cpus == 8 else ("2",))
    full = {**nodes[0], "alloc_cpus": 8, "state": "down"}
    snapshot = read([job(1, "RUNNING", "None", 8)], [full], version).snapshot
    assert (snapshot.capacity, snapshot.used) == (cpus, 8)


def test_a_forecast_may_have_lines_beyond_what_snapshots_hold(tmp_path):
    path = tmp_path / "power.csv"
    for far in ("2099-01-01T00:00:00+00:00,10\n", "2098-01-01T00:00:00Z,10\n2100-01-01T00:00:00Z,7\n"):
        path.write_text("time,processors\n2026-03-01T00:00:00+00:00,3\n" + far)
        snapshot = read([job(3, cpus=3)], NODES_FREE, forecast=path).snapshot
        assert (snapshot.capacity, snapshot.forecast, snapshot.forecast_seconds) == (3, (), MOST_SECONDS)
        scheduler = Scheduler("fcfs", horizon_hours=8784, admission="forecast")
        assert scheduler.decide(snapshot, NOW).start == ("3",)
    path = power_table(path, (-60, 3), (MOST_SECONDS - 1, 4), (MOST_SECONDS, 5))
    snapshot = read([], NODES_FREE, forecast=path).snapshot
    assert [change.processors for change in snapshot.forecast] == [4]


@pytest.mark.parametrize(("text", "ours"), [("(null)", True), (None, True), ("afterok:1", False)])
def test_a_dependency_of_null_is_none(text, ours):
    queue = read([job(3, dependency=text)], NODES)
    assert queue.left == ({} if ours else {"3": "depends on another job"})
