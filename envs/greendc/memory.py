# mypy: allow-untyped-calls
"""Copying memory (compiled)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _copy_run(typing: Any, target: Any, to: Any, source: Any, start: Any, count: Any) -> Any:
    """Return the types of :data:`copy_run`, and what writes its code."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        target_type, source_type = signature.args[0], signature.args[2]
        target_array = context.make_array(target_type)(context, builder, values[0])
        source_array = context.make_array(source_type)(context, builder, values[2])
        first = builder.gep(target_array.data, [values[1]])
        source_first = builder.gep(source_array.data, [values[3]])
        size = context.get_abi_sizeof(context.get_data_type(source_type.dtype))
        cgutils.raw_memcpy(builder, first, source_first, values[4], size)
        return context.get_dummy_value()

    return types.void(target, to, source, start, count), write


copy_run: Callable[..., None] = intrinsic(_copy_run)
"""Copy between contiguous arrays that do not overlap and have elements of the same type, both seen as flat.

``copy_run(target, to, source, start, count)`` copies ``count`` elements from ``start`` on to ``to`` on; no
index is checked. The C library does it: a loop first makes sure that the arrays do not overlap, and goes
through what is left of its vectors one by one, which takes long where the run is short.
"""
