"""Writes files of the data folder, and keeps its manifest."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path

from greendc.traces.manifest import MANIFEST, Entry, format_manifest, read_manifest
from sb3_greendc.core.files import atomic_write


def pack(text: bytes) -> bytes:
    """Compress with gzip, without a time or a name in it: the same text and zlib give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(text)
    return buffer.getvalue()


def ship(folder: Path, files: Mapping[Entry, bytes]) -> None:
    """Write files into a data folder, and their entries into its manifest; other entries stay.

    :param folder: the data folder; it and its manifest are made if they are not there
    :param files: what each entry's file shall hold
    :raises TraceError: if the folder's manifest is damaged (nothing is written then)
    """
    entries = read_manifest(folder) if (folder / MANIFEST).exists() else {}
    for entry, data in files.items():
        with atomic_write(folder / entry.file) as file:
            file.write(data)
        entries[entry.file] = entry
    with atomic_write(folder / MANIFEST) as file:
        file.write(format_manifest(entries.values()).encode())
