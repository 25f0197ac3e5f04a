"""A run's folder: one writer at a time, results that belong together or are refused."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from stable_baselines3 import A2C

from sb3_greendc.core import ownership
from sb3_greendc.core.files import sha256_of
from sb3_greendc.runs import folder
from sb3_greendc.runs.folder import (
    LOCK,
    MANIFEST,
    FolderInUseError,
    UnfinishedRunError,
    check_manifest,
    discard,
    is_finished,
    locked,
    transaction,
)
from sb3_greendc.runs.models import load_model, save_model
from sb3_greendc.runs.run_logger import LOGS

HOLDER = """
import os, sys
from pathlib import Path
from sb3_greendc.runs.folder import locked
with locked(Path(sys.argv[1])):
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    os._exit(9)
"""


class TestLock:
    def test_a_second_writer_is_refused_until_the_first_is_dead(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And at once: only the dead are waited for."""
        monkeypatch.setattr(folder.time, "sleep", lambda seconds: pytest.fail("waits"))
        command = [sys.executable, "-c", HOLDER, str(tmp_path)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        pid = holder.stdout.readline().strip()
        said = f"^--out {tmp_path}: in use by process {pid} on "
        with pytest.raises(FolderInUseError, match=said), locked(tmp_path):
            pytest.fail("two writers")
        holder.communicate("go\n")
        assert holder.returncode == 9
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == int(pid)
        with locked(tmp_path):
            assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("lets_go", [True, False])
    def test_what_a_dead_owner_was_starting_lets_go_soon(
        self, lets_go: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that was forked from it, and has not begun its own program, holds the lock, too."""
        if not ownership.claim()["boot"]:
            pytest.skip("this system does not tell which processes are dead")
        (tmp_path / LOCK).write_text(json.dumps({**ownership.claim(), "pid": 2**22 - 1}))
        descriptor = os.open(tmp_path / LOCK, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        waits = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if lets_go and len(waits) == 3:
                os.close(descriptor)

        monkeypatch.setattr(folder.time, "sleep", wait)
        monkeypatch.setattr(folder, "_PATIENCE", 60.0 if lets_go else 0.05)
        if lets_go:
            with locked(tmp_path):
                assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
            assert len(waits) == 3
            return
        with pytest.raises(FolderInUseError, match=str(2**22 - 1)), locked(tmp_path):
            pytest.fail("two writers")
        os.close(descriptor)

    @pytest.mark.parametrize(
        ("owner", "free"),
        [
            ({}, False),
            ({"pid": 2**22 - 1}, True),
            ({"pid": 2**22 - 1, "host": "elsewhere"}, False),
            ({"pid": 2**22 - 1, "boot": "before"}, False),
        ],
    )
    def test_without_locks_of_the_system_the_owner_counts(
        self, owner: dict[str, object], free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unsupported(descriptor: int, operation: int) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(fcntl, "flock", unsupported)
        if not ownership.claim()["boot"]:
            pytest.skip("this system does not tell which processes are dead")
        (tmp_path / LOCK).write_text(json.dumps({**ownership.claim(), **owner}))
        if free:
            with locked(tmp_path), pytest.raises(FolderInUseError), locked(tmp_path):
                pytest.fail("two writers")
        else:
            with pytest.raises(FolderInUseError, match="in use by process"), locked(tmp_path):
                pytest.fail("two writers")

    def test_what_a_dead_writer_left_is_swept(self, tmp_path: Path) -> None:
        (tmp_path / ".model.zip.abc.part").touch()
        with locked(tmp_path):
            assert [path.name for path in tmp_path.iterdir()] == [LOCK]

    def test_empty_folders_that_it_made_are_removed(self, tmp_path: Path) -> None:
        with locked(tmp_path / "a" / "b"):
            pass
        assert list(tmp_path.iterdir()) == []
        with locked(tmp_path / "a" / "b"):
            (tmp_path / "a" / "b" / "kept").touch()
        assert [path.name for path in tmp_path.rglob("*")] == ["a", "b", "kept"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run, saved, with a log and somebody's notes."""
    model = A2C("MlpPolicy", "CartPole-v1", device="cpu")
    (tmp_path / "progress.csv").write_text("a\n1\n")
    with transaction(tmp_path):
        save_model(model, tmp_path, {"algorithm": "a2c"})
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


class TestManifest:
    def test_it_lists_what_was_written(self, run: Path) -> None:
        manifest = json.loads((run / MANIFEST).read_text())
        assert manifest["finished"] is True
        assert manifest["files"] == {
            name: {"bytes": (run / name).stat().st_size, "sha256": sha256_of(run / name)}
            for name in ("model.zip", "run.json")
        }
        check_manifest(run)
        assert is_finished(run)
        load_model(run)

    @pytest.mark.parametrize("name", ["model.zip", "run.json"])
    @pytest.mark.parametrize("damage", ["longer", "bit", "missing"])
    def test_other_files_than_its_own_are_refused(self, run: Path, name: str, damage: str) -> None:
        path = run / name
        content = path.read_bytes()
        match damage:
            case "longer":
                path.write_bytes(content + b" ")
            case "bit":
                path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
            case "missing":
                path.unlink()
        assert not is_finished(run)
        with pytest.raises(UnfinishedRunError, match=f"^{path}: "):
            check_manifest(run)
        with pytest.raises(ValueError, match=f"{path}: "):
            load_model(run)

    def test_what_was_cut_off_is_refused(self, run: Path) -> None:
        """A new record beside an old model: each of them is whole."""
        with suppress(KeyboardInterrupt), transaction(run):
            (run / "run.json").write_text('{"algorithm": "a2c", "seed": 7}')
            raise KeyboardInterrupt
        assert not is_finished(run)
        with pytest.raises(ValueError, match="unfinished: a process was stopped while it wrote"):
            load_model(run)
        discard(run)
        assert sorted(path.name for path in run.iterdir()) == [MANIFEST, "notes.txt", "progress.csv"]

    @pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": "another", "finished": true}'])
    def test_a_damaged_one_is_refused_and_can_be_overwritten(self, run: Path, content: str) -> None:
        (run / MANIFEST).write_text(content)
        with pytest.raises(UnfinishedRunError, match=MANIFEST):
            check_manifest(run)
        discard(run, ("model.zip", "run.json"))
        assert not (run / "model.zip").exists()

    def test_a_name_that_leads_elsewhere_is_not_removed(self, run: Path) -> None:
        victim = run.parent / "victim"
        victim.touch()
        manifest = json.loads((run / MANIFEST).read_text())
        manifest["files"]["../victim"] = manifest["files"][str(victim)] = {"bytes": 0, "sha256": ""}
        (run / MANIFEST).write_text(json.dumps(manifest))
        discard(run)
        assert victim.exists()
        assert not (run / "model.zip").exists()

    def test_a_folder_without_one_is_read_as_it_is(self, run: Path) -> None:
        (run / MANIFEST).unlink()
        (run / "run.json").write_text('{"algorithm": "a2c", "seed": 7}')
        assert load_model(run).run["seed"] == 7
        assert is_finished(run, "model.zip", "run.json")
        assert not is_finished(run, "model.zip", "other.json")

    def test_another_model_in_the_folder_is_not_its_business(self, run: Path) -> None:
        A2C("MlpPolicy", "CartPole-v1", device="cpu").save(run / "best.zip")
        load_model(f"a2c:{run / 'best.zip'}", trust=True)

    def test_patterns_are_discarded(self, run: Path) -> None:
        (run / "events.out.tfevents.1.host").touch()
        discard(run, ("model.zip", *LOGS))
        assert sorted(path.name for path in run.iterdir()) == [MANIFEST, "notes.txt"]

    def test_nothing_to_discard(self, tmp_path: Path) -> None:
        discard(tmp_path, ("model.zip",))
        assert list(tmp_path.iterdir()) == []
