"""Files that are whole or absent: written beside their place, then moved into it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

if sys.platform != "win32":
    import fcntl

PART = ".part"
"""How the names of files end that are being written; they begin with a dot."""
_PIECE = 1 << 20
_ROOM = 1 << 20
_OF_OUTPUT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


class RescuedError(OSError):
    """What should have been written to one place was written to another; the message names both."""


def is_output_error(error: OSError) -> bool:
    """Tell whether an error says that a disk takes no more: full, over a limit, read-only, or broken."""
    return isinstance(error, RescuedError) or error.errno in _OF_OUTPUT


def require_room(folder: Path, name: str = "--out") -> None:
    """Check, before the work, that files can be written to a folder: a megabyte is, and removed again.

    :param folder: created if missing
    :param name: of the argument, for the message
    :raises OSError: if it cannot be made or written, or its disk is full
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=".room.", suffix=PART)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(_ROOM))
        finally:
            os.unlink(path)
    except OSError as error:
        problem = OSError(f"{name} {folder}: cannot be written: {error.strerror or error}")
        problem.errno = error.errno
        raise problem from error


def write_or_rescue(write: Callable[[Path], object], path: Path, what: str) -> None:
    """Write what took long to make; where the disk does not take it, write it elsewhere and say where.

    Other places are new folders in the working folder, the home folder and the system's folder for temporary
    files, the first that takes it.

    :param write: writes to the path that it is given
    :param path: where it belongs
    :param what: what it is, for the message
    :raises RescuedError: if it was written elsewhere
    :raises OSError: if no place takes it
    """
    try:
        write(path)
        return
    except OSError as error:
        first = error
    for parent in _other_places():
        folder: Path | None = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="greendc-rescued-", dir=parent))
            write(folder / path.name)
        except OSError:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        reason = first.strerror or str(first)
        raise RescuedError(f"{path}: {reason}; {what} is in {folder / path.name}") from first
    raise first


def _other_places() -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield Path.cwd()
    with contextlib.suppress(RuntimeError):  # there is no home here
        yield Path.home()
    with contextlib.suppress(OSError):
        yield Path(tempfile.gettempdir())


def user_cache() -> Path:
    """Return the user's folder for caches: ``XDG_CACHE_HOME``, else ``.cache`` in the home folder.

    A user that the system does not know, as in containers, has the root folder for home.
    """
    try:
        home = Path.home()
    except RuntimeError:
        home = Path(os.sep)
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file in the folder of ``path``; it becomes ``path`` if the block ends well.

    A reader, or a run that is interrupted, never sees half a file. Missing folders are created. What a
    killed process leaves is removed by :func:`sweep`.

    :param path: the file to write or replace
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = _temporary(path)
    with os.fdopen(descriptor, "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())
            if sys.platform == "win32":  # where an open file cannot be renamed
                file.close()
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):  # a full disk does not take what is left to be written either
                file.close()
            os.unlink(name)
            raise


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal, read piece by piece."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically; paths and other objects are written as their ``str``."""
    with atomic_write(path) as file:
        file.write((json.dumps(value, indent=2, default=str) + "\n").encode())


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder to be filled and then renamed; it is removed at the end if it is still there.

    What a killed process leaves is removed by :func:`sweep`.

    :param parent: created if missing
    """
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=".unfinished-", suffix=PART))
        descriptor = None
        if sys.platform != "win32":
            with contextlib.suppress(OSError):  # as in _temporary
                descriptor = os.open(folder, os.O_RDONLY)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            break
        if descriptor is not None:
            os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def sweep(folder: Path) -> list[Path]:
    """Remove what killed processes left of files and folders that they were writing, and return it.

    What is being written is locked by its writer, and stays. Nothing is removed where the system or the file
    system has no such locks.

    :param folder: where the files are; not those below it
    """
    removed: list[Path] = []
    if sys.platform == "win32":
        return removed
    for path in folder.glob(f".*{PART}"):
        with contextlib.suppress(OSError):  # another process removes it, or writes it
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                removed.append(path)
            finally:
                os.close(descriptor)
    return removed


def _temporary(path: Path) -> tuple[int, str]:
    """Return an open file beside a path, locked, that :func:`sweep` leaves alone as long as it is open."""
    while True:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART)
        if sys.platform != "win32":
            with contextlib.suppress(OSError):  # a file system without such locks, where nothing is swept
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not os.path.exists(name):  # swept between the two
                os.close(descriptor)
                continue
        return descriptor, name


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
