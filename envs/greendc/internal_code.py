# mypy: allow-untyped-calls
"""How Numba compiles functions that compiled code alone calls: without machine code of their own.

Numba optimizes and assembles each function, wraps it for calls from Python and caches it. Here that took two
fifths of all compiling and three quarters of the cache. A function that only compiled code calls needs none
of it: its callers hold its code, and are optimized, assembled and cached as a whole.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher


class _NoCode:
    """Stands for the code generator once the code is made."""

    def set_env(self, name: str, environment: object) -> None:
        """Leave out the environment, which belongs to a wrapper for Python."""


class _Library(JITCodeLibrary):
    """LLVM's form of a function, to be linked into its callers."""

    codegen = _NoCode()

    def _optimize_final_module(self) -> None:
        """Leave that to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class _Pipeline(Compiler):
    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, names: Any
    ) -> None:
        library = _Library(target.codegen(), "internal")
        super().__init__(typing, target, library, args, result, flags, names)


class InternalFunction(CPUDispatcher):
    """A function for compiled code; Python calls the Python that was compiled."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile once for all numbers: Numba would compile anew for each constant that is given."""
        widened = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(types.unliteral(kind) for kind in args), widened)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function as it is written."""
        return self.py_func(*args, **kwargs)


NO_CODE: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _Pipeline,
}
"""Options of ``numba.njit``."""
