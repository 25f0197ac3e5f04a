"""Named mutations of the source, each of which some test must notice.

``python tools/mutants.py`` applies the mutations of ``mutants_list.py`` one at a time to a copy of the tree
and runs the tests that ought to notice each. Every mutation is killed (a test fails) or survives (all pass):
the tool prints a line for each, writes it into ``mutants.csv`` in ``--out``, and returns 1 if one survives.
Before its first mutation, a group of tests must pass on the copy as it is. Names given as arguments run only
these; ``--rest`` leaves out what the table has as killed with the same source and tests, so that a run that
was cut off goes on, and a change costs only what it touches.

A process is forked for each run from one that has imported the libraries already, so it needs a system that
can fork. Compiled code is kept beside the copy; a mutation of the simulators adds to a copy of what is kept,
so that only what is made from the mutated file is compiled.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import gc
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("sb3_greendc", "envs", "tests", "tools", "pyproject.toml")
CACHE = "compiled"
"""Folder of a tree for the code that Numba makes from it."""
LIBRARIES = (
    *("pytest", "hypothesis", "numba", "pandas", "scipy.stats", "matplotlib.pyplot", "gymnasium", "torch"),
    *("stable_baselines3", "sb3_contrib", "imitation.algorithms.bc", "optuna", "cloudpickle"),
)
"""Imported once, before anything is forked."""
COLUMNS = ("mutation", "file", "outcome", "noticed_by", "seconds", "source")
LIMIT = 900.0
"""Seconds after which a run is ended; a mutation that makes tests go on for ever is noticed so."""


class MutationError(ValueError):
    """A mutation, or the tests named for it, does not fit the source."""


@dataclass(frozen=True)
class Mutation:
    """A change of the source that a test must notice.

    :param name: of the mutation
    :param path: of the file, from the root of the repository
    :param old: text that is there exactly once
    :param new: what takes its place
    :param tests: what ought to notice: arguments of pytest
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Change the file in a tree.

        :raises MutationError: unless the text is found there exactly once
        """
        file = root / self.path
        file.write_text(self.mutated(root), encoding="utf-8")

    def mutated(self, root: Path) -> str:
        """Return the changed source; raises as :meth:`apply`."""
        file = root / self.path
        if not file.is_file():
            raise MutationError(f"mutation {self.name!r}: {self.path}: no such file")
        source = file.read_text(encoding="utf-8")
        found = source.count(self.old)
        if found != 1 or self.old == self.new:
            raise MutationError(
                f"mutation {self.name!r}: {self.path}: {self.old!r} is there {found} times, must be once"
            )
        return source.replace(self.old, self.new)

    def check(self, root: Path) -> None:
        """Raise a :class:`MutationError` unless source and tests are there, and the result is Python."""
        try:
            compile(self.mutated(root), self.path, "exec")
        except SyntaxError as error:
            raise MutationError(
                f"mutation {self.name!r}: {self.path}: no Python any more: {error}"
            ) from error
        for test in self.tests:
            file, *names = test.partition("[")[0].split("::")
            source = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
            if not source or not all(f"def {name}(" in source or f"class {name}" in source for name in names):
                raise MutationError(f"mutation {self.name!r}: there is no test {test}")


def mutations(path: str, tests: tuple[str, ...], *changes: tuple[str, str, str]) -> tuple[Mutation, ...]:
    """Return the mutations of a file that the same tests ought to notice.

    :param path: of the file
    :param tests: arguments of pytest
    :param changes: name, text, and what takes its place
    """
    return tuple(Mutation(name, path, old, new, tests) for name, old, new in changes)


@dataclass(frozen=True)
class Outcome:
    """What became of a run of tests.

    :param outcome: ``"killed"``, ``"survived"`` or ``"invalid"`` (the tests could not even be collected)
    :param noticed_by: the first test that failed, or what else there is to say
    :param seconds: that it took
    """

    outcome: str
    noticed_by: str
    seconds: float


def copy_tree(target: Path) -> Path:
    """Copy what is mutated and what tests it; the rest is linked.

    :param target: a folder that does not exist
    :return: the folder
    """
    target.mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name in COPIED:
            copy: Callable[..., Any] = shutil.copytree if entry.is_dir() else shutil.copy2
            copy(entry, target / entry.name)
        elif not entry.name.startswith(".") and entry.name != "runs":
            (target / entry.name).symlink_to(entry)
    return target


def run_tests(tree: Path, tests: Sequence[str], cache: Path | None = None, limit: float = LIMIT) -> Outcome:
    """Run tests of a tree in a forked process, until the first failure.

    :param tree: the root of the copy
    :param tests: arguments of pytest
    :param cache: folder of compiled code; ``None``: that of the tree
    :param limit: seconds
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        child = os.fork()
        if child == 0:
            status = 70
            try:
                status = _run_pytest(tree, tests, cache or tree / CACHE, report)
            finally:
                os._exit(status)
        status = _wait(child, began + limit)
        told = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    seconds = time.perf_counter() - began
    if status is None:
        return Outcome("killed", f"no end after {limit:.0f} s", seconds)
    if status == 0:
        return Outcome("survived", "", seconds)
    if status == 1 or status < 0:  # a failure, or a crash of compiled code
        return Outcome("killed", told.get("failed", f"signal {-status}"), seconds)
    return Outcome("invalid", told.get("failed", f"exit status {status}"), seconds)


def _wait(child: int, deadline: float) -> int | None:
    """Return the exit status of a process (``-n``: of signal n), ``None`` if it had to be ended."""
    while time.perf_counter() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class _FirstFailure:
    """Tells pytest's first failure."""

    def __init__(self, report: Path) -> None:
        self._report = report

    def _write(self, name: str) -> None:
        if not self._report.exists():
            self._report.write_text(json.dumps({"failed": name}), encoding="utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._write(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._write(f"{report.nodeid}: {str(report.longrepr).splitlines()[-1]}")


def _run_pytest(tree: Path, tests: Sequence[str], cache: Path, report: Path) -> int:
    os.setsid()
    gc.freeze()  # collections of pytest need not go through all that was imported before the fork
    output = os.open(report.with_name("output.txt"), os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(tree)
    paths = [str(tree), str(tree / "envs")]
    libraries = [path for path in sys.path if "site-packages" in path or not path.startswith(str(ROOT))]
    sys.path[:] = [*paths, *libraries]
    os.environ.update(PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = True
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    importlib.import_module("numba").config.CACHE_DIR = str(cache)
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    return int(importlib.import_module("pytest").main(arguments, plugins=[_FirstFailure(report)]))


def try_mutation(mutation: Mutation, tree: Path) -> Outcome:
    """Apply a mutation to a tree, run its tests, and put the file back.

    :param mutation: to apply
    :param tree: the root of a copy
    """
    file = tree / mutation.path
    kept = file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        cache = tree / CACHE
        if mutation.path.startswith("envs/") and cache.is_dir():
            cache = shutil.copytree(cache, Path(folder) / CACHE)
        try:
            mutation.apply(tree)
            return run_tests(tree, mutation.tests, cache)
        finally:
            file.write_text(kept, encoding="utf-8")


def digest(mutation: Mutation, root: Path) -> str:
    """Return what changes with the mutated source, or with a file of the tests that ought to notice."""
    files = sorted({test.partition("::")[0] for test in mutation.tests})
    content = [mutation.mutated(root).encode(), *((root / file).read_bytes() for file in files)]
    return hashlib.sha256(b"".join(content)).hexdigest()[:12]


def run(mutations: Sequence[Mutation], folder: Path, jobs: int, table: Path) -> dict[str, Outcome]:
    """Run every mutation, each line printed and written as it is known.

    :param mutations: to run
    :param folder: where the copies are made
    :param jobs: how many run at once
    :param table: file to which lines are written, in place of those of the same mutations
    :raises MutationError: if a mutation does not fit, or tests fail before any mutation
    """
    for mutation in mutations:
        mutation.check(ROOT)
    digests = {mutation.name: digest(mutation, ROOT) for mutation in mutations}
    tree = copy_tree(folder / "tree0")
    trees: SimpleQueue[Path] = SimpleQueue()
    for job in range(jobs):
        trees.put(shutil.copytree(tree, folder / f"tree{job}", symlinks=True) if job else tree)
    outcomes: dict[str, Outcome] = {}
    passed: set[tuple[str, ...]] = set()
    writing = threading.Lock()

    def one(mutation: Mutation) -> None:
        mine = trees.get()
        try:
            if mutation.tests not in passed:
                before = run_tests(mine, mutation.tests, limit=4 * LIMIT)
                if before.outcome != "survived":
                    reason = f"the tests do not pass before any mutation: {before.noticed_by}"
                    raise MutationError(reason)
                passed.add(mutation.tests)
            outcome = try_mutation(mutation, mine)
        finally:
            trees.put(mine)
        outcomes[mutation.name] = outcome
        line = f"{outcome.outcome:9}{mutation.name} ({outcome.seconds:.0f} s) {outcome.noticed_by}"
        with writing:
            print(line, flush=True)
            write_row(table, mutation, outcome, digests[mutation.name])

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, mutation) for mutation in mutations]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return {mutation.name: outcomes[mutation.name] for mutation in mutations}


def read_table(path: Path) -> dict[str, dict[str, str]]:
    """Return the lines of a table by the name of the mutation; none where there is no table."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["mutation"]: row for row in csv.DictReader(file)}


def write_row(path: Path, mutation: Mutation, outcome: Outcome, source: str) -> None:
    """Write the line of a mutation into a table, in place of an older one."""
    rows = read_table(path)
    values = (
        mutation.name,
        mutation.path,
        outcome.outcome,
        outcome.noticed_by,
        f"{outcome.seconds:.1f}",
        source,
    )
    rows[mutation.name] = dict(zip(COLUMNS, values, strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows.values())
    part.replace(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutations that are named, or all; return 1 if one survives."""
    from mutants_list import MUTATIONS

    parser = argparse.ArgumentParser(prog="mutants", description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="or a pattern, such as 'crr-*' (default: all)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="that run at once (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs/mutants"), help="folder of mutants.csv")
    parser.add_argument(
        "--rest", action="store_true", help="leave out what mutants.csv has as killed, of the same source"
    )
    parser.add_argument("--list", action="store_true", help="print the names and end")
    options = parser.parse_args(argv)
    chosen = [
        mutation
        for mutation in MUTATIONS
        if not options.names or any(fnmatch.fnmatchcase(mutation.name, name) for name in options.names)
    ]
    if not chosen:
        parser.error(f"no mutation is called {options.names[0]!r}")
    if options.list:
        print("\n".join(mutation.name for mutation in chosen))
        return 0
    table = options.out / "mutants.csv"
    if options.rest:
        known = read_table(table)
        chosen = [mutation for mutation in chosen if not _is_killed(mutation, known)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:  # an optional one; tests that need it say so
            print(f"without {name}")
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(chosen, Path(folder), options.jobs, table)
    kinds = [outcome.outcome for outcome in outcomes.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("killed", "survived", "invalid"))
    print(f"{len(kinds)} mutations: {counts}; the table is in {table}")
    return int(kinds.count("killed") != len(kinds))


def _is_killed(mutation: Mutation, known: dict[str, dict[str, str]]) -> bool:
    row = known.get(mutation.name, {})
    mutation.check(ROOT)
    return row.get("outcome") == "killed" and row.get("source") == digest(mutation, ROOT)


if __name__ == "__main__":
    sys.exit(main())
