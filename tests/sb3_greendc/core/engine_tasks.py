"""Tasks that workers of the engine tests import."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch as th


def draw(seed: int) -> float:
    """Return a number that depends on the seed alone."""
    return float(np.random.default_rng(seed).normal())


def torch_threads(task: int) -> int:
    return th.get_num_threads()


def refuse_odd(task: int) -> int:
    if task % 2:
        raise LookupError(f"{task} is odd")
    return task


def die(task: int) -> int:
    os._exit(3)


def die_at_first(marker: Path) -> int:
    """End the worker as the kernel does, the first time."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 7


def live_or_die(mark: Path) -> str:
    """Leave a line for each start; end the worker always, at first, or never, as the mark's name says.

    Those that live, live until one has died, and are told apart from those that run later.
    """
    with mark.open("a") as file:
        file.write("started\n")
    dead, alive = mark.with_name("dead"), mark.with_name("alive")
    if mark.name.startswith("always") or (mark.name.startswith("once") and mark.read_text().count("\n") == 1):
        for _ in range(600):
            if alive.exists():
                break
            time.sleep(0.1)
        dead.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if mark.name.startswith("never"):
        alive.touch()
        for _ in range(600):
            if dead.exists():
                break
            time.sleep(0.1)
        time.sleep(0.5)  # a worker that is ended with the dead one does not come so far
        mark.with_name("lived").touch()
        return mark.name
    return f"{mark.name}, alone: {mark.with_name('lived').exists()}"


def named(marker: Path) -> Path:
    """Return a marker of another name."""
    return marker.with_name("again")


def die_unless_again(marker: Path) -> str:
    """End the worker, unless the task is one that was given again."""
    if marker.name != "again":
        os.kill(os.getpid(), signal.SIGKILL)
    return marker.name


class Circle:
    """Refers to itself, so that only the collector frees it; says so in a file."""

    def __init__(self, gone: Path) -> None:
        self.myself = self
        self.gone = gone

    def __del__(self) -> None:
        self.gone.touch()


def leave_circle(gone: Path) -> bool:
    """Return whether that of the call before is gone, where Python does not collect by itself."""
    gc.disable()
    was_gone = gone.exists()
    Circle(gone)
    time.sleep(1.1)
    return was_gone


def tick(folder: Path) -> None:
    """Touch a file again and again, for a minute."""
    for _ in range(600):
        (folder / f"{os.getpid()}").touch()
        time.sleep(0.1)


def surroundings(name: str) -> tuple[str | None, str, str]:
    """Return a variable of the environment, the folder, and where modules are looked for first."""
    return os.environ.get(name), os.getcwd(), sys.path[0]


def imported(name: str) -> bool:
    """Tell whether a module was there before this function was called."""
    return name in sys.modules


def meet(mark: Path) -> str:
    """Leave a mark; a task whose name begins with "long" ends only when that of "late" is there."""
    mark.touch()
    if mark.name.startswith("long"):
        for _ in range(600):
            if mark.with_name("late").exists():
                return f"{mark.name}, met late"
            time.sleep(0.1)
    return mark.name
