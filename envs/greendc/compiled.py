"""The decorator of compiled functions that live on flat arrays."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

from greendc.compile_once import compile_once
from greendc.internal_code import NO_CODE, InternalFunction
from greendc.source_stamp import source_stamp

F = TypeVar("F", bound=Callable[..., object])

OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


def compiled(function: F) -> F:
    """Compile a function with Numba, cached on disk, with IEEE arithmetic in the order written.

    Meant for functions that read and write arrays given to them and make none. Two of Numba's defaults are
    changed, for a factor of three on the resource pool. Array arguments are not reference-counted
    (``_nrt=False``): counting takes two atomic operations for each array of each call, and the caller holds
    on to the arrays anyway. And division by zero is not tested for (``error_model="numpy"``).

    Such a function does not check indices: its caller must. Run Python with
    ``NUMBA_BOUNDSCHECK=1`` to have every index checked; ``IndexError`` is then raised at the first bad one.
    """
    result: F = _compile(function)
    return result


def unlocked(function: F) -> F:
    """Compile like :func:`compiled`; other threads of Python run meanwhile.

    For functions that take long: giving up Python's lock costs a tenth of a microsecond.
    """
    result: F = _compile(function, nogil=True)
    return result


def _compile(function: Callable[..., object], **options: Any) -> Any:
    """Compile a function; in memory alone where there is no place for a cache, as in a read-only install."""
    try:
        return _stamped(numba.njit(**OPTIONS, **options)(function))
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        _warn_that_nothing_is_kept()
        return numba.njit(**{**OPTIONS, "cache": False}, **options)(function)


@functools.cache
def _warn_that_nothing_is_kept() -> None:
    warnings.warn(
        "no folder for compiled code can be written: every process compiles anew; NUMBA_CACHE_DIR names one",
        stacklevel=4,
    )


def _stamped(dispatcher: Any) -> Any:
    """Let the cached code of a function be used only while no file that it is made from has changed.

    Numba compares the function's own file alone, but what it compiles holds the functions and constants of
    other files too: after an update of one of them it would run old code on new layouts. Nor does it tell
    code with bounds checks (``NUMBA_BOUNDSCHECK=1``) from code without: each has files of its own.
    """
    cache = dispatcher._cache
    source = Path(dispatcher.py_func.__code__.co_filename)
    checked = numba.config.BOUNDSCHECK  # type: ignore[attr-defined]
    name = cache._impl.filename_base + ("-checked" if checked else "")
    cache._cache_file = type(cache._cache_file)(cache.cache_path, name, source_stamp(source))
    compile_once(dispatcher)
    return dispatcher


def entry_point(function: Callable[..., object], *examples: object) -> Callable[..., Any]:
    """Return the compiled code of ``function`` for arguments of the types of ``examples``.

    Calling it skips Numba's look at the type of each argument, which costs more than a short function's
    work. So nothing is checked: an array of another type is read as if it were of the right one.
    """
    dispatcher: Any = function
    typeof: Callable[[object], object] = numba.typeof
    code: Callable[..., Any] = dispatcher.compile(tuple(typeof(example) for example in examples))
    return code


class EntryPoint:
    """A compiled function whose first call settles the types of its arguments: :func:`entry_point`, later.

    All calls must have arguments of the same types and memory layouts as the first one, which is not checked.

    :param function: a compiled function
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._code: Callable[..., Any] | None = None

    def __call__(self, *arguments: object) -> Any:
        """Call the compiled code."""
        if self._code is None:
            self._code = entry_point(self._function, *arguments)
        return self._code(*arguments)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the code, which cannot be stored."""
        return {"_function": self._function, "_code": None}


def internal(function: F) -> F:
    """Compile like :func:`compiled`, for compiled callers alone; called from Python, it is Python."""
    return _without_code(function)


def inlined(function: F) -> F:
    """Compile like :func:`internal`, into every caller.

    For ``VCC``'s hour and for questions about bits, where it pays: for all else LLVM knows what to inline.
    """
    return _without_code(function, forceinline=True)


def _without_code(function: F, **options: Any) -> F:
    dispatcher: Any = numba.njit(**{**OPTIONS, "cache": False, **NO_CODE}, **options)(function)
    dispatcher.__class__ = InternalFunction
    result: F = dispatcher
    return result


def expanded(function: F) -> F:
    """Compile like :func:`compiled`, written out in every caller before types are known.

    For functions that return records, which compiled functions cannot pass back to their callers. It makes
    the callers' code longer: :func:`internal` is for all others.
    """
    result: F = _compile(function, inline="always")
    return result
