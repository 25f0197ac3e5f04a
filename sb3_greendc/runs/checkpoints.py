"""Checkpoints on disk: written whole or not at all, checked when they are read, the last two kept.

A file begins with one line of JSON (``head -1 FILE`` shows of what run it is, and of which step), goes on
with the state as JSON and the arrays that it refers to, and ends with the SHA-256 of everything before.
Arrays of more than :data:`IN_CHUNKS` bytes, such as those of replay buffers, lie in ``chunks/`` beside it,
and what has not changed since the last checkpoint is not written again. A checkpoint lives as long as its
chunks do: the folder is to be copied as a whole.

The first line is compared with the run at hand before anything else is read. Nothing is unpickled: a file
holds numbers and text, and cannot run code.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sb3_greendc.core.files import atomic_write
from sb3_greendc.runs.chunk_store import ChunkStore, pack, unpack

KEPT = 2
"""Checkpoints that stay: the newest, and the one before, should the newest be damaged."""
IN_CHUNKS = 1 << 24
"""Bytes of an array from which on it is written in chunks."""

_FORMAT = "sb3-greendc checkpoint, version 2"
_DIGEST_SIZE = hashlib.sha256().digest_size


class CheckpointError(RuntimeError):
    """A checkpoint could not be made or written; the message says why."""


class DamagedError(ValueError):
    """A file is not a whole checkpoint."""


@dataclass(frozen=True)
class State:
    """A state in one piece of data, with its arrays beside it.

    :param data: what :func:`sb3_greendc.runs.trees.pack_tree` makes
    :param arrays: the memory of the arrays as bytes, in the order in which the data refer to them
    """

    data: bytes
    arrays: Sequence[memoryview]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as read from disk.

    :param path: its file
    :param step: environment steps that had been taken
    :param identity: what run it belongs to
    :param versions: versions of the packages that wrote it
    :param state: what :mod:`sb3_greendc.runs.training_state` makes of a run
    """

    path: Path
    step: int
    identity: Mapping[str, Any]
    versions: Mapping[str, str]
    state: State


class CheckpointFolder:
    """The checkpoints of one run. Nothing else may write into the folder.

    :param folder: created with the first checkpoint
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chunks = ChunkStore(folder / "chunks")

    def paths(self) -> list[Path]:
        """Return the checkpoints, newest first."""
        return sorted(self.folder.glob("step_*.ckpt"), reverse=True)

    def write(
        self, step: int, identity: Mapping[str, Any], versions: Mapping[str, str], state: State
    ) -> Path:
        """Write a checkpoint, and then remove those that are no longer needed.

        :param step: environment steps taken so far; more than those of the checkpoints before
        :param identity: what the run is, in values that JSON can hold
        :param versions: of packages
        :param state: what to write
        :raises CheckpointError: if it cannot be written, say because the disk is full; those before it
            are as they were
        """
        path = self.folder / f"step_{step:012d}.ckpt"
        header = {
            "format": _FORMAT,
            "step": step,
            "identity": comparable(identity),
            "versions": dict(versions),
        }
        try:
            self._write(path, header, state)
            _sync_folder(self.folder)
            for later in self.paths():
                if later > path:  # damaged, or the run would have gone on from it
                    later.unlink()
            self._tidy()
        except OSError as error:
            with contextlib.suppress(OSError):
                self._tidy()
            raise CheckpointError(
                f"checkpoint {path}: {error.strerror or error}; the checkpoints before it are intact"
            ) from error
        return path

    def _write(self, path: Path, header: dict[str, Any], state: State) -> None:
        parts = [pack(state.data)]
        arrays: list[dict[str, Any]] = []
        for array in state.arrays:
            if len(array) >= IN_CHUNKS:
                arrays.append({"bytes": len(array), "chunks": self.chunks.put(array)})
            else:
                parts.append(pack(array))
                arrays.append({"bytes": len(array), "packed": len(parts[-1])})
        line = json.dumps({**header, "packed": len(parts[0]), "arrays": arrays}) + "\n"
        digest = hashlib.sha256()
        with atomic_write(path) as file:
            for part in (line.encode(), *parts):
                file.write(part)
                digest.update(part)
            file.write(digest.digest())
        if _body(path) is None:
            path.unlink()
            raise OSError(errno.EIO, "what was written is read otherwise")

    def read(self, path: Path) -> Checkpoint:
        """Read and check one checkpoint of the folder.

        :raises DamagedError: if it is not whole
        """
        try:
            body = _body(path)
        except OSError as error:
            raise DamagedError(error.strerror or str(error)) from error
        if body is None:
            raise DamagedError("its checksum does not match")
        line, _, packed = body.partition(b"\n")
        header = json.loads(line)
        if header["format"] != _FORMAT:
            raise DamagedError(f"it has another format: {header['format']}")
        at = header["packed"]
        data = unpack(packed[:at])
        arrays = []
        for array in header["arrays"]:
            if "chunks" in array:
                try:
                    arrays.append(memoryview(self.chunks.get(array["chunks"], array["bytes"])))
                except (OSError, ValueError) as error:
                    raise DamagedError(f"one of its chunks is: {error}") from error
            else:
                arrays.append(memoryview(bytearray(unpack(packed[at : at + array["packed"]]))))
                at += array["packed"]
        return Checkpoint(path, header["step"], header["identity"], header["versions"], State(data, arrays))

    def latest(self, identity: Mapping[str, Any], report: Callable[[str], None]) -> Checkpoint | None:
        """Return the newest whole checkpoint, ``None`` if there is none at all.

        What a killed process left unfinished, or had no time to remove, is removed: the run that goes on may
        not write another checkpoint.

        :param identity: of the run that wants to go on
        :param report: told of each damaged file that is passed over
        :raises ValueError: if the checkpoint is of another run, or all of them are damaged
        :raises OSError: if leftovers cannot be removed
        """
        paths = self.paths()
        for path in paths:
            try:
                checkpoint = self.read(path)
            except DamagedError as error:
                report(f"checkpoint {path} is damaged: {error}")
                continue
            require_same_run(f"checkpoint {path}", checkpoint.identity, identity)
            if path != paths[0]:
                report(f"going back to the checkpoint before it, {path.name}")
            if path in paths[:KEPT]:
                self._tidy()
            return checkpoint
        if paths:
            raise ValueError(f"no checkpoint in {self.folder} is whole ({len(paths)} damaged)")
        self._tidy()
        return None

    def clear(self) -> None:
        """Remove all checkpoints, and the folder if nothing else is in it."""
        for path in self.paths():
            path.unlink()
        self._tidy()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _tidy(self) -> None:
        """Remove old checkpoints, chunks that none refers to, and what a killed process left unfinished."""
        for torn in self.folder.glob(".step_*"):
            torn.unlink()
        paths = self.paths()
        for old in paths[KEPT:]:
            old.unlink()
        self.chunks.keep(name for path in paths[:KEPT] for name in _chunks_of(path))


def comparable(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an identity as it comes back from JSON, so that tuples and lists compare equal."""
    values: dict[str, Any] = json.loads(json.dumps(identity, default=str))
    return values


def _body(path: Path) -> bytes | None:
    """Return the content of a checkpoint without its checksum, ``None`` if that does not match."""
    content = path.read_bytes()
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    return body if hashlib.sha256(body).digest() == digest else None


def _chunks_of(path: Path) -> list[str]:
    """Return the names of the chunks that a checkpoint refers to; none if it is damaged."""
    with path.open("rb") as file:
        try:
            return [
                name for array in json.loads(file.readline())["arrays"] for name in array.get("chunks", ())
            ]
        except (KeyError, ValueError):
            return []


def require_same_run(source: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise a ``ValueError`` that names every difference between two identities.

    :param source: what holds the first, for the message
    :param there: the first
    :param here: the second
    """
    theirs, ours = _flat(comparable(there)), _flat(comparable(here))
    different = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    if different:
        said = "; ".join(f"{key}: {_said(theirs, key)} there, {_said(ours, key)} here" for key in different)
        raise ValueError(f"{source} is of another run: {said}")


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _said(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "not given"


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power failure, on systems that can open folders."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
