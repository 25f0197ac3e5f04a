"""The lock of a journal file, which a worker that was killed does not take with it.

Optuna's own lock is a symbolic link, which every shared file system makes in one step. It is left behind by a
process that dies while it writes: Optuna 4.0 then waits for ever, later versions for 30 seconds. This one
names its holder, so that the lock of a process of this machine that is dead is taken away at once. And
whoever gets it removes what the one before, killed or on a full disk, left of its last line: appended to, it
would spoil the journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from optuna.storages.journal import JournalFileSymlinkLock

from sb3_greendc.core import ownership

if sys.platform != "win32":
    import fcntl

GRACE_SECONDS = 30.0
"""A lock that has not changed hands for so long is taken away, wherever its holder is: appending to the
journal takes milliseconds."""
_LONGEST_PAUSE = 0.05
_BEGINNING = b'{"op_code":'
"""How the first entry of a journal begins, and so the journal."""


def require_journal(path: Path) -> None:
    """Check that a file is a journal, or an empty one to be.

    :raises ValueError: if it is something else
    """
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        found = file.read(len(_BEGINNING))
        if not _BEGINNING.startswith(found):
            raise ValueError(f"storage {path}: not a journal file")


class JournalLock(JournalFileSymlinkLock):
    """Held by one thread of one process at a time, on every machine that sees the file.

    :param path: of the journal
    :param grace_seconds: after which the lock of a silent holder is taken away
    """

    def __init__(self, path: Path, grace_seconds: float = GRACE_SECONDS) -> None:
        super().__init__(str(path))
        self.path = path.absolute()
        self.folder = self.path.parent
        self.link = self.path.with_name(path.name + ".lock")
        self.grace_seconds = grace_seconds
        self._mine = ""

    def acquire(self) -> bool:
        """Wait for the lock and take it.

        :raises OSError: if links cannot be made there, or the journal cannot be mended
        :raises ValueError: if the file is no journal
        """
        mine = json.dumps({**ownership.claim(), "lock": uuid.uuid4().hex})
        pause, seen, since = 0.001, "", time.monotonic()
        while True:
            try:
                os.symlink(mine, self.link)
            except FileExistsError:
                holder = self._holder()
                if holder != seen:
                    seen, since = holder, time.monotonic()
                silent = time.monotonic() - since > self.grace_seconds
                if holder and (silent or _is_dead(holder)):
                    self._take_away(holder)
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._mine = mine
                try:
                    self._drop_torn_line()
                except BaseException:  # a full disk, Ctrl-C
                    self.release()
                    raise
                return True

    def release(self) -> None:
        """Give the lock back.

        :raises RuntimeError: if it was taken away meanwhile
        """
        if self._holder() != self._mine:
            raise RuntimeError(f"{self.link}: was taken away from this process")
        self.link.unlink()

    def _holder(self) -> str:
        """Return the holder of the lock; empty if there is none."""
        try:
            return os.readlink(self.link)
        except FileNotFoundError:
            return ""

    def _drop_torn_line(self) -> None:
        """Cut the journal after its last whole line; no reader took the rest for an entry."""
        require_journal(self.path)
        with contextlib.suppress(FileNotFoundError), self.path.open("rb+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            if file.read() in (b"", b"\n"):
                return
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.flush()
            os.fsync(file.fileno())

    def _take_away(self, holder: str) -> None:
        """Remove the lock of this holder, but not that of a later one.

        Between looking and removing, another process might take the dead one's lock away and hold its own:
        processes of one machine do so one at a time.
        """
        with _one_at_a_time(self.folder):
            if self._holder() == holder:
                self.link.unlink(missing_ok=True)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Exclude other processes of this machine; the system ends that when a process dies."""
    if sys.platform == "win32":  # there no process is known to be dead either
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without such locks: the window is microseconds
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_dead(holder: str) -> bool:
    try:
        claimed = json.loads(holder)
    except ValueError:  # made by Optuna's own lock, which names no holder
        return False
    return isinstance(claimed, dict) and ownership.is_dead(claimed)
