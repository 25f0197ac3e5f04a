"""Trained models on disk: ``model.zip``, what normalises its observations, and the record of its run.

A run's folder holds ``model.zip`` (JSON and tensors, see :mod:`~sb3_greendc.core.safe_model`), ``run.json``
(algorithm, hyperparameters, versions, ...) and, for models trained under ``VecNormalize``,
``normalizer.json``, without which the model would see observations of another scale. Nothing in them is
unpickled. Files in SB3's own form, which hold pickled code, are read only on ``trust=True``.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class
from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.core.generators import generators_kept
from sb3_greendc.core.provenance import parse_record
from sb3_greendc.core.safe_model import SafeModel, express, read_safe_model
from sb3_greendc.core.safe_values import NotExpressibleError
from sb3_greendc.runs.folder import check_manifest, transaction
from sb3_greendc.runs.normalizers import LARGEST_FILE, normalizer_from_json, normalizer_to_json

MODEL_FILE = "model.zip"
RUN_FILE = "run.json"
NORMALIZER_FILE = "normalizer.json"
PICKLED_NORMALIZER_FILE = "vecnormalize.pkl"
"""Of older runs, and of a normaliser of one's own class."""


class UntrustedError(ValueError):
    """A file that holds pickled code and was loaded without ``trust``."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: holds pickled code, which would run when it is loaded; if you made the file yourself, "
            "say --trust (in Python: trust=True)"
        )


@dataclass(frozen=True)
class SavedModel:
    """A model from disk.

    :param model: the model, without an environment
    :param normalizer: the ``VecNormalize`` that it was trained under, detached, or ``None``
    :param run: the record of its run, empty where there is none
    """

    model: BaseAlgorithm
    normalizer: VecNormalize | None
    run: Mapping[str, Any]


def save_model(
    model: BaseAlgorithm, folder: Path, run: Mapping[str, Any], normalizer: VecNormalize | None = None
) -> Path:
    """Save a model, its normaliser and its record as one; return the model's path.

    A process that is killed on the way leaves a folder that :func:`load_model` refuses.

    What cannot be kept as JSON and tensors, such as a policy of one's own class, is saved in SB3's form, with
    a warning: to load it takes ``trust=True``.

    :param model: a model; its environment tells whether observations are normalised
    :param folder: created if missing
    :param run: the record; files in SB3's form need ``run["algorithm"]``
    :param normalizer: what the model was trained under; default: that of its environment
    """
    normalizer = normalizer or model.get_vec_normalize_env()
    with transaction(folder):
        _write_normalizer(normalizer, folder)
        try:
            safe = express(model)
        except NotExpressibleError as error:
            _warn_of_pickles(folder / MODEL_FILE, error)
            with atomic_write(folder / MODEL_FILE) as file:
                model.save(file, include=())  # type: ignore[arg-type]  # SB3 takes open files, whatever their class
        else:
            with atomic_write(folder / MODEL_FILE) as file:
                safe.write(file)  # type: ignore[arg-type]
        write_json(folder / RUN_FILE, {**run, "normalized": normalizer is not None})
    return folder / MODEL_FILE


def load_model(source: str | Path, device: str = "cpu", trust: bool = False) -> SavedModel:
    """Load a model by the path of its zip file or of its run's folder.

    SB3's zips do not say which algorithm they are of: the ``run.json`` beside one does, or a prefix,
    as in ``"ppo:model.zip"``.

    The global random generators stay as they are, unlike after SB3's ``load``, which seeds them with the
    model's seed.

    :param source: the path
    :param device: of the model
    :param trust: load files that hold pickled code, too, and run it
    :raises UntrustedError: if the model, or its normaliser, holds pickled code, and ``trust`` is false
    :raises ValueError: if there is no such file, it is damaged, its algorithm is unknown, or it lies in the
        folder of a run whose files do not belong together
    """
    algorithm, path = _split(str(source))
    if path.is_dir():
        path = path / MODEL_FILE
    if not path.is_file():
        raise ValueError(f"model {path}: no such file")
    check_manifest(path.parent, path.name)
    run = read_run(path.parent)
    if not zipfile.is_zipfile(path):
        raise ValueError(f"model {path}: not a whole model: no zip file")
    safe = _read_safe(path)
    algorithm = algorithm or run.get("algorithm") or (safe.algorithm if safe else None)
    if safe is None and not trust:
        raise UntrustedError(path)
    if algorithm is None:
        raise ValueError(f"model {path}: no {RUN_FILE} beside it names its algorithm; say ALGORITHM:{path}")
    cls = algorithm_class(algorithm)
    normalizer = _read_normalizer(path.parent, run, trust)
    try:
        with generators_kept():
            model = cls.load(path, device=device) if safe is None else safe.build(cls, device=device)
    except Exception as error:  # whatever SB3, zipfile, json, pickle or torch find wrong with it
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"model {path}: not a whole model of {algorithm}: {reason}") from error
    return SavedModel(model, normalizer, run)


def model_folder(source: str | Path) -> Path:
    """Return the folder that a saved model lies in.

    :param source: as for :func:`load_model`
    """
    _, path = _split(str(source))
    return path if path.is_dir() else path.parent


def read_run(folder: Path) -> dict[str, Any]:
    """Return the record of the run in a folder, empty where there is none.

    :raises ValueError: if it is not JSON, or an entry is not what it is in records
    """
    path = folder / RUN_FILE
    return parse_record(path.read_bytes(), str(path)) if path.is_file() else {}


def attach(normalizer: VecNormalize, env: VecEnv) -> VecNormalize:
    """Wrap an environment in a copy of the normaliser, frozen, that leaves rewards as they are.

    :raises ValueError: if the observations are of a kind that cannot be normalised so
    """
    try:
        copy = VecNormalize(
            env,
            training=False,
            norm_obs=normalizer.norm_obs,
            norm_reward=False,
            clip_obs=normalizer.clip_obs,
            epsilon=normalizer.epsilon,
            norm_obs_keys=normalizer.norm_obs_keys,
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"the model's VecNormalize does not fit: {error}") from error
    if normalizer.norm_obs:
        copy.obs_rms = deepcopy(normalizer.obs_rms)
    return copy


def _split(source: str) -> tuple[str | None, Path]:
    prefix, separator, rest = source.partition(":")
    return (prefix, Path(rest)) if separator and prefix in ALGORITHMS else (None, Path(source))


def _read_safe(path: Path) -> SafeModel | None:
    try:
        return read_safe_model(path)
    except ValueError as error:
        raise ValueError(f"model {path}: not a whole model: {error}") from error


def _write_normalizer(normalizer: VecNormalize | None, folder: Path) -> None:
    """Write the normaliser in one of its forms, and remove those of an earlier model."""
    stale = {NORMALIZER_FILE, PICKLED_NORMALIZER_FILE}
    if normalizer is not None:
        try:
            write_json(folder / NORMALIZER_FILE, normalizer_to_json(normalizer))
            stale.remove(NORMALIZER_FILE)
        except NotExpressibleError as error:
            _warn_of_pickles(folder / PICKLED_NORMALIZER_FILE, error)
            with atomic_write(folder / PICKLED_NORMALIZER_FILE) as file:
                pickle.dump(normalizer, file)
            stale.remove(PICKLED_NORMALIZER_FILE)
    for name in stale:
        (folder / name).unlink(missing_ok=True)


def _warn_of_pickles(path: Path, error: NotExpressibleError) -> None:
    warnings.warn(f"{path}: saved with pickled code, so that loading takes trust=True: {error}", stacklevel=3)


def _read_normalizer(folder: Path, run: Mapping[str, Any], trust: bool) -> VecNormalize | None:
    if not run.get("normalized", True):
        return None
    path, pickled = folder / NORMALIZER_FILE, folder / PICKLED_NORMALIZER_FILE
    if path.is_file():
        try:
            with path.open("rb") as file:
                return normalizer_from_json(file.read(LARGEST_FILE + 1))
        except ValueError as error:
            raise ValueError(f"{path}: damaged: {error}") from error
    if pickled.is_file():
        if not trust:
            raise UntrustedError(pickled)
        try:
            with pickled.open("rb") as file:
                normalizer: VecNormalize = pickle.load(file)
        except (EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{pickled}: damaged: {error}") from error
        return normalizer
    if run.get("normalized"):
        raise ValueError(f"{path}: missing; the model was trained on normalised observations")
    return None
