"""The data folder and its manifest: what every shipped file is, whose it is, and that it is unaltered."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from greendc.config import from_mapping, nearest, require
from greendc.traces.trace_files import TraceError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MANIFEST = "MANIFEST.toml"
FOLDER_VARIABLE = "GREENDC_TRACES"

_HEADER = """\
# Every data file here: its checksum (compared whenever it is read), its license and where it is from.
# Written by scripts/fetch_traces.py.
"""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file of the data folder.

    :param file: path relative to the data folder, with forward slashes
    :param sha256: checksum of the file as it lies there
    :param license: under which it may be passed on
    :param attribution: whom to name
    :param source: where it is from and how it was made
    :param units: of each column
    :param time_zone: of its time stamps
    """

    file: str
    sha256: str
    license: str
    attribution: str
    source: str
    units: str
    time_zone: str

    def __post_init__(self) -> None:
        """Check every field."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            require(isinstance(value, str) and bool(value), field.name, value, "a text that is not empty")
        parts = self.file.split("/")
        require(
            not {"", ".", ".."} & set(parts) and "\\" not in self.file and ":" not in self.file,
            "file",
            self.file,
            "a path inside the data folder",
        )


def data_folder() -> Path:
    """Return the folder of the shipped data.

    The environment variable ``GREENDC_TRACES`` comes first, then the installed package's own copy, then
    the ``traces/`` of the checkout that an editable install points to.

    :raises TraceError: if there is none
    """
    variable = os.environ.get(FOLDER_VARIABLE)
    if variable:
        folder = Path(variable)
        if not (folder / MANIFEST).is_file():
            raise TraceError(f"{FOLDER_VARIABLE}={variable!r}: must be a folder that holds {MANIFEST}")
        return folder
    package = Path(__file__).resolve().parents[1]
    candidates = [package / "_data" / "traces", package.parents[1] / "traces"]
    for folder in candidates:
        if (folder / MANIFEST).is_file():
            return folder
    places = " or ".join(str(folder) for folder in candidates)
    raise TraceError(
        f"{MANIFEST} is neither in {places}: install the package again, or set {FOLDER_VARIABLE}"
    )


def read_manifest(folder: str | Path) -> dict[str, Entry]:
    """Read the manifest of a data folder.

    :param folder: the folder
    :return: entries by ``file``
    :raises TraceError: if it is missing, not TOML, or an entry has a missing, unknown or empty field
    """
    path = Path(folder) / MANIFEST
    try:
        document = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not TOML ({error})") from None
    entries: dict[str, Entry] = {}
    tables = document.pop("trace", [])
    if document or not isinstance(tables, list):
        raise TraceError(f"{path}: must hold [[trace]] tables and nothing else")
    for number, table in enumerate(tables, start=1):
        try:
            entry = from_mapping(Entry, table, owner=f"[[trace]] number {number}")
        except (TypeError, ValueError) as error:
            raise TraceError(f"{path}: [[trace]] number {number}: {error}") from None
        if entry.file in entries:
            raise TraceError(f"{path}: {entry.file!r} is there twice")
        entries[entry.file] = entry
    return entries


def format_manifest(entries: Iterable[Entry]) -> str:
    """Return the manifest's text: entries by name, fields in the order of :class:`Entry`."""
    blocks = [_HEADER]
    for entry in sorted(entries, key=lambda entry: entry.file):
        # A JSON string of printable text is a TOML basic string.
        lines = [
            f"{key} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in dataclasses.asdict(entry).items()
        ]
        blocks.append("\n".join(["[[trace]]", *lines, ""]))
    return "\n".join(blocks)


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def load_checked(name: str) -> bytes:
    """Return the bytes of a shipped file, after its checksum was compared with the manifest's.

    :param name: path relative to the data folder, as in the manifest (``"moer/pge.csv.gz"``)
    :raises TraceError: if the manifest does not know the name, or the file is missing or altered
    """
    folder = data_folder()
    entries = read_manifest(folder)
    if name not in entries:
        known = ", ".join(entries)
        raise TraceError(f"{folder / MANIFEST}: knows no {name!r}{nearest(name, entries)} (known: {known})")
    path = folder / name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None
    found = sha256(data)
    if found != entries[name].sha256:
        raise TraceError(
            f"{path}: altered or truncated: its sha256 is {found[:12]}…, "
            f"but {MANIFEST} says {entries[name].sha256[:12]}…"
        )
    return data
