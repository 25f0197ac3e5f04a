"""Measure :mod:`sb3_greendc.core.engine` against joblib (loky): ``python tools/compare_engines.py``.

Prints a table in Markdown; docs/tuning.md has one, and says what was decided. Linux alone.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch as th

from sb3_greendc.core.engine import map_tasks

WORKERS = 2
TASK_SECONDS = 25
"""How long tasks run whose caller is killed."""
BUFFER_MB = 150


def by_ours(function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int = WORKERS) -> list[Any]:
    """Run tasks in our engine, and return what ends in the order of its ending."""
    ended: list[Any] = []
    map_tasks(function, tasks, "process", jobs, on_result=lambda _, result: ended.append(result))
    return ended


def by_joblib(function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int = WORKERS) -> list[Any]:
    """Run tasks in joblib, and return what ends in the order of its ending."""
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
        return list(parallel(joblib.delayed(function)(task) for task in tasks))


ENGINES = {"ours": by_ours, "joblib": by_joblib}


class PickyError(Exception):
    """Takes two arguments, so that it cannot be unpickled from its message."""

    def __init__(self, place: int, what: str) -> None:
        super().__init__(f"{what} in {place}")


def threads(task: int) -> int:
    """Return torch's threads."""
    return th.get_num_threads()


def fail(task: int) -> int:
    """Fail in task 1."""
    if task == 1:
        raise PickyError(task, "a mistake")
    return task


def die(task: int) -> int:
    """End the worker in task 1, as the system does that has no memory left."""
    if task == 1:
        os._exit(9)
    time.sleep(0.2)
    return task


def leave_circle(task: int) -> int:
    """Leave a buffer in a circle, as models and their environments do; return the worker's memory in MB."""
    gc.disable()  # few objects, as in a training: Python does not collect by itself
    circle: dict[str, Any] = {"buffer": np.ones(BUFFER_MB * 2**17)}
    circle["itself"] = circle
    time.sleep(1.1)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


def wait(seconds: float) -> float:
    """Take so long."""
    time.sleep(seconds)
    return seconds


def tick(folder: str) -> None:
    """Run for long, and say in which process."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(TASK_SECONDS)


def error_of(run: Callable[[], object]) -> str:
    """Return what error is raised, in a line."""
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:70]}".replace("|", "/")
    return "none"


def seconds_until_workers_end(engine: str, sent: signal.Signals) -> str:
    """End a caller, and measure how long its workers run on."""
    with tempfile.TemporaryDirectory() as folder:
        caller = subprocess.Popen(
            [sys.executable, __file__, "--call", engine, folder], stderr=subprocess.DEVNULL
        )
        while len(found := list(Path(folder).iterdir())) < WORKERS:
            time.sleep(0.05)
        caller.send_signal(sent)
        started = time.perf_counter()
        caller.wait()
        while any(_is_running(int(path.name)) for path in found):
            if time.perf_counter() - started > 2 * TASK_SECONDS:
                break
            time.sleep(0.05)
        took = time.perf_counter() - started
        for path in found:
            if _is_running(int(path.name)):
                os.kill(int(path.name), signal.SIGKILL)
    return f"{took:.1f} s" if took < 2 * TASK_SECONDS else f"more than {2 * TASK_SECONDS} s"


def growth(memory: Sequence[int]) -> str:
    """Return by how much memory was above the least."""
    return f"{max(memory) - min(memory)} MB"


def children() -> int:
    """Return the number of processes that this one has started and that still run."""
    listed = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "comm="], capture_output=True, text=True)
    return sum(line.strip() != "ps" for line in listed.stdout.splitlines())


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


MEASURES: dict[str, Callable[[str], object]] = {
    "workers end after their caller was killed (SIGKILL)": lambda e: seconds_until_workers_end(
        e, signal.SIGKILL
    ),
    "the same after Ctrl-C (SIGINT)": lambda e: seconds_until_workers_end(e, signal.SIGINT),
    "torch threads of a task, 2 jobs": lambda e: ENGINES[e](threads, [0, 1])[0],
    "torch threads of a task, 1 job": lambda e: ENGINES[e](threads, [0, 1], 1)[0],
    "a task raises an exception that cannot be unpickled": lambda e: error_of(
        lambda: ENGINES[e](fail, range(3))
    ),
    "a task's process dies": lambda e: error_of(lambda: ENGINES[e](die, range(3))),
    f"memory grows in 12 tasks that leave {BUFFER_MB} MB in circles": lambda e: growth(
        ENGINES[e](leave_circle, range(12))
    ),
    "results in the order of their ending": lambda e: ENGINES[e](wait, [1.5, 0.1, 0.2]) == [0.1, 0.2, 1.5],
    "processes that are left after all that": lambda _: children(),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare our engine with joblib.")
    parser.add_argument("--measure", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--call", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ENGINES[options.call[0]](tick, [options.call[1]] * WORKERS)
        return
    if options.measure is not None:
        th.set_num_threads(4)
        for measure in MEASURES.values():
            print(measure(options.measure), flush=True)
        return
    columns = [
        subprocess.run(
            [sys.executable, __file__, "--measure", engine], stdout=subprocess.PIPE, text=True, check=True
        )
        for engine in ENGINES
    ]
    print(f"| | ours | joblib {joblib.__version__} |\n|---|---|---|")
    for row in zip(MEASURES, *(column.stdout.splitlines() for column in columns), strict=True):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
