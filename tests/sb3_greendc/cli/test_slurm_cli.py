"""``greendc slurm``: what is shown, what is run, and what a real Slurm makes of it."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from greendc.live.slurm_answers import SlurmError
from sb3_greendc.cli.decide import scheduler_settings
from sb3_greendc.cli.slurm import build_parser, main

sys.path.append(str(Path(__file__).parents[2] / "greendc" / "live"))
from slurm_daemons import CONTROLLER, DAEMON, SlurmDaemons
from slurm_replay import Played, draw, links, most_in_use, replay

NODES = [{"name": "a", "partitions": ["all"], "cpus": 4, "alloc_cpus": 0, "state": "idle"}]


def held(number: int, cpus: int) -> dict:
    return {
        "job_id": number,
        "job_state": "PENDING",
        "state_reason": "JobHeldUser",
        "cpus": cpus,
        "time_limit": 10,
        "submit_time": int(time.time()) - 100,
        "partition": "all",
    }


class Slurm:
    """Answers, and keeps what was changed; the command that releases ``broken`` fails."""

    def __init__(self, jobs, broken: str = "", nodes=NODES) -> None:
        self.jobs, self.broken, self.nodes, self.changes = jobs, broken, nodes, []

    def __call__(self, command):
        if command[0] in ("sinfo", "squeue"):
            return json.dumps({"nodes": self.nodes, "jobs": self.jobs})
        if command[:3] == ["scontrol", "show", "reservation"]:
            return "ReservationName=greendc-all-1-2-3 State=INACTIVE\n"
        if self.broken and self.broken in command[-1]:
            raise SlurmError(f"{' '.join(command)}: exit code 1: Invalid job id specified")
        self.changes.append(list(command))
        return ""


JOBS = [held(1, 2), held(2, 1), held(3, 1), held(4, 4)]


def test_a_dry_run_shows_the_commands_and_runs_none(capsys):
    slurm = Slurm(JOBS)
    assert main(["--policy", "fcfs"], slurm) == 0
    printed = capsys.readouterr().out
    assert slurm.changes == []
    assert [line.strip() for line in printed.splitlines() if "scontrol" in line] == [
        "scontrol release 1",
        "scontrol release 2",
        "scontrol release 3",
    ]
    assert "job 4 waits: needs 4 processors, 0 are free" in printed


def test_apply_runs_what_the_dry_run_shows():
    slurm = Slurm(JOBS)
    assert main(["--policy", "fcfs", "--apply"], slurm) == 0
    assert slurm.changes == [["scontrol", "release", str(k)] for k in (1, 2, 3)]


def test_a_failure_half_way_says_which_commands_took_effect(capsys):
    slurm = Slurm(JOBS, broken="2")
    assert main(["--policy", "fcfs", "--apply"], slurm) == 1
    error = capsys.readouterr().err
    assert "took effect: scontrol release 1\nrefused: scontrol release 2\n" in error
    assert error.endswith("not known: none\nnot run: scontrol release 3\n")
    assert slurm.changes == [["scontrol", "release", "1"]]


def test_only_what_runs_without_power_is_an_alarm(capsys, tmp_path):
    """A job that Slurm is about to start has no power, but does not run: nothing has to give way."""
    row = {**NODES[0], "alloc_cpus": 2}
    running = {**held(1, 2), "job_state": "RUNNING", "start_time": int(time.time()) - 9}
    slurm = Slurm([running, {**held(2, 2), "state_reason": "Priority", "priority": 9}], nodes=[row])
    forecast = power_table(tmp_path / "power.csv", (-1, 3), (40, 3))
    assert main(["--policy", "fcfs", "--forecast", forecast], slurm) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 processors, 3 with power, 2 in use by 1 jobs, 0 jobs that wait for advice",
        "1 jobs on 2 processors are about to start: Slurm decides on them",
        "1 of these processors have no power: --hold decides on these jobs, too",
        "job 2 is left to Slurm: not held: Slurm starts it",
        "nothing to do",
    ]
    forecast = power_table(tmp_path / "power.csv", (-1, 1), (40, 3))
    assert main(["--policy", "fcfs", "--forecast", forecast], slurm) == 0
    assert "1 processors run jobs and have no power: running jobs must give way" in capsys.readouterr().out


def test_a_job_beyond_the_forecast_is_noted_and_one_that_would_lose_its_power_waits(capsys, tmp_path):
    forecast = power_table(tmp_path / "power.csv", (-1, 4), (0.1, 2), (12.5, 2))
    jobs = [{**held(1, 2), "time_limit": 2000}, held(2, 4)]
    assert main(["--policy", "fcfs", "--admission", "forecast", "--forecast", forecast], Slurm(jobs)) == 0
    printed = capsys.readouterr().out
    assert "note: job 1 may run beyond the end of the forecast: what power it has then is not" in printed
    assert "job 2 waits: has power until its limit at no time within 24 h" in printed
    assert "  scontrol release 1\n" in printed


def test_a_forecast_that_is_over_is_one_line_that_names_the_file(capsys, tmp_path):
    forecast = power_table(tmp_path / "power.csv", (-9, 4), (-6, 2))
    with pytest.raises(SystemExit) as stop:
        main(["--reservations", "--forecast", forecast], Slurm(JOBS))
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"{forecast}, line 3: the forecast ended at 20" in error


def power_table(path, *rows):
    now = datetime.now(timezone.utc)
    lines = [f"{(now + timedelta(hours=hours)).isoformat()},{size}" for hours, size in rows]
    path.write_text("time,processors\n" + "\n".join(lines) + "\n")
    return str(path)


def test_reservations_and_holds_come_before_releases_and_all_are_shown(capsys, tmp_path):
    arguments = ["--policy", "fcfs", "--reservations", "--priorities", "--hold"]
    arguments += ["--forecast", power_table(tmp_path / "power.csv", (-1, 4), (30, 2), (40, 4))]
    jobs = [*JOBS, {**held(5, 4), "state_reason": "None", "priority": 9}]
    slurm = Slurm(jobs)
    assert main(arguments, slurm) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  scontrol")]
    assert slurm.changes == []
    assert [" ".join(line.split()[:3]) for line in shown] == [
        "scontrol uhold 5",
        "scontrol delete ReservationName=greendc-all-1-2-3",
        "scontrol create reservation",
        *(what for k in (1, 2, 3) for what in (f"scontrol release {k}", f"scontrol update JobId={k}")),
    ]
    assert main([*arguments, "--apply"], slurm) == 0
    assert [" ".join(line) for line in slurm.changes] == shown
    ran = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  scontrol")]
    assert ran == shown


def test_nothing_is_released_if_a_reservation_fails(capsys, tmp_path):
    slurm = Slurm(JOBS, broken="Users=root")
    forecast = power_table(tmp_path / "power.csv", (-1, 4), (30, 2), (40, 4))
    assert main(["--policy", "fcfs", "--reservations", "--apply", "--forecast", forecast], slurm) == 1
    error = capsys.readouterr().err
    assert "took effect: scontrol delete ReservationName=greendc-all-1-2-3\n" in error
    assert "not run: scontrol release 1; scontrol release 2; scontrol release 3\n" in error
    assert slurm.changes == [["scontrol", "delete", "ReservationName=greendc-all-1-2-3"]]


def test_priorities_that_cannot_differ_are_noted(capsys):
    said = "note: there is no room for 3 priorities below 2, that of a job which Slurm starts anyway"
    jobs = [held(k, 1) for k in (1, 2, 3)] + [{**held(5, 1), "state_reason": "Priority", "priority": 2}]
    assert main(["--policy", "fcfs", "--priorities"], Slurm(jobs)) == 0
    assert said in capsys.readouterr().out
    jobs[3]["priority"] = 9
    assert main(["--policy", "fcfs", "--priorities"], Slurm(jobs)) == 0
    assert "priorities below" not in capsys.readouterr().out


def test_an_empty_cluster_may_be_left_idle_on_request():
    assert build_parser().parse_args(["--no-work-conserving"]).work_conserving is False
    options = build_parser().parse_args(["--policy", "wspt", "--no-work-conserving"])
    assert scheduler_settings(options) == {"work_conserving": False}


def test_reservations_need_a_forecast(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--reservations"], Slurm(JOBS))
    assert stop.value.code == 2
    assert "--reservations: needs the power that is to come, --forecast FILE" in capsys.readouterr().err


def test_without_slurm_there_is_one_line(capsys):
    def absent(command):
        raise SlurmError("sinfo: no such command: is Slurm installed here?")

    with pytest.raises(SystemExit) as stop:
        main([], absent)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


needs_slurm = pytest.mark.skipif(
    not (CONTROLLER and DAEMON and os.geteuid() == 0), reason="needs root and Slurm's daemons"
)


FIRST = ((4, 5, 6), (1, 7, 8), (1, 5, 6), (5, 1, 3), (1, 4, 3), (4, 1, 9), (2, 5, 5), (5, 9, 2))
"""Processors, limits in minutes and run times in seconds of the jobs that are there at first."""
LATER = ((2, 4, 8), (2, 9, 8), (4, 9, 2), (4, 8, 4))
"""Of those that come after :data:`COME` seconds."""
COME = 4
POWER = ((0, 10), (8, 6), (15, 10))
"""Seconds, and the processors of ten that have power from then on."""
OTHER_ORDERS = (("fcfs", "easy"), ("smallest", "easy"), ("fcfs", "none"))


@pytest.mark.default_row
@needs_slurm
def test_a_real_slurm_keeps_to_the_power_and_starves_nobody(tmp_path, capsys):
    """Twelve jobs on ten nodes, four of which lose their power and get it back. No start takes processors
    above the power of its time, and jobs start when the simulator starts them, by the same rule.

    What becomes possible right after a call has read the queue is released at the end of the next call at the
    latest, and then takes Slurm a while to start. Both times are measured, and Slurm tells whole seconds.
    What starts when another job ends has that job's delay, too, which had waited for others: the two, and a
    second, are allowed for each start in such a row. Nothing starts earlier, and no job before one that is to
    start two seconds earlier. By other rules the simulator is further from these starts.
    """
    slurm = SlurmDaemons(tmp_path, 10)
    try:
        slurm.wait_until_idle()
        script = tmp_path / "job.sh"
        script.write_text("#!/bin/sh\nexec sleep $1\n")

        def submit(cpus, minutes, seconds):
            given = ["-n", str(cpus), "-t", str(minutes), "-o", "/dev/null", str(script), str(seconds)]
            return slurm.run(["sbatch", "--hold", "--parsable", *given]).strip()

        names = [submit(*job) for job in FIRST]
        begin = int(time.time()) + 2
        power = tmp_path / "power.csv"
        rows = [(-60, POWER[0][1]), *POWER[1:], (2 * 86_400, POWER[-1][1])]
        stamps = [datetime.fromtimestamp(begin + after, timezone.utc).isoformat() for after, _ in rows]
        lines = [f"{stamp},{size}" for stamp, (_, size) in zip(stamps, rows, strict=True)]
        power.write_text("time,processors\n" + "\n".join(lines) + "\n")
        arguments = ["--policy", "wspt", "--backfill", "easy", "--forecast", str(power)]
        assert main(arguments, slurm.run) == 0
        advice = capsys.readouterr().out
        time.sleep(max(begin - time.time(), 0))
        released: dict[str, float] = {}

        def run(command):
            if command[:2] == ["scontrol", "release"]:
                released[command[2]] = time.time() - begin
            return slurm.run(command)

        calls, seen, ended = [], {}, set()
        end = time.monotonic() + 90
        while len(ended) < len(FIRST + LATER) and time.monotonic() < end:
            if len(names) == len(FIRST) and time.time() >= begin + COME:
                names += [submit(*job) for job in LATER]
            called = time.time()
            assert main([*arguments, "--apply"], run) == 0
            calls.append((called, time.time()))
            jobs = {str(job["job_id"]): job for job in json.loads(slurm.run(["squeue", "--json"]))["jobs"]}
            alive = {name for name, job in jobs.items() if job["job_state"] in ("RUNNING", "COMPLETING")}
            for name in alive - seen.keys():  # what has just started has power
                seen[name] = sum(jobs[other]["cpus"] for other in alive)
                assert seen[name] <= power_at(jobs[name]["start_time"] - begin)
            ended = {name for name, job in jobs.items() if job["job_state"] == "COMPLETED"}
            time.sleep(0.1)
        assert ended == set(names) == set(released)
    finally:
        slurm.stop()
    capsys.readouterr()
    played = [played_by(jobs[name], begin) for name in names]
    for job in played:
        assert most_in_use(played, job.start) <= power_at(job.start)
    assert most_in_use(played, POWER[1][0]) > POWER[1][1], "what ran when power fell was not stopped"
    starts = replay(played, POWER, 10, "wspt", "easy")
    between = max(second[1] - first[0] for first, second in itertools.pairwise(calls))
    slow = max(job.start - released[name] for name, job in zip(names, played, strict=True))
    allowed = [int(count * (between + max(slow, 0) + 1)) for count in links(played, starts)]
    if os.environ.get(PICTURES):
        folder = Path(os.environ[PICTURES])
        draw(played, starts, POWER, folder / "slurm_gantt.png")
        figures = {"between": between, "slow": slow, "allowed": allowed, "starts": starts}
        (folder / "slurm_gantt.json").write_text(json.dumps({**figures, "played": list(map(vars, played))}))
        (folder / "slurm_advice.txt").write_text(advice)
    found = [job.start for job in played]
    assert agree(found, starts, allowed), (found, starts, allowed)
    # Without backfilling the tenth job does not overtake the first; by other rules the order is another.
    without = replay(played, POWER, 10, "wspt", "none")
    assert found[9] < found[0] and without[9] >= without[0]
    late = apart(found, starts)
    for rule, backfill in OTHER_ORDERS:
        others = replay(played, POWER, 10, rule, backfill)
        assert apart(found, others) > late, (rule, backfill, found, starts, others)


PICTURES = "GREENDC_SLURM_PICTURES"
"""Environment variable that names a folder for the picture and the figures of the test above."""


def agree(found, starts, allowed):
    """Return whether jobs started in the order of others, none of them earlier or much later."""
    rows = sorted(zip(starts, found, allowed, strict=True))
    order = all(one[1] <= two[1] for one, two in itertools.combinations(rows, 2) if one[0] < two[0] - 1)
    return order and all(start <= at <= start + most for start, at, most in rows)


def apart(found, starts):
    """Return by how many seconds jobs started at other times, in all."""
    return sum(abs(at - start) for at, start in zip(found, starts, strict=True))


def power_at(seconds):
    return [size for after, size in POWER if after <= seconds or after == 0][-1]


def played_by(job, begin):
    """Return a job as Slurm ran it, in seconds from a time on; those from before were there then."""
    times = (max(job["submit_time"] - begin, 0), job["start_time"] - begin, job["end_time"] - begin)
    return Played(job["cpus"], 60 * job["time_limit"], *times)


@pytest.mark.default_row
@needs_slurm
def test_a_real_slurm_keeps_jobs_out_of_a_reservation_and_orders_them(tmp_path):
    """Of four nodes two lose power in five minutes: a job of ten minutes on two starts, one on three has to
    wait, though Slurm alone decides on it. A new forecast replaces the reservation."""
    slurm = SlurmDaemons(tmp_path, 4)
    try:
        slurm.wait_until_idle()
        script = tmp_path / "job.sh"
        script.write_text("#!/bin/sh\nsleep 60\n")

        def submit(cpus, minutes):
            given = ["-n", str(cpus), "-t", str(minutes), "-o", "/dev/null", str(script)]
            return slurm.run(["sbatch", "--hold", "--parsable", *given]).strip()

        begin = datetime.now(timezone.utc)
        power = tmp_path / "power.csv"

        def foresee(*rows):
            lines = [f"{(begin + timedelta(seconds=after)).isoformat()},{size}" for after, size in rows]
            power.write_text("time,processors\n" + "\n".join(lines) + "\n")

        ran: list[str] = []

        def run(command):
            ran.append(" ".join(command))
            return slurm.run(command)

        def reserved():
            shown = slurm.run(["scontrol", "show", "reservation", "-o"])
            return re.findall(r"^ReservationName=(\S+) .* CoreCnt=(\d+) ", shown, re.MULTILINE)

        foresee((0, 4), (300, 2), (3000, 4), (200_000, 4))
        narrow, wide, *short = submit(2, 10), submit(3, 10), submit(1, 1), submit(1, 1)
        arguments = ["--policy", "fcfs", "--forecast", str(power), "--apply", "--reservations"]
        arguments.append("--priorities")
        assert main(arguments, run) == 0
        ((name, cores),) = reserved()
        assert cores == "2"
        slurm.run(["scontrol", "release", wide])
        time.sleep(4)
        found = {str(row["job_id"]): row for row in json.loads(slurm.run(["squeue", "--json"]))["jobs"]}
        assert found[narrow]["job_state"] == "RUNNING"
        assert found[wide]["job_state"] == "PENDING"
        orders = [found[job]["priority"] for job in (narrow, *short)]
        assert orders == sorted(orders, reverse=True) and len(set(orders)) == 3
        slurm.run(["scontrol", "hold", wide])
        ran.clear()
        assert main(arguments, run) == 0
        assert reserved() == [(name, "2")] and not any("create" in command for command in ran)
        foresee((0, 4), (400, 3), (3000, 4), (200_000, 4))
        assert main(arguments, run) == 0
        ((other, cores),) = reserved()
        assert other != name and cores == "1"
    finally:
        slurm.stop()


def states_of_jobs(slurm):
    rows = json.loads(slurm.run(["squeue", "--json"]))["jobs"]
    return {str(row["job_id"]): (row["job_state"], row["state_reason"]) for row in rows}


def submitter(slurm, folder):
    """Return what submits a job of a minute with options of ``sbatch``, and returns its number."""
    script = folder / "job.sh"
    script.write_text("#!/bin/sh\nsleep 60\n")

    def submit(*options):
        given = ["-t", "10", "-o", "/dev/null", *options, str(script)]
        return slurm.run(["sbatch", "--parsable", *given]).strip()

    return submit


def wait_for(slurm, job, *states):
    """Wait until a job is in one of some states."""
    end = time.monotonic() + 60
    while (found := states_of_jobs(slurm)[job][0]) not in states and time.monotonic() < end:
        time.sleep(0.3)
    assert found in states


@pytest.mark.default_row
@needs_slurm
def test_a_real_slurm_keeps_what_administrators_hold_and_owners_can_release_what_we_hold(tmp_path, capsys):
    """Two nodes, one of which has power: a job runs there, one that an administrator holds stays held, and
    one that Slurm would start is held for its owner."""
    slurm = SlurmDaemons(tmp_path, 2)
    try:
        slurm.wait_until_idle()
        submit = submitter(slurm, tmp_path)
        running = submit("-n", "1")
        wait_for(slurm, running, "RUNNING")
        kept, wide = submit("-n", "1", "--hold"), submit("-n", "2")
        slurm.run(["scontrol", "hold", kept])
        power = tmp_path / "power.csv"
        lines = ["2026-03-01T00:00:00+00:00,1", "2060-01-01T00:00:00+00:00,1"]
        power.write_text("time,processors\n" + "\n".join(lines) + "\n")
        arguments = ["--policy", "fcfs", "--forecast", str(power), "--hold", "--apply"]
        assert main(arguments, slurm.run) == 0
        printed = capsys.readouterr().out
        assert f"job {kept} is left to Slurm: held by an administrator" in printed
        found = states_of_jobs(slurm)
        assert found[kept] == ("PENDING", "JobHeldAdmin") and found[wide] == ("PENDING", "JobHeldUser")
        power.write_text("time,processors\n" + "\n".join(lines).replace(",1", ",2") + "\n")
        slurm.run(["scancel", running])
        wait_for(slurm, running, "CANCELLED")
        assert main(arguments, slurm.run) == 0
        assert f"scontrol release {wide}" in capsys.readouterr().out
        assert states_of_jobs(slurm)[kept] == ("PENDING", "JobHeldAdmin")
    finally:
        slurm.stop()


@pytest.mark.default_row
@needs_slurm
def test_a_real_slurm_that_suspends_splits_arrays_and_closes_its_partition_is_read_aright(tmp_path, capsys):
    """Two nodes: a suspended job keeps them, two tasks of an array that differ are left, and while the
    partition is down one job is released, and no other after it."""
    slurm = SlurmDaemons(tmp_path, 2)
    try:
        slurm.wait_until_idle()
        submit = submitter(slurm, tmp_path)

        def advise(*more):
            assert main(["--policy", "fcfs", *more], slurm.run) == 0
            return capsys.readouterr().out

        running = submit("-n", "2")
        wait_for(slurm, running, "RUNNING")
        slurm.run(["scontrol", "suspend", running])
        wait_for(slurm, running, "SUSPENDED")
        first, second = submit("-n", "2", "--hold"), submit("-n", "2", "--hold")
        printed = advise()
        assert "2 in use by 1 jobs" in printed and f"suspended: {running}; their CPUs are kept" in printed
        assert "nothing to do" in printed
        slurm.run(["scancel", running])
        wait_for(slurm, running, "CANCELLED")
        tasks = submit("-n", "1", "--array=1-2", "--hold")
        for task, minutes in ((1, 9), (2, 3)):
            slurm.run(["scontrol", "update", f"JobId={tasks}_{task}", f"TimeLimit={minutes}"])
        printed = advise()
        assert printed.count("is left to Slurm: an array of jobs") == 2
        assert printed.count("scontrol release") == 1
        slurm.run(["scontrol", "update", "PartitionName=all", "State=DOWN"])
        assert f"scontrol release {first}" in advise("--apply")
        end = time.monotonic() + 30
        while time.monotonic() < end and states_of_jobs(slurm)[first][1] != "PartitionDown":
            time.sleep(0.3)
        assert states_of_jobs(slurm)[first] == ("PENDING", "PartitionDown")
        assert "nothing to do" in advise("--apply")
        assert states_of_jobs(slurm)[second] == ("PENDING", "JobHeldUser")
    finally:
        slurm.stop()


@pytest.mark.default_row
@needs_slurm
def test_a_real_slurm_wakes_the_nodes_that_it_has_powered_down(tmp_path):
    saving = "SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=1\nSuspendTimeout=1\n"
    slurm = SlurmDaemons(tmp_path, 2, saving)
    try:
        slurm.wait_until_idle(120, "idle~")
        script = tmp_path / "job.sh"
        script.write_text("#!/bin/sh\nsleep 60\n")
        job = slurm.run(["sbatch", "--hold", "--parsable", "-t", "1", "-o", "/dev/null", str(script)]).strip()
        assert main(["--policy", "fcfs", "--apply"], slurm.run) == 0
        wait_for(slurm, job, "CONFIGURING")
    finally:
        slurm.stop()
