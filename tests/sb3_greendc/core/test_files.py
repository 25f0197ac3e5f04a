"""Files and folders that are being written, and what killed processes leave of them."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sb3_greendc.core.files import (
    RescuedError,
    atomic_write,
    is_output_error,
    require_room,
    sha256_of,
    sweep,
    temporary_folder,
    user_cache,
    write_or_rescue,
)

resource = pytest.importorskip("resource", reason="the system knows no limit on the size of files")

KILLED = """
import os, sys
from pathlib import Path
from sb3_greendc.core.files import atomic_write, temporary_folder
folder = Path(sys.argv[1])
with atomic_write(folder / "x.npz") as file, temporary_folder(folder) as work:
    file.write(b"half")
    (work / "y").write_text("half")
    os._exit(9)
"""


def test_leftovers_of_a_killed_process_are_swept(tmp_path: Path) -> None:
    """What a living process writes stays, and everything that is no leftover."""
    (tmp_path / "kept.part").touch()
    (tmp_path / ".config").touch()
    result = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
    assert result.returncode == 9
    assert len(list(tmp_path.glob(".*.part"))) == 2
    with atomic_write(tmp_path / "z") as file, temporary_folder(tmp_path) as work:
        file.write(b"mine")
        (work / "w").touch()
        assert len(sweep(tmp_path)) == 2
        assert sweep(tmp_path) == []
        work.rename(tmp_path / "done")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".config", "done", "kept.part", "z"]
    assert (tmp_path / "z").read_bytes() == b"mine"
    assert (tmp_path / "done" / "w").exists()


def test_checksum(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(tmp_path / "x") == expected


@contextlib.contextmanager
def at_most(size: int) -> Iterator[None]:
    """Let no file of this process become larger, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_found_before_the_work(tmp_path: Path) -> None:
    require_room(tmp_path / "new")
    with (
        at_most(1000),
        pytest.raises(OSError, match=r"^--plots .*new: cannot be written: File too large$") as full,
    ):
        require_room(tmp_path / "new", "--plots")
    assert is_output_error(full.value)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_in_the_way_of_a_folder_is_found_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"--out .*file/x: cannot be written"):
        require_room(tmp_path / "file" / "x")


def test_what_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before")
    with at_most(1000), pytest.raises(OSError), atomic_write(tmp_path / "x") as file:
        file.write(bytes(5000))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "before"


def test_what_the_disk_does_not_take_is_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def write(path: Path) -> None:
        path.write_text("half")
        if path == tmp_path / "out.csv" or path.parent.parent == tmp_path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_text("whole")

    with pytest.raises(RescuedError) as rescued:
        write_or_rescue(write, tmp_path / "out.csv", "the table")
    [kept] = (tmp_path / "home").glob("*/out.csv")
    assert kept.read_text() == "whole"
    assert str(rescued.value) == f"{tmp_path / 'out.csv'}: No space left on device; the table is in {kept}"
    assert is_output_error(rescued.value)
    assert not list(tmp_path.glob("greendc-rescued-*"))


def test_where_no_disk_takes_anything_the_first_error_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with at_most(1000), pytest.raises(OSError, match="File too large") as error:
        write_or_rescue(lambda path: path.write_bytes(bytes(5000)), tmp_path / "x", "the model")
    assert not isinstance(error.value, RescuedError)
    assert not list(tmp_path.glob("greendc-rescued-*"))


def test_the_cache_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert user_cache() == Path(os.sep) / ".cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path
