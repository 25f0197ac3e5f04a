"""Checkpoint files: whole or absent, checked, two of them kept."""

from __future__ import annotations

import errno
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils import EzPickle
from resume_cases import content
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_greendc.runs import checkpoints
from sb3_greendc.runs.checkpoints import CheckpointError, CheckpointFolder, State
from sb3_greendc.runs.chunk_store import ChunkStore
from sb3_greendc.runs.training_state import Resumption, pack_state

WHO = {"algorithm": "ppo", "hyperparameters": {"gamma": 0.9}}


def state(value: int, size: int = 1000) -> State:
    return State(bytes([value]) * 100, [memoryview(bytearray([value]) * size)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckpointFolder:
    """Three checkpoints, the first of which is no longer kept; arrays over 500 bytes lie in chunks."""
    monkeypatch.setattr(checkpoints, "IN_CHUNKS", 500)
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for step in (1, 2, 3):
        folder.write(step, WHO, {}, state(step))
    return folder


class TestFolder:
    def test_the_last_two_are_kept(self, folder: CheckpointFolder) -> None:
        assert [path.name for path in folder.paths()] == ["step_000000000003.ckpt", "step_000000000002.ckpt"]
        assert len(list(folder.chunks.folder.iterdir())) == 2

    @pytest.mark.parametrize("damaged", [False, True])
    def test_reading_the_last_removes_what_a_killed_writer_left(
        self, folder: CheckpointFolder, damaged: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run that goes on from its last checkpoint writes none any more, and would leave it for good."""
        with monkeypatch.context() as killed:
            killed.setattr(folder, "_tidy", lambda: None)
            folder.write(4, WHO, {}, state(4))
        assert len(folder.paths()) == 3
        for torn in (folder.folder / ".step_000000000004.ckpt.x.part", folder.chunks.folder / ".abc.x.part"):
            torn.write_bytes(b"half")
        if damaged:
            folder.paths()[0].write_bytes(b"")
        read = folder.latest(WHO, lambda said: None)
        assert read is not None
        assert read.step == (3 if damaged else 4)
        assert [path.name for path in folder.folder.rglob(".*")] == []
        assert [path.name[-6:-5] for path in folder.paths()] == ["4", "3"]
        assert len(list(folder.chunks.folder.iterdir())) == (1 if damaged else 2)
        assert bytes(folder.read(folder.paths()[1]).state.arrays[0]) == bytes([3]) * 1000

    def test_leftovers_of_a_first_checkpoint_are_removed(self, tmp_path: Path) -> None:
        folder = CheckpointFolder(tmp_path)
        (tmp_path / ".step_000000000000.ckpt.x.part").write_bytes(b"half")
        assert folder.latest(WHO, pytest.fail) is None
        assert list(tmp_path.iterdir()) == []

    def test_the_only_whole_one_is_not_removed(self, folder: CheckpointFolder) -> None:
        """Not even if two damaged ones are newer."""
        kept = folder.paths()[0].read_bytes()
        for step in (4, 5):
            (folder.folder / f"step_{step:012d}.ckpt").write_bytes(b"damaged")
        for _ in range(2):
            read = folder.latest(WHO, lambda said: None)
            assert read is not None
            assert read.path.read_bytes() == kept

    @pytest.mark.parametrize("in_chunks", [500, 5000])
    def test_round_trip(self, tmp_path: Path, in_chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkpoints, "IN_CHUNKS", in_chunks)
        folder = CheckpointFolder(tmp_path)
        noise = np.random.default_rng(0).bytes(3000)
        arrays = [memoryview(noise), memoryview(b""), memoryview(bytearray(2000)), memoryview(b"few")]
        folder.write(7, WHO, {"torch": "2"}, State(b"pickle", arrays))
        read = folder.latest(WHO, pytest.fail)
        assert read is not None
        assert (read.step, read.identity, read.versions) == (7, WHO, {"torch": "2"})
        assert read.state.data == b"pickle"
        assert [bytes(array) for array in read.state.arrays] == [bytes(array) for array in arrays]
        assert not any(array.readonly for array in read.state.arrays)

    @pytest.mark.parametrize("damage", ["short", "empty", "bit", "header", "chunk", "no chunk"])
    def test_a_damaged_one_falls_back_and_says_so(self, folder: CheckpointFolder, damage: str) -> None:
        newest = folder.paths()[0]
        whole = newest.read_bytes()
        chunk = folder.chunks.folder / json.loads(whole.partition(b"\n")[0])["arrays"][0]["chunks"][0]
        match damage:
            case "short":
                newest.write_bytes(whole[:-7])
            case "empty":
                newest.write_bytes(b"")
            case "bit":
                middle = len(whole) // 2
                newest.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
            case "header":
                newest.write_bytes(b"x" + whole[1:])
            case "chunk":
                chunk.write_bytes(chunk.read_bytes()[:-3])
            case "no chunk":
                chunk.unlink()
        said: list[str] = []
        read = folder.latest(WHO, said.append)
        assert read is not None
        assert read.step == 2
        assert said[0].startswith(f"checkpoint {newest} is damaged: ")
        assert said[1] == "going back to the checkpoint before it, step_000000000002.ckpt"

    def test_all_damaged(self, folder: CheckpointFolder) -> None:
        for path in folder.paths():
            path.write_bytes(b"")
        with pytest.raises(ValueError, match=r"no checkpoint in .* is whole \(2 damaged\)"):
            folder.latest(WHO, lambda line: None)

    def test_none(self, tmp_path: Path) -> None:
        assert CheckpointFolder(tmp_path / "nowhere").latest(WHO, pytest.fail) is None

    def test_another_run(self, folder: CheckpointFolder) -> None:
        other = {"algorithm": "a2c", "hyperparameters": {"gamma": 0.9, "n_steps": 5}}
        with pytest.raises(ValueError) as error:
            folder.latest(other, pytest.fail)
        assert str(error.value).endswith(
            "is of another run: algorithm: 'ppo' there, 'a2c' here; "
            "hyperparameters.n_steps: not given there, 5 here"
        )

    @pytest.mark.parametrize("fails_at", [1, 2])
    def test_disk_full(
        self, folder: CheckpointFolder, fails_at: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While the chunk is written, or the file itself."""
        before = content(folder)
        calls: list[int] = []

        def fsync(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == fails_at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(CheckpointError, match="No space left on device; the checkpoints before it are"):
            folder.write(4, WHO, {}, state(4))
        assert content(folder) == before
        assert folder.write(5, WHO, {}, state(5)).exists()

    def test_what_has_not_changed_is_not_written_again(self, tmp_path: Path) -> None:
        store = ChunkStore(tmp_path)
        array = np.random.default_rng(0).bytes(3 << 23)
        names = store.put(memoryview(array))
        times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        assert len(times) == 3
        changed = array[:-5] + b"12345"
        more = store.put(memoryview(changed))
        assert more[:2] == names[:2]
        assert len(list(tmp_path.iterdir())) == 4
        assert all(path.stat().st_mtime_ns == time for path, time in times.items())
        assert store.get(more, len(changed)) == changed

    @pytest.mark.parametrize("process", ["another", "the same"])
    @pytest.mark.parametrize("damage", ["short", "bit", "empty", "other"])
    def test_a_damaged_chunk_is_written_again(self, tmp_path: Path, process: str, damage: str) -> None:
        store = ChunkStore(tmp_path)
        array = np.random.default_rng(0).bytes(3 << 23)
        names = store.put(memoryview(array))
        chunk = tmp_path / names[1]
        whole = chunk.read_bytes()
        bad = {
            "short": whole[:-1],
            "bit": b"r" + bytes([whole[1] ^ 1]) + whole[2:],
            "empty": b"",
            "other": b"r",
        }
        chunk.write_bytes(bad[damage])
        os.utime(chunk, ns=(1, 1))
        other = ChunkStore(tmp_path) if process == "another" else store
        assert other.put(memoryview(array)) == names
        assert chunk.read_bytes() == whole
        assert ChunkStore(tmp_path).get(names, len(array)) == array

    def test_a_chunk_is_read_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        array = np.random.default_rng(0).bytes(1000)
        names = ChunkStore(tmp_path).put(memoryview(array))
        store = ChunkStore(tmp_path)
        read: list[Path] = []
        original = Path.read_bytes
        monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path), original(path))[1])
        for _ in range(3):
            assert store.put(memoryview(array)) == names
        assert read == [tmp_path / names[0]]

    @pytest.mark.parametrize("part", ["chunk", "file"])
    def test_what_the_disk_spoils_is_noticed_at_once(
        self, folder: CheckpointFolder, part: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The checkpoints before it stay the last two."""
        before = [path.read_bytes() for path in folder.paths()]
        replace = os.replace

        def spoils(source: str, target: Path) -> None:
            if (target.suffix == ".ckpt") == (part == "file"):
                content = Path(source).read_bytes()
                Path(source).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", spoils)
            with pytest.raises(CheckpointError, match="what was written is read otherwise"):
                folder.write(4, WHO, {}, state(4))
        assert [path.read_bytes() for path in folder.paths()] == before
        folder.write(5, WHO, {}, state(5))
        read = folder.latest(WHO, pytest.fail)
        assert read is not None
        assert read.step == 5

    def test_a_later_damaged_one_does_not_take_the_place_of_a_whole_one(
        self, folder: CheckpointFolder
    ) -> None:
        """A run that went back to step 2 writes at other steps: those are its last two."""
        newest = folder.paths()[0]
        newest.write_bytes(b"")
        newest.rename(folder.folder / "step_000000000009.ckpt")
        folder.write(4, WHO, {}, state(4))
        assert [path.name[-6:] for path in folder.paths()] == ["4.ckpt", "2.ckpt"]

    def test_clear(self, folder: CheckpointFolder) -> None:
        (folder.folder / ".step_000000000009.ckpt.torn").touch()
        folder.clear()
        assert not folder.folder.exists()


def test_replay_buffer_is_written_as_far_as_it_is_filled() -> None:
    model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=100_000, device="cpu")
    model.learn(50)
    buffer = model.replay_buffer
    assert buffer is not None
    assert buffer.observations.nbytes > 1_000_000
    assert max(map(len, pack_state(model).arrays)) < 500_000  # a layer's weights


@pytest.mark.parametrize("pos", [0, 3, 9])
def test_buffer_keeps_what_is_behind_its_position(pos: int) -> None:
    """Rows that are not zeros are kept, whatever the position says."""
    model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=10, device="cpu")
    model.learn(5)
    buffer = model.replay_buffer
    assert isinstance(buffer, ReplayBuffer)
    buffer.rewards[:] = np.arange(10)[:, None]
    buffer.pos = pos
    packed = pack_state(model)
    other = SAC("MlpPolicy", "Pendulum-v1", buffer_size=10, device="cpu")
    other.set_logger(model.logger)
    Resumption(other, packed)
    np.testing.assert_array_equal(other.replay_buffer.rewards, buffer.rewards)
    np.testing.assert_array_equal(other.replay_buffer.observations, buffer.observations)


class Forgetful(EzPickle):
    """An object that pickles as its constructor's arguments."""

    def __init__(self, size: int) -> None:
        EzPickle.__init__(self, size)
        self.size, self.steps = size, 0


def test_ez_pickle_objects_keep_their_state() -> None:
    thing = Forgetful(3)
    thing.steps = 17
    assert pickle.loads(pickle.dumps(thing)).steps == 0
    model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=10, device="cpu")
    model.learn(3)
    model.thing = thing  # type: ignore[attr-defined]
    Resumption(model, pack_state(model))
    assert (model.thing.size, model.thing.steps) == (3, 17)  # type: ignore[attr-defined]
