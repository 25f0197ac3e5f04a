"""Records: what a row of a structured array holds, declared once for NumPy, Numba and the reader.

A class whose annotations are :data:`Int32`, :data:`Int64`, :data:`Real` or ``Annotated`` arrays of fixed
shape declares a record. :func:`dtype_of` makes its NumPy dtype. Compiled code reads and writes the fields
of a row as attributes, ``job.left``; Python reads the columns of an array by name, ``jobs["left"]``.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import expanded

Int32: TypeAlias = Annotated[int, np.int32]
Int64: TypeAlias = Annotated[int, np.int64]
Real: TypeAlias = Annotated[float, np.float64]
Ints: TypeAlias = NDArray[np.int64]
Ints32: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]
Records: TypeAlias = NDArray[np.void]
"""An array of records, as Python sees it."""

T = TypeVar("T")


class Table(Protocol[T]):
    """An array of records, as compiled code sees it: an element is the record itself, not a copy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""

    def __getitem__(self, index: Any) -> T:
        """Return a record; what is written to its fields is written to the array."""

    def __setitem__(self, index: Any, record: T) -> None:
        """Overwrite a record."""


@expanded
def wide(number: int) -> int:
    """Return a number of 32 bits as one of 64 (compiled), so that what it is given to is compiled once."""
    return np.int64(number)  # type: ignore[return-value]  # an int once compiled


def dtype_of(record: type) -> np.dtype[np.void]:
    """Return the NumPy dtype of a record class, its fields in the order of their declaration.

    An annotation is ``Annotated[..., scalar]`` or ``Annotated[..., scalar, shape]``.

    :raises TypeError: for another annotation; the message names the field
    """
    fields = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            raise TypeError(f"{record.__name__}.{name}: must be Annotated with its NumPy type, not {hint}")
        fields.append((name, *get_args(hint)[1:]))
    return np.dtype(fields, align=True)


def columns_of(record: type, *names: str) -> list[int]:
    """Return where the fields of a record of float64 alone lie, if one reads it as an array of numbers."""
    dtype = dtype_of(record)
    found: list[int] = []
    for name in names:
        field, first = dtype.fields[name][:2]  # type: ignore[index]
        found.extend(range(first // 8, (first + field.itemsize) // 8))
    return found
