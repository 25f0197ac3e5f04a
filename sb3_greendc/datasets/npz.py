"""Our file of a data set: a zip of ``.npy`` members, as ``np.savez_compressed`` writes, and a JSON header.

``np.load`` reads the arrays of such a file too. The zip's comment is the SHA-256 of all that comes before it,
which is compared before anything is read. Arrays are written and read piece by piece, so that neither needs
memory for a second copy.

A compressed array cannot be mapped into memory. So a file is unpacked once into a folder that is named by
its checksum, and mapped from there; the folder appears when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sb3_greendc.core.files import atomic_write, sweep, temporary_folder

CACHE_VARIABLE = "GREENDC_CACHE"
"""Environment variable: the folder in which data sets are unpacked."""
HEADER = "dataset.json"
_SIGNATURE = b"sb3-greendc dataset, sha256 "
_DIGEST = 64  # hexadecimal digits
_PIECE = 1 << 24


def write(path: Path, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write a file, atomically.

    :param path: the file to write or replace
    :param arrays: by their names
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


def checksum(path: Path) -> str | None:
    """Return the checksum of a file of ours, having compared it with the content; ``None`` for other files.

    :raises OSError: if there is no such file
    :raises ValueError: if the file is not what was written
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END) - _DIGEST
        file.seek(max(0, size - len(_SIGNATURE)))
        tail = file.read()
        if not tail.startswith(_SIGNATURE):
            return None
        digest = _hash(file.fileno(), size)
    if digest.encode() != tail[len(_SIGNATURE) :]:
        raise ValueError(f"{path}: damaged: its content is not what its checksum says")
    return digest


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a file that :func:`checksum` found whole."""
    with zipfile.ZipFile(path) as archive:
        header: dict[str, Any] = json.loads(archive.read(HEADER))
        return header


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of a file that :func:`checksum` found whole, in memory."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in _members(archive):
            with archive.open(f"{name}.npy") as member:
                arrays[name] = _read_array(member)
    return arrays


def read_foreign(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file that somebody else wrote.

    :raises ValueError: if it cannot be read, or is the rest of one of ours
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # whatever zipfile, zlib, tokenize or NumPy find wrong with it
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path}: truncated, altered, or no .npz file: {reason}") from error
    if HEADER in arrays:
        raise ValueError(f"{path}: damaged: its checksum is missing")
    return arrays


def read_mapped(
    path: Path, digest: str, check: Callable[[Mapping[str, NDArray[Any]]], None]
) -> dict[str, NDArray[Any]]:
    """Return all arrays, mapped from the folder in which the file is unpacked, read-only.

    :param path: the file
    :param digest: its :func:`checksum`
    :param check: given the arrays after they are unpacked; what it raises keeps them out of the cache
    :raises OSError: if there is no room to unpack it
    """
    folder = cache_folder() / digest
    if not folder.is_dir():
        sweep(folder.parent)
        with temporary_folder(folder.parent) as unpacked:
            _unpack(path, unpacked)
            check(_map(unpacked))
            _rename(unpacked, folder)
    return _map(folder)


def cache_folder() -> Path:
    """Return where data sets are unpacked: ``GREENDC_CACHE``, else ``greendc`` in the user's cache folder."""
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "greendc" / "datasets"


def _hash(descriptor: int, size: int) -> str:
    """Return the SHA-256 of the first ``size`` bytes of an open file, in hexadecimal."""
    digest = hashlib.sha256()
    os.lseek(descriptor, 0, os.SEEK_SET)
    left = size
    while left > 0 and (piece := os.read(descriptor, min(_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()


def _unpack(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for name in _members(archive):
            target = folder / f"{name}.npy"
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(f"{name}.npy") as member, target.open("wb") as file:
                shutil.copyfileobj(member, file, _PIECE)
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


def _members(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the arrays; names that lead out of a folder are somebody's trick."""
    names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    for name in names:
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"member {name!r}")
    return names


def _write_array(file: IO[bytes], array: NDArray[Any]) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    np.lib.format.write_array_header_1_0(file, header)
    rows = max(1, _PIECE // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        file.write(np.ascontiguousarray(array[start : start + rows]).data.cast("B"))


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
