"""A search whose process is killed goes on where it was, and Ray's workers do what one process does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from tuning_cases import (
    OPTIONS,
    TUNE,
    counted,
    find,
    history,
    journal,
    kill,
    owners,
    results,
    search,
    started,
)

from sb3_greendc.cli import tune
from sb3_greendc.cli.tune import main
from sb3_greendc.tuning import Order, training, worker
from sb3_greendc.tuning import search as search_module
from sb3_greendc.tuning.leases import OWNER
from sb3_greendc.tuning.score import Score


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_killed_search_goes_on_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_finish", lambda *_: 0)  # test_tune_cli.py looks at it
    url = journal(folder / "killed.log")
    options = [*OPTIONS, "--storage", url]
    with started(TUNE, *options, "--trials", "20", folder=folder) as running:
        number = _wait_for_second_trial(url, running.done)
        killed = find(url)
        assert killed is not None
        [pid] = owners(killed)
        kill(pid, running)
    interrupted = killed.trials(TrialState.RUNNING)
    assert all(trial.number >= number for trial in interrupted)
    total = len(counted(killed)) + 2
    assert main([*options, "--trials", str(total)]) == 0
    assert not killed.trials(TrialState.RUNNING, TrialState.WAITING)
    retries = {history(t)[0]: t for t in counted(killed) if history(t)}
    assert retries.keys() == {trial.number for trial in interrupted}
    for trial in interrupted:
        assert retries[trial.number].params.items() >= trial.params.items()
    assert results(killed) == results(search(journal(folder / "whole.log"), total))


@pytest.mark.default_row
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_ray_gives_what_one_process_gives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_finish", lambda *_: 0)
    url = journal(folder / "ray.log")
    options = [*OPTIONS, "--trials", "2", "--storage", url]
    assert main([*options, "--engine", "ray", "--jobs", "1"]) == 0
    by_ray = find(url)
    assert by_ray is not None
    assert results(by_ray) == results(search(journal(folder / "serial.log"), 2))
    pids = {trial.user_attrs[OWNER]["pid"] for trial in counted(by_ray)}
    assert os.getpid() not in pids


@pytest.mark.default_row
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_trial_of_a_killed_ray_worker_is_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_finish", lambda *_: 0)
    monkeypatch.setattr(search_module, "work", _slow_work())
    monkeypatch.setenv("RAY_worker_niceness", "0")  # or a busy machine leaves them nothing
    url = journal(folder / "ray.log")
    options = [*OPTIONS, "--trials", "3", "--storage", url]
    with ThreadPoolExecutor(1) as thread:
        number = thread.submit(_kill_in_second_trial, url)
        assert main([*options, "--engine", "ray", "--jobs", "1"]) == 0
    by_ray = find(url)
    assert by_ray is not None
    assert not by_ray.trials(TrialState.RUNNING, TrialState.WAITING)
    [lost] = by_ray.trials(TrialState.FAIL)
    [retry] = [trial for trial in counted(by_ray) if history(trial)]
    assert history(retry) == [lost.number] == [number.result()]
    assert results(by_ray) == results(search(journal(folder / "serial.log"), 3))


def _wait_for_second_trial(url: str, has_ended: Callable[[], bool]) -> int:
    """Wait until a trial beyond the first is in the middle of its training, and return its number."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert not has_ended(), "the search ended by itself"
        study = find(url)
        busy = [] if study is None else [t for t in study.trials(TrialState.RUNNING) if t.intermediate_values]
        if busy and busy[-1].number >= 1:
            return busy[-1].number
        time.sleep(0.01)
    raise AssertionError("no second trial")


def _kill_in_second_trial(url: str) -> int:
    """Kill the process of the second trial, and return its number."""
    number = _wait_for_second_trial(url, lambda: False)
    made = find(url)
    assert made is not None
    os.kill(made.study.trials[number].user_attrs[OWNER]["pid"], signal.SIGKILL)
    return number


def _slow_work() -> Callable[[Order], worker.Outcome | None]:
    """Return what a worker does, with a pause after each evaluation, in which it can be killed.

    It is made here, so that it is sent to a worker as a whole: these tests are not to be imported there.
    """

    def slowly(objective: Any, hyperparameters: Any, should_stop: Any, *others: Any) -> training.Training:
        def stop(step: int, reached: Score) -> bool:
            stopped: bool = should_stop(step, reached)
            time.sleep(0.3)
            return stopped

        return training.train_and_score(objective, hyperparameters, stop, *others)

    def work(order: Order) -> worker.Outcome | None:
        worker.train_and_score = slowly
        return worker.work(order)

    return work
