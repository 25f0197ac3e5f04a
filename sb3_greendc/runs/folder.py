"""The folder of a run: one writer at a time, and files that belong together or say that they do not.

:data:`MANIFEST` holds size and SHA-256 of every result file and is written last. Before anything is replaced
or removed it says that the folder is unfinished. So a process that is killed between two files leaves a
folder that readers refuse and ``--resume`` completes. A folder without a manifest, of an older version or of
another program, is read as it is.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sb3_greendc.core import ownership
from sb3_greendc.core.files import require_room, sha256_of, sweep, write_json

if sys.platform != "win32":
    import fcntl

MANIFEST = "MANIFEST.json"
LOCK = ".lock"

_FORMAT = "sb3-greendc run, version 1"
_UNFINISHED = (
    "a process was stopped while it wrote the files of the run; --resume goes on from its checkpoints, "
    "--overwrite starts from scratch"
)
_PIECE = 1 << 20
_PATIENCE, _PAUSE = 10.0, 0.02
"""Seconds for which the lock of a dead owner is waited for: a process that it was starting (``git``) has a
copy of it until it runs its own program."""


class FolderInUseError(ValueError):
    """Another process writes into the folder; the message names it."""


class UnfinishedRunError(ValueError):
    """The files of a run do not belong together; the message says which one, or that writing was stopped."""


@contextlib.contextmanager
def locked(folder: Path, name: str = "--out") -> Iterator[None]:
    """Keep a folder for this process alone, and remove what killed processes left half written in it.

    The operating system frees the lock of a process that dies. Where the file system has no such locks, the
    lock's file is what counts: that of a dead process of this machine is taken over.

    :param folder: created if missing, and removed if it is then left empty
    :param name: of the argument, for the message
    :raises FolderInUseError: if another process has the lock
    :raises OSError: if the folder cannot be written, or its disk is full
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    path = folder / LOCK
    try:
        require_room(folder, name)
        descriptor = _take(path, name)
        try:
            sweep(folder)
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)
    finally:
        for one in made:
            try:
                one.rmdir()
            except OSError:  # it holds something, or was never made
                break


@contextlib.contextmanager
def transaction(folder: Path) -> Iterator[None]:
    """Write the results of a run: the files that the block writes into the folder become its results.

    While the block runs, and for good if it does not end well, the folder counts as unfinished.

    :param folder: created if missing
    """
    folder.mkdir(parents=True, exist_ok=True)
    _begin(folder)
    before = _stamps(folder)
    yield
    written = sorted(name for name, stamp in _stamps(folder).items() if before.get(name) != stamp)
    files = {name: _entry(folder / name) for name in written}
    write_json(folder / MANIFEST, {"format": _FORMAT, "finished": True, "files": files})


def discard(folder: Path, names: tuple[str, ...] = ()) -> None:
    """Remove the results of a run that is to be overwritten; it is unfinished until there are new ones.

    :param folder: of the run
    :param names: of files to remove, or patterns for them, beside those of its manifest
    """
    found = [folder / name for name in _known(folder)]
    found += [path for name in names for path in folder.glob(name)]
    if any(path.exists() for path in found):
        _begin(folder)
    for path in found:
        path.unlink(missing_ok=True)


def check_manifest(folder: Path, name: str | None = None) -> None:
    """Compare the results of a run with their manifest; a folder without one passes.

    :param folder: of the run
    :param name: of the file that is wanted; one that the manifest of a finished run does not list passes
    :raises UnfinishedRunError: if the run is unfinished, or a file is not the one that was written with the
        others
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return
    if not manifest.get("finished"):
        raise UnfinishedRunError(f"{folder}: unfinished: {_UNFINISHED}")
    files = _listed(manifest)
    if name is not None and name not in files:
        return
    for one, expected in files.items():
        path = folder / one
        try:
            size = path.stat().st_size
        except FileNotFoundError as error:
            raise UnfinishedRunError(f"{path}: missing, though {MANIFEST} lists it") from error
        if size != expected["bytes"] or _entry(path) != expected:
            raise UnfinishedRunError(
                f"{path}: damaged, or of another run: it is not the file that {MANIFEST} lists"
            )


def is_finished(folder: Path, *needed: str) -> bool:
    """Tell whether a folder holds the results of a run, all of them and as they were written.

    :param folder: of the run
    :param needed: files that a folder without a manifest must have
    """
    if not all((folder / name).is_file() for name in needed):
        return False
    try:
        check_manifest(folder)
    except UnfinishedRunError:
        return False
    return True


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a run's folder, ``None`` if it has none.

    :raises UnfinishedRunError: if it is damaged
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise UnfinishedRunError(f"{path}: damaged: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise UnfinishedRunError(f"{path}: not a manifest of the format {_FORMAT!r}")
    return manifest


def _listed(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the files of a manifest; names that lead out of the folder are none."""
    files = manifest.get("files", {})
    return {
        name: entry for name, entry in files.items() if Path(name).name == name and name not in (".", "..")
    }


def _begin(folder: Path) -> None:
    """Say that the folder is unfinished, and still of which files."""
    write_json(folder / MANIFEST, {"format": _FORMAT, "finished": False, "files": _known(folder)})


def _known(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the files of the folder's manifest; none where that is missing or damaged."""
    try:
        return _listed(read_manifest(folder) or {})
    except UnfinishedRunError:
        return {}


def _stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return what tells whether a file of the folder is another one than before."""
    stamps = {}
    for path in folder.iterdir():
        if path.is_file() and not path.name.startswith(".") and path.name != MANIFEST:
            stat = path.stat()
            stamps[path.name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return stamps


def _entry(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _take(path: Path, name: str) -> int:
    """Take the lock and return the descriptor of its file, with this process's name in it."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            free = _lock(descriptor)
            if not free and (time.monotonic() > deadline or not ownership.is_dead(_read_owner(descriptor))):
                raise FolderInUseError(_in_use(path, name))
            if free and _is_at(descriptor, path):  # and not one that its last owner has just removed
                owner = {
                    **ownership.claim(),
                    "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                }
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(owner).encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not free:
            time.sleep(_PAUSE)


def _lock(descriptor: int) -> bool:
    """Take the system's lock on an open file; return whether it was free."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        else:
            return True
    owner = _read_owner(descriptor)
    return not owner or ownership.is_dead(owner)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _read_owner(descriptor: int) -> dict[str, Any]:
    try:
        owner = json.loads(os.pread(descriptor, _PIECE, 0))
    except ValueError:  # it has not written its name yet
        return {}
    return owner if isinstance(owner, dict) else {}


def _in_use(path: Path, name: str) -> str:
    owner: dict[str, Any] = {}
    with contextlib.suppress(OSError), path.open("rb") as file:
        owner = _read_owner(file.fileno())
    said = f"process {owner.get('pid', '?')} on {owner.get('host', '?')}, since {owner.get('since', '?')}"
    return f"{name} {path.parent}: in use by {said}"
