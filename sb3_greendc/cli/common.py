"""What the commands share: options in one form, and errors in one line."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from sb3_greendc.core.commands import import_modules
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.evaluation.tables import fitted_table

_WIDE = 1_000

BAD_INPUT = 2
"""Exit code of a command that was asked for something it cannot do; argparse's own."""

FAILED = 1
"""Exit code of a command whose work failed, or whose results could not be written where they belong."""

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, when what it had done is kept; the shells' own."""


class HelpWithDefaults(argparse.HelpFormatter):
    """Says after an option what it is without being given, where its text does not say so itself."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default, text = action.default, action.help
        said = default is None or isinstance(default, bool) or default in ([], argparse.SUPPRESS)
        if said or text is None or "default" in text or not action.option_strings:
            return text
        values = default if isinstance(default, list | tuple) else [default]
        shown = " ".join(map(str, values)).replace("%", "%%")
        return f"{text} (default: {shown})"


class Parser(argparse.ArgumentParser):
    """Help has the defaults, an empty path is none, and no password of a storage's URL is shown in errors."""

    def __init__(self, **options: Any) -> None:
        """See :class:`argparse.ArgumentParser`."""
        super().__init__(**{"formatter_class": HelpWithDefaults, **options})
        self.register("type", Path, _path)

    def error(self, message: str) -> NoReturn:
        """End the command; see :class:`argparse.ArgumentParser`."""
        super().error(without_secrets(message))


def _path(text: str) -> Path:
    """Return a path; Python's own takes an empty one, as a shell's unset variable gives, for this folder."""
    if not text:
        raise argparse.ArgumentTypeError("must be a path, not empty")
    return Path(text)


class BadInput(SystemExit):
    """Ends a command with :data:`BAD_INPUT`; its message has been printed."""

    def __init__(self) -> None:
        super().__init__(BAD_INPUT)


@contextlib.contextmanager
def one_line_errors(command: str, apart: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn errors about the input into one line on stderr and exit code 2, without a traceback.

    It belongs around what reads and checks the input, not around the work itself, whose errors are
    ours and need their traceback.

    :param command: name of the command, which the line begins with
    :param apart: errors that are let through: they have more than a line to say
    """
    try:
        yield
    except apart:
        raise
    except BrokenPipeError:  # nobody reads on: no error of the input
        raise
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"{command}: error: {' '.join(without_secrets(str(error)).split())}", file=sys.stderr)
        raise BadInput from error


def add_trust_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust``, which lets saved models hold pickled code."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="load models in SB3's own form, too: they hold pickled code, which is run. Only for files that "
        "you made yourself",
    )


def add_wide_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--wide``; see :func:`tables_console`."""
    parser.add_argument(
        "--wide", action="store_true", help="do not fit tables to the terminal: all columns side by side"
    )


def tables_console(wide: bool) -> Console:
    """Return where tables go: as wide as the terminal (80 columns in files), or as wide as they need."""
    return Console(width=_WIDE) if wide else Console()


def print_table(
    console: Console,
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str] = (),
) -> None:
    """Print a table that fits, and say which columns ``--wide`` would add; see :func:`fitted_table`."""
    table, left_out = fitted_table(title, heads, rows, console.width, right)
    console.print(table)
    if left_out:
        console.print(
            f"--wide shows {', '.join(left_out)}, too\n", style="dim", markup=False, highlight=False
        )


def add_environment_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--set key=value ...``, the environment's keyword arguments, and ``--import`` for your own ids."""
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="keyword arguments of the environment; values are YAML (target_load=0.7 month=2019-09)",
    )
    parser.add_argument(
        "--import",
        action=_Import,
        metavar="MODULE",
        help="a module of yours that registers the environment, from this folder or installed; repeatable",
    )


class _Import(argparse.Action):
    """Imports a module at once, before anything asks for what it registers."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        try:
            import_modules([values])
        except Exception as error:
            parser.error(f"--import {values}: {type(error).__name__}: {error}")
