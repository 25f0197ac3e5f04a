from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from dataset_cases import assert_same, box_dataset, masked_arrays, masked_dataset
from gymnasium import spaces

from sb3_greendc.datasets import OfflineDataset, npz
from sb3_greendc.datasets.spaces import space_from_json, space_to_json


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(npz.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("make", [masked_dataset, box_dataset])
@pytest.mark.parametrize("mmap", [False, True])
def test_round_trip(make: object, mmap: bool, tmp_path: Path) -> None:
    data = make()  # type: ignore[operator]
    data.save(tmp_path / "x.npz")
    before = (tmp_path / "x.npz").read_bytes()
    for _ in range(2):  # the second time from the cache
        loaded = OfflineDataset.load(tmp_path / "x.npz", mmap=mmap)
        assert_same(data, loaded)
        assert loaded.observation_space == data.observation_space and loaded.action_space == data.action_space
        assert loaded.sources == data.sources and loaded.metadata == data.metadata
        for name, label in data.labels.items():
            np.testing.assert_array_equal(loaded.labels[name], label)
    assert (tmp_path / "x.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_mapped_arrays_stay_on_disk_and_are_read_only(tmp_path: Path, cache: Path) -> None:
    masked_dataset().save(tmp_path / "x.npz")
    data = OfflineDataset.load(tmp_path / "x.npz", mmap=True)
    assert isinstance(data.observations["image"], np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        data.observations["image"][0] = 0
    batch = data.batch([0, 1])
    assert type(batch["observations"]["image"]) is np.ndarray
    assert batch["observations"]["image"].flags.writeable
    assert len(list(cache.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_named_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked_dataset().save(tmp_path / "x.npz")
    monkeypatch.setenv(npz.CACHE_VARIABLE, str(tmp_path / "x.npz" / "cache"))
    with pytest.raises(OSError, match=r"GREENDC_CACHE .*cache: cannot be written: "):
        OfflineDataset.load(tmp_path / "x.npz", mmap=True)


AWKWARD = ["cpu:load", "a\\b", "", "..", "a/../b", "/a", "x\ny", "\udc80", "x.npy"]


@pytest.mark.parametrize("key", AWKWARD)
@pytest.mark.parametrize("mmap", [False, True])
def test_keys_and_labels_of_any_name_come_back(key: str, mmap: bool, tmp_path: Path) -> None:
    rows = {name: np.full((4, 2), number, np.uint8) for number, name in enumerate(["cpu_load", "a_b", key])}
    ends = {"terminated": np.arange(4) == 3, "truncated": np.zeros(4)}
    arrays = {"obs": rows, "next_obs": rows, "actions": np.arange(4) % 2, "rewards": np.zeros(4), **ends}
    data = OfflineDataset.from_dict(arrays, labels={key: np.arange(4), "day": np.arange(4).astype("M8[D]")})
    data.save(tmp_path / "x.npz")
    loaded = OfflineDataset.load(tmp_path / "x.npz", mmap=mmap)
    assert_same(data, loaded, ("observations", "next_observations"))
    assert loaded.labels[key].tolist() == [0, 1, 2, 3]
    assert loaded.labels["day"].astype(int).tolist() == [0, 1, 2, 3]
    with np.load(tmp_path / "x.npz") as archive:
        assert "observations/cpu_load" in archive and "observations/a_b" in archive


def test_large_data_are_written_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "_PIECE", 64)
    data = masked_dataset()
    data.save(tmp_path / "x.npz")
    for mmap in (False, True):
        assert_same(data, OfflineDataset.load(tmp_path / "x.npz", mmap=mmap))


def test_numpy_reads_the_arrays(tmp_path: Path) -> None:
    data = masked_dataset()
    data.save(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as archive:
        np.testing.assert_array_equal(archive["observations/image"], data.observations["image"])


def test_a_plain_npz_of_others_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **masked_arrays())
    data = OfflineDataset.load(tmp_path / "x.npz")
    np.testing.assert_array_equal(data.rewards, masked_arrays()["rewards"])
    with pytest.raises(ValueError, match=r"x\.npz: truncated, altered, or no file of save\(\), which mmap"):
        OfflineDataset.load(tmp_path / "x.npz", mmap=True)
    arrays = masked_arrays()
    del arrays["truncated"]
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ValueError, match=r"x\.npz: no array 'truncated'"):
        OfflineDataset.load(tmp_path / "x.npz")


@pytest.mark.parametrize("mmap", [False, True])
def test_any_changed_or_missing_byte_is_one_clear_error(tmp_path: Path, mmap: bool) -> None:
    path, damaged = tmp_path / "x.npz", tmp_path / "y.npz"
    masked_dataset().save(path)
    OfflineDataset.load(path, mmap=mmap)  # an intact one in the cache must not hide it
    whole = path.read_bytes()
    rng = random.Random(0)
    contents = [whole[:size] for size in (0, 10, len(whole) // 2, len(whole) - 1)]
    for _ in range(40):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        contents.append(bytes(changed))
    for content in contents:
        damaged.write_bytes(content)
        with pytest.raises(ValueError, match=r"y\.npz: (damaged|truncated)"):
            OfflineDataset.load(damaged, mmap=mmap)
        assert damaged.read_bytes() == content


def test_a_file_that_lies_is_validated_and_kept_out_of_the_cache(tmp_path: Path, cache: Path) -> None:
    """Its checksum is right, its content is not: somebody wrote it with other code."""
    data = masked_dataset()
    object.__setattr__(data, "rewards", np.full(8, np.nan))
    data.save(tmp_path / "x.npz")
    for mmap in (False, True):
        with pytest.raises(ValueError, match=r"x\.npz: rewards: 8 of 8 rows are not finite"):
            OfflineDataset.load(tmp_path / "x.npz", mmap=mmap)
    assert list(cache.iterdir()) == []


def test_interrupted_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    masked_dataset().save(tmp_path / "x.npz")
    before = (tmp_path / "x.npz").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(npz, "_write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        box_dataset().save(tmp_path / "x.npz")
    assert (tmp_path / "x.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize("text", ["; a log\n1 2 3\n", "arrival,cpu\n" * 600 + "é" * 4000, '{"obs": [1]}'])
@pytest.mark.parametrize("name", ["log.txt", "log.npz"])
def test_a_text_file_is_called_one(text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    for mmap in (False, True):
        with pytest.raises(ValueError, match=f"^{tmp_path / name}: a text file; a data set is an .npz file"):
            OfflineDataset.load(tmp_path / name, mmap=mmap)


def test_bad_requests(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        masked_dataset().save(tmp_path / "x.dat")
    with pytest.raises(FileNotFoundError):
        OfflineDataset.load(tmp_path / "none.npz")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.txt", "b")
    with pytest.raises(ValueError, match=r"x\.npz: "):
        OfflineDataset.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (4, 3), np.uint8),
        spaces.Box(-np.inf, np.inf, (2,), np.float64),
        spaces.Box(np.array([0, -1], np.float32), np.array([1.1, np.inf], np.float32)),
        spaces.Discrete(5, start=2),
        spaces.MultiBinary(3),
        spaces.MultiBinary([3]),
        spaces.MultiBinary([2, 3]),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiDiscrete([2, 3], np.int32, start=[1, -1]),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (), np.float32)}),
    ],
)
def test_spaces_survive_json(space: spaces.Space) -> None:  # type: ignore[type-arg]
    import json

    read = space_from_json(json.loads(json.dumps(space_to_json(space))))
    assert read == space and read.dtype == space.dtype
    with pytest.raises(ValueError, match="must be Box"):
        space_to_json(spaces.Text(3))


def test_spaces_of_files_of_version_0_2_are_read() -> None:
    assert space_from_json({"type": "MultiBinary", "n": [3]}) == spaces.MultiBinary(3)
    assert space_from_json({"type": "MultiBinary", "n": [3, 4]}) == spaces.MultiBinary([3, 4])
    assert space_from_json({"type": "MultiDiscrete", "nvec": [3, 4]}) == spaces.MultiDiscrete([3, 4])


def test_rows_of_small_numbers_from_1_on_come_back(tmp_path: Path) -> None:
    space = spaces.MultiDiscrete([5, 6], np.int32, start=[1, 1])
    rows = np.random.default_rng(0).integers(1, 6, (20, 2))
    ends = {"terminated": np.arange(20) == 19, "truncated": np.zeros(20)}
    columns = {"actions": np.arange(20) % 3, "rewards": np.zeros(20), **ends}
    data = OfflineDataset.from_dict({"obs": rows, "next_obs": rows, **columns}, space)
    data.save(tmp_path / "data.npz")
    assert OfflineDataset.load(tmp_path / "data.npz").observation_space == space
    with pytest.raises(ValueError, match=r"20 of 20 rows are outside .* 0, must be in MultiDiscrete"):
        OfflineDataset.from_dict({"obs": rows * 0, "next_obs": rows, **columns}, space)


CHILD = """
import resource, sys
from imitation.algorithms import bc
from sb3_greendc import CRR
from sb3_greendc.bc import behavioral_clone
from sb3_greendc.datasets import OfflineDataset

used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + 300_000_000,) * 2)
try:
    OfflineDataset.load(sys.argv[1])
except MemoryError:
    print("memory does not hold it")
data = OfflineDataset.load(sys.argv[1], mmap=True)
clone = behavioral_clone(data, "mlp", policy_kwargs={"net_arch": [8]}, n_epochs=1, validation_fraction=0)
print("trained on", len(clone.history), "epoch")
model = CRR("MlpPolicy", dataset=data, policy_kwargs={"net_arch": [8]}, device="cpu").learn(20)
print(model._n_updates, "updates")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process as Linux does")
def test_data_larger_than_memory_train_from_disk(tmp_path: Path) -> None:
    pytest.importorskip("imitation")
    n = 100_000
    states = np.zeros((n + 1, 4000), np.uint8)  # 400 MB
    ends = np.arange(n) % 100 == 99
    arrays = {"obs": states[:-1], "next_obs": states[1:], "actions": np.arange(n) % 2, "rewards": np.zeros(n)}
    data = OfflineDataset.from_dict({**arrays, "terminated": ends, "truncated": np.zeros(n, bool)})
    data.save(tmp_path / "x.npz")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "x.npz")], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "memory does not hold it",
        "trained on 1 epoch",
        "20 updates",
    ], done.stderr


def npy(array: np.ndarray, shape: tuple[int, ...] | None = None) -> bytes:
    """The bytes of a ``.npy`` file, whose header may lie about the shape."""
    import io

    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(array.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape or array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + array.tobytes()


def signed(path: Path, members: dict[str, bytes], header: bytes) -> None:
    """Write members as a file of ours with the right checksum: anybody can compute one."""
    import hashlib

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = npz._SIGNATURE + b"0" * npz._DIGEST
        archive.writestr(npz.HEADER, header)
        for name, content in members.items():
            archive.writestr(name, content)
    content = path.read_bytes()[: -npz._DIGEST]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


def own_members(path: Path) -> tuple[dict[str, bytes], bytes]:
    with zipfile.ZipFile(path) as archive:
        header = archive.read(npz.HEADER)
        return {name: archive.read(name) for name in archive.namelist() if name != npz.HEADER}, header


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    "name",
    ["../evil.npy", "/evil.npy", "a/../../evil.npy", "labels/../../x.npy", "..\\evil.npy", "c:evil.npy"],
)
def test_a_member_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, cache: Path, mmap: bool, name: str
) -> None:
    masked_dataset().save(tmp_path / "x.npz")
    members, header = own_members(tmp_path / "x.npz")
    signed(tmp_path / "x.npz", members, header)
    assert_same(masked_dataset(), OfflineDataset.load(tmp_path / "x.npz", mmap=mmap))
    signed(tmp_path / "x.npz", {name: npy(np.zeros(8)), **members}, header)
    before = sorted(tmp_path.rglob("*.npy"))
    with pytest.raises(ValueError, match=r"x\.npz: member '.*': must be NAME\.npy within this file"):
        OfflineDataset.load(tmp_path / "x.npz", mmap=mmap)
    assert sorted(tmp_path.rglob("*.npy")) == before
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("rewards.npy", npy(np.zeros(8), (1 << 40,)), "64 bytes where 8,796,093,022,208 should be"),
        ("rewards.npy", npy(np.zeros(1 << 20)), "rewards: 1,048,576 rows, but there are 8 actions"),
        ("other.npy", npy(np.zeros(1 << 20)), "unknown array 'other'"),
        ("rewards.npy", b"\x93NUMPY\x01\x00\x02\x00{}", r"member 'rewards\.npy': no array"),
        ("rewards.npy", npy(np.array(1.0)), "rewards: a single value"),
        ("a.txt", b"x", r"member 'a\.txt': must be NAME\.npy"),
    ],
)
def test_sizes_are_checked_before_anything_is_unpacked(
    tmp_path: Path, cache: Path, mmap: bool, member: str, content: bytes, message: str
) -> None:
    masked_dataset().save(tmp_path / "x.npz")
    members, header = own_members(tmp_path / "x.npz")
    signed(tmp_path / "x.npz", {**members, member: content}, header)
    with pytest.raises(ValueError, match=rf"x\.npz: .*{message}"):
        OfflineDataset.load(tmp_path / "x.npz", mmap=mmap)
    assert not list(tmp_path.rglob("*.npy"))


BOMB = """
import pathlib, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from sb3_greendc.datasets import OfflineDataset
try:
    OfflineDataset.load(sys.argv[1])
except ValueError as error:
    print(error)
status = pathlib.Path("/proc/self/status")  # ru_maxrss begins with the parent's memory
found = re.search(r"VmHWM:\\s+(\\d+)", status.read_text()) if status.exists() else None
print(found[1] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_a_member_of_two_gibibytes_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """A file of 2 MB: nothing but zeros."""
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, **{name: array for name, array in masked_arrays().items() if name != "costs"})
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("costs.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (1 << 28,)}
        )
        for _ in range(128):
            file.write(bytes(1 << 24))
    assert path.stat().st_size < 3 << 20
    child = subprocess.run(
        [sys.executable, "-c", BOMB, str(path)], capture_output=True, text=True, check=True
    )
    message, peak = child.stdout.splitlines()
    assert "costs: 268,435,456 rows, but there are 8 actions" in message
    assert int(peak) < 1 << 20  # KiB


def test_arrays_larger_than_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", **masked_arrays())
    masked_dataset().save(tmp_path / "y.npz")
    monkeypatch.setattr(npz, "_memory", lambda: 100)
    for name in ("x", "y"):
        with pytest.raises(ValueError, match=rf"{name}\.npz: unpacks to .* bytes, but this machine has 100"):
            OfflineDataset.load(tmp_path / f"{name}.npz")


def test_headers_that_lie_are_one_error(tmp_path: Path) -> None:
    masked_dataset().save(tmp_path / "x.npz")
    members, _ = own_members(tmp_path / "x.npz")
    for header in (
        b"{}",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b'{"format": 1}',
        b'{"format": 1, "action_space": 3}',
    ):
        signed(tmp_path / "x.npz", members, header)
        with pytest.raises(ValueError, match=r"x\.npz: "):
            OfflineDataset.load(tmp_path / "x.npz")
