"""Workers share a study in SQLite and in a real PostgreSQL server, which the tests start and stop."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from postgres_server import PASSWORD, Server, running_server, wait_until
from tuning_cases import (
    OPTIONS,
    TUNE,
    WITHOUT_FIGURES,
    counted,
    find,
    history,
    kill,
    owners,
    results,
    small_objective,
    started,
)

from sb3_greendc.cli.tune import main
from sb3_greendc.tuning import (
    Order,
    Search,
    create_or_load,
    leases,
    load,
    outages,
    run_search,
    study,
    worker,
)
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.storage import open_storage
from sb3_greendc.tuning.training import Training

STUCK = """
import socket, sys, time
socket.gethostname = lambda: "elsewhere"
from sb3_greendc.tuning import Order, worker
worker.train_and_score = lambda *_: time.sleep(600)
worker.work(Order(sys.argv[1], "small", 2, float(sys.argv[2])))
"""
"""A worker of another machine, as far as anybody can tell, whose trial takes ten minutes."""
LEASE_SECONDS = 3.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """Return the URL of a server that all tests share."""
    with running_server() as server:
        yield server.url


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a server of the test's own, to be stopped and started."""
    with running_server() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/study.db"
    found: str = request.getfixturevalue("postgres")
    return found


def test_trial_of_a_killed_worker_is_tried_once_again_and_that_of_a_live_one_is_left(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "train_and_score", lambda *_: Training(None, Score(1.0)))  # type: ignore[arg-type]
    made = create_or_load(small_objective(), "small", url, LEASE_SECONDS)
    with started(STUCK, url, str(LEASE_SECONDS), folder=tmp_path) as stuck:
        wait_until(lambda: bool(owners(made)) or stuck.done())
        assert not stuck.done(), stuck.result().stderr
        [its_pid] = owners(made)
        try:

            def end(elsewhere: int) -> None:
                assert elsewhere == 1
                time.sleep(LEASE_SECONDS + 2)
                leases.requeue_lost(made.study, LEASE_SECONDS)
                assert len(made.trials(TrialState.RUNNING)) == 1, "its heart beats"
                kill(its_pid, stuck)

            run_search(made, Order(url, "small", 2, LEASE_SECONDS), on_wait=end)
        finally:
            kill(its_pid, stuck)
    lost, other, retry = made.study.trials
    assert [lost.state, other.state] == [TrialState.FAIL, TrialState.COMPLETE]
    assert retry.state == TrialState.COMPLETE
    assert [history(trial) for trial in (lost, other, retry)] == [[], [], [0]]
    assert retry.params == lost.params
    made.study._storage.delete_study(made.study._study_id)


def test_two_commands_share_a_study(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in this process, the other in its own, begun in the middle of the first trial."""
    monkeypatch.chdir(tmp_path)
    options = [*OPTIONS, "--trials", "6", "--storage", postgres]
    train_and_score = worker.train_and_score
    with contextlib.ExitStack() as stack:
        others: list[Future[subprocess.CompletedProcess[str]]] = []

        def train(*arguments: Any) -> Training:
            if not others:
                program = started(TUNE, *options, "--out", "out-1", folder=tmp_path)
                others.append(stack.enter_context(program))
                wait_until(lambda: others[0].done() or len(owners(load("small", postgres))) == 2)
            return train_and_score(*arguments)

        monkeypatch.setattr(worker, "train_and_score", train)
        assert main([*options, "--out", "out-0"]) == 0
    assert others[0].result().returncode == 0, others[0].result().stderr
    search = find(postgres)
    assert search is not None
    assert len(counted(search)) == 6
    assert not search.trials(TrialState.RUNNING, TrialState.WAITING)
    assert len({trial.user_attrs[leases.OWNER]["pid"] for trial in counted(search)}) == 2
    tried = [str(parameters) for parameters, _, _ in results(search)]
    assert len(set(tried)) == len(tried)
    reports = [(tmp_path / f"out-{i}" / "history.png").is_file() for i in range(2)]
    assert reports == [True, True]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"report.json", "run.json"} <= {path.name for path in written}
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]


def test_commands_that_meet_an_empty_database_at_once_make_one_study(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "open_storage", open_storage.__wrapped__)  # to each its own, as in processes
    objective, together = small_objective(), threading.Barrier(3)

    def make(_: int) -> Search:
        together.wait(60)
        return create_or_load(objective, "small", server.url)

    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(make, range(3)))
    assert len({search.study._storage for search in made}) == 3
    assert len({search.study._study_id for search in made}) == 1


def test_a_search_outlives_restarts_of_its_server(server: Server, tmp_path: Path) -> None:
    """Stopped for a second or two, again and again, in the middle of trials: all of them count."""
    options = [*OPTIONS, "--trials", "4", "--storage", server.url, "--out", "out"]
    restarts = 0
    with started(WITHOUT_FIGURES, *options, folder=tmp_path) as searching:
        deadline = time.monotonic() + 300
        while (search := find(server.url)) is None or not search.trials(TrialState.RUNNING):
            assert not searching.done() and time.monotonic() < deadline
            time.sleep(0.2)
        while not searching.done():
            assert time.monotonic() < deadline
            server.stop()
            time.sleep(1.0)
            server.start()
            restarts += 1
            time.sleep(2.0)
    run = searching.result()
    assert run.returncode == 0, run.stderr
    assert "no answer: " in run.stderr and "trying again for 120 s" in run.stderr
    assert PASSWORD not in run.stdout + run.stderr
    open_storage.cache_clear()
    search = find(server.url)
    assert search is not None and restarts
    assert len(counted(search)) == 4
    assert len(search.study.trials) == 4  # none was tried twice
    assert not search.trials(TrialState.RUNNING, TrialState.WAITING)


def test_a_server_that_stays_away_is_one_message(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PATIENCE", 1.0)
    storage = open_storage(server.url)
    made = optuna.create_study(storage=storage)
    server.stop()
    with pytest.raises(ConnectionError, match=r"^storage postgresql.*: no answer for 1 s: ") as error:
        made.ask()
    assert PASSWORD not in str(error.value)
    server.start()
    assert made.ask().number == 0
    open_storage.cache_clear()
