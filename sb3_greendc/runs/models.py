"""Trained models on disk: ``model.zip``, what normalises its observations, and the record of its run.

A run's folder holds ``model.zip`` (SB3's own format), ``run.json`` (algorithm, hyperparameters,
versions, ...) and, for models trained under ``VecNormalize``, ``vecnormalize.pkl``, without which the
model would see observations of another scale.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class
from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.runs.folder import check_manifest

MODEL_FILE = "model.zip"
RUN_FILE = "run.json"
NORMALIZER_FILE = "vecnormalize.pkl"


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


def save_model(model: BaseAlgorithm, folder: Path, run: Mapping[str, Any]) -> Path:
    """Save a model, its normaliser and its record, each file whole or not at all; return the model's path.

    :param model: a model; its environment tells whether observations are normalised
    :param folder: created if missing
    :param run: the record; :func:`load_model` needs ``run["algorithm"]``
    """
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None:
        with atomic_write(folder / NORMALIZER_FILE) as file:
            pickle.dump(normalizer, file)
    with atomic_write(folder / MODEL_FILE) as file:
        model.save(file)  # type: ignore[arg-type]  # SB3 takes open files, whatever their class
    write_json(folder / RUN_FILE, {**run, "normalized": normalizer is not None})
    return folder / MODEL_FILE


def load_model(source: str | Path, device: str = "cpu") -> SavedModel:
    """Load a model by the path of its zip file or of its run's folder.

    SB3's zips do not say which algorithm they are of: the ``run.json`` beside one does, or a prefix,
    as in ``"ppo:model.zip"``.

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
    algorithm = algorithm or run.get("algorithm")
    if algorithm is None:
        raise ValueError(f"model {path}: no {RUN_FILE} beside it names its algorithm; say ALGORITHM:{path}")
    cls = algorithm_class(algorithm)
    try:
        model = cls.load(path, device=device)
    except Exception as error:  # whatever SB3, zipfile, json, pickle or torch find wrong with it
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"model {path}: not a whole model of {algorithm}: {reason}") from error
    return SavedModel(model, _read_normalizer(path.parent / NORMALIZER_FILE, run), run)


def read_run(folder: Path) -> dict[str, Any]:
    """Return the record of the run in a folder, empty where there is none.

    :raises ValueError: if it is not JSON
    """
    path = folder / RUN_FILE
    if not path.is_file():
        return {}
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from error
    return run


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


def _read_normalizer(path: Path, run: Mapping[str, Any]) -> VecNormalize | None:
    if path.is_file() and run.get("normalized", True):
        try:
            with path.open("rb") as file:
                normalizer: VecNormalize = pickle.load(file)
        except (EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{path}: damaged: {error}") from error
        return normalizer
    if run.get("normalized"):
        raise ValueError(f"{path}: missing; the model was trained on normalised observations")
    return None
