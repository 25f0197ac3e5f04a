"""Scripts end in one line, at whatever moment Ctrl-C comes or the disk is full."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from typing import Any

import pytest

from greendc import compile_notice
from sb3_greendc.cli import demo, launch
from sb3_greendc.cli.common import print_table, tables_console

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
    for error in (
        OSError(errno.ENOENT, "missing"),
        ValueError("a bug"),
        BrokenPipeError("a worker has gone"),
    ):
        raises(error, monkeypatch)
        with pytest.raises(type(error), match=str(error.args[-1])):
            launch.run("demo")


def test_a_command_says_that_it_compiles_also_into_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(argv: Any) -> int:
        assert compile_notice._say is not None
        compile_notice._say("compiling the simulators once, about 40 s")
        return 0

    monkeypatch.setattr(demo, "main", main)
    assert launch.run("demo") == 0
    assert capsys.readouterr().err == "demo: compiling the simulators once, about 40 s\n"
    assert compile_notice._say is None, "the next command says it under its own name"


def test_a_command_without_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``>&-`` starts it."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(demo, "main", lambda argv: 0)
    assert launch.run("demo") == 0


def test_a_table_that_nobody_reads_ends_a_command_as_lines_do() -> None:
    program = (
        "import sys\n"
        "from sb3_greendc.cli import demo, launch\n"
        "from sb3_greendc.cli.common import print_table, tables_console\n"
        "demo.main = lambda argv: print_table(tables_console(False), 'Title', ['a'], [['1']] * 9)\n"
        "sys.exit(launch.run('demo'))\n"
    )
    reader, output = os.pipe()
    os.close(reader)
    with os.fdopen(output, "wb") as nobody:
        done = subprocess.run([sys.executable, "-c", program], stdout=nobody, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (launch.BROKEN_PIPE, b"")


def test_a_sign_that_the_output_lacks_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(argv: Any) -> int:
        print("Δ: less")
        return 0

    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", write_through=True)
    monkeypatch.setattr(demo, "main", main)
    monkeypatch.setattr(sys, "stdout", stream)
    assert launch.run("demo") == 0
    assert stream.buffer.getvalue().split() == [b"?:", b"less"]  # type: ignore[attr-defined]


def test_tables_in_files_have_80_columns_or_all_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    heads = [f"column_{k:02d}" for k in range(12)]
    rows = [[f"{k}.123456" for k in range(12)]]
    for wide in (False, True):
        print_table(tables_console(wide), "Title", heads, rows)
        said = capsys.readouterr().out
        if wide:
            assert all(head in said for head in heads)
            assert "--wide" not in said
        else:
            assert max(map(len, said.splitlines())) <= 80
            left_out = " ".join(said.split()).partition("--wide shows ")[2]
            shown = said.partition("--wide")[0]
            assert [head for head in heads if head not in shown] == left_out.removesuffix(", too").split(", ")
            assert left_out
