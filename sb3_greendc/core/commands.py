"""How this process was started, with which modules of its user, and how other commands are started alike."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "greendc"
"""The command that ``pip install`` provides."""

_PACKAGE = "sb3_greendc"
_MODULES = {"calibrate": "calibrate_cost_limit", "fetch": "fetch_traces", "my-site": "my_site"}
"""Modules and scripts whose names differ from the command's."""
_SCRIPTS = {**_MODULES, "my-site": "reproduce"}


_imported: list[str] = []


def import_modules(names: Sequence[str]) -> None:
    """Import modules of the user, which register environments or policies; also from the working folder.

    :param names: ``"my_module"``, ``"my_package.environments"``
    :raises ImportError: if there is no such module
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in names:
        importlib.import_module(name)
        if name not in _imported:
            _imported.append(name)


def imported_modules() -> tuple[str, ...]:
    """Return what :func:`import_modules` imported in this process: what its workers have to import, too."""
    return tuple(_imported)


def module_of(command: str) -> str:
    """Return the full name of the module that runs a command of ``greendc``."""
    return f"{_PACKAGE}.cli.{_MODULES.get(command, command)}"


def started_as(arguments: Sequence[str] | None = None) -> list[str]:
    """Return the words that start a process again, as a user types them: ``["greendc", "train", ...]``.

    :param arguments: the process's own, its file first; default: ``sys.argv``
    """
    file, *others = sys.argv if arguments is None else arguments
    return [*_starter(file), *others]


def how_to_start(command: str, file: str | None = None) -> str:
    """Return what a user types to start a command: ``greendc train``, or ``python scripts/train.py``.

    It is what works for this user: in a process that a script of a clone started, it is the script beside it.

    :param command: of ``greendc``: ``"train"``, ``"my-site"``, ...
    :param file: what was started; default: that of this process
    """
    path = Path(sys.argv[0] if file is None else file)
    if path.suffix == ".py" and path.parent.name == "scripts":
        script = path.with_name(f"{_SCRIPTS.get(command, command)}.py")
        return f"python {script.as_posix()}" + (f" {command}" if command == "my-site" else "")
    if path.suffix == ".py" and path.parts[-3:-1] == (_PACKAGE, "cli"):
        return f"python -m {module_of(command)}"
    if path.parts[-2:] == (_PACKAGE, "__main__.py"):
        return f"python -m {_PACKAGE} {command}"
    return f"{PROGRAM} {command}"


def _starter(file: str) -> list[str]:
    """Return the words that start a file: a program and a module by name, a script by path."""
    path = Path(file)
    if path.stem == PROGRAM:
        return [PROGRAM]
    if path.parts[-2:] == (_PACKAGE, "__main__.py"):
        return ["python", "-m", _PACKAGE]
    if path.suffix == ".py" and path.parts[-3:-1] == (_PACKAGE, "cli"):
        return ["python", "-m", f"{_PACKAGE}.cli.{path.stem}"]
    return ["python", file] if path.suffix == ".py" else [file]
