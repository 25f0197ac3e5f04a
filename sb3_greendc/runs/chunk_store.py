"""Large arrays on disk in chunks that are named by their content, so that nothing is written twice.

A replay buffer of gigabytes changes by a few megabytes between two checkpoints. Cut into chunks at fixed
places, all but a few of its chunks are files that are there already.
"""

from __future__ import annotations

import errno
import hashlib
import zlib
from collections.abc import Iterable
from pathlib import Path

from sb3_greendc.core.files import atomic_write

CHUNK = 1 << 23
"""Bytes in a chunk."""
_SAMPLE = 1 << 16


class ChunkStore:
    """A folder of chunks. The name of each is the SHA-256 of its content, which is checked on reading.

    :param folder: created with the first chunk
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._whole: dict[str, tuple[int, int]] = {}

    def put(self, array: memoryview) -> list[str]:
        """Write what is not there yet, or damaged, and return the names of the chunks of an array.

        A chunk is read and compared with its checksum after it is written, or before it is relied upon
        for the first time; later only if the file has changed since.

        :param array: its bytes
        :raises OSError: if a file cannot be written, or is not read as it was written
        """
        names = []
        for start in range(0, len(array), CHUNK):
            chunk = array[start : start + CHUNK]
            name = hashlib.sha256(chunk).hexdigest()
            if not self._is_whole(name):
                with atomic_write(self.folder / name) as file:
                    file.write(pack(chunk))
                if not self._is_whole(name):
                    raise OSError(errno.EIO, "what was written is read otherwise", str(self.folder / name))
            names.append(name)
        return names

    def get(self, names: Iterable[str], size: int) -> bytearray:
        """Return the bytes of an array.

        :param names: as :meth:`put` returned them
        :param size: of the array
        :raises OSError: if a chunk is missing
        :raises ValueError: if a chunk is not what its name says
        """
        array = bytearray(size)
        start = 0
        for name in names:
            chunk = self._read(name)
            if chunk is None:
                raise ValueError(f"{self.folder / name} does not match its checksum")
            array[start : start + len(chunk)] = chunk
            start += len(chunk)
        return array

    def _is_whole(self, name: str) -> bool:
        """Tell whether a chunk is there and what its name says; it is read once in each of its versions."""
        try:
            return self._whole.get(name) == self._stamp(name) or self._read(name) is not None
        except OSError:  # missing, or of a part of the disk that cannot be read
            return False

    def _read(self, name: str) -> bytes | None:
        """Return the content of a chunk, ``None`` if it is damaged."""
        stamp = self._stamp(name)
        try:
            chunk = unpack((self.folder / name).read_bytes())
        except zlib.error:
            chunk = b""
        if hashlib.sha256(chunk).hexdigest() != name:
            self._whole.pop(name, None)
            return None
        self._whole[name] = stamp
        return chunk

    def _stamp(self, name: str) -> tuple[int, int]:
        stat = (self.folder / name).stat()
        return stat.st_size, stat.st_mtime_ns

    def keep(self, names: Iterable[str]) -> None:
        """Remove all chunks but these, and what a killed process left of one that it was writing."""
        kept = set(names)
        if not self.folder.is_dir():
            return
        for path in self.folder.iterdir():
            if path.name not in kept:
                path.unlink()
        if not kept:
            self.folder.rmdir()


def pack(data: bytes | memoryview) -> bytes:
    """Return data compressed, if a sample says that it pays, with a first byte that says whether it is.

    Simulators' arrays are mostly zeros, and become a hundred times smaller; weights and observations in
    floating point would take time for nothing.
    """
    middle = max(0, len(data) - _SAMPLE) // 2
    sample = data[middle : middle + _SAMPLE]
    if len(zlib.compress(sample, 1)) < 0.7 * len(sample):
        return b"z" + zlib.compress(data, 1)
    return b"r" + bytes(data)


def unpack(data: bytes) -> bytes:
    """Return what :func:`pack` was given.

    :raises zlib.error: if it is damaged
    """
    return zlib.decompress(data[1:]) if data[:1] == b"z" else data[1:]
