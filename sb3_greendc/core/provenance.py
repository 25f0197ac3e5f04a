"""Where a result comes from: the command, the versions, the commit."""

from __future__ import annotations

import datetime
import json
import platform
import shlex
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from sb3_greendc.core.commands import started_as
from sb3_greendc.core.secrets import arguments_without_secrets

_PACKAGES = (
    "sb3-greendc",
    "stable-baselines3",
    "sb3-contrib",
    "gymnasium",
    "torch",
    "numpy",
    "numba",
    "pandas",
)

_KINDS: dict[str, tuple[type, str]] = {
    "algorithm": (str, "text"),
    "env_id": (str, "text"),
    **dict.fromkeys(("env_kwargs", "hyperparameters", "policies", "versions"), (dict, "an object")),
}
"""What entries of a record are that others rely on."""

_worked_for: tuple[str, ...] = ()


def work_for(words: Sequence[str]) -> None:
    """Say in a worker which command it works for: records name that one, not the worker's own.

    :param words: what :func:`command` returns in the process that the worker works for
    """
    global _worked_for
    _worked_for = tuple(words)


def command() -> list[str]:
    """Return the words of the command that this process was started by, or works for."""
    return list(_worked_for) or started_as()


def provenance() -> dict[str, Any]:
    """Return what a record needs to repeat a run: command, time, versions, and the checkout's commit.

    Passwords in the command are left out.
    """
    return {
        "command": shlex.join(arguments_without_secrets(command())),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": package_versions(),
    }


def parse_record(text: str | bytes, name: str) -> dict[str, Any]:
    """Return a record of a run or an evaluation; entries that are null are left out where all need a value.

    :param text: JSON; any value but an object is another file's, and an empty record
    :param name: what errors call it
    :raises ValueError: if it is not valid JSON, or an entry is not what it is in records; names the entry
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not valid JSON: {error}") from error
    if not isinstance(found, dict):
        return {}
    record = {key: value for key, value in found.items() if value is not None or key not in _KINDS}
    for key, (kind, said) in _KINDS.items():
        if key in record and not isinstance(record[key], kind):
            raise ValueError(f"{name}: {key}={record[key]!r}: must be {said}")
    return record


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a result may depend on."""
    return {package: version_of(package) for package in _PACKAGES}


def version_of(package: str) -> str:
    """Return a package's version; ``unknown`` where it is imported from a folder, without being installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def commit() -> str | None:
    """Return the commit of the checkout that this package lies in, with ``-dirty`` after local changes.

    ``None`` for an installed package, or without git.
    """
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    describe = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
