# mypy: allow-untyped-calls
"""Of processes that need the same function, one compiles it; the others wait for what it puts on disk."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from greendc.compile_notice import before_compiling

if sys.platform != "win32":
    import fcntl

_LONGEST_WAIT = 120.0
"""Seconds after which a process no longer waits, as for one that is stopped, and compiles by itself."""
_POLL = 0.05


def compile_once(dispatcher: Any) -> None:
    """Let a cached function be compiled by one process at a time.

    As many as start at once on an empty cache (workers of a search, environments in processes of their own)
    would otherwise all compile the same. Users are told before a function is compiled, here or by another.

    :param dispatcher: what Numba's decorator returned; changed in place
    """
    cache = dispatcher._cache
    lock = Path(cache.cache_path, f"{cache._cache_file._index_name}.lock")
    load, compile_ = cache.load_overload, dispatcher.compile
    held = contextlib.ExitStack()

    def load_or_lock(*arguments: Any) -> Any:
        code = load(*arguments)
        if code is None:
            held.enter_context(_locked(lock, dispatcher.py_func))
            code = load(*arguments)  # another process may have just made it
        if code is None:
            before_compiling(dispatcher.py_func)
        return code

    def compile_locked(signature: Any) -> Any:
        with global_compiler_lock, held:  # Numba's own, of threads, comes first here as it does within
            return compile_(signature)

    cache.load_overload = load_or_lock
    dispatcher.compile = compile_locked


@contextlib.contextmanager
def _locked(path: Path, function: FunctionType) -> Iterator[None]:
    """Hold the lock of a function, a file that is made for it; what a process has locked ends with it.

    Where there are no such locks, nothing is locked: compiling twice does no harm.
    """
    descriptor = None
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # a folder that cannot be written, a file system without locks
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            _wait_for(descriptor, function)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _wait_for(descriptor: int, function: FunctionType) -> None:
    end = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            before_compiling(function)
            time.sleep(_POLL)
        else:
            return
