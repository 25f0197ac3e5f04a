"""Compiled code on disk is used only while the sources that it was made from are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHILD = """
import sys
import greendc.compiled
greendc.compiled._source_stamp = lambda: sys.argv[1]
import kernel_of_the_test
print(kernel_of_the_test.value())
"""


def run(folder: Path, stamp: str) -> str:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, stamp], cwd=folder, capture_output=True, text=True, check=False
    )
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
