"""Scripts end in one line, at whatever moment Ctrl-C comes or the disk is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import Any

import pytest

from sb3_greendc.cli import demo, launch

INTERRUPTED_WHILE_IMPORTING = """
import importlib, os, signal, time
from sb3_greendc.cli import launch
def import_module(name):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    except BaseException:
        time.sleep(30)
importlib.import_module = import_module
launch.run("train")
"""


def raises(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(argv: Any) -> int:
        raise error

    monkeypatch.setattr(demo, "main", main)


def test_a_command_interrupted_while_libraries_are_imported() -> None:
    """Libraries that catch all exceptions do not see it."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_WHILE_IMPORTING], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "train: interrupted\n")


def test_an_interrupted_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    raises(KeyboardInterrupt(), monkeypatch)
    assert launch.run("demo") == 130
    assert capsys.readouterr().err == "demo: interrupted\n"


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    raises(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.png"), monkeypatch)
    assert launch.run("demo") == 1
    assert capsys.readouterr().err == "demo: error: a.png: No space left on device\n"


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (OSError(errno.ENOENT, "missing"), ValueError("a bug")):
        raises(error, monkeypatch)
        with pytest.raises(type(error), match=str(error.args[-1])):
            launch.run("demo")
