"""Says that the simulators are about to be compiled: beforehand, once in a process, only if it is true."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

_SECONDS_PER_BYTE = 1.0e-3
"""Processor time for the bytecode that is compiled, where the loop of :func:`_slowness` takes as long."""
_LOOP_SECONDS = 0.04
_WORTH_TELLING = 5.0  # seconds; less is over before it is read

_say: Callable[[str], None] | None = None
_told = False


def tell(say: Callable[[str], None] | None) -> None:
    """Choose what is called with the message; by default only terminals get it, on standard error.

    :param say: called once at most in a process; ``None`` for the default
    """
    global _say
    _say = say


def before_compiling(function: FunctionType) -> None:
    """Say what is about to happen, if it takes long enough to be worth it.

    Processes that others started are silent: they would say it all at once.

    :param function: that is to be compiled, with all that it calls; others of its file will follow
    """
    global _told
    if _told or multiprocessing.parent_process() is not None:
        return
    say = _say or (_print if sys.stderr.isatty() else None)
    if say is None:
        return
    seconds = bytes_to_compile(_beside(function)) * _SECONDS_PER_BYTE
    if seconds < _WORTH_TELLING:
        return
    _told = True
    seconds *= _slowness()
    about = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    say(f"compiling the simulators once, about {about}")


def bytes_to_compile(functions: Iterable[Any]) -> int:
    """Return the bytecode of compiled functions and of all that they call, less those that the cache has.

    :param functions: what Numba's decorators return
    """
    found: set[Any] = set()
    todo = list(functions)
    while todo:
        current = todo.pop()
        if current not in found and not _is_cached(current):
            found.add(current)
            todo += _called(current.py_func)
    return sum(len(one.py_func.__code__.co_code) for one in found)


def _beside(function: FunctionType) -> list[Any]:
    """Return the compiled functions that a function's file has or imports."""
    return [value for value in vars(sys.modules[function.__module__]).values() if _is_compiled(value)]


def _called(function: FunctionType) -> list[Any]:
    """Return the compiled functions that a function names, also as ``module.name``."""
    names = function.__code__.co_names
    values: list[Any] = [function.__globals__.get(name) for name in names]
    for module in [value for value in values if isinstance(value, ModuleType)]:
        values += [getattr(module, name, None) for name in names]
    return [value for value in values if _is_compiled(value)]


def _is_compiled(value: object) -> bool:
    return isinstance(getattr(value, "py_func", None), FunctionType)


def _is_cached(dispatcher: Any) -> bool:
    """Tell whether there is code of a function on disk, of today's sources."""
    file = getattr(dispatcher._cache, "_cache_file", None)
    return file is not None and bool(file._load_index())


def _slowness() -> float:
    """Return how much slower this machine is now, beside its other work, than that of the constants."""
    started = time.process_time()
    total = 0
    for k in range(400_000):
        total += k & 3
    speed = (time.process_time() - started) / _LOOP_SECONDS
    waiting = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return speed * max(1.0, waiting / (os.cpu_count() or 1))


def _print(message: str) -> None:
    print(f"greendc: {message}", file=sys.stderr, flush=True)
