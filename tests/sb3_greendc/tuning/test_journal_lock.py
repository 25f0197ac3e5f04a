"""The journal's lock: one holder at a time, and the dead hold nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from programs import run_python

from sb3_greendc.core import ownership
from sb3_greendc.tuning.journal_lock import JournalLock

DIE_WITH_IT = (
    "import os, sys; from pathlib import Path; from sb3_greendc.tuning.journal_lock import JournalLock; "
    "JournalLock(Path(sys.argv[1])).acquire(); os._exit(1)"
)

ENTRY = b'{"op_code":0,"worker_id":"w"}\n'


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.log"


def hold(journal: Path, **changes: object) -> None:
    """Leave a lock of this process, its claim changed so."""
    os.symlink(json.dumps({**ownership.claim(), "lock": "x", **changes}), f"{journal}.lock")


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_lock_of_a_process_that_was_killed_is_taken_at_once(journal: Path) -> None:
    assert run_python("-c", DIE_WITH_IT, journal).returncode == 1
    assert os.path.lexists(f"{journal}.lock")
    started = time.monotonic()
    lock = JournalLock(journal)
    assert lock.acquire()
    assert time.monotonic() - started < 5
    lock.release()
    assert not os.path.lexists(f"{journal}.lock")


@pytest.mark.parametrize("elsewhere", [{}, {"host": "elsewhere"}, {"boot": "a container"}])
def test_holder_that_may_live_is_waited_for(journal: Path, elsewhere: dict[str, str]) -> None:
    hold(journal, **elsewhere, pid=dead_pid() if elsewhere else os.getpid())
    started = time.monotonic()
    assert JournalLock(journal, grace_seconds=0.3).acquire()
    assert 0.3 < time.monotonic() - started < 5


def test_lock_of_a_later_holder_stays(journal: Path) -> None:
    hold(journal, pid=dead_pid())
    lock = JournalLock(journal)
    seen = lock._holder()
    assert JournalLock(journal).acquire()  # between this look and the removal
    lock._take_away(seen)
    assert os.path.lexists(f"{journal}.lock")


def test_lock_of_optuna_is_waited_for(journal: Path) -> None:
    os.symlink(journal, f"{journal}.lock")
    started = time.monotonic()
    assert JournalLock(journal, grace_seconds=0.3).acquire()
    assert time.monotonic() - started > 0.3


def test_lock_that_was_taken_away_is_not_given_back(journal: Path) -> None:
    slow, quick = JournalLock(journal), JournalLock(journal, grace_seconds=0.1)
    slow.acquire()
    quick.acquire()
    with pytest.raises(RuntimeError, match="was taken away"):
        slow.release()
    quick.release()


def test_one_holder_at_a_time_after_a_death(journal: Path) -> None:
    hold(journal, pid=dead_pid())
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        lock = JournalLock(journal)
        for _ in range(20):
            lock.acquire()
            inside += 1
            most = max(most, inside)
            time.sleep(0.0005)
            inside -= 1
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (ENTRY + b"b\n", ENTRY + b"b\n"),
        (ENTRY + b"b\n{torn", ENTRY + b"b\n"),
        (ENTRY[:-1], b""),
        (b'{"op', b""),
    ],
)
def test_torn_last_line_is_dropped(journal: Path, before: bytes, after: bytes) -> None:
    journal.write_bytes(before)
    JournalLock(journal).acquire()
    assert journal.read_bytes() == after


@pytest.mark.parametrize("content", [b"notes\nof mine", b"one line", b'{"op": 1}\n'])
def test_file_that_is_no_journal_stays_as_it_is(journal: Path, content: bytes) -> None:
    journal.write_bytes(content)
    with pytest.raises(ValueError, match=r"journal\.log: not a journal file"):
        JournalLock(journal).acquire()
    assert journal.read_bytes() == content
    assert not os.path.lexists(f"{journal}.lock")


def test_lock_is_given_back_if_the_journal_cannot_be_mended(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError("No space left on device")

    journal.write_bytes(ENTRY[:-1])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        JournalLock(journal).acquire()
    assert not os.path.lexists(f"{journal}.lock")


def test_folder_that_takes_no_lock() -> None:
    with pytest.raises(OSError, match="/proc"):
        JournalLock(Path("/proc/journal.log")).acquire()
