"""How the kernels are compiled.

Numba counts the references to an array wherever one is passed on or viewed: an atomic addition each
time, which here costs more than the work itself. ``_nrt=False`` compiles without Numba's runtime, so
without these counts. The arrays live on since Python holds them for as long as a call takes; what is
lost is the creation of arrays in compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False}

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, or one that is seldom called."""
    return cast("Function", njit(**OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Compile a function into those that call it: other calls copy ten words for each array."""
    return cast("Function", njit(**OPTIONS, forceinline=True)(function))
