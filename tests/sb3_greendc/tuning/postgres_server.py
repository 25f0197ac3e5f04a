"""A real PostgreSQL server for tests, which they start and stop."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_storage import free_port

PASSWORD = "s3cret"


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


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Start a server with an empty database; skip the test where there is none to start."""
    initdb, postgres = binary("initdb"), binary("postgres")
    if initdb is None or postgres is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed")
    user = another_user()
    folder = tempfile.mkdtemp(prefix="greendc-pg-")
    if user is not None:
        shutil.chown(folder, user)
    options = ["-U", "tuner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    make = [initdb, "-D", f"{folder}/data", *options]
    subprocess.run(make, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    made = Server(folder, user, postgres)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


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


def _wait_until_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    def answers() -> bool:
        assert server.poll() is None, "the server did not start"
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="tuner", dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(answers)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited for two minutes"
        time.sleep(0.1)
