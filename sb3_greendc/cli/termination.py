"""SIGTERM and SIGHUP, by which queues and lost connections end a process, as Ctrl-C: what is done stays."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator
from typing import Any

TERMINATED = 143
"""Exit code of a command that one of these signals ended, when what it had done is kept; the shells' own for
SIGTERM."""


@contextlib.contextmanager
def interrupted_by_term() -> Iterator[list[int]]:
    """Let the first SIGTERM or SIGHUP raise ``KeyboardInterrupt``, and have no effect any more after that.

    A SIGHUP that is to be ignored, as ``nohup`` wants it, stays so. Processes that are forked meanwhile end
    by the signal, as they do without this. Threads other than the main one cannot handle signals: there,
    nothing is changed.

    :return: signals that came, none or one
    """
    came: list[int] = []
    owner = os.getpid()

    def interrupt(signum: int, frame: Any) -> None:
        if os.getpid() != owner:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        elif not came:
            came.append(signum)
            _leave_dead_terminal()
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, interrupt) for number in _signals()}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> list[signal.Signals]:
    hang_up: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
    if hang_up is None or signal.getsignal(hang_up) == signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, hang_up]


def _leave_dead_terminal() -> None:
    """Drop what is still printed to a terminal that has gone: no error may come while results are saved."""
    if not hasattr(select, "poll"):
        return
    for descriptor in (1, 2):
        output = select.poll()
        output.register(descriptor, 0)
        if any(event & select.POLLHUP for _, event in output.poll(0)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
