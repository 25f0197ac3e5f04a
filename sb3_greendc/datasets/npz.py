"""Our file of a data set: a zip of ``.npy`` members, as ``np.savez_compressed`` writes, and a JSON header.

``np.load`` reads the arrays of such a file too. The zip's comment is the SHA-256 of all that comes before it,
which is compared before anything is read. Arrays are written and read piece by piece, so that neither needs
memory for a second copy.

A compressed array cannot be mapped into memory. So a file is unpacked once into a folder that is named by
its checksum, and mapped from there; the folder appears when it is complete.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sb3_greendc.core.files import atomic_write, require_room, sweep, temporary_folder, user_cache

CACHE_VARIABLE = "GREENDC_CACHE"
"""Environment variable: the folder in which data sets are unpacked."""
HEADER = "dataset.json"
_SIGNATURE = b"sb3-greendc dataset, sha256 "
_DIGEST = 64  # hexadecimal digits
_PIECE = 1 << 24
_BEGINNING = 4096
_LONGEST_HEADER = 64 << 20
_NAME = re.compile(r"[^\\:\x00-\x1f\ud800-\udfff]+")  # neither a drive nor a folder of Windows

Check: TypeAlias = Callable[[Mapping[str, tuple[int, ...]]], None]
"""Takes the shape of each array by its name, and raises what is wrong."""


def write(path: Path, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write a file, atomically.

    :param path: the file to write or replace
    :param arrays: by names that files may have (:func:`member_names`)
    :param header: JSON values
    :raises TypeError: if the header holds something that JSON cannot
    """
    text = json.dumps(header, indent=1, default=_plain)
    with atomic_write(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.comment = _SIGNATURE + b"0" * _DIGEST
            archive.writestr(HEADER, text)
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_array(member, array)
        file.flush()
        size = file.tell() - _DIGEST
        digest = _hash(file.fileno(), size)
        file.seek(size)
        file.write(digest.encode())


def member_names(names: Iterable[str]) -> dict[str, str]:
    """Return what each array is called in a file: its name, or where no file may have it, one like it."""
    names = list(names)
    members = {name: name for name in names if not _leads_out(name)}
    for name in names:
        if name not in members:
            plain = "".join(one if _NAME.match(one) else "_" for one in name)
            member = "/".join("_" if _leads_out(part) else part for part in plain.split("/"))
            while member in members.values():
                member += "_"
            members[name] = member
    return members


def _leads_out(name: str) -> bool:
    """Tell whether a file of this name may lie outside its folder, or cannot be, on some system."""
    return bool({"", ".", ".."} & set(name.split("/"))) or not _NAME.fullmatch(name)


def checksum(path: Path) -> str | None:
    """Return the checksum of a file of ours, having compared it with the content; ``None`` for other files.

    :raises OSError: if there is no such file
    :raises ValueError: if the file is not what was written, or holds text
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END) - _DIGEST
        file.seek(max(0, size - len(_SIGNATURE)))
        tail = file.read()
        if not tail.startswith(_SIGNATURE):
            file.seek(0)
            if _is_text(file.read(_BEGINNING)):
                raise ValueError(f"{path}: a text file; a data set is an .npz file of arrays")
            return None
        digest = _hash(file.fileno(), size)
    if digest.encode() != tail[len(_SIGNATURE) :]:
        raise ValueError(f"{path}: damaged: its content is not what its checksum says")
    return digest


def _is_text(beginning: bytes) -> bool:
    """Tell whether a file that begins so holds text; a zip file begins with bytes that no text has."""
    try:
        text = beginning.decode()
    except UnicodeDecodeError as error:
        if error.start < len(beginning) - 3:  # else a character was cut
            return False
        text = beginning[: error.start].decode()
    return bool(text) and all(character.isprintable() or character.isspace() for character in text)


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a file that :func:`checksum` found whole.

    :raises ValueError: if it has none, or one that is too long or no JSON object
    """
    with _open(path) as archive:
        size = archive.getinfo(HEADER).file_size if HEADER in archive.namelist() else 0
        if not 0 < size <= _LONGEST_HEADER:
            raise ValueError(f"member {HEADER!r}: {size:,} bytes; must be 1 to {_LONGEST_HEADER:,}")
        try:
            header = json.loads(archive.read(HEADER))
        except RecursionError as error:
            raise ValueError(f"member {HEADER!r}: nested too deep") from error
    if not isinstance(header, dict):
        raise ValueError(f"member {HEADER!r}: must be a JSON object")
    return header


def read(path: Path, check: Check) -> dict[str, NDArray[Any]]:
    """Return all arrays of a file that :func:`checksum` found whole, in memory.

    :param path: the file
    :param check: given the shape of each array before any is read; what it raises ends the reading
    :raises ValueError: for members that are no arrays, of impossible names, or too large for memory
    """
    arrays = {}
    with _open(path) as archive:
        members = _members(archive)
        check(_shapes(members))
        _require_memory(members)
        for name in members:
            with archive.open(f"{name}.npy") as member:
                arrays[name] = _read_array(member)
    return arrays


def read_foreign(path: Path, check: Check) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file that somebody else wrote.

    :param path: the file
    :param check: as for :func:`read`
    :raises ValueError: if it cannot be read, does not fit into memory, or is the rest of one of ours
    """
    with _open(path) as archive:
        if HEADER in archive.namelist():
            raise ValueError(f"{path}: damaged: its checksum is missing")
        members = _members(archive)
    check(_shapes(members))
    _require_memory(members)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in members}
    except Exception as error:  # whatever zipfile, zlib, tokenize or NumPy find wrong with it
        raise _damaged(error) from error


def read_mapped(
    path: Path, digest: str, check_shapes: Check, check: Callable[[Mapping[str, NDArray[Any]]], None]
) -> dict[str, NDArray[Any]]:
    """Return all arrays, mapped from the folder in which the file is unpacked, read-only.

    :param path: the file
    :param digest: its :func:`checksum`
    :param check_shapes: as ``check`` of :func:`read`
    :param check: given the arrays after they are unpacked; what it raises keeps them out of the cache
    :raises OSError: if there is no room to unpack it, or the folder cannot be written
    """
    folder = cache_folder() / digest
    if not folder.is_dir():
        require_room(folder.parent, CACHE_VARIABLE)
        sweep(folder.parent)
        with temporary_folder(folder.parent) as unpacked:
            _unpack(path, unpacked, check_shapes)
            check(_map(unpacked))
            _rename(unpacked, folder)
    return _map(folder)


def cache_folder() -> Path:
    """Return where data sets are unpacked: ``GREENDC_CACHE``, else ``greendc`` in the user's cache folder."""
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE])
    return user_cache() / "greendc" / "datasets"


def _hash(descriptor: int, size: int) -> str:
    """Return the SHA-256 of the first ``size`` bytes of an open file, in hexadecimal."""
    digest = hashlib.sha256()
    os.lseek(descriptor, 0, os.SEEK_SET)
    left = size
    while left > 0 and (piece := os.read(descriptor, min(_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()


def _unpack(path: Path, folder: Path, check_shapes: Check) -> None:
    with _open(path) as archive:
        members = _members(archive)
        check_shapes(_shapes(members))
        needed, free = sum(member.size for member in members.values()), shutil.disk_usage(folder).free
        if needed > free:
            raise OSError(f"{folder.parent}: {needed:,} bytes are needed to unpack {path}, {free:,} are free")
        for name in members:
            target = folder / f"{name}.npy"
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(f"{name}.npy") as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file, _PIECE)
                file.flush()
                os.fsync(file.fileno())


def _map(folder: Path) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for path in sorted(folder.rglob("*.npy")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        arrays[name] = np.load(path, mmap_mode="r" if _has_entries(path) else None)
    return arrays


def _has_entries(path: Path) -> bool:
    """Tell whether an array has any entries; no bytes cannot be mapped."""
    with path.open("rb") as file:
        return 0 not in _read_array_header(file)[0]


def _rename(unpacked: Path, folder: Path) -> None:
    try:
        os.rename(unpacked, folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, with the same content
            raise


@contextlib.contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file; whatever is wrong with it is a ``ValueError``."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        LookupError,
    ) as error:
        raise _damaged(error) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise _damaged(error) from error  # it sends zipfile to a place before its beginning


def _damaged(error: Exception) -> ValueError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"truncated, altered, or no .npz file: {reason}")


@dataclass(frozen=True)
class _Member:
    shape: tuple[int, ...]
    size: int  # bytes of the values


def _members(archive: zipfile.ZipFile) -> dict[str, _Member]:
    """Return the arrays, of which only the first bytes are read; their sizes are what these bytes say.

    :raises ValueError: for names that lead out of a folder or are there twice, members that are no arrays of
        plain values, and such as hold more or fewer bytes than their shape asks for
    """
    members: dict[str, _Member] = {}
    for info in archive.infolist():
        if info.filename == HEADER:
            continue
        name = info.filename.removesuffix(".npy")
        if name == info.filename or _leads_out(name):
            raise ValueError(f"member {info.filename!r}: must be NAME.npy within this file")
        if name in members:
            raise ValueError(f"member {info.filename!r}: is there twice")
        with archive.open(info) as file:
            try:
                shape, _, dtype = _read_array_header(file)
            except (zipfile.BadZipFile, zlib.error, EOFError):
                raise
            except Exception as error:  # whatever tokenize, ast and NumPy find wrong with it
                raise ValueError(f"member {info.filename!r}: no array ({error})") from error
            start = file.tell()
        if dtype.hasobject:
            raise ValueError(f"member {info.filename!r}: must hold plain values, no Python objects")
        size = math.prod(shape) * dtype.itemsize
        if start + size != info.file_size:
            raise ValueError(
                f"member {info.filename!r}: {info.file_size - start:,} bytes where {size:,} should be"
            )
        members[name] = _Member(shape, size)
    return members


def _shapes(members: Mapping[str, _Member]) -> dict[str, tuple[int, ...]]:
    return {name: member.shape for name, member in members.items()}


def _require_memory(members: Mapping[str, _Member]) -> None:
    needed, memory = sum(member.size for member in members.values()), _memory()
    if needed > memory:
        raise ValueError(f"unpacks to {needed:,} bytes, but this machine has {memory:,} (mmap=True may do)")


def _memory() -> int:
    """Return the bytes of memory that the machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return sys.maxsize


def _write_array(file: IO[bytes], array: NDArray[Any]) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    np.lib.format.write_array_header_1_0(file, header)
    rows = max(1, _PIECE // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        file.write(array[start : start + rows].tobytes())


def _read_array(file: IO[bytes]) -> NDArray[Any]:
    shape, fortran_order, dtype = _read_array_header(file)
    if fortran_order or dtype.hasobject:
        raise ValueError("an array of another layout than NumPy's default")
    array = np.empty(shape, dtype)
    target = array.reshape(-1).view(np.uint8)
    done = 0
    while piece := file.read(_PIECE):
        target[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    if done != array.nbytes:
        raise ValueError(f"{done} bytes where {array.nbytes} should be")
    return array


def _read_array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = reader(file)
    return shape, fortran_order, dtype


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"metadata: {value!r} of {type(value).__name__} is no JSON value")
