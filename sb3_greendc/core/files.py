"""Files that are whole or absent: written beside their place, then moved into it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file in the folder of ``path``; it becomes ``path`` if the block ends well.

    A reader, or a run that is interrupted, never sees half a file. Missing folders are created.

    :param path: the file to write or replace
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically; paths and other objects are written as their ``str``."""
    with atomic_write(path) as file:
        file.write((json.dumps(value, indent=2, default=str) + "\n").encode())


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
