"""SIGTERM ends a training as Ctrl-C does: the model so far is saved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from train_cases import SMALL

from sb3_greendc.cli.termination import interrupted_by_term
from sb3_greendc.cli.train import main
from sb3_greendc.core.callbacks import EpisodeMetricsCallback

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


def test_terminated_before_the_first_step_there_is_nothing_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminated(self: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(EpisodeMetricsCallback, "_on_training_start", terminated)
    assert main([*ENDLESS, "--out", str(tmp_path / "run"), *SMALL]) == 143
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
    assert main([*ENDLESS, "--seeds", "1", "2", "--out", str(tmp_path / "run"), *SMALL]) == 143
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
