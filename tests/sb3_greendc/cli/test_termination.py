"""SIGTERM and SIGHUP end a command as Ctrl-C does: what was done is kept."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from train_cases import SMALL

from sb3_greendc.cli import launch
from sb3_greendc.cli.termination import interrupted_by_term
from sb3_greendc.core.callbacks import EpisodeMetricsCallback
from sb3_greendc.core.progress import Lines
from sb3_greendc.datasets import OfflineDataset

ENDLESS = ["--algo", "ppo", "--env", "CartPole-v1", "--timesteps", "100000000", "--no-progress"]


def test_a_run_that_is_terminated_keeps_the_model_so_far(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "sb3_greendc", "train", *ENDLESS, "--out", str(out), *SMALL]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            log, end = out / "progress.csv", time.monotonic() + 120
            while not (log.exists() and log.stat().st_size > 0) and time.monotonic() < end:
                assert process.poll() is None
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            said, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 143, errors
    assert f"interrupted; saved the model so far: {out / 'model.zip'}" in said
    record = json.loads((out / "run.json").read_text())
    assert record["completed"] is False and record["trained_timesteps"] >= 32
    assert (out / "model.zip").exists() and "Traceback" not in errors


def test_a_run_whose_terminal_goes_keeps_the_model_so_far(tmp_path: Path) -> None:
    """As where a connection breaks: SIGHUP comes, and what is printed then is an error."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "sb3_greendc", "train", *ENDLESS[:-1], "--out", str(out), *SMALL]
    ours, terminal = os.openpty()

    def own_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests were started by ``nohup``
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        pass_fds=[terminal],
        preexec_fn=own_terminal,
    )
    os.close(terminal)
    try:
        log, end = out / "progress.csv", time.monotonic() + 120
        while not (log.exists() and log.stat().st_size > 0) and time.monotonic() < end:
            assert process.poll() is None
            time.sleep(0.1)
        os.close(ours)
        assert process.wait(timeout=60) == 143
    finally:
        process.kill()
    assert json.loads((out / "run.json").read_text())["completed"] is False
    assert (out / "model.zip").exists()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_other_commands_keep_what_they_had_done(
    sent: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hit(self: Any, n: float = 1) -> None:
        self.n += n
        if self.n >= 1_000:
            os.kill(os.getpid(), sent)

    monkeypatch.setattr(Lines, "update", hit)
    before = signal.signal(sent, signal.default_int_handler)  # where nobody handles it, the tests go on
    arguments = ["--policies", "random", "--transitions", "4000", "--out", str(tmp_path / "x.npz")]
    try:
        assert launch.run("collect", ["--env", "CartPole-v1", *arguments]) == 143
        assert signal.getsignal(sent) is signal.default_int_handler
    finally:
        signal.signal(sent, before)
    assert "interrupted; what had been recorded:" in capsys.readouterr().out
    assert 0 < len(OfflineDataset.load(tmp_path / "x.npz")) < 4000


def test_a_command_with_nothing_to_keep_says_that_it_was_terminated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminated(argv: Any) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    monkeypatch.setattr("sb3_greendc.cli.demo.main", terminated)
    try:
        assert launch.run("demo") == 143
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == "demo: terminated\n"


def test_terminated_before_the_first_step_there_is_nothing_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminated(self: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(EpisodeMetricsCallback, "_on_training_start", terminated)
    assert launch.run("train", [*ENDLESS, "--out", str(tmp_path / "run"), *SMALL]) == 143
    assert capsys.readouterr().err.endswith("train: terminated\n")
    assert not (tmp_path / "run" / "model.zip").exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_of_several_seeds_the_one_that_is_terminated_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated(self: Any) -> bool:
        if self.num_timesteps >= 64:
            os.kill(os.getpid(), signal.SIGTERM)
        return True

    monkeypatch.setattr(EpisodeMetricsCallback, "_on_step", terminated)
    assert launch.run("train", [*ENDLESS, "--seeds", "1", "2", "--out", str(tmp_path / "run"), *SMALL]) == 143
    assert [path.parent.name for path in tmp_path.glob("run/*/model.zip")] == ["seed_1"]


def test_the_second_signal_does_not_stop_what_is_being_saved() -> None:
    with interrupted_by_term() as came:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM]


def test_forked_processes_end_by_the_signal() -> None:
    with interrupted_by_term() as came:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    assert came == []


def test_in_another_thread_nothing_is_changed() -> None:
    found: list[Any] = []

    def work() -> None:
        with interrupted_by_term() as came:
            found.extend([came, signal.getsignal(signal.SIGTERM)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[], signal.getsignal(signal.SIGTERM)]
