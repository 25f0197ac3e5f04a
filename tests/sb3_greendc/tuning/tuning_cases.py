"""A search of seconds, and what tests ask of its study."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import optuna
import pytest
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState
from programs import run_python

from sb3_greendc.tuning import (
    Objective,
    Order,
    Search,
    create_or_load,
    leases,
    load,
    make_objective,
    outages,
    run_search,
)

COUNTED = (TrialState.COMPLETE, TrialState.PRUNED)

OPTIONS = [
    *(
        "--env",
        "VCC-2021",
        "--set",
        "days=1",
        "--hparams",
        "n_envs=2",
        "n_steps=24",
        "batch_size=24",
        "n_epochs=2",
    ),
    *("--timesteps", "240", "--evaluations", "4", "--episodes", "2", "--study", "small"),
]
"""A trial trains for ten days, and is judged on two."""


TUNE = "import sys; from sb3_greendc.cli import tune; sys.exit(tune.main(sys.argv[1:]))"
"""The command, as a program of its own."""
WITHOUT_FIGURES = TUNE.replace("; sys.exit", "; tune.draw = lambda *_: ([], []); sys.exit")
"""The command, which draws nothing."""


def small_objective(**changes: Any) -> Objective:
    """Return the objective of :data:`OPTIONS`."""
    asked: dict[str, Any] = {
        "env_id": "VCC-2021",
        "timesteps": 240,
        "env_kwargs": {"days": 1},
        "fixed": {"n_envs": 2, "n_steps": 24, "batch_size": 24, "n_epochs": 2},
        "evaluations": 4,
        "episodes": 2,
        **changes,
    }
    return make_objective(**asked)


def search(url: str, trials: int, engine: str = "serial", **changes: Any) -> Search:
    """Run the small study, or what is left of it."""
    made = create_or_load(small_objective(**changes), "small", url)
    run_search(made, Order(url, "small", trials), engine, jobs=1)
    return made


@contextlib.contextmanager
def started(code: str, *arguments: str, folder: Path) -> Iterator[Future[CompletedProcess[str]]]:
    """Run a program beside the test, one at a time: ``python -c CODE ARGUMENTS``, in a folder."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(run_python, "-c", code, *arguments, cwd=folder, timeout=300)


def owners(search: Search) -> set[int]:
    """Return the processes that work at trials, or have."""
    trials = search.study.get_trials(deepcopy=False)
    return {trial.user_attrs[leases.OWNER]["pid"] for trial in trials if leases.OWNER in trial.user_attrs}


def kill(pid: int, program: Future[CompletedProcess[str]]) -> None:
    """Kill a program that was started, if it still runs, and wait until it is gone."""
    if not program.done():
        os.kill(pid, signal.SIGKILL)
    assert program.result(60).returncode == -signal.SIGKILL


def journal(path: Path) -> str:
    """Return the URL of a journal file."""
    return f"journal:///{path}"


def counted(search: Search) -> list[FrozenTrial]:
    return search.study.get_trials(states=COUNTED)


def results(search: Search) -> list[tuple[dict[str, Any], float | None, dict[int, float]]]:
    """Return what the trials that count tried and gave, in the order of their numbers."""
    return [(trial.params, trial.value, trial.intermediate_values) for trial in counted(search)]


def history(trial: FrozenTrial) -> list[int]:
    """Return the numbers of the trials that a trial is a retry of."""
    with leases.quiet():
        return RetryHeartbeatStaleTrialCallback.retry_history(trial)


def find(url: str) -> Search | None:
    """Return the small study, ``None`` as long as there is none."""
    try:
        return load("small", url)
    except (ValueError, optuna.exceptions.OptunaError):
        return None


def open_to_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SQLite open files as it does those without write permission, which mean nothing to root."""
    connect = sqlite3.connect

    def read(path: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        return connect(f"file:{path}?mode=ro", *args, **{**options, "uri": True})

    monkeypatch.setattr(sqlite3, "connect", read)
    monkeypatch.setattr(sqlite3.dbapi2, "connect", read)
    monkeypatch.setattr(outages, "PATIENCE", 0.1)
