"""``greendc``: every command is reached, and a wrong one is one clear error."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from programs import run_python

from sb3_greendc.cli import main as program
from sb3_greendc.cli.main import COMMANDS, main
from sb3_greendc.core import commands

ROOT = Path(__file__).resolve().parents[3]
PROMISED = [
    *("train", "evaluate", "tune", "collect", "clone", "reproduce", "my-site"),
    *("calibrate", "plot", "benchmark", "fetch"),
]


def test_the_promised_commands_are_there_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(PROMISED) <= set(COMMANDS)
    assert main([]) == main(["--help"]) == 0
    said = capsys.readouterr().out
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\w", said, re.MULTILINE)
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_its_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/greendc", name, "--help"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    if name != "demo":
        assert capsys.readouterr().out.startswith(f"usage: greendc {name} [-h]")


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_every_module_can_be_started(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python -m sb3_greendc.cli.train --help`` once printed nothing."""
    module = commands.module_of(name)
    file = f"/x/sb3_greendc/cli/{module.rpartition('.')[2]}.py"
    monkeypatch.setattr(sys, "argv", [file, "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module(module, run_name="__main__")
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("completion", "my-site")])
def test_every_command_has_its_script(name: str) -> None:
    shown = commands.how_to_start(name, str(ROOT / "scripts" / "train.py"))
    assert Path(shown.removeprefix("python ")).is_file()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("trian", "; did you mean 'train'?"), ("mysite", "; did you mean 'my-site'?"), ("", "")],
)
def test_unknown_commands(wrong: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([wrong, "--env", "VCC-2021"]) == 2
    said = capsys.readouterr()
    known = ", ".join(COMMANDS)
    assert said.err == f"greendc: error: unknown command {wrong!r}{hint} (there are {known})\n"
    assert said.out == ""


def test_arguments_and_exit_code_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(program, "run", lambda *arguments: seen.append(arguments) or 130)
    assert main(["fetch", "jobs", "--out", "x"]) == 130
    assert seen == [("fetch", ["jobs", "--out", "x"], "sb3_greendc.cli.fetch_traces")]


def test_the_package_can_be_started_and_the_list_needs_no_torch() -> None:
    code = (
        "import runpy, sys; sys.argv = ['x', '--help']\n"
        "try: runpy.run_module('sb3_greendc', run_name='__main__')\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert not {'torch', 'gymnasium', 'pandas'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: greendc COMMAND")


_MINE = """
import greendc
greendc.register_variant("TinyPool-v0", "ResourcePool-10", units=4, episode_steps=20)
"""


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_ids_of_ones_own_are_imported_here_and_in_workers(engine: str, tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text(_MINE, encoding="utf-8")
    options = ["--env", "TinyPool", "--policies", "hvf", "--episodes", "2", "--import", "my_module"]
    options += ["--engine", engine, "--jobs", "1"]
    done = run_python(ROOT / "scripts" / "evaluate.py", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "TinyPool-v0" in done.stdout


def test_a_module_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "my_broken_module.py").write_text("raise LookupError('no such table')", encoding="utf-8")
    for name, says in (
        ("my_missing_module", "No module named"),
        ("my_broken_module", "LookupError: no such"),
    ):
        options = ["--import", name, "--algo", "ppo"]
        done = run_python(ROOT / "scripts" / "train.py", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert f"error: --import {name}: " in done.stderr
        assert says in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(find_spec("shtab") is None, reason="the extra 'completion' is not installed")
@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_commands_options_and_names(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    option = "--hparams-file" if shell == "tcsh" else "--from-study"  # tcsh: options whose values it knows
    for word in (*COMMANDS, option, "VCC-2021", "maskable_ppo", "rolling", "rare-fig4"):
        assert word in script, word


@pytest.mark.skipif(find_spec("shtab") is None, reason="the extra 'completion' is not installed")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    (tmp_path / "completion.bash").write_text(capsys.readouterr().out)

    def completed(*words: str) -> set[str]:
        line = " ".join(f"'{word}'" for word in words)
        code = (
            f"source completion.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
            'function=$(complete -p greendc | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
            f"$function greendc '{words[-1]}' '{words[-2]}'; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert completed("greendc", "tr") == {"train"}
    assert {"--env", "--algo"} <= completed("greendc", "train", "--")
    assert completed("greendc", "train", "--env", "VCC-20") == {"VCC-2019", "VCC-2020", "VCC-2021"}


def test_completion_without_shtab(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as stop:
        main(["completion", "bash"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "completion: error: completion needs shtab: pip install shtab\n"


@pytest.mark.parametrize("arguments", [["--help"], ["fetch", "google"], ["completion", "bash"]])
def test_a_reader_that_goes_away_ends_a_command_quietly(arguments: list[str]) -> None:
    if arguments[0] == "completion":
        pytest.importorskip("shtab")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sb3_greendc", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
