"""Where a study lives: a journal file, a database, or a gRPC proxy before one, by URL."""

from __future__ import annotations

import contextlib
import functools
import math
import sqlite3
import time
from pathlib import Path

import sqlalchemy.exc
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalStorage
from sqlalchemy.engine import URL, make_url

from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.tuning import leases
from sb3_greendc.tuning.journal_lock import JournalLock, require_journal
from sb3_greendc.tuning.outages import patient

JOURNAL = "journal:///"
SQLITE = "sqlite:///"
JOURNAL_FILE = "journal.log"
FOLDER = Path("runs") / "tuning"
"""Where studies are, with a folder each, if nothing else is said."""
GRPC = "grpc://"
_FORMS = "journal:///PATH, sqlite:///PATH, postgresql://USER@HOST/DATABASE, mysql://... or grpc://HOST:PORT"
_TIMEOUT = 10  # seconds to wait for a server


@functools.lru_cache(maxsize=8)
def open_storage(url: str, lease_seconds: float = leases.SECONDS, to_write: bool = True) -> BaseStorage:
    """Open a storage, the same object for the same URL in each process.

    While the server of a storage that was reached once does not answer, calls wait for it
    (:mod:`~sb3_greendc.tuning.outages`). ``journal:///tuning.log`` is a path relative to the working folder,
    ``journal:////data/tuning.log`` an absolute one, as in SQLite's URLs. ``postgresql://`` uses psycopg 3.

    :param url: of the storage
    :param lease_seconds: see :mod:`~sb3_greendc.tuning.leases`; in a database at least 3, since SQLite's
        clock has whole seconds
    :param to_write: else a file is only read: it may be where nothing can be written
    :raises ValueError: for a URL of no known kind, or a file that is no journal
    :raises ImportError: if the database's driver is missing
    :raises ConnectionError: if the storage cannot be reached, or is a SQLite file that cannot be written
    """
    if to_write and url.startswith(SQLITE):
        _require_writable(url)
    try:
        if url.startswith(JOURNAL):
            return _open_journal(Path(url.removeprefix(JOURNAL)), to_write)
        if url.startswith(GRPC):
            return _open_proxy(url.removeprefix(GRPC))
        return _open_database(_database_url(url), lease_seconds)
    except (OSError, sqlalchemy.exc.SQLAlchemyError) as error:
        reason = without_secrets(" ".join(str(error.__cause__ or error).split()), url)
        raise ConnectionError(f"storage {without_secrets(url)}: cannot be reached: {reason}") from error


def journal_of(study: str) -> str:
    """Return the URL of the journal file of a study for which no storage is named."""
    return f"{JOURNAL}{FOLDER / study / JOURNAL_FILE}"


def file_of(url: str) -> Path | None:
    """Return the file that a storage's URL names; ``None`` for servers, and for a database in memory."""
    if url.startswith(JOURNAL):
        return Path(url.removeprefix(JOURNAL))
    if url.startswith(SQLITE):
        database = make_url(url).database
        return Path(database) if database and database != ":memory:" else None
    return None


def absolute(url: str) -> str:
    """Return the URL with the path of its file absolute: workers may have another working folder."""
    if url.startswith(JOURNAL):
        path = url.removeprefix(JOURNAL)
        return f"{JOURNAL}{Path(path).absolute()}" if path else url
    if url.startswith(SQLITE):
        parsed = make_url(url)
        if parsed.database and parsed.database != ":memory:":
            return str(parsed.set(database=str(Path(parsed.database).absolute())))
    return url


def _open_journal(path: Path, to_write: bool) -> BaseStorage:
    if not path.name:
        raise ValueError(f"storage {JOURNAL}: names no file")
    require_journal(path)
    if not to_write:
        return JournalStorage(JournalFileBackend(str(path), JournalLock(path)))
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = JournalLock(path)
    backend = JournalFileBackend(str(path), lock)
    lock.acquire()  # which mends the file, before anybody reads it
    lock.release()
    return JournalStorage(backend)


def _open_proxy(address: str) -> BaseStorage:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"storage {without_secrets(GRPC + address)}: must be {GRPC}HOST:PORT")
    try:
        from optuna.storages import GrpcStorageProxy

        proxy = patient(GrpcStorageProxy, GRPC + address)(host=host, port=int(port))
        proxy.wait_server_ready(timeout=_TIMEOUT)
    except ImportError as error:
        install = "pip install grpcio protobuf"
        raise ImportError(f"storage {without_secrets(GRPC + address)} needs gRPC: {install}") from error
    return proxy


def _require_writable(url: str) -> None:
    """Raise a ``ConnectionError`` if a SQLite file, or the folder that its journal belongs in, takes nothing.

    SQLite opens such a file, and fails at the first write, as if for a moment. Nothing is changed here, and
    a file that others have locked is theirs to write.
    """
    path = file_of(url)
    if path is None or path.name.startswith("file:") or not path.parent.is_dir():
        return
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("CREATE TABLE greendc_can_write (anything)")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise ConnectionError(f"storage {url}: cannot be written: {error}") from error
    except sqlite3.DatabaseError:  # no database at all: told by what opens it
        return


def _database_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError) as error:  # the latter of a port that is none
        raise ValueError(f"storage {without_secrets(url)!r}: must be {_FORMS}") from error
    if parsed.drivername in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _open_database(url: URL, lease_seconds: float) -> BaseStorage:
    shown = without_secrets(url.render_as_string(hide_password=False))
    connect_args = {"connect_timeout": _TIMEOUT} if url.drivername.startswith("postgresql") else {}
    engine = {"connect_args": connect_args, "pool_pre_ping": True}
    for attempts_left in reversed(range(5)):
        try:
            with leases.quiet():
                return patient(RDBStorage, shown)(
                    url.render_as_string(hide_password=False),
                    engine_kwargs=engine,
                    heartbeat_interval=max(1, round(lease_seconds / 6)),
                    grace_period=max(3, math.ceil(lease_seconds)),
                    heartbeat_stale_trial_callback=leases.requeue,
                )
        except ImportError as error:
            drivers = {"postgresql+psycopg": "psycopg[binary]", "mysql": "mysqlclient"}
            missing = getattr(error.__cause__, "name", None)  # Optuna raises an error of its own
            how = drivers.get(url.drivername, missing or url.drivername)
            raise ImportError(f"storage {shown}: driver missing: pip install '{how}'") from error
        except sqlalchemy.exc.NoSuchModuleError as error:
            raise ValueError(f"storage {shown}: must be {_FORMS}") from error
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            # Two workers that meet an empty database both make its tables; one of them finds them made.
            if not attempts_left:
                raise
            time.sleep(0.5)
    raise AssertionError("unreachable")
