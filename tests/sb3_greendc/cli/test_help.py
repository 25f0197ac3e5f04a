"""Options of all commands: what ``--help`` says of each, and paths that are empty."""

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sb3_greendc.cli.common import Parser
from sb3_greendc.cli.main import COMMANDS
from sb3_greendc.core.commands import module_of


def with_subcommands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from with_subcommands(below)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_says_what_its_options_are_and_their_defaults(command: str) -> None:
    for parser in with_subcommands(importlib.import_module(module_of(command)).build_parser()):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            assert action.help, (parser.prog, action.dest)
            chosen = action.default not in (None, [], argparse.SUPPRESS)
            chosen = chosen and not isinstance(action.default, bool)
            if action.option_strings and chosen and action.help is not argparse.SUPPRESS:
                shown = parser._get_formatter()._expand_help(action)
                assert "default" in shown, (parser.prog, action.dest)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_path_is_not_the_working_folder(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As in ``--out "$OUT"`` of a shell that has no such variable."""
    for parser in with_subcommands(importlib.import_module(module_of(command)).build_parser()):
        for action in parser._actions:
            if action.option_strings and action.type is Path:
                with pytest.raises(SystemExit):
                    parser.parse_args([action.option_strings[0], ""])
                assert f"{action.option_strings[0]}: must be a path, not empty" in capsys.readouterr().err


def test_a_default_is_shown_once_as_it_would_be_typed() -> None:
    parser = Parser(prog="x")
    parser.add_argument("--share", default="5%", help="of the whole")
    parser.add_argument("--loads", nargs="+", default=[0.2, 0.4], help="offered loads")
    parser.add_argument("--jobs", default=1, help="at once (default: all)")
    parser.add_argument("--quick", action="store_true", help="less of it")
    parser.add_argument("--none", nargs="+", default=[], help="of these")
    lines = [line.strip() for line in parser.format_help().splitlines()]
    assert lines[-7:] == [
        "--share SHARE         of the whole (default: 5%)",
        "--loads LOADS [LOADS ...]",
        "offered loads (default: 0.2 0.4)",
        "--jobs JOBS           at once (default: all)",
        "--quick               less of it",
        "--none NONE [NONE ...]",
        "of these",
    ]
