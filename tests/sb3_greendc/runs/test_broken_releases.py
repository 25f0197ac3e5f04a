"""Releases that are damaged or forged: one kind of error, before anything large is read; the others load."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import make_release as command
import numpy as np
import pytest
import safetensors.torch
import torch as th

from greendc.shipped.release import (
    CARD_FILE,
    CONFIG_FILE,
    TENSORS_FILE,
    pretrained_directory,
    release_for,
    releases,
)
from sb3_greendc.runs import pretrained
from sb3_greendc.runs.pretrained import ARRAYS_FILE, load_pretrained, write_release


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two good releases; returns the folder of one."""
    for name in ("VCC", "DiscreteVCC"):
        shutil.copytree(pretrained_directory() / name, tmp_path / name)
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path))
    return tmp_path / "VCC"


def forge(folder: Path, tensors: dict[str, th.Tensor]) -> None:
    """Replace the tensors, with the right checksum."""
    data = safetensors.torch.save(tensors)
    (folder / TENSORS_FILE).write_bytes(data)
    configure(folder, sha256=hashlib.sha256(data).hexdigest())


def configure(folder: Path, **values: Any) -> None:
    config = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**config, **values}))


def tensors_of(folder: Path) -> dict[str, th.Tensor]:
    return safetensors.torch.load_file(folder / TENSORS_FILE)


def change(folder: Path, to: Any) -> None:
    tensors = tensors_of(folder)
    key = sorted(tensors)[0]
    tensors[key] = to(tensors[key])
    forge(folder, tensors)


@pytest.mark.parametrize(
    ("to", "message"),
    [
        (lambda tensor: tensor.fill_(float("nan")), "values that are not finite"),
        (lambda tensor: tensor.fill_(float("inf")), "values that are not finite"),
        (lambda tensor: tensor.to(th.int32), "dtype='I32'.*dtype='F32'"),
        (lambda tensor: tensor.double(), "dtype='F64'"),
        (lambda tensor: tensor[None], "shape="),
    ],
)
def test_wrong_weights_are_refused(folder: Path, to: Any, message: str) -> None:
    change(folder, to)
    with pytest.raises(ValueError, match=rf"policy\.safetensors: tensor '.*{message}"):
        load_pretrained("VCC")
    load_pretrained("DiscreteVCC")


def test_missing_and_further_tensors_are_refused(folder: Path) -> None:
    tensors = tensors_of(folder)
    forge(folder, {**tensors, "more": th.zeros(1)})
    with pytest.raises(ValueError, match=r"'more'.*no such tensor in the policy"):
        load_pretrained("VCC")
    key = sorted(tensors)[0]
    forge(folder, {name: tensor for name, tensor in tensors.items() if name != key})
    with pytest.raises(ValueError, match=f"{key}.*missing"):
        load_pretrained("VCC")


def test_a_huge_tensor_is_refused_from_its_header(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "_checked", None)  # nothing but the header is read
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**29], "data_offsets": [0, 2**31]}}).encode()
    with (folder / TENSORS_FILE).open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 2**31)
    with pytest.raises(ValueError, match=r"tensor '.*': missing"):
        load_pretrained("VCC")
    with (folder / TENSORS_FILE).open("wb") as file:
        file.write(struct.pack("<Q", 2**40))
    with pytest.raises(ValueError, match="a header of 1099511627776 bytes"):
        load_pretrained("VCC")


def test_bytes_behind_the_tensors_are_refused_unread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "_checked", None)
    with (folder / TENSORS_FILE).open("ab") as file:
        file.truncate(2**31)
    with pytest.raises(ValueError, match=r"damaged: of 2,147,483,648 bytes, its header says"):
        load_pretrained("VCC")


def old_form(folder: Path, arrays: dict[str, Any] | None = None) -> None:
    """Replace the tensors' file by an older release's arrays."""
    found = {key: tensor.numpy() for key, tensor in tensors_of(folder).items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **(found if arrays is None else {**found, **arrays}))
    (folder / TENSORS_FILE).unlink()
    (folder / ARRAYS_FILE).write_bytes(buffer.getvalue())
    configure(folder, sha256=hashlib.sha256(buffer.getvalue()).hexdigest())


def test_older_releases_load(folder: Path) -> None:
    wanted = load_pretrained("VCC").policy.state_dict()
    old_form(folder)
    found = load_pretrained("VCC").policy.state_dict()
    assert all(th.equal(found[key], wanted[key]) for key in wanted)


def test_older_releases_are_compared_before_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_form(folder, {"bomb": np.zeros(10**6)})
    monkeypatch.setattr(pretrained, "_checked", None)
    with pytest.raises(ValueError, match=r"'bomb'.*no such tensor"):
        load_pretrained("VCC")
    old_form_pickled = io.BytesIO()
    with zipfile.ZipFile(old_form_pickled, "w") as archive:
        archive.writestr("x.npy", pickle.dumps(1))
    (folder / ARRAYS_FILE).write_bytes(old_form_pickled.getvalue())
    with pytest.raises(ValueError, match=r"policy\.npz"):
        load_pretrained("VCC")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "../VCC"}, "name"),
        ({"name": "DiscreteVCC"}, "that of its folder"),
        ({"name": None}, "name"),
        ({"algorithm": ["ppo"]}, "algorithm"),
        ({"hyperparameters": [1]}, "hyperparameters"),
        ({"env_kwargs": "x"}, "env_kwargs"),
        ({"env_id": "NoSuch-v1"}, "NoSuch"),
        ({"env_id": 3}, "env_id"),
        ({"serves": "VCC"}, "serves"),
        ({"serves": [1]}, "serves"),
        ({"serves": None}, "serves"),
        ({"scales": 1}, "scales"),
        ({"sha256": 1}, "sha256"),
        ({"logit_scale": -1}, "logit_scale"),
        ({"more": 1}, "keys"),
    ],
)
def test_one_broken_folder_does_not_break_the_others(
    folder: Path, values: dict[str, Any], message: str
) -> None:
    configure(folder, **values)
    load_pretrained("DiscreteVCC")
    load_pretrained("DiscreteVCC-2021")
    for name in ("VCC", "VCC-2021"):
        with pytest.raises(ValueError, match=rf"config\.json: .*{message}"):
            load_pretrained(name)
    with pytest.warns(UserWarning, match=rf"left out: .*config\.json: .*{message}"):
        assert list(releases()) == ["DiscreteVCC"]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[]", b"[" * 10**5, b"null", b'{"a": 1}', b" " * (2**20 + 1)], ids=len
)
def test_a_configuration_that_is_none_is_one_error(folder: Path, content: bytes) -> None:
    (folder / CONFIG_FILE).write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json: "):
        release_for("VCC")
    load_pretrained("DiscreteVCC")


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm": "no_such"},
        {"hyperparameters": {"no_such": 1}},
        {"hyperparameters": {"policy": "NoPolicy"}},
        {"env_kwargs": {"no_such": 1}},
        {"env_kwargs": {"month": []}},
    ],
)
def test_a_model_that_cannot_be_built_is_one_error(folder: Path, values: dict[str, Any]) -> None:
    configure(folder, **values)
    with pytest.raises(ValueError, match=r"VCC/config\.json: "):
        load_pretrained("VCC")


def test_files_that_are_not_there_are_one_error(folder: Path) -> None:
    (folder / TENSORS_FILE).unlink()
    with pytest.raises(ValueError, match=r"policy\.npz: no such file"):
        load_pretrained("VCC")


def test_no_release_is_written_elsewhere_or_with_broken_weights(folder: Path) -> None:
    release, model = release_for("VCC"), load_pretrained("VCC")
    card = (folder / CARD_FILE).read_text()
    with pytest.raises(SystemExit):
        command.main(["--model", "x", "--name", "../x"])
    before = (folder / TENSORS_FILE).read_bytes()
    with th.no_grad():
        next(model.policy.parameters()).fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        write_release(folder, model, release, card)
    assert (folder / TENSORS_FILE).read_bytes() == before
