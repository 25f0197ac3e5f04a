"""``greendc completion SHELL``: what completes the commands in a shell, made by shtab."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import greendc
from greendc import baselines
from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.cli.main import COMMANDS
from sb3_greendc.core.algorithms import ALGORITHMS
from sb3_greendc.core.commands import PROGRAM, how_to_start, module_of
from sb3_greendc.experiments.registry import experiment_names

SHELLS = ("bash", "zsh", "tcsh")
_FAMILIES = ("vcc", "resource_pool", "cluster")


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog=how_to_start("completion"),
        description="Print a script that completes commands, options, ids, algorithms and baselines. "
        'In bash: eval "$(greendc completion bash)", in ~/.bashrc for every session.',
    )
    parser.add_argument("shell", choices=SHELLS, help="whose script to print")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("completion"):
        try:
            import shtab
        except ImportError as error:
            raise ImportError("completion needs shtab: pip install shtab") from error
    print(shtab.complete(whole_parser(shtab.FILE), options.shell))
    return 0


def whole_parser(file: Any = None) -> argparse.ArgumentParser:
    """Return one parser with every command, in which options that take known names have them as choices.

    :param file: what completes options that take a path
    """
    parser = argparse.ArgumentParser(prog=PROGRAM)
    commands = parser.add_subparsers(dest="command")
    for name, does in COMMANDS.items():
        build = getattr(importlib.import_module(module_of(name)), "build_parser", argparse.ArgumentParser)
        command = build()
        for part in _with_parts(command):
            _name_what_is_known(part, file)
        commands.add_parser(name, help=does, parents=[command], add_help=False)
    return parser


def _with_parts(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _name_what_is_known(parser: argparse.ArgumentParser, file: Any) -> None:
    ids = sorted(env_id.rpartition("-v")[0] for env_id in gym.registry if greendc.family(env_id))
    policies = sorted({name for family in _FAMILIES for name in baselines.names(family, hindsight=True)})
    known = {
        "--env": tuple(dict.fromkeys(ids)),
        "--algo": tuple(ALGORITHMS),
        "--policies": ("pretrained", *policies),
        "experiment": ("list", "all", *experiment_names()),
    }
    for action in parser._actions:
        for name in action.option_strings or [action.dest]:
            if action.choices is None and name in known:
                action.choices = known[name]
        if action.type is Path and action.choices is None and file is not None:
            action.complete = file  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
