"""Trained policies that ship with the package: tensors and settings, no pickled code.

What a release is, :mod:`greendc.shipped.release` says. Older ones have ``policy.npz`` in place of
``policy.safetensors``.

``load_pretrained("ResourcePool-10")`` gives an SB3 model that predicts, trains and saves like any other.
``scripts/release.py`` makes a release from a run of ``scripts/train.py``.
"""

from __future__ import annotations

import hashlib
import io
import math
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

import greendc
from greendc.config import require
from greendc.shipped.release import (
    CARD_FILE,
    CONFIG_FILE,
    TENSORS_FILE,
    Release,
    one_error,
    pretrained_directory,
    release_for,
)
from sb3_greendc.core.files import atomic_write, sweep, write_json
from sb3_greendc.core.generators import generators_kept
from sb3_greendc.core.tensor_files import (
    LARGEST_HEADER,
    TensorInfo,
    info_of,
    read_header,
    tensors_from_bytes,
    tensors_to_bytes,
)
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.runs.hyperparameters import load_hyperparameters

ARRAYS_FILE = "policy.npz"
"""In place of the tensors' file, in older releases."""


def build_model(release: Release, env_id: str | None = None, device: str = "cpu") -> BaseAlgorithm:
    """Build the model of a release with fresh weights.

    :param release: what to build
    :param env_id: environment that it is built for; default: the one that it was trained in
    :param device: of the model
    :raises ValueError: if this version of the package knows no such algorithm or hyperparameter
    """
    env_id = greendc.resolve_env_id(env_id or release.env_id)
    settings = load_hyperparameters(release.algorithm, env_id, release.hyperparameters)
    env = settings.wrap(make_vec_env(env_id, 1, **release.env_kwargs))
    with warnings.catch_warnings():  # of batches that the single environment does not fill
        warnings.filterwarnings("ignore", "You have specified a mini-batch size")
        return settings.build(env, device=device)


def load_pretrained(name: str, device: str = "cpu") -> BaseAlgorithm:
    """Load a trained policy that ships with the package. Nothing in it is unpickled.

    The global random generators stay as they are.

    :param name: name of a release, or an environment id with or without a version
    :param device: of the model
    :return: a Stable-Baselines3 model; its environment is one of those that it was trained in
    :raises ValueError: for an unknown name, or a release that is damaged, or not what it says: its tensors
        must be those of the policy that ``config.json`` describes, by names, dtypes and shapes, which are
        compared before any tensor is read, and finite
    """
    release = release_for(name)
    folder = pretrained_directory() / release.name
    asked = release.scales and name != release.name and release.serves_id(name)
    with one_error(folder / CONFIG_FILE), generators_kept():
        model = build_model(release, name if asked else None, device)
    path = folder / TENSORS_FILE if (folder / TENSORS_FILE).is_file() else folder / ARRAYS_FILE
    with one_error(path):
        if not path.is_file():
            raise ValueError("no such file")
        wanted = {key: info_of(tensor) for key, tensor in model.policy.state_dict().items()}
        read = _read_tensors if path.name == TENSORS_FILE else _read_arrays
        tensors = read(path, wanted, release.sha256)
        for key, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError(f"tensor {key!r}: has values that are not finite")
        model.policy.load_state_dict({key: tensor.to(device) for key, tensor in tensors.items()})
    return model


def write_release(folder: Path, model: BaseAlgorithm, release: Release, card: str) -> None:
    """Write a release, each file whole or not at all; the configuration last, which makes it known.

    :param folder: named like the release
    :param model: whose policy is kept
    :param release: its description; the checksum is filled in
    :param card: text of ``CARD.md``
    :raises ValueError: if the folder has another name than the release, or a tensor is not finite
    """
    require(folder.name == release.name, "folder", folder.name, f"named like the release, {release.name!r}")
    tensors = {key: tensor.cpu().contiguous().clone() for key, tensor in model.policy.state_dict().items()}
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"tensor {key!r}: has values that are not finite")
    data = tensors_to_bytes(tensors)
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    with atomic_write(folder / TENSORS_FILE) as file:
        file.write(data)
    with atomic_write(folder / CARD_FILE) as file:
        file.write(card.encode())
    write_json(folder / CONFIG_FILE, {**asdict(release), "sha256": hashlib.sha256(data).hexdigest()})


def _read_tensors(path: Path, wanted: Mapping[str, TensorInfo], sha256: str) -> dict[str, th.Tensor]:
    with path.open("rb") as file:
        found, size = read_header(file)
        _compare(found, wanted)
        if path.stat().st_size != size:
            raise ValueError(f"damaged: of {path.stat().st_size:,} bytes, its header says {size:,}")
        file.seek(0)
        data = _checked(file, size, sha256)
    return tensors_from_bytes(data)


def _read_arrays(path: Path, wanted: Mapping[str, TensorInfo], sha256: str) -> dict[str, th.Tensor]:
    """Read an older release's arrays; what each is, its own header says."""
    found: dict[str, TensorInfo] = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                if version != (1, 0):
                    raise ValueError(f"array {entry!r}: of version {version}")
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if dtype.kind not in "biuf":
                raise ValueError(f"array {entry!r}: of {dtype}")
            tensor = th.from_numpy(np.empty(0, dtype))
            found[entry.removesuffix(".npy")] = TensorInfo(info_of(tensor).dtype, tuple(shape))
    _compare(found, wanted)
    bytes_at_most = LARGEST_HEADER + sum(8 * math.prod(info.shape) for info in wanted.values())
    with path.open("rb") as file:
        data = _checked(file, bytes_at_most, sha256)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {key: th.as_tensor(arrays[key]) for key in arrays.files}


def _compare(found: Mapping[str, TensorInfo], wanted: Mapping[str, TensorInfo]) -> None:
    """Raise ``ValueError`` unless a file holds what the policy does."""
    for key in sorted({*found, *wanted}):
        if found.get(key) != wanted.get(key):
            has, needs = found.get(key, "missing"), wanted.get(key, "no such tensor in the policy")
            raise ValueError(f"tensor {key[:80]!r}: {has}; {CONFIG_FILE} describes {needs}")


def _checked(file: BinaryIO, size: int, sha256: str) -> bytes:
    data = file.read(size)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"damaged, its checksum differs from {CONFIG_FILE}'s")
    return data
