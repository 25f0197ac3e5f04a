"""Two commands work on one study in a real PostgreSQL server, which the tests start and stop."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from test_storage import free_port
from tuning_cases import OPTIONS, counted, find, results

from sb3_greendc.tuning import outages
from sb3_greendc.tuning.leases import LEASE
from sb3_greendc.tuning.storage import open_storage

PASSWORD = "s3cret"
pytestmark = pytest.mark.default_row


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


class Server:
    """A PostgreSQL server on a free port of this machine."""

    def __init__(self, folder: str, user: str | None, postgres: str) -> None:
        self.user, self.port = user, free_port()
        self.url = f"postgresql://tuner:{PASSWORD}@127.0.0.1:{self.port}/postgres"  # it asks for none
        serve = ["-D", f"{folder}/data", "-h", "127.0.0.1", "-p", str(self.port), "-k", folder, "-F"]
        self._command, self._folder = [postgres, *serve], folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(f"{self._folder}/log", "a") as log:
            self._process = subprocess.Popen(
                self._command, user=self.user, cwd=self._folder, stdout=log, stderr=log
            )
        _wait_until_ready(self.port, self._process)

    def stop(self) -> None:
        """End the server, and all connections with it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
        self._process = None


@pytest.fixture
def server() -> Iterator[Server]:
    """Start a server with an empty database."""
    initdb, postgres = binary("initdb"), binary("postgres")
    if initdb is None or postgres is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed")
    user = another_user()
    folder = tempfile.mkdtemp(prefix="greendc-pg-")
    if user is not None:
        shutil.chown(folder, user)
    make = [
        initdb,
        "-D",
        f"{folder}/data",
        "-U",
        "tuner",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]
    subprocess.run(make, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    made = Server(folder, user, postgres)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


@pytest.fixture
def database(server: Server) -> str:
    """Return the URL of a server."""
    return server.url


def test_a_search_outlives_restarts_of_its_server(server: Server, tmp_path: Path) -> None:
    """Stopped for a second or two, again and again, in the middle of trials: all of them count."""
    options = [*OPTIONS, "--trials", "4", "--storage", server.url, "--out", "out"]
    command = [sys.executable, "-m", "sb3_greendc.cli.tune", *options]
    worker = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while (search := find(server.url)) is None or not search.trials(TrialState.RUNNING):
        assert worker.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    restarts = 0
    while worker.poll() is None:
        assert time.monotonic() < deadline
        server.stop()
        time.sleep(1.0)
        server.start()
        restarts += 1
        time.sleep(2.0)
    out, err = worker.communicate()
    assert worker.returncode == 0, err
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


def test_two_commands_share_a_study(database: str, tmp_path: Path) -> None:
    options = [*OPTIONS, "--trials", "6", "--storage", database]
    command = [sys.executable, "-m", "sb3_greendc.cli.tune", *options]
    workers = [
        subprocess.Popen([*command, "--out", f"out-{i}"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    for worker in workers:
        assert worker.wait(500) == 0, worker.communicate()[1]
    search = find(database)
    assert search is not None
    assert len(counted(search)) == 6
    assert not search.trials(TrialState.RUNNING, TrialState.WAITING)
    assert len({trial.user_attrs[LEASE]["pid"] for trial in counted(search)}) == 2
    tried = [str(parameters) for parameters, _, _ in results(search)]
    assert len(set(tried)) == len(tried)
    reports = [(tmp_path / f"out-{i}" / "history.png").is_file() for i in range(2)]
    assert reports == [True, True]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"report.json", "run.json"} <= {path.name for path in written}
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]


def _wait_until_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="tuner", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            assert server.poll() is None, "the server did not start"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)
