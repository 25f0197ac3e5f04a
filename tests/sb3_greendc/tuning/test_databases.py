"""Workers share a study in SQLite and in a real PostgreSQL server, which the tests start and stop."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from postgres_server import PASSWORD, Server, running_server, wait_until
from tuning_cases import OPTIONS, counted, find, history, results, small_objective

from sb3_greendc.tuning import Order, create_or_load, leases, outages, run_search, worker
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
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "train_and_score", lambda *_: Training(None, Score(1.0)))  # type: ignore[arg-type]
    made = create_or_load(small_objective(), "small", url, LEASE_SECONDS)
    stuck = subprocess.Popen([sys.executable, "-c", STUCK, url, str(LEASE_SECONDS)])
    try:
        wait_until(lambda: any(leases.OWNER in trial.user_attrs for trial in made.study.trials))

        def kill(elsewhere: int) -> None:
            assert elsewhere == 1
            time.sleep(LEASE_SECONDS + 2)
            leases.requeue_lost(made.study, LEASE_SECONDS)
            assert len(made.trials(TrialState.RUNNING)) == 1, "its heart beats"
            stuck.kill()
            stuck.wait()

        run_search(made, Order(url, "small", 2, LEASE_SECONDS), on_wait=kill)
    finally:
        stuck.kill()
        stuck.wait()
    lost, other, retry = made.study.trials
    assert [lost.state, other.state] == [TrialState.FAIL, TrialState.COMPLETE]
    assert retry.state == TrialState.COMPLETE
    assert [history(trial) for trial in (lost, other, retry)] == [[], [], [0]]
    assert retry.params == lost.params
    made.study._storage.delete_study(made.study._study_id)


def test_two_commands_share_a_study(postgres: str, tmp_path: Path) -> None:
    options = [*OPTIONS, "--trials", "6", "--storage", postgres]
    command = [sys.executable, "-m", "sb3_greendc.cli.tune", *options]
    commands = [
        subprocess.Popen([*command, "--out", f"out-{i}"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    for one in commands:
        assert one.wait(500) == 0, one.communicate()[1]
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


def test_a_search_outlives_restarts_of_its_server(server: Server, tmp_path: Path) -> None:
    """Stopped for a second or two, again and again, in the middle of trials: all of them count."""
    options = [*OPTIONS, "--trials", "4", "--storage", server.url, "--out", "out"]
    command = [sys.executable, "-m", "sb3_greendc.cli.tune", *options]
    searching = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while (search := find(server.url)) is None or not search.trials(TrialState.RUNNING):
        assert searching.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    restarts = 0
    while searching.poll() is None:
        assert time.monotonic() < deadline
        server.stop()
        time.sleep(1.0)
        server.start()
        restarts += 1
        time.sleep(2.0)
    out, err = searching.communicate()
    assert searching.returncode == 0, err
    assert "no answer: " in err and "trying again for 120 s" in err
    assert PASSWORD not in out + err
    open_storage.cache_clear()
    search = find(server.url)
    assert search is not None and restarts
    assert len(counted(search)) == 4
    assert len(search.study.trials) == 4  # none was tried twice
    assert not search.trials(TrialState.RUNNING, TrialState.WAITING)


def test_a_server_that_stays_away_is_one_message(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PATIENCE", 1.0)
    storage = open_storage(server.url)
    study = optuna.create_study(storage=storage)
    server.stop()
    with pytest.raises(ConnectionError, match=r"^storage postgresql.*: no answer for 1 s: ") as error:
        study.ask()
    assert PASSWORD not in str(error.value)
    server.start()
    assert study.ask().number == 0
    open_storage.cache_clear()
