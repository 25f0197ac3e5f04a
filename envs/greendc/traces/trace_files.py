"""The bytes of a trace file, unpacked and of a bounded size, and the errors that all readers raise."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

MOST_BYTES = 1 << 30
"""The largest trace that is read, unpacked, in bytes."""

_GZIP = 31  # zlib's window bits for a gzip header and trailer, with the checksum compared


class TraceError(ValueError):
    """A trace file that is missing, damaged or not what it should be."""


class UnclearTraceError(TraceError):
    """A trace file that can be read once its reader is told how.

    :param problem: what is not clear
    :param options: keyword arguments of the reader, any of which would tell it
    """

    def __init__(self, problem: str, *options: str) -> None:
        super().__init__(problem, *options)
        self.problem, self.options = problem, options

    def __str__(self) -> str:
        return self.with_options(f"{option}=..." for option in self.options)

    def with_options(self, options: Iterable[str]) -> str:
        """Return the message, with the options by the names that they have for the user."""
        return f"{self.problem}: say {' or '.join(options)}"


def read_file(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Return what the file holds, unpacked if its name ends in ``.gz``.

    :param path: the file
    :param most: bytes that it may hold, unpacked
    :raises TraceError: if the file is missing, unreadable, empty, too large or cut short
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None
    return unpack(data, str(path), most)


def unpack(data: bytes, name: str, most: int = MOST_BYTES) -> bytes:
    """Return ``data``, unpacked if ``name`` ends in ``.gz``; errors as for :func:`read_file`.

    A packed file is read as a whole or refused: its checksum tells that nothing is missing.
    """
    if name.endswith(".gz"):
        data = _gunzip(data, name, most)
    if len(data) > most:
        raise TraceError(f"{name}: larger than {_size(most)}; a trace must not be")
    if not data:
        raise TraceError(f"{name}: the file is empty")
    return data


def _gunzip(data: bytes, name: str, most: int) -> bytes:
    """Unpack all members of a gzip file, but never more than a byte above ``most``."""
    parts: list[bytes] = []
    room = most + 1
    while data and room:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            part = unpacker.decompress(data, room)
        except zlib.error as error:
            raise TraceError(f"{name}: truncated or damaged gzip file ({error})") from None
        parts.append(part)
        room -= len(part)
        if room and not unpacker.eof:
            raise TraceError(f"{name}: truncated or damaged gzip file (its end is missing)")
        data = unpacker.unused_data.lstrip(b"\0")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _size(count: int) -> str:
    return f"{count / 2**30:g} GiB" if count >= 2**30 else f"{count / 2**20:g} MiB"
