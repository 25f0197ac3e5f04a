"""What an engine has still to start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Task = TypeVar("Task")


class TaskQueue(Generic[Task]):
    """Tasks that are still to be started, with their indices, in their order.

    :param tasks: all of them
    :param ready: see :func:`~sb3_greendc.core.engine.map_tasks`
    """

    def __init__(self, tasks: Sequence[Task], ready: Callable[[Task], Task | None]) -> None:
        self._ready = ready
        self._waiting = dict(enumerate(tasks))

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> tuple[int, Task] | None:
        """Take out the first task that waits for no other, and return it as it can be run."""
        for index, task in self._waiting.items():
            if (prepared := self._ready(task)) is not None:
                del self._waiting[index]
                return index, prepared
        return None

    def put_back(self, index: int, task: Task) -> None:
        """Take a task up again, behind the others."""
        self._waiting[index] = task
