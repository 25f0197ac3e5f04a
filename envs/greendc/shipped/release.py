"""Releases: the folders of trained policies that ship with the package, and what their settings say.

A release is a folder ``pretrained/<name>``:

- ``policy.safetensors``: the policy's tensors by name, as float32;
- ``config.json``: algorithm, hyperparameters, environment and its keywords, from which the model is built,
  the ids that it serves, and the checksum of the tensors;
- ``CARD.md``: data, budget, seeds, scores beside baselines, limits of use; ``scores.csv`` and
  ``scores.png`` beside it have all scores.
"""

from __future__ import annotations

import fnmatch
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from greendc.config import nearest, require
from greendc.registration import resolve_env_id

TENSORS_FILE = "policy.safetensors"
CONFIG_FILE = "config.json"
CARD_FILE = "CARD.md"

CHOICE = ("mask", "skip_forced", "ready_pool_size", "queue_order", "lookahead", "fragmentation")
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
        networks distilled from a planner
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


def require_release_name(name: Any) -> None:
    """Raise ``ValueError`` unless a release may have this name, which is that of its folder, too."""
    plain = isinstance(name, str) and _NAME.fullmatch(name) is not None
    require(plain, "name", name, "letters, digits, '_', '.' and '-', the first a letter or digit")


def pretrained_directory() -> Path:
    """Return the folder of releases: ``GREENDC_PRETRAINED``, or the package's, or the checkout's."""
    variable = os.environ.get("GREENDC_PRETRAINED")
    if variable:
        return Path(variable)
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_data" / "pretrained"
    return shipped if shipped.is_dir() else package.parents[1] / "pretrained"


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


def read_release(folder: Path) -> Release:
    """Read ``config.json``.

    :raises ValueError: if it is not what a release's configuration is
    """
    path = folder / CONFIG_FILE
    with one_error(path):
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
        resolve_env_id(release.env_id)
    return release


@contextmanager
def one_error(path: Path) -> Iterator[None]:
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
