# mypy: allow-untyped-calls, allow-untyped-decorators
"""Copying memory (compiled)."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[misc,unused-ignore]
def copy_run(typing: Any, target: Any, to: Any, source: Any, start: Any, count: Any) -> Any:
    """Copy ``count`` elements of ``source`` from ``start`` on to ``target`` from ``to`` on, as flat arrays.

    The C library does it. A loop over bytes first makes sure that the arrays do not overlap, and goes
    through what is left of a vector one by one: that takes longer than the copying itself where it is short.

    :param target: a contiguous array, like ``source``, which does not overlap it and has elements as long
    """

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
