"""How long the tasks that are left will take, told only once enough of them were measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sb3_greendc.experiments.tasks import Task

ROUNDS = 2
"""Tasks of each process that must be finished before a time is told."""


class Pace:
    """What finished tasks say of the others.

    A task's own guess (:meth:`~sb3_greendc.experiments.tasks.Task.seconds`) only says how it compares with
    others of its kind; the finished ones say how long that is. How fast the machine gets through them, beside
    whatever else it does, is measured on the clock.

    :param at_once: tasks that run side by side
    :param clock: in seconds
    """

    def __init__(self, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.at_once = at_once
        self._clock = clock
        self._started = clock()
        self._kinds: dict[tuple[type, str], list[float]] = {}
        self._finished = 0
        self._seconds = 0.0

    def know(self, task: Task, seconds: float) -> None:
        """Take note of what a task took, in this run or in an earlier one."""
        known = self._kinds.setdefault(_kind(task), [0.0, 0.0])
        known[0] += seconds
        known[1] += task.seconds()

    def finish(self, task: Task, seconds: float) -> None:
        """Take note of a task that was finished in this run.

        :param task: the task
        :param seconds: processor time that it took
        """
        self.know(task, seconds)
        self._finished += 1
        self._seconds += seconds

    def left(self, tasks: Sequence[Task]) -> float | None:
        """Return the seconds that tasks will take.

        ``None`` while fewer than :data:`ROUNDS` tasks of each process are finished, and where a task is of a
        kind of which none is.
        """
        if self._finished < ROUNDS * self.at_once or not self._seconds:
            return None
        expected = []
        for task in tasks:
            took, guessed = self._kinds.get(_kind(task), (0.0, 0.0))
            if not guessed:
                return None
            expected.append(task.seconds() * took / guessed)
        slower = (self._clock() - self._started) / self._seconds  # on the clock, for a second's work
        return max(sum(expected) * slower, max(expected, default=0.0))


def _kind(task: Task) -> tuple[type, str]:
    """Return what tasks must share to be compared: what they do, and who does it."""
    return type(task), task.title.partition(" ")[0]
