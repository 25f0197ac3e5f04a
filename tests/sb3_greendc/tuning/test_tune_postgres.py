"""Two commands work on one study in a real PostgreSQL server, which the test starts and stops."""

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

import pytest
from optuna.trial import TrialState
from test_storage import free_port
from tuning_cases import OPTIONS, counted, find, results

from sb3_greendc.tuning.leases import LEASE

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


@pytest.fixture
def database() -> Iterator[str]:
    """Start a server on a free port of this machine, and return its URL."""
    initdb, postgres = binary("initdb"), binary("postgres")
    if initdb is None or postgres is None:
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
    serve = [postgres, "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
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
