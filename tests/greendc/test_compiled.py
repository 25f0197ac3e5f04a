"""Compiled code on disk: only while its sources are the same, checked and unchecked code apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from greendc.compiled import inlined, internal

CHILD = """
import sys
import greendc.compiled
greendc.compiled.source_stamp = lambda source: sys.argv[1]
import kernel_of_the_test
print(kernel_of_the_test.value())
"""


def run(folder: Path, stamp: str, code: str = CHILD, **variables: str) -> str:
    command = [sys.executable, "-c", code, stamp]
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), **variables}
    child = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


def test_code_made_from_other_sources_is_compiled_anew(tmp_path):
    kernel, constants = tmp_path / "kernel_of_the_test.py", tmp_path / "constants_of_the_test.py"
    kernel.write_text(
        "import constants_of_the_test\n"
        "from greendc.compiled import compiled\n\n\n"
        "@compiled\n"
        "def value():\n"
        "    return constants_of_the_test.VALUE\n"
    )
    constants.write_text("VALUE = 1\n")
    assert run(tmp_path, "before") == "1"
    constants.write_text("VALUE = 23\n")
    # Numba by itself sees that the kernel's own file is as it was, and runs what it has.
    assert run(tmp_path, "before") == "1"
    assert run(tmp_path, "after") == "23"


READ = """
import numpy as np
from reader_of_the_test import read
try:
    print(read(np.arange(3), 1), read(np.arange(3)[:1], 1))
except IndexError as error:
    print(error)
"""


def test_checked_and_unchecked_code_do_not_mix_on_disk(tmp_path):
    (tmp_path / "reader_of_the_test.py").write_text(
        "from greendc.compiled import compiled, internal\n\n\n"
        "@internal\n"
        "def item(array, i):\n"
        "    return array[i]\n\n\n"
        "@compiled\n"
        "def read(array, i):\n"
        "    return item(array, i)\n"
    )
    for _ in range(2):  # compiled, and read from the disk
        assert run(tmp_path, "", READ, NUMBA_BOUNDSCHECK="0") == "1 1"
        assert run(tmp_path, "", READ, NUMBA_BOUNDSCHECK="1") == "index is out of bounds"
    names = [path.name for path in tmp_path.rglob("*.nbi") if "reader" in path.name]
    # What only compiled code calls is kept within its callers.
    assert len(names) == 2 and sum("checked" in name for name in names) == 1


@pytest.mark.parametrize("decorator", [internal, inlined])
def test_what_only_compiled_code_calls_is_python_for_python(decorator):
    @decorator
    def double(value):
        return 2 * value

    @numba.njit
    def sums(value):
        return double(value) + double(1) + double(2)

    assert double([3]) == [3, 3]
    assert not double.overloads
    assert sums(3) == 12
    assert len(double.overloads) == 1  # not one for each constant
    assert double([3]) == [3, 3]


READ_ONLY = """
import warnings
import numba.core.caching
numba.core.caching.CacheImpl._locator_classes = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import sys, greendc.compiled
    import kernel_of_the_test
    said = [str(one.message) for one in caught]
    print(kernel_of_the_test.value(), [one for one in said if "NUMBA_CACHE_DIR" in one])
"""


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(tmp_path):
    """As a read-only install is, for a user without a home; one warning says what would help."""
    kernels = "".join(
        f"@{kind}\ndef {name}():\n    return {value}\n\n\n"
        for kind, name, value in (
            ("internal", "a", 1),
            ("expanded", "b", 2),
            ("compiled", "value", "a() + b()"),
        )
    )
    (tmp_path / "kernel_of_the_test.py").write_text(
        f"from greendc.compiled import compiled, expanded, internal\n\n\n{kernels}"
    )
    said = run(tmp_path, "stamp", READ_ONLY)
    assert said.startswith("3 ['no folder for compiled code can be written")
    assert said.count("no folder") == 1
    assert not (tmp_path / "cache").exists()
