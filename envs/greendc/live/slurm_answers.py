"""What Slurm answers, from version 21.08 on: its rows of nodes and jobs, and how their fields are read.

Up to 22.05 numbers are plain, and a state is a text, for nodes with a list of flags beside it. From 23.02 on
the state of a node is a list, and numbers that can be unset are objects with ``set``, ``infinite`` and
``number``; from 23.11 on times are such objects, too, and the state of a job is a list.
"""

from __future__ import annotations

import json
import math
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
MOST_NODES = 2**16
"""As many as Slurm allows."""
TIME_FORMATS = {"sacct": "%s"}
"""How commands print times: in seconds since 1970, which tell apart the hour that clocks show twice."""
OURS = rf"{PREFIX}-.+-\d+-\d+-\d+"
"""Names of reservations that we have made: partition, start, end and CPUs."""
RUNNING = {
    *("RUNNING", "CONFIGURING", "COMPLETING"),
    *("SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"),
}
"""States of jobs that have processors, or have them again without being asked."""
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


ORDINARY = {"cpu", "mem", "node", "billing"}
"""Trackable resources that every job asks for."""
TRES_FIELDS = ("tres_req_str", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")
"""Fields of a job with trackable resources, such as ``cpu=1,mem=1M,node=1`` or ``gres:gpu:1``."""
OTHER_FIELDS = (
    "gres_detail",
    "licenses",
    "features",
    "required_nodes",
    "excluded_nodes",
    "contiguous",
    "burst_buffer",
    "resv_name",
)
"""Fields of a job that are empty, or ask for something that processors which are alike do not have."""
LOST = r"timed? ?out|unable to contact|connection|communication|not respond|transmi|unexpected message"
"""What Slurm's commands say if they have asked the controller and do not know what it did."""


class SlurmError(RuntimeError):
    """Slurm is not there, did not answer, or answered in another form; the message names the command.

    :param message: what is wrong
    :param effect: what came of the command: ``"refused"`` (Slurm did not do it), ``"none"`` (it did not run),
        or ``"unknown"`` (it may have taken effect)
    """

    def __init__(self, message: str, effect: str = "refused") -> None:
        super().__init__(message)
        self.effect = effect


def run_command(command: Sequence[str]) -> str:
    """Run a command of Slurm. It prints times as Slurm does where no format is set, ``sacct`` as seconds.

    :raises SlurmError: if it is not installed, cannot be run, fails or does not end within a minute
    """
    environment = {**os.environ, "SLURM_TIME_FORMAT": TIME_FORMATS.get(command[0], "standard")}
    line = " ".join(command)
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
        )
    except FileNotFoundError:
        raise SlurmError(f"{command[0]}: no such command: is Slurm installed here?", "none") from None
    except OSError as error:
        raise SlurmError(f"{line}: cannot be run: {error.strerror or error}", "none") from None
    with process:
        try:
            output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SlurmError(f"{line}: no answer within {TIMEOUT_SECONDS} s", "unknown") from None
        except BaseException:
            process.kill()
            raise
    if process.returncode < 0:
        raise SlurmError(f"{line}: ended by signal {-process.returncode}", "unknown")
    if process.returncode > 0:
        said = " ".join((errors or output).split())
        effect = "unknown" if re.search(LOST, said, re.I) else "refused"
        raise SlurmError(f"{line}: exit code {process.returncode}: {said}", effect)
    return output


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
    text, name = run(command), " ".join(command)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        what = "is no whole JSON text" if text.strip() else "is empty"
        raise SlurmError(f"{name}: the answer {what}: is this Slurm 21.08 or later?") from None
    if not isinstance(data, dict):
        raise SlurmError(f"{name}: the answer is no JSON object: is this Slurm 21.08 or later?")
    if errors := data.get("errors"):  # Slurm 22.05 ends well even if its controller is down
        raise SlurmError(f"{name}: {text_of([_said(error) for error in _list(errors)])}")
    return data


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _said(error: object) -> object:
    """Return what an entry of ``errors`` says."""
    if not isinstance(error, Mapping):
        return error
    words = (text_of(error.get(key)) for key in ("description", "error", "source"))
    return next(filter(None, words), "an error without a description")


def _rows(answer: Mapping[str, Any], command: list[str], key: str) -> list[Row]:
    if key not in answer:
        raise SlurmError(f"{' '.join(command)}: no JSON with {key!r}: is this Slurm 21.08 or later?")
    rows = answer[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SlurmError(f"{' '.join(command)}: {key!r} is no list of objects")
    return rows


def owner(row: Row) -> str:
    """Return whose a row is, for messages."""
    if "job_id" in row:
        return f"job {row['job_id']}"
    return f"node {row['name']}" if "name" in row else "a row without job_id or name"


def number(row: Row, field: str) -> int | None:
    """Return a number; ``None`` if it is unset or infinite.

    :raises SlurmError: if it is none; names the node or the job
    """
    value = row.get(field)
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SlurmError(f"{field}={value!r} of {owner(row)}: must be a number: another version of Slurm?")
    return int(value)


def count(row: Row, field: str) -> int:
    """Return a number that must be there.

    :raises SlurmError: if it is unset or below 0
    """
    found = number(row, field)
    if found is None or found < 0:
        raise SlurmError(f"{field}={row.get(field)!r} of {owner(row)}: must be 0 or more")
    return found


def cpus_of(node: Row) -> int:
    """Return the CPUs of a node that jobs may have: fewer where Slurm keeps cores for the system."""
    return number(node, "effective_cpus") or count(node, "cpus")


def tasks_of(job: Row, running: int = 0) -> int | None:
    """Return how many tasks of a pending array may start now; 1 for another job.

    :param running: how many of its tasks run
    :return: ``None`` if that is not known, because Slurm has cut the list of tasks
    """
    text, _, limit = text_of(job.get("array_task_string")).partition("%")
    limits = [int(limit) if re.fullmatch("[0-9]{1,10}", limit) else 0, number(job, "array_max_tasks") or 0]
    most = [max(found - running, 0) for found in limits if found > 0]
    tasks = 0
    for part in text.split(",") if text else []:
        found = re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?", part)
        if found is None:
            return min(most, default=None)
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        tasks += max(last - first, 0) // max(step, 1) + 1
    return min([tasks, *most]) if text else 1


def hosts_of(job: Row) -> set[str]:
    """Return the nodes that a job runs on, written as ``n[1-3,08]``; none if that is not told."""
    found: set[str] = set()
    for part in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text_of(job.get("nodes"))):
        whole = [""]
        for text, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", part):
            ends = [text] if text else _numbers(ranges)
            whole = [begin + end for begin in whole for end in ends]
        found.update(whole)
    return found


def _numbers(ranges: str) -> list[str]:
    """Return the numbers of ``1-3,08``, with the zeros before them."""
    found = []
    for part in ranges.split(","):
        ends = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if ends is not None:
            numbers = range(int(ends[1]), int(ends[2] or ends[1]) + 1)
            found += [f"{k:0{len(ends[1])}}" for k in numbers[:MOST_NODES]]
    return found


def names(row: Row, field: str) -> list[str]:
    """Return a list of names; none where the field is absent or empty.

    :raises SlurmError: if it is something else
    """
    value = row.get(field) or []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise SlurmError(f"{field}={value!r} of {owner(row)}: must be a list of names")
    return value


def states(row: Row) -> set[str]:
    """Return the states of a node or a job, flags among them.

    :raises SlurmError: if they are neither names nor a list of names
    """
    words: list[str] = []
    for field in ("state", "state_flags", "job_state"):
        words += [row[field]] if isinstance(row.get(field), str) else names(row, field)
    return {word.upper().rstrip("*") for word in words}


def beyond_processors(job: Row) -> str | None:
    """Return what a job asks for that is no processor, node or memory, such as ``"licenses=matlab:2"``.

    What a version of Slurm does not tell is not asked for.

    :return: the fields that say so and what they say; ``None`` if there are none
    """
    asked = []
    for field in TRES_FIELDS:
        parts = [part.strip() for part in text_of(job.get(field)).split(",")]
        asked += [f"{field}={part}" for part in parts if part and re.split("[:=]", part)[0] not in ORDINARY]
    asked += [f"{field}={text}" for field in OTHER_FIELDS if (text := text_of(job.get(field)))]
    return ", ".join(asked) or None


def text_of(value: object) -> str:
    """Return what a field says, a list as its parts with commas between; empty where it says nothing."""
    if isinstance(value, list):
        return ",".join(filter(None, map(text_of, value)))
    return "" if value is None or value is False or value == "(null)" else str(value).strip()


def is_usable(node: Row) -> bool:
    """Return whether Slurm may start jobs on a node, where it has powered it down after it has woken it."""
    words = states(node)
    silent = "NOT_RESPONDING" in words and not words & WAKING
    others = RESERVED in words and not re.fullmatch(OURS, str(node.get("reservation")))
    return not silent and not others and not words & UNUSABLE
