"""Trained policies that ship with the package: tensors and settings, no pickled code.

A release is a folder ``pretrained/<name>``:

- ``policy.npz``: the policy's tensors by name, as float32;
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
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

import greendc
from greendc.config import nearest, require
from sb3_greendc.core.files import atomic_write, sweep, write_json
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.runs.hyperparameters import load_hyperparameters

TENSORS_FILE = "policy.npz"
CONFIG_FILE = "config.json"
CARD_FILE = "CARD.md"

CHOICE = ("mask", "skip_forced", "ready_pool_size", "outlook")
"""Keywords of an environment that say what a policy chooses from and sees, and nothing of jobs and power."""


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


def pretrained_directory() -> Path:
    """Return the folder of releases: ``GREENDC_PRETRAINED``, or the package's, or the checkout's."""
    package = Path(__file__).resolve().parents[1]
    variable = os.environ.get("GREENDC_PRETRAINED")
    if variable:
        return Path(variable)
    shipped = package / "_data" / "pretrained"
    return shipped if shipped.is_dir() else package.parent / "pretrained"


def releases() -> dict[str, Release]:
    """Return every release by name."""
    found = sorted(pretrained_directory().glob(f"*/{CONFIG_FILE}"))
    return {path.parent.name: read_release(path.parent) for path in found}


def release_for(name: str) -> Release:
    """Return the release of this name, or the one that serves an environment id (with or without version).

    :raises ValueError: if there is none; names those that there are
    """
    known = releases()
    if name in known:
        return known[name]
    for release in known.values():
        if release.serves_id(name):
            return release
    served = ", ".join(sorted({pattern for release in known.values() for pattern in release.serves}))
    raise ValueError(
        f"pretrained {name!r}: no such policy{nearest(name, list(known))}; there are some for {served}"
    )


def load_pretrained(name: str, device: str = "cpu") -> BaseAlgorithm:
    """Load a trained policy that ships with the package.

    :param name: name of a release, or an environment id with or without a version
    :param device: of the model
    :return: a Stable-Baselines3 model; its environment is one of those that it was trained in
    :raises ValueError: for an unknown name, or damaged files
    """
    release = release_for(name)
    path = pretrained_directory() / release.name / TENSORS_FILE
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != release.sha256:
        raise ValueError(f"{path}: damaged, its checksum differs from {CONFIG_FILE}'s")
    asked = release.scales and name != release.name and release.serves_id(name)
    model = release.build(name if asked else None, device)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        tensors = {key: th.as_tensor(arrays[key], device=device) for key in arrays.files}
    try:
        model.policy.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path}: not the policy that {CONFIG_FILE} describes: {error}") from error
    return model


def write_release(folder: Path, model: BaseAlgorithm, release: Release, card: str) -> None:
    """Write a release, each file whole or not at all; the configuration last, which makes it known.

    :param folder: named like the release
    :param model: whose policy is kept
    :param release: its description; the checksum is filled in
    :param card: text of ``CARD.md``
    :raises ValueError: if the folder has another name than the release
    """
    require(folder.name == release.name, "folder", folder.name, f"named like the release, {release.name!r}")
    tensors = {key: tensor.cpu().numpy() for key, tensor in model.policy.state_dict().items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **tensors)
    data = buffer.getvalue()
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
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        known = {one.name for one in fields(Release)}
        if set(values) != known:
            raise ValueError(f"keys {sorted(values)}: must be {sorted(known)}")
        release = Release(**{**values, "serves": tuple(values["serves"])})
        scale = release.logit_scale
        is_scale = scale is None or (type(scale) in (int, float) and 0 < scale < math.inf)
        require(is_scale, "logit_scale", scale, "a finite number above 0, or null")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    greendc.resolve_env_id(release.env_id)
    return release
