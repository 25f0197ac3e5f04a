"""What Slurm answers, from version 21.08 on: its rows of nodes and jobs, and how their fields are read.

Up to 22.05 numbers are plain, and a state is a text, for nodes with a list of flags beside it. From 23.02 on
the state of a node is a list, and numbers that can be unset are objects with ``set``, ``infinite`` and
``number``; from 23.11 on times are such objects, too, and the state of a job is a list.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from greendc.live.reservations import PREFIX

Row = Mapping[str, Any]
"""A node or a job."""
Run = Callable[[Sequence[str]], str]
"""Runs a command and returns what it prints; raises :class:`SlurmError`."""

TIMEOUT_SECONDS = 60
OURS = rf"{PREFIX}-.+-\d+-\d+-\d+"
"""Names of reservations that we have made: partition, start, end and CPUs."""
RUNNING = {"RUNNING", "CONFIGURING", "COMPLETING"}
UNUSABLE = {
    *("DOWN", "ERROR", "FUTURE", "INVALID", "UNKNOWN"),
    *("BLOCKED", "DRAIN", "FAIL", "INVALID_REG", "MAINTENANCE", "POWERING_DOWN", "POWER_DOWN"),
    "REBOOT_ISSUED",
}
"""States of nodes on which Slurm starts no jobs, and flags."""
RESERVED = "RESERVED"
"""Flag of nodes that are reserved whole, which ours are not: Slurm sets none where cores are reserved."""
WAKING = {"POWERED_DOWN", "POWERING_UP"}
"""Flags of nodes that Slurm wakes for a job, which need not respond."""


class SlurmError(RuntimeError):
    """Slurm is not there, did not answer, or answered in another form; the message names the command."""


def run_command(command: Sequence[str]) -> str:
    """Run a command of Slurm. It prints times as Slurm does where no format is set.

    :raises SlurmError: if it is not installed, fails or does not end within a minute
    """
    environment = {**os.environ, "SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=environment
        )
    except FileNotFoundError:
        raise SlurmError(f"{command[0]}: no such command: is Slurm installed here?") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{' '.join(command)}: no answer within {TIMEOUT_SECONDS} s") from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise SlurmError(f"{' '.join(command)}: exit code {done.returncode}: {said}")
    return done.stdout


def read_nodes(run: Run) -> list[Row]:
    """Return the nodes, by ``sinfo``; from 23.02 on that prints groups of nodes, and ``scontrol`` each one.

    :raises SlurmError: if there is no answer, or one in another form
    """
    command = ["sinfo", "--json"]
    answer = _answer(run, command)
    if "nodes" not in answer and "sinfo" in answer:
        command = ["scontrol", "show", "nodes", "--json"]
        answer = _answer(run, command)
    return _rows(answer, command, "nodes")


def read_jobs(run: Run) -> list[Row]:
    """Return the jobs, by ``squeue``.

    :raises SlurmError: if there is no answer, or one in another form
    """
    command = ["squeue", "--json"]
    return _rows(_answer(run, command), command, "jobs")


def _answer(run: Run, command: list[str]) -> Mapping[str, Any]:
    try:
        data = json.loads(run(command))
    except ValueError:
        data = None
    return data if isinstance(data, dict) else {}


def _rows(answer: Mapping[str, Any], command: list[str], key: str) -> list[Row]:
    if key not in answer:
        raise SlurmError(f"{' '.join(command)}: no JSON with {key!r}: is this Slurm 21.08 or later?")
    rows = answer[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SlurmError(f"{' '.join(command)}: {key!r} is no list of objects")
    return rows


def number(row: Row, field: str) -> int | None:
    """Return a number; ``None`` if it is unset or infinite.

    :raises SlurmError: if it is none
    """
    value = row.get(field)
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SlurmError(f"{field}={value!r}: must be a number: another version of Slurm?")
    return int(value)


def count(row: Row, field: str) -> int:
    """Return a number that must be there.

    :raises SlurmError: if it is unset or below 0
    """
    found = number(row, field)
    if found is None or found < 0:
        owner = row.get("name", row.get("job_id"))
        raise SlurmError(f"{field}={row.get(field)!r} of {owner}: must be 0 or more")
    return found


def states(row: Row) -> set[str]:
    """Return the states of a node or a job, flags among them."""
    words: list[str] = []
    for field in ("state", "state_flags", "job_state"):
        value = row.get(field) or []
        words += [value] if isinstance(value, str) else [str(word) for word in value]
    return {word.upper().rstrip("*") for word in words}


def is_usable(node: Row) -> bool:
    """Return whether Slurm may start jobs on a node, where it has powered it down after it has woken it."""
    words = states(node)
    silent = "NOT_RESPONDING" in words and not words & WAKING
    others = RESERVED in words and not re.fullmatch(OURS, str(node.get("reservation")))
    return not silent and not others and not words & UNUSABLE
