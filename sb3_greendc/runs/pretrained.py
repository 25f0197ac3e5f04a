"""Trained policies that ship with the package: tensors and settings, no pickled code.

A release is a folder ``pretrained/<name>``:

- ``policy.safetensors``: the policy's tensors by name, as float32 (``policy.npz`` in older releases);
- ``config.json``: algorithm, hyperparameters, environment and its keywords, from which the model is built
  anew, the ids that it serves, and the checksum of the tensors;
- ``CARD.md``: data, budget, seeds, scores beside baselines, limits of use.

``load_pretrained("ResourcePool-10")`` gives an SB3 model that predicts, trains and saves like any other.
``scripts/release.py`` makes a release from a run of ``scripts/train.py``.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

import greendc
from greendc.config import nearest, require
from sb3_greendc.core.algorithms import algorithm_class
from sb3_greendc.core.files import atomic_write, sweep, write_json
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

TENSORS_FILE = "policy.safetensors"
ARRAYS_FILE = "policy.npz"
"""In place of the tensors' file, in older releases."""
CONFIG_FILE = "config.json"
CARD_FILE = "CARD.md"

CHOICE = ("mask", "skip_forced", "ready_pool_size", "lookahead")
"""Keywords of an environment that say what a policy chooses from and sees, and nothing of jobs and power."""

LARGEST_CONFIG = 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Release:
    """What ``config.json`` says.

    :param name: name of the release, that of its folder
    :param algorithm: name of the algorithm
    :param hyperparameters: as in ``zoo_hparams``
    :param env_id: the environment that it was trained in
    :param env_kwargs: its keyword arguments
    :param serves: environment ids without versions, or patterns, that it acts in
    :param scales: whether the tensors fit environments of other sizes, as those do of networks that score
        jobs one by one; the model is then built for the environment that is asked for
    :param logit_scale: how far apart its logits are, for actions that differ by a mean job value; of
        networks that a planner taught
    :param sha256: of the tensors' file
    :raises ValueError: if a value is not what it must be
    """

    name: str
    algorithm: str
    hyperparameters: Mapping[str, Any]
    env_id: str
    env_kwargs: Mapping[str, Any]
    serves: tuple[str, ...]
    scales: bool = False
    logit_scale: float | None = None
    sha256: str = field(default="")

    def __post_init__(self) -> None:
        require_release_name(self.name)
        require(isinstance(self.algorithm, str), "algorithm", self.algorithm, "the name of an algorithm")
        algorithm_class(self.algorithm)
        require(isinstance(self.env_id, str), "env_id", self.env_id, "an environment id")
        for name in ("hyperparameters", "env_kwargs"):
            value = getattr(self, name)
            require(isinstance(value, Mapping), name, value, "a mapping of names to values")
        ids = isinstance(self.serves, tuple) and all(isinstance(one, str) for one in self.serves)
        require(ids and bool(self.serves), "serves", self.serves, "a list of environment ids")
        require(isinstance(self.scales, bool), "scales", self.scales, "true or false")
        scale = self.logit_scale
        is_scale = scale is None or (type(scale) in (int, float) and 0 < scale < math.inf)
        require(is_scale, "logit_scale", scale, "a finite number above 0, or null")
        require(isinstance(self.sha256, str), "sha256", self.sha256, "a checksum")

    @property
    def choice(self) -> dict[str, Any]:
        """Keywords of the environment that say what it chose from, and saw, in training."""
        return {key: self.env_kwargs[key] for key in CHOICE if key in self.env_kwargs}

    def serves_id(self, env_id: str) -> bool:
        """Tell whether it acts in an environment, named with or without a version."""
        name, _, version = env_id.rpartition("-v")
        plain = name if version.isdigit() else env_id
        return any(fnmatch.fnmatchcase(plain, pattern) for pattern in self.serves)

    def build(self, env_id: str | None = None, device: str = "cpu") -> BaseAlgorithm:
        """Build the model with fresh weights.

        :param env_id: environment that it is built for; default: the one that it was trained in
        :param device: of the model
        :raises ValueError: if this version of the package knows no such algorithm or hyperparameter
        """
        env_id = greendc.resolve_env_id(env_id or self.env_id)
        settings = load_hyperparameters(self.algorithm, env_id, self.hyperparameters)
        env = settings.wrap(make_vec_env(env_id, 1, **self.env_kwargs))
        with warnings.catch_warnings():  # of batches that the single environment does not fill
            warnings.filterwarnings("ignore", "You have specified a mini-batch size")
            return settings.build(env, device=device)


def require_release_name(name: Any) -> None:
    """Raise ``ValueError`` unless a release may have this name, which is that of its folder, too."""
    plain = isinstance(name, str) and _NAME.fullmatch(name) is not None
    require(plain, "name", name, "letters, digits, '_', '.' and '-', the first a letter or digit")


def pretrained_directory() -> Path:
    """Return the folder of releases: ``GREENDC_PRETRAINED``, or the package's, or the checkout's."""
    package = Path(__file__).resolve().parents[1]
    variable = os.environ.get("GREENDC_PRETRAINED")
    if variable:
        return Path(variable)
    shipped = package / "_data" / "pretrained"
    return shipped if shipped.is_dir() else package.parent / "pretrained"


def releases() -> dict[str, Release]:
    """Return every release by name. A broken one is left out, with a warning that says what is wrong."""
    known, broken = _read_all()
    for reason in broken.values():
        warnings.warn(f"left out: {reason}", stacklevel=2)
    return known


def release_for(name: str) -> Release:
    """Return the release of this name, or the one that serves an environment id (with or without version).

    :raises ValueError: if there is none, and names those that there are; or if the one of this name is broken
    """
    known, broken = _read_all()
    if name in known:
        return known[name]
    if name in broken:
        raise ValueError(broken[name])
    for release in known.values():
        if release.serves_id(name):
            return release
    served = ", ".join(sorted({pattern for release in known.values() for pattern in release.serves}))
    left_out = f"; left out: {'; '.join(broken.values())}" if broken else ""
    raise ValueError(
        f"pretrained {name!r}: no such policy{nearest(name, list(known))}; there are some for {served}"
        f"{left_out}"
    )


def load_pretrained(name: str, device: str = "cpu") -> BaseAlgorithm:
    """Load a trained policy that ships with the package. Nothing in it is unpickled.

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
    with _one_error(folder / CONFIG_FILE):
        model = release.build(name if asked else None, device)
    path = folder / TENSORS_FILE if (folder / TENSORS_FILE).is_file() else folder / ARRAYS_FILE
    with _one_error(path):
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


def read_release(folder: Path) -> Release:
    """Read ``config.json``.

    :raises ValueError: if it is not what a release's configuration is
    """
    path = folder / CONFIG_FILE
    with _one_error(path):
        with path.open("rb") as file:
            text = file.read(LARGEST_CONFIG + 1)
        if len(text) > LARGEST_CONFIG:
            raise ValueError(f"must be of {LARGEST_CONFIG:,} bytes at most")
        values = json.loads(text)
        known = {one.name for one in fields(Release)}
        if not isinstance(values, dict) or set(values) != known:
            raise ValueError(f"keys {sorted(values)}: must be {sorted(known)}")
        serves = values["serves"]
        release = Release(**{**values, "serves": tuple(serves) if isinstance(serves, list) else serves})
        require(release.name == folder.name, "name", release.name, f"that of its folder, {folder.name!r}")
        greendc.resolve_env_id(release.env_id)
    return release


@contextmanager
def _one_error(path: Path) -> Iterator[None]:
    """Turn whatever is found wrong with a file into a ``ValueError`` that names it."""
    try:
        yield
    except Exception as error:  # of json, zipfile, NumPy, torch, environments and algorithms
        reason = " ".join(str(error).split())[:500]
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{path}: {kind}{reason}") from error


def _read_all() -> tuple[dict[str, Release], dict[str, str]]:
    """Return the releases by name, and what is wrong with those that are broken."""
    known: dict[str, Release] = {}
    broken: dict[str, str] = {}
    for path in sorted(pretrained_directory().glob(f"*/{CONFIG_FILE}")):
        try:
            known[path.parent.name] = read_release(path.parent)
        except ValueError as error:
            broken[path.parent.name] = str(error)
    return known, broken


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
