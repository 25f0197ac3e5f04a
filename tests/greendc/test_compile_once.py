"""Processes that start at once compile a function once; none waits for ever, and none needs the lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

fcntl = pytest.importorskip("fcntl")

KERNEL = "from greendc.compiled import compiled\n\n\n@compiled\ndef value(x):\n    return x + 1\n"
CHILD = """
import sys, time
from pathlib import Path
import greendc.compile_once
from kernel_of_the_test import value

me, others = sys.argv[1], int(sys.argv[2])

def wait_for(pattern, number):
    end = time.monotonic() + 60
    while len(list(Path().rglob(pattern))) < number:
        assert time.monotonic() < end, f"no {pattern}"
        time.sleep(0.01)

def when_all_want_it(function):
    wait_for("*.wants", others)
    time.sleep(0.3)

greendc.compile_once.before_compiling = when_all_want_it
{before}
Path(me + ".wants").touch()
assert value(1) == 2
print(sum(value.stats.cache_misses.values()))
"""


def start(folder: Path, name: str, others: int = 1, before: str = "") -> subprocess.Popen[str]:
    (folder / "kernel_of_the_test.py").write_text(KERNEL)
    code = CHILD.replace("{before}", before)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, name, str(others)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=env)


def compiled_by(child: subprocess.Popen[str]) -> int:
    said, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    return int(said)


def lock_of(folder: Path) -> Path:
    (lock,) = folder.rglob("*.lock")
    return lock


def test_of_processes_that_start_together_one_compiles(tmp_path: Path) -> None:
    children = [start(tmp_path, name, 3) for name in "abc"]
    assert sorted(compiled_by(child) for child in children) == [0, 0, 1]


def test_a_process_that_is_killed_lets_the_next_one_compile(tmp_path: Path) -> None:
    first = start(tmp_path, "first", 9)  # it holds the lock, and waits for more than there are
    second = start(tmp_path, "second", 1, "wait_for('*.lock', 1)")
    while not (tmp_path / "second.wants").exists():
        assert second.poll() is None
    first.kill()
    first.communicate()
    assert compiled_by(second) == 1


def test_one_that_is_stopped_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    assert compiled_by(start(tmp_path, "first")) == 1
    lock = lock_of(tmp_path)
    for code in lock.parent.glob("*.nb?"):
        code.unlink()
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        second = start(tmp_path, "second", 1, "greendc.compile_once._LONGEST_WAIT = 0.2")
        assert compiled_by(second) == 1


def test_who_waits_is_told(tmp_path: Path) -> None:
    first = start(tmp_path, "first", 3)  # it compiles once the second one wants it and is told
    told = "greendc.compile_once.before_compiling = lambda function: Path('told.wants').touch()"
    second = start(tmp_path, "second", 1, f"wait_for('*.lock', 1)\n{told}")
    assert compiled_by(first) == 1
    assert compiled_by(second) == 0


NO_FILE = """
import os
def no_lock(path, *arguments, real=os.open):
    if str(path).endswith(".lock"):
        raise PermissionError(13, "no")
    return real(path, *arguments)
os.open = no_lock
"""
NO_LOCK = """
def no_lock(*arguments):
    raise OSError(37, "no locks available")
greendc.compile_once.fcntl.flock = no_lock
"""


@pytest.mark.parametrize("missing", [NO_FILE, NO_LOCK])
def test_without_locks_it_is_compiled_all_the_same(tmp_path: Path, missing: str) -> None:
    assert compiled_by(start(tmp_path, "only", 1, missing)) == 1
