"""Users are told that something is compiled before it is, once, and not when it is not."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from greendc import compile_notice

LONG = "\n".join(f"    total += a[{k}] * {k}" for k in range(100))
MODULE = f"""
from greendc.compiled import compiled

@compiled
def inner(a):
    total = 0.0
{LONG}
    return total

@compiled
def outer(a):
    return inner(a) + 1.0
"""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the messages, of a process that has not spoken yet."""
    messages: list[str] = []
    monkeypatch.setattr(compile_notice, "_told", False)
    monkeypatch.setattr(compile_notice, "_SECONDS_PER_BYTE", 1.0)
    monkeypatch.setattr(compile_notice, "_slowness", lambda: 1.0)
    compile_notice.tell(messages.append)
    yield messages
    compile_notice.tell(None)


def fresh_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module(name)


def test_it_is_told_once_before_and_never_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    numbers = np.arange(400.0)
    module = fresh_module(tmp_path, monkeypatch, "compiled_here")
    size = sum(len(one.py_func.__code__.co_code) for one in (module.inner, module.outer))
    compiled_then: list[int] = []

    def say(message: str) -> None:
        compiled_then.append(len(module.inner.signatures) + len(module.outer.signatures))
        said.append(message)

    compile_notice.tell(say)
    module.outer(numbers)
    assert said == [f"compiling the simulators once, about {size / 60:.0f} min"]
    assert compiled_then == [0], "it is told before"
    monkeypatch.setattr(compile_notice, "_told", False)
    module.outer(numbers)
    del sys.modules["compiled_here"]
    again = importlib.import_module("compiled_here")
    assert again.outer(numbers) == module.outer(numbers)
    assert len(said) == 1, "the second time it comes from the cache"
    assert compile_notice.bytes_to_compile([again.outer]) == 0


def test_only_what_takes_long_is_told(
    monkeypatch: pytest.MonkeyPatch, said: list[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_notice, "_SECONDS_PER_BYTE", 1e-9)
    module = fresh_module(tmp_path, monkeypatch, "compiled_fast")
    compile_notice.before_compiling(module.outer.py_func)
    assert said == []


def test_children_are_silent(monkeypatch: pytest.MonkeyPatch, said: list[str], tmp_path: Path) -> None:
    module = fresh_module(tmp_path, monkeypatch, "compiled_in_children")
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    compile_notice.before_compiling(module.outer.py_func)
    assert said == []


def test_without_a_command_only_terminals_are_told(
    monkeypatch: pytest.MonkeyPatch, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = fresh_module(tmp_path, monkeypatch, "compiled_quietly")
    compile_notice.tell(None)
    compile_notice.before_compiling(module.outer.py_func)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    compile_notice.before_compiling(module.outer.py_func)
    assert re.fullmatch(r"greendc: compiling the simulators once, about \d+ min\n", capsys.readouterr().err)


def test_the_time_is_that_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, said: list[str], tmp_path: Path
) -> None:
    module = fresh_module(tmp_path, monkeypatch, "compiled_slowly")
    size = compile_notice.bytes_to_compile([module.outer])
    monkeypatch.setattr(compile_notice, "_SECONDS_PER_BYTE", 6.0 / size)
    monkeypatch.setattr(compile_notice, "_slowness", lambda: 3.0)
    compile_notice.before_compiling(module.outer.py_func)
    assert said == ["compiling the simulators once, about 18 s"]


@pytest.mark.parametrize("family", ["resource_pool", "vcc", "cluster"])
def test_the_estimate_covers_the_simulator(family: str, tmp_path: Path) -> None:
    """With an empty cache the message speaks of all functions, not of the first one alone."""
    code = textwrap.dedent(
        f"""
        import importlib
        from greendc import compile_notice as notice
        notice._slowness = lambda: 1.0
        notice.tell(print)
        kernel = importlib.import_module("greendc.{family}.kernel")
        notice.before_compiling(kernel.step_batch.py_func)
        """
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.fullmatch(r"compiling the simulators once, about (\d+) s\n", done.stdout)
    assert found is not None, done.stdout
    assert 10 <= int(found[1]) <= 60
