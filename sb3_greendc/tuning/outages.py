"""Storages that wait for their server: what fails for the moment is tried again, for a stated time."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import optuna
import sqlalchemy.exc
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage

from sb3_greendc.core.secrets import without_secrets

Storage = TypeVar("Storage", bound=BaseStorage)

PATIENCE = 120.0
"""Seconds to wait for a storage that does not answer: the restart of a server takes a few."""
_PAUSE = 0.5
_CONNECTION_WAS_LOST = "8s2b"
"""SQLAlchemy's code for what is asked of a transaction whose connection has gone: Optuna's storage goes on
after some errors, and fails then."""
_BEHIND_THE_CACHE = frozenset(
    {
        "_create_new_trial",
        "_get_best_trial_id",
        "_get_stale_trial_ids",
        "_get_trials",
        "_set_trial_param",
        "record_heartbeat",
    }
)
"""What Optuna's cache calls of a database, beside the methods that every storage has."""


def is_transient(error: BaseException | None) -> bool:
    """Tell whether an error says that a server could not be reached, or ended the connection."""
    while error is not None:
        if isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
            return True
        if isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated:
            return True
        if isinstance(error, sqlalchemy.exc.PendingRollbackError) and error.code == _CONNECTION_WAS_LOST:
            return True
        code = getattr(error, "code", None)  # gRPC's
        if callable(code) and getattr(code(), "name", "") == "UNAVAILABLE":
            return True
        error = error.__cause__
    return False


def patient(kind: type[Storage], url: str) -> type[Storage]:
    """Return a class of storages whose methods are tried again while the server does not answer.

    After :data:`PATIENCE` seconds they raise a ``ConnectionError``, which names the storage.

    :param kind: class of storages
    :param url: of the storage, for messages
    """
    outermost = _Outermost()
    methods = {
        name: _patient(getattr(kind, name), outermost, without_secrets(url))
        for name in dir(kind)
        if name in _BEHIND_THE_CACHE or (name[0] != "_" and callable(getattr(BaseStorage, name, None)))
    }
    return type(kind.__name__, (kind,), methods)


class _Outermost(threading.local):
    """Whether a method of the storage is running in this thread: those that it calls do not wait."""

    running = False


def _patient(method: Callable[..., Any], outermost: _Outermost, shown: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if outermost.running:
            return method(*args, **kwargs)
        outermost.running = True
        try:
            return _call(method, args, kwargs, shown)
        finally:
            outermost.running = False

    return call


def _call(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], shown: str) -> Any:
    again = False
    for last in _attempts():
        try:
            return method(*args, **kwargs)
        except UpdateFinishedTrialError:
            # The server may have done what was asked for, and been stopped before it said so.
            if again and method.__name__ == "set_trial_state_values" and _is_done(args, kwargs):
                return True
            raise
        except Exception as error:
            if not is_transient(error):
                raise
            reason = " ".join(without_secrets(str(error.__cause__ or error)).split())
            if last:
                raise ConnectionError(f"storage {shown}: no answer for {PATIENCE:.0f} s: {reason}") from error
            if not again:
                said = f"storage {shown}: no answer: {reason}; trying again for {PATIENCE:.0f} s"
                optuna.logging.get_logger(__name__).warning(said)
            again = True
    raise AssertionError("unreachable")


def _attempts() -> Iterator[bool]:
    """Yield for each attempt whether it is the last, with pauses between them."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield False
        time.sleep(_PAUSE)
    yield True


def _is_done(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    storage, *rest = args
    given = dict(zip(("trial_id", "state"), rest, strict=False)) | kwargs
    return bool(storage.get_trial(given["trial_id"]).state == given["state"])
