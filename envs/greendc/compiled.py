"""The decorator of compiled functions that live on flat arrays."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])

OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


def compiled(function: F) -> F:
    """Compile a function with Numba, cached on disk, with IEEE arithmetic in the order written.

    Meant for functions that read and write arrays given to them and make none. Two of Numba's defaults are
    changed, for a factor of three on the resource pool. Array arguments are not reference-counted
    (``_nrt=False``): counting takes two atomic operations for each array of each call, and the caller holds
    on to the arrays anyway. And division by zero is not tested for (``error_model="numpy"``).

    Whoever calls such a function answers for its arguments: it does not check indices. Run Python with
    ``NUMBA_BOUNDSCHECK=1`` to have every index checked; ``IndexError`` is then raised at the first bad one.
    """
    result: F = _stamped(numba.njit(**OPTIONS)(function))
    return result


def _stamped(dispatcher: Any) -> Any:
    """Let the cached code of a function be used only while no file of the package has changed.

    Numba compares the function's own file alone, but what it compiles holds the functions and constants of
    other files too: after an update of the package it would run old code on new layouts. Nor does it tell
    code with bounds checks (``NUMBA_BOUNDSCHECK=1``) from code without: each has files of its own.
    """
    cache = dispatcher._cache
    checked = numba.config.BOUNDSCHECK  # type: ignore[attr-defined]
    name = cache._impl.filename_base + ("-checked" if checked else "")
    cache._cache_file = type(cache._cache_file)(cache.cache_path, name, _source_stamp())
    return dispatcher


@functools.cache
def _source_stamp() -> str:
    """Return a checksum of every source file of the package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def entry_point(function: Callable[..., object], *examples: object) -> Callable[..., Any]:
    """Return the compiled code of ``function`` for arguments of the types of ``examples``.

    Calling it skips Numba's look at the type of each argument, which costs more than a short function's
    work. So nothing is checked: an array of another type is read as if it were of the right one.
    """
    dispatcher: Any = function
    typeof: Callable[[object], object] = numba.typeof
    code: Callable[..., Any] = dispatcher.compile(tuple(typeof(example) for example in examples))
    return code


def inlined(function: F) -> F:
    """Compile like :func:`compiled`, into every caller.

    For functions with one caller: a call costs time for each array that it passes on.
    """
    result: F = _stamped(numba.njit(**OPTIONS, forceinline=True)(function))
    return result
