"""Workers share a study in SQLite and in a real PostgreSQL server, which the tests start and stop."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from optuna.trial import TrialState
from test_storage import free_port
from tuning_cases import OPTIONS, counted, find, history, results, small_objective

from sb3_greendc.tuning import Order, create_or_load, leases, run_search, worker
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.training import Training

PASSWORD = "s3cret"
pytestmark = pytest.mark.default_row

STUCK = """
import socket, sys, time
socket.gethostname = lambda: "elsewhere"
from sb3_greendc.tuning import Order, worker
worker.train_and_score = lambda *_: time.sleep(600)
worker.work(Order(sys.argv[1], "small", 2, float(sys.argv[2])))
"""
"""A worker of another machine, as far as anybody can tell, whose trial takes ten minutes."""
LEASE_SECONDS = 3.0


def binary(name: str) -> str | None:
    """Return a program of PostgreSQL, on the path or where Debian puts it."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else None)


def another_user() -> str | None:
    """Return whom to run the server as: it refuses root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.skip("PostgreSQL refuses root, and there is no other user to run it as")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """Start a server on a free port of this machine, and return its URL."""
    initdb, program = binary("initdb"), binary("postgres")
    if initdb is None or program is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed")
    user, port = another_user(), free_port()
    folder = tempfile.mkdtemp(prefix="greendc-pg-")
    if user is not None:
        shutil.chown(folder, user)
    data = f"{folder}/data"
    make = [initdb, "-D", data, "-U", "tuner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(make, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    serve = [program, "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
    log = open(f"{folder}/log", "w")  # noqa: SIM115  # closed below, with the server
    server = subprocess.Popen(serve, user=user, cwd=folder, stdout=log, stderr=log)
    try:
        _wait_until_ready(port, server)
        yield f"postgresql://tuner:{PASSWORD}@127.0.0.1:{port}/postgres"  # which the server does not ask for
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        log.close()
        shutil.rmtree(folder)


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
        _wait_until(lambda: any(leases.OWNER in trial.user_attrs for trial in made.study.trials))

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
    workers = [
        subprocess.Popen([*command, "--out", f"out-{i}"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    for process in workers:
        assert process.wait(500) == 0, process.communicate()[1]
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


def _wait_until_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    def answers() -> bool:
        assert server.poll() is None, "the server did not start"
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="tuner", dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    _wait_until(answers)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited for two minutes"
        time.sleep(0.1)
