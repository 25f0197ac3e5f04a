"""SIGTERM, by which queues and systems end a process, as Ctrl-C: what was done is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

TERMINATED = 143
"""Exit code of a command that SIGTERM ended, when what it had done is kept; the shells' own."""


@contextlib.contextmanager
def interrupted_by_term() -> Iterator[list[int]]:
    """Let the first SIGTERM raise ``KeyboardInterrupt``, and have no effect any more after that.

    Processes that are forked meanwhile end by the signal, as they do without this. Threads other than the
    main one cannot handle signals: there, nothing is changed.

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
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)
