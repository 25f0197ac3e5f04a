"""Files and folders that are being written, and what killed processes leave of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sb3_greendc.core.files import atomic_write, sha256_of, sweep, temporary_folder

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
