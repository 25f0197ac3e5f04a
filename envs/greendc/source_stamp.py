"""What compiled code is made from: the files that a module imports from its package, and theirs."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

PACKAGE = Path(__file__).parent

_IMPORT = re.compile(r"^(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)


@functools.cache
def source_stamp(path: Path, package: Path = PACKAGE) -> str:
    """Return a checksum of a module's source and of all that it imports from the package, directly or not.

    Code that Numba made from the module holds functions and constants of these files alone, and may be used
    as long as the checksum stays.

    :param path: of the module, which need not be in the package itself
    :param package: folder of the package
    """
    digest = hashlib.sha256()
    for file in source_files(path, package):
        digest.update(_read(file))
    return digest.hexdigest()


def source_files(path: Path, package: Path = PACKAGE) -> list[Path]:
    """Return the file of a module and those that it imports from the package, directly or not, sorted.

    Seen are absolute imports at the start of a line, as this package writes them. Of code in no file, as in a
    notebook, nothing is known: it stands for the whole package.
    """
    found: set[Path] = set()
    left = [path] if path.is_file() else list(package.rglob("*.py"))
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left.extend(_imported(file, package))
    return sorted(found)


@functools.cache
def _read(file: Path) -> bytes:
    return file.read_bytes()


@functools.cache
def _imported(file: Path, package: Path) -> list[Path]:
    """Return the files of the package that a file imports."""
    names = []
    for module, members, alone in _IMPORT.findall(_read(file).decode()):
        names += [module or alone, *(f"{module}.{member}" for member in re.findall(r"\w+", members))]
    parts = [name.split(".") for name in names]
    bases = [package.parent.joinpath(*part) for part in parts if part[0] == package.name]
    candidates = [path for base in bases for path in (base.with_suffix(".py"), base / "__init__.py")]
    return [path for path in candidates if path.is_file()]
