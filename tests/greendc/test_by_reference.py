"""Named tuples passed on by reference: the same numbers, one reference of a type in a function."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import NumbaError

from greendc.by_reference import Reference, by_reference
from greendc.compiled import compiled, expanded, internal

RECORD = np.dtype([("count", np.int64), ("sum", np.float64)])


class Arrays(NamedTuple):
    record: Any
    cells: Any
    cube: Any
    column: Any
    scale: float


@expanded
def arrays_at(records, cells, cube, scale, i):
    return by_reference(Arrays(records[i], cells[i], cube, cube[i, :, 1], scale))


@internal
def bump(arrays, by):
    arrays.record.count += by
    arrays.record.sum += arrays.scale


@internal
def fill(arrays, row, value):
    bump(arrays, 1)
    for k in range(arrays.cells.shape[1]):
        arrays.cells[row, k] = value + arrays.column[k] + arrays.cube[-1, k, 0]
    bump(arrays, 1)


@compiled
def fill_all(records, cells, cube, scale):
    for i in range(records.shape[0]):
        arrays = arrays_at(records, cells, cube, scale, i)
        for row in range(arrays.cells.shape[0]):
            fill(arrays, row, 10 * row)
        fill(arrays, -1, 10.0 * arrays.cells.shape[0])


@pytest.mark.parametrize("kind", [np.float64, np.int16])
def test_functions_read_and_write_what_the_reference_stands_for(kind):
    records, cells, cube = np.zeros(3, RECORD), np.zeros((3, 4, 2), kind), np.arange(12).reshape(3, 2, 2)
    fill_all(records, cells, cube, 0.5)
    assert records["count"].tolist() == [10, 10, 10]
    assert records["sum"].tolist() == [5.0, 5.0, 5.0]
    for i in range(3):
        added = cube[i, :, 1] + cube[-1, :, 0]
        assert cells[i].tolist() == [(first + added).tolist() for first in (0, 10, 20, 40)]


@internal
def exchange(one, other, times):
    """Read from two references, and from variables that are now the one and now the other."""
    first, second = one, other
    told = 0.0
    for k in range(times):
        told = 10 * told + first.scale + first.record.count
        first, second = second, first
        if k == 2:
            one = other
        told += one.scale / 100
    return told + (other if times > 3 else one).record.sum / 1000


@compiled
def exchange_two(records, cells, cube, times):
    one = arrays_at(records, cells, cube, 1.0, 0)
    other = arrays_at(records, cells, cube, 2.0, 1)
    return exchange(one, other, times)


def test_a_function_may_have_several_references_of_a_type():
    records = np.array([(1, 5.0), (5, 7.0), (0, 0.0)], RECORD)
    given = records, np.zeros((3, 4, 2)), np.zeros((3, 2, 2))
    one, other = Arrays(records[0], *given[1:], given[2], 1.0), Arrays(records[1], *given[1:], given[2], 2.0)
    for times in range(6):
        assert exchange_two(*given, times) == pytest.approx(exchange_plain(one, other, times))


def exchange_plain(one, other, times):
    """The same as Python runs it."""
    read = {
        id(which): (which.scale, int(which.record["count"]), float(which.record["sum"]))
        for which in (one, other)
    }
    first, second, told = one, other, 0.0
    for k in range(times):
        told = 10 * told + read[id(first)][0] + read[id(first)][1]
        first, second = second, first
        one = other if k == 2 else one
        told += read[id(one)][0] / 100
    return told + read[id(other if times > 3 else one)][2] / 1000


def test_a_variable_that_begins_as_an_argument_may_become_another():
    @internal
    def follow(one, other, times):
        current, told = one, 0.0
        for _ in range(times):
            told = 10 * told + current.scale
            current = other
        return told

    @internal
    def both(one, other):
        return one.scale + 1000 * other.scale

    @compiled
    def ask(records, cells, cube, times):
        one, other = arrays_at(records, cells, cube, 1.0, 0), arrays_at(records, cells, cube, 2.0, 1)
        return follow(one, other, times) + both(one, other)

    assert ask(np.zeros(3, RECORD), np.zeros((3, 4, 2)), np.zeros((3, 2, 2)), 3) == 2123.0


def test_what_is_made_in_a_function_is_not_what_it_was_given():
    @internal
    def another(arrays, records, cells, cube):
        made = arrays_at(records, cells, cube, 10 * arrays.scale, 1)
        return arrays.scale + made.scale

    @compiled
    def ask(records, cells, cube):
        return another(arrays_at(records, cells, cube, 1.0, 0), records, cells, cube)

    assert ask(np.zeros(3, RECORD), np.zeros((3, 4, 2)), np.zeros((3, 2, 2))) == 11.0


def test_names_tell_types_apart_and_are_the_same_in_every_process():
    """Code on disk is found by them."""
    code = (
        "from typing import NamedTuple\n"
        "from numba import types\n"
        "from greendc.by_reference import Reference\n"
        "class Few(NamedTuple):\n"
        "    one: int\n"
        "for kind in (types.int8, types.int16):\n"
        "    print(Reference(types.NamedTuple((kind[::1],), Few)).name)\n"
    )
    told = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert told[0] == told[1]
    assert len(set(told[0].split("\n"))) == 3
    assert Reference.__name__ in told[0]


def test_a_field_that_there_is_not_is_named():
    @internal
    def wrong(arrays):
        return arrays.colour

    @compiled
    def ask(records, cells, cube):
        return wrong(arrays_at(records, cells, cube, 1.0, 0))

    with pytest.raises(NumbaError, match="colour"):
        ask(np.zeros(3, RECORD), np.zeros((3, 4, 2)), np.zeros((3, 2, 2)))
