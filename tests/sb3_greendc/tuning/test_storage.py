"""Storages by URL: what can be opened, and one clear error for what cannot."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sqlite3
import sys
from importlib.util import find_spec
from pathlib import Path

import optuna
import pytest
from tuning_cases import journal, open_to_read_alone

from sb3_greendc.tuning.storage import absolute, open_storage


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_torn_last_line_of_a_journal_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "journal.log"
    study = optuna.create_study(storage=open_storage(journal(path)), study_name="s")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"worker')  # killed in the middle of a write
    open_storage.cache_clear()
    again = optuna.load_study(storage=open_storage(journal(path)), study_name="s")
    assert [trial.params for trial in again.trials] == [trial.params for trial in study.trials]
    again.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    open_storage.cache_clear()
    assert len(optuna.load_study(storage=open_storage(journal(path)), study_name="s").trials) == 3


@pytest.mark.parametrize("to_write", [True, False])
def test_file_that_is_no_journal_is_refused_and_kept(tmp_path: Path, to_write: bool) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("first\nsecond")
    with pytest.raises(ValueError, match=r"notes\.txt: not a journal file"):
        open_storage(journal(path), to_write=to_write)
    assert path.read_text() == "first\nsecond"
    assert list(tmp_path.iterdir()) == [path]


def test_journal_that_is_only_read_takes_no_lock_and_is_not_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    path = tmp_path / "journal.log"
    optuna.create_study(storage=open_storage(journal(path)), study_name="s")
    with path.open("ab") as file:
        file.write(b"{torn")
    before = path.read_bytes()
    monkeypatch.setattr(os, "symlink", read_only)
    open_storage.cache_clear()
    assert optuna.get_all_study_names(open_storage(journal(path), to_write=False)) == ["s"]
    assert path.read_bytes() == before


def test_sqlite(tmp_path: Path) -> None:
    study = optuna.create_study(storage=open_storage(f"sqlite:///{tmp_path}/tuning.db"))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    assert (tmp_path / "tuning.db").is_file()


def test_sqlite_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tuning.db"
    optuna.create_study(storage=f"sqlite:///{path}", study_name="s")
    before = path.read_bytes()
    open_to_read_alone(monkeypatch)
    with pytest.raises(ConnectionError, match=r"tuning\.db: cannot be written: attempt to write a readonly"):
        open_storage(f"sqlite:///{path}")
    assert optuna.get_all_study_names(open_storage(f"sqlite:///{path}", to_write=False)) == ["s"]
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("what", ["file", "folder", "folder without the file"])
def test_sqlite_without_permission(tmp_path: Path, what: str) -> None:
    path = tmp_path / "studies" / "tuning.db"
    path.parent.mkdir()
    if what != "folder without the file":
        optuna.create_study(storage=f"sqlite:///{path}", study_name="s")
    locked = path if what == "file" else path.parent
    locked.chmod(0o400 if what == "file" else 0o500)
    try:
        with pytest.raises(ConnectionError, match=r"studies/tuning\.db: cannot be written: "):
            open_storage(f"sqlite:///{path}")
    finally:
        locked.chmod(0o700)


def test_sqlite_that_others_write_at_the_moment_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    optuna.create_study(storage=f"sqlite:///{path}", study_name="s")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert optuna.get_all_study_names(open_storage(f"sqlite:///{path}")) == ["s"]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_proxy(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="gRPC is not installed")
    module = pytest.importorskip("optuna.storages._grpc.server", reason="Optuna before 4.2")
    port = free_port()
    server = module.make_server(open_storage(journal(tmp_path / "journal.log")), "127.0.0.1", port)
    server.start()
    try:
        study = optuna.create_study(storage=open_storage(f"grpc://127.0.0.1:{port}"), study_name="s")
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    finally:
        server.stop(None)
    assert (
        len(optuna.load_study(storage=open_storage(journal(tmp_path / "journal.log")), study_name="s").trials)
        == 1
    )


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("tuning.log", "must be journal:///PATH, sqlite"),
        ("journl:///tuning.log", "must be journal:///PATH, sqlite"),
        ("journal:///", "names no file"),
        ("grpc://somewhere", "must be grpc://HOST:PORT"),
    ],
)
def test_url_of_no_known_kind(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_storage(url)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(
            "postgresql://tuner:secret@127.0.0.1:{port}/tuning",
            marks=pytest.mark.skipif(find_spec("psycopg") is None, reason="psycopg is not installed"),
        ),
        "sqlite:////nowhere/tuning.db",
        "journal:////proc/nowhere/tuning.log",
    ],
)
def test_storage_that_cannot_be_reached(url: str) -> None:
    with pytest.raises(ConnectionError, match="cannot be reached") as caught:
        open_storage(url.format(port=free_port()))
    assert "secret" not in str(caught.value)


def test_driver_that_is_missing() -> None:
    with pytest.raises(ImportError, match="pip install 'cx_Oracle'"):
        open_storage("oracle+cx_oracle://127.0.0.1/tuning")


def test_driver_of_another_name_than_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)  # as where it is not installed
    with pytest.raises(ImportError, match="pip install 'mysqlclient'"):
        open_storage("mysql://tuner@127.0.0.1/tuning")


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("journal:///runs/a.log") == f"journal:///{tmp_path}/runs/a.log"
    assert absolute("sqlite:///a.db") == f"sqlite:///{tmp_path}/a.db"
    for url in ("journal:////data/a.log", "postgresql://u:secret@host/a", "grpc://host:1", "sqlite://", "?"):
        assert absolute(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "grpc://tuner:s3cret@somewhere",
        "journl://tuner:s3cret@somewhere/x",
        "postgresql://tuner:s3cret@somewhere:port/x",
        "oracle+cx_oracle://tuner:s3cret@127.0.0.1/tuning",
        "postgresql://127.0.0.1:{port}/tuning?user=tuner&password=s3cret",
    ],
)
def test_errors_show_no_password(url: str) -> None:
    with pytest.raises((ValueError, ImportError, ConnectionError), match=r"^storage ") as caught:
        open_storage(url.format(port=free_port()))
    assert "s3cret" not in str(caught.value)
