"""Records: one declaration for NumPy and for compiled code."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

from greendc.compiled import compiled
from greendc.records import Int32, Int64, Ints, Real, columns_of, dtype_of, wide


class Sample:
    """A record of every kind of field."""

    small: Int32
    large: Int64
    real: Real
    several: Annotated[Ints, np.int64, 3]


class Numbers:
    """A record of float64 alone."""

    first: Real
    row: Annotated[Ints, np.float64, 4]
    last: Real


@compiled
def write(samples, index):
    """Write to every field of a record."""
    sample = samples[index]
    sample.small -= 2
    sample.large = wide(sample.small) * 2**40
    sample.real = 0.5
    sample.several[1] = 7


def test_fields_are_those_declared_in_their_order():
    dtype = dtype_of(Sample)
    assert dtype.names == ("small", "large", "real", "several")
    assert [dtype[name].base for name in dtype.names] == [np.int32, np.int64, np.float64, np.int64]
    assert dtype["several"].shape == (3,)
    assert dtype.isalignedstruct


def test_compiled_code_writes_to_the_array():
    samples = np.zeros(2, dtype_of(Sample))
    write(samples, 1)
    assert samples["small"].tolist() == [0, -2]
    assert samples["large"].tolist() == [0, -(2**41)]
    assert samples["real"].tolist() == [0.0, 0.5]
    assert samples["several"].tolist() == [[0, 0, 0], [0, 7, 0]]


def test_columns_are_where_the_numbers_lie():
    record = np.zeros(1, dtype_of(Numbers))
    record["first"], record["row"], record["last"] = 1, [2, 3, 4, 5], 6
    numbers = record.view(np.float64)
    assert numbers[columns_of(Numbers, "row", "first")].tolist() == [2, 3, 4, 5, 1]
    assert columns_of(Numbers, "last") == [5]


def test_a_field_of_no_known_size_is_refused():
    class Wrong:
        """A record with a plain type."""

        size: int

    with pytest.raises(TypeError, match=r"Wrong\.size: must be Annotated"):
        dtype_of(Wrong)
