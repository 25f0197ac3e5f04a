"""``greendc slurm --apply`` that ends half-way: it says which commands took effect and which did not."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from greendc.live import slurm_answers
from greendc.live.slurm_answers import SlurmError, run_command
from sb3_greendc.cli.slurm import main

ARGUMENTS = ["--policy", "fcfs", "--apply"]
FIRST, SECOND, THIRD = (f"scontrol release {k}" for k in (1, 2, 3))


def queue_and_nodes():
    """Three held jobs of a CPU each, on a node of four."""
    jobs = [
        {
            "job_id": number,
            "job_state": "PENDING",
            "state_reason": "JobHeldUser",
            "cpus": 1,
            "time_limit": 10,
            "submit_time": int(time.time()) - 100,
            "partition": "all",
        }
        for number in (1, 2, 3)
    ]
    nodes = [{"name": "a", "partitions": ["all"], "cpus": 4, "alloc_cpus": 0, "state": "idle"}]
    return json.dumps({"nodes": nodes, "jobs": jobs})


def report(took="none", refused="none", unknown="none", not_run="none"):
    return f"took effect: {took}\nrefused: {refused}\nnot known: {unknown}\nnot run: {not_run}\n"


def slurm_that(fails, at="2"):
    """Return what answers as Slurm, and at the release of a job does something else."""

    def run(command):
        if command[0] in ("sinfo", "squeue"):
            return queue_and_nodes()
        return fails(command) if command[-1] == at else ""

    return run


def raises(error):
    def fail(command):
        raise error

    return fail


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that commands are looked for in first, with a Slurm in it."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "answer.json").write_text(queue_and_nodes())
    for name in ("sinfo", "squeue"):
        write_script(tmp_path / name, f"cat {tmp_path}/answer.json")
    return tmp_path


def write_script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def at_the_second_release(folder, text):
    """Write a command that does something at the second release, and nothing at others."""
    write_script(folder / "scontrol", f'echo "$2" >> {folder}/released\n[ "$2" = 2 ] || exit 0\n{text}')


def test_ctrl_c_is_reported_and_goes_on(capsys):
    with pytest.raises(KeyboardInterrupt):
        main(ARGUMENTS, slurm_that(raises(KeyboardInterrupt())))
    assert capsys.readouterr().err == report(FIRST, unknown=SECOND, not_run=THIRD)


def test_an_error_of_ours_is_reported_and_goes_on(capsys):
    with pytest.raises(ZeroDivisionError):
        main(ARGUMENTS, slurm_that(raises(ZeroDivisionError("x"))))
    error = capsys.readouterr().err
    assert error == f"slurm: error: {SECOND}: x\n" + report(FIRST, unknown=SECOND, not_run=THIRD)


def test_an_error_of_the_system_is_one_line_and_the_report(capsys):
    assert main(ARGUMENTS, slurm_that(raises(OSError(5, "Input/output error")))) == 1
    error = capsys.readouterr().err
    assert error == f"slurm: error: {SECOND}: [Errno 5] Input/output error\n" + report(
        FIRST, unknown=SECOND, not_run=THIRD
    )


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        ("refused", report(FIRST, refused=SECOND, not_run=THIRD)),
        ("unknown", report(FIRST, unknown=SECOND, not_run=THIRD)),
        ("none", report(FIRST, not_run=f"{SECOND}; {THIRD}")),
    ],
)
def test_what_came_of_the_command_that_failed_is_said(effect, expected, capsys):
    assert main(ARGUMENTS, slurm_that(raises(SlurmError("why", effect)))) == 1
    assert capsys.readouterr().err == f"slurm: error: why\n{expected}"


def test_the_last_command_leaves_none_that_did_not_run(capsys):
    assert main(ARGUMENTS, slurm_that(raises(SlurmError("why", "unknown")), at="3")) == 1
    assert capsys.readouterr().err.endswith(report(f"{FIRST}; {SECOND}", unknown=THIRD))


def test_a_command_that_may_not_be_run_did_not_run(folder, capsys, monkeypatch):
    (folder / "scontrol").write_text("#!/bin/sh\n")
    monkeypatch.setattr(os, "get_exec_path", lambda env=None: [str(folder)])
    with pytest.raises(SlurmError, match="scontrol release 1: cannot be run: Permission denied") as error:
        run_command(["scontrol", "release", "1"])
    assert error.value.effect == "none"
    assert main(ARGUMENTS) == 1
    assert capsys.readouterr().err == (
        f"slurm: error: {FIRST}: cannot be run: Permission denied\n"
        + report(not_run="; ".join([FIRST, SECOND, THIRD]))
    )


def test_output_that_is_no_text_is_no_error(folder, capsys):
    write_script(folder / "scontrol", r"printf '\377\n'")
    assert main(ARGUMENTS) == 0
    at_the_second_release(folder, r"printf 'bad \377\n' >&2; exit 1")
    assert main(ARGUMENTS) == 1
    error = capsys.readouterr().err
    assert f"{SECOND}: exit code 1: bad \ufffd\n" in error
    assert error.endswith(report(FIRST, refused=SECOND, not_run=THIRD))


def test_a_command_that_does_not_end_may_have_taken_effect(folder, capsys, monkeypatch):
    monkeypatch.setattr(slurm_answers, "TIMEOUT_SECONDS", 0.5)
    at_the_second_release(folder, "sleep 60")
    begin = time.monotonic()
    assert main(ARGUMENTS) == 1
    assert time.monotonic() - begin < 20
    error = capsys.readouterr().err
    assert f"{SECOND}: no answer within 0.5 s\n" in error
    assert error.endswith(report(FIRST, unknown=SECOND, not_run=THIRD))


@pytest.mark.parametrize(
    "said",
    [
        "slurm_update error: Socket timed out on send/recv operation",
        "slurm_update error: Unable to contact slurm controller (connect failure)",
        "slurm_update error: Zero Bytes were transmitted or received",
    ],
)
def test_where_the_answer_of_the_controller_is_lost_the_command_may_have_taken_effect(said, folder, capsys):
    at_the_second_release(folder, f"echo '{said}' >&2; exit 1")
    assert main(ARGUMENTS) == 1
    assert capsys.readouterr().err.endswith(report(FIRST, unknown=SECOND, not_run=THIRD))


def test_a_command_that_a_signal_ended_may_have_taken_effect(folder, capsys):
    at_the_second_release(folder, "kill -9 $$")
    assert main(ARGUMENTS) == 1
    error = capsys.readouterr().err
    assert f"{SECOND}: ended by signal 9\n" in error
    assert error.endswith(report(FIRST, unknown=SECOND, not_run=THIRD))


def started(**options):
    """Start the command as from a shell."""
    code = "import sys; from sb3_greendc.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "slurm", *ARGUMENTS]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **options)


def wait_for(folder, count):
    end = time.monotonic() + 60
    released = folder / "released"
    while time.monotonic() < end and (not released.exists() or released.read_text().count("\n") < count):
        time.sleep(0.05)


DEFAULT = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (signal.SIGTERM, 143, "slurm: terminated\n{}"),
        (signal.SIGHUP, 143, "slurm: terminated\n{}"),
        (signal.SIGINT, 130, "{}slurm: interrupted\n"),
    ],
)
def test_signals_end_the_command_with_a_report(sent, code, said, folder):
    at_the_second_release(folder, "exec sleep 60")
    # Also where the tests themselves were started by ``nohup``.
    process = started(stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(sent, DEFAULT[sent]))
    wait_for(folder, 2)
    process.send_signal(sent)
    _, error = process.communicate(timeout=60)
    assert error == said.format(report(FIRST, unknown=SECOND, not_run=THIRD))
    assert process.returncode == code
    assert (folder / "released").read_text() == "1\n2\n"


def test_a_hang_up_that_is_to_be_ignored_is(folder):
    """As ``nohup`` starts it."""
    at_the_second_release(folder, "sleep 1")
    process = started(
        stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    wait_for(folder, 2)
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60) == (None, "")
    assert process.returncode == 0


def test_output_that_nobody_reads_ends_it_before_the_next_command(folder):
    """What runs has been shown, also in ``greendc slurm --apply | head``."""
    at_the_second_release(folder, "sleep 2")
    process = started(stdout=subprocess.PIPE)
    assert process.stdout is not None
    wait_for(folder, 2)
    process.stdout.close()
    assert process.stderr is not None
    error = process.stderr.read()
    assert process.wait(60) == 1
    assert error == "slurm: error: output: [Errno 32] Broken pipe\n" + report(
        f"{FIRST}; {SECOND}", not_run=THIRD
    )
    assert (folder / "released").read_text() == "1\n2\n"


def test_output_that_nobody_reads_at_all_is_one_line(folder):
    at_the_second_release(folder, "")
    process = started(stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    assert process.wait(60) == 1
    assert error == "slurm: error: output: [Errno 32] Broken pipe: no command was run\n"
    assert not (folder / "released").exists()


def test_in_another_thread_it_runs_too():
    codes: list[int] = []
    run = slurm_that(lambda command: "")
    thread = threading.Thread(target=lambda: codes.append(main(ARGUMENTS, run)))
    thread.start()
    thread.join(60)
    assert codes == [0]
