#!/usr/bin/env python
"""Record what this tree computes, and show that another tree computes the same.

Before a change that must not change behaviour::

    python tools/golden.py record before.json

and afterwards, in the changed tree::

    python tools/golden.py compare before.json                # all parts
    python tools/golden.py compare before.json --only episodes baselines

``compare`` records the tree that Python imports, prints a table of what is equal and what differs, names
every difference, and exits with 1 if there is any. ``compare BEFORE --after AFTER`` compares two records. To
record another checkout with this command, put that checkout first on the path:
``PYTHONPATH=OTHER:OTHER/envs python tools/golden.py record other.json``.

The parts, each a file of ``tools/golden_parts``:

- ``episodes``: SHA-256 of observations, rewards, ends, masks and infos of every registered id and of variants
  of its options, one environment and a batch, under fixed pseudo-random valid actions; records of episodes
- ``baselines``: metrics and actions of every heuristic and planner on fixed seeds; bounds
- ``datasets``: arrays of data sets that are collected, joined, saved and loaded
- ``training``: weights and actions after a short training of each algorithm
- ``policies``: weights, logits, values and actions of every policy that ships; evaluations on paired seeds
- ``experiments``: tables of three experiments with tiny budgets, as CSV

All parts take two minutes on one core once the simulators are compiled, and three more where they are not.

Where modules, options or words have other names than in the recorded tree, ``tools/golden_parts/names.py``
says which; a new name is added there. An option, key or word that is only renamed changes no hash. A case
that cannot run is a difference, too; its traceback goes to standard error.

Hashes of ``episodes`` and of heuristics hold on any machine with the same NumPy. Those of networks and
solvers hold on one machine with one set of versions: record both trees there.

``record --compact`` writes hashes alone, shortened, and some logits of shipped policies. ``tests/golden``
keeps such a record, and ``tests/test_golden.py`` compares a part of it in the test suite.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import importlib
import json
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from golden_parts.digest import Value, digest_of

PARTS = ("episodes", "baselines", "datasets", "training", "policies", "experiments")
TORCH = ("datasets", "training", "policies", "experiments")
"""Those that need torch, on one thread, since sums differ with their number."""
SHORT_HASH = 12
"""Hexadecimal digits of a compact record."""
ERROR = "error"
"""The component of a case that could not run."""

Record = dict[str, dict[str, dict[str, Value]]]
"""Values by part, case and component."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Its docstring says more: python -m pydoc tools/golden.py"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="write a record of this tree")
    record.add_argument("out", type=Path, metavar="OUT.json")
    record.add_argument("--compact", action="store_true", help="hashes alone, shortened, and some logits")
    compare = commands.add_parser("compare", help="compare this tree with a record")
    compare.add_argument("before", type=Path, metavar="BEFORE.json")
    compare.add_argument("--after", type=Path, metavar="AFTER.json", help="a record in place of this tree")
    for command in (record, compare):
        command.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="parts")
    given = parser.parse_args(arguments)
    if given.command == "record":
        found = record_tree(given.only)
        write_record(given.out, found, given.compact)
        failed = [name for name, value in flat(found).items() if name.endswith(f"/{ERROR}")]
        print(f"{given.out}: {len(flat(found)):,} values, {len(failed)} errors")
        return 1 if failed else 0
    before = read_record(given.before)
    after = read_record(given.after) if given.after else record_tree(given.only)
    return print_comparison(
        {part: before.get(part, {}) for part in given.only},
        {part: after.get(part, {}) for part in given.only},
    )


def record_tree(parts: Sequence[str]) -> Record:
    """Run every case of some parts; progress and errors go to standard error."""
    found: Record = {}
    if "torch" in sys.modules or any(part in TORCH for part in parts):
        importlib.import_module("torch").set_num_threads(1)
    for part in parts:
        started = time.perf_counter()
        cases = importlib.import_module(f"golden_parts.{part}").cases()
        values: dict[str, dict[str, Value]] = {}
        for case in cases:
            begun = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    values[case.name] = dict(case.record())
            except Exception as error:  # whatever a tree in the middle of a change raises
                text = f"{type(error).__name__}: {error}"
                values[case.name] = {ERROR: digest_of(text, detail=text)}
                print(f"{part}/{case.name}: {traceback.format_exc()}", file=sys.stderr)
            seconds = time.perf_counter() - begun
            if seconds > 3.0:
                print(f"{part}/{case.name}: {seconds:.1f} s", file=sys.stderr)
        found[part] = values
        print(f"{part}: {len(cases)} cases, {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return found


def flat(record: Record) -> dict[str, Value]:
    """Return the values of a record by ``part/case/component``."""
    return {
        f"{part}/{case}/{component}": value
        for part, cases in record.items()
        for case, values in cases.items()
        for component, value in values.items()
    }


def write_record(path: Path, record: Record, compact: bool = False) -> None:
    """Write a record as JSON, a line a case.

    :param path: of the file
    :param record: what to write
    :param compact: hashes alone, shortened, and with the part ``policies`` some of the logits
    """

    def plain(value: Value) -> Any:
        return value.hash[:SHORT_HASH] if compact else vars(value)

    packages = ("numpy", "numba", "scipy", "gymnasium", "stable-baselines3", "sb3-contrib", "torch")
    versions = {name: metadata.version(name) for name in packages}
    made = {"python": platform.python_version(), "machine": platform.machine(), **versions}
    parts = {
        part: {case: {name: plain(value) for name, value in values.items()} for case, values in cases.items()}
        for part, cases in record.items()
    }
    sections = [f'"made_with": {json.dumps(made)}', f'"parts": {_lines(parts, _lines)}']
    if compact and "policies" in record:
        sections.append(f'"logits": {_lines(importlib.import_module("golden_parts.policies").last_logits())}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(sections) + "}\n", encoding="utf-8")


def _lines(values: Mapping[str, Any], write: Callable[[Any], str] = json.dumps) -> str:
    """Return a JSON object with a line a key."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {write(value)}" for key, value in values.items()) + "}"


def read_record(path: Path) -> Record:
    """Read a record, compact or not."""

    def value_of(plain: Any) -> Value:
        return Value(plain) if isinstance(plain, str) else Value(**plain)

    parts = json.loads(path.read_text(encoding="utf-8"))["parts"]
    return {
        part: {
            case: {name: value_of(plain) for name, plain in values.items()} for case, values in cases.items()
        }
        for part, cases in parts.items()
    }


def same(first: Value, second: Value) -> bool:
    """Tell whether two hashes are equal, as far as the shorter one goes."""
    length = min(len(first.hash), len(second.hash))
    return first.hash[:length] == second.hash[:length]


def print_comparison(before: Record, after: Record) -> int:
    """Print a table by part, and every difference; return 1 if there is any.

    :param before: the record
    :param after: what is compared with it
    """
    total = 0
    differences: list[str] = []
    print(f"{'part':<12}{'equal':>8}{'differ':>8}{'missing':>9}{'new':>6}")
    for part in before:
        old, new = flat({part: before[part]}), flat({part: after[part]})
        common = [name for name in old if name in new]
        differ = [name for name in common if not same(old[name], new[name])]
        missing, added = [n for n in old if n not in new], [n for n in new if n not in old]
        print(f"{part:<12}{len(common) - len(differ):>8}{len(differ):>8}{len(missing):>9}{len(added):>6}")
        differences += [f"differs  {name}{first_difference(old[name], new[name])}" for name in differ]
        differences += [f"missing  {name}" for name in missing]
        differences += [
            f"new      {name}  {new[name].detail.splitlines()[0] if new[name].detail else ''}"
            for name in added
        ]
        total += len(old)
    print("\n".join(["", *differences]) if differences else f"\nall {total:,} values are equal")
    return 1 if differences else 0


def first_difference(old: Value, new: Value, width: int = 60) -> str:
    """Return where two details part, empty where they are not known or equal."""
    if not old.detail or not new.detail:
        return ""
    pairs = enumerate(zip(old.detail, new.detail, strict=False))
    place = next((k for k, (one, other) in pairs if one != other), min(len(old.detail), len(new.detail)))
    part = slice(max(0, place - width // 2), place + width)
    return f"\n    before: ...{old.detail[part]!r}\n    after:  ...{new.detail[part]!r}"


if __name__ == "__main__":
    sys.exit(main())
