"""The model of a trial, with its data where it learns from data."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from greendc.registration import family_of
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.crr import CRR
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.datasets.npz import checksum
from sb3_greendc.runs.hyperparameters import Hyperparameters
from sb3_greendc.tuning.objective import Objective, months_of


def build_model(objective: Objective, hyperparameters: Hyperparameters, env: VecEnv) -> BaseAlgorithm:
    """Build a trial's model, with its data if it learns from data.

    :param objective: what is searched for
    :param hyperparameters: of the trial
    :param env: of the training split, wrapped; an offline algorithm takes its spaces alone
    :raises ValueError: if the algorithm does not fit the environment, or the data are of another one, of
        months that trials are judged on, or no longer what they were when the study was made
    """
    model = hyperparameters.build(env, objective.seed, "cpu")
    if objective.data is not None:
        dataset = _read_data(objective.data, objective.data_checksum)
        _check_months(objective, dataset)
        assert isinstance(model, CRR)
        try:
            model.set_dataset(dataset)
        except ValueError as error:
            raise ValueError(f"--data {objective.data}{_recorded_in(dataset)}: {error}") from error
    return model


def require_fit(objective: Objective, hyperparameters: Hyperparameters) -> None:
    """Check that hyperparameters fit a study's environment, by building a model.

    :raises ValueError: as :func:`build_model`
    :raises TypeError: for an unknown keyword argument of the environment
    """
    env_kwargs = objective.training_kwargs
    env = hyperparameters.wrap(make_vec_env(objective.env_id, hyperparameters.n_envs, **env_kwargs))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of batch sizes, which trials choose for themselves
            build_model(objective, hyperparameters, env)
    finally:
        env.close()


@functools.lru_cache(maxsize=1)
def _read_data(path: str, expected: str | None) -> OfflineDataset:
    """Read a data set, once in each process."""
    dataset = OfflineDataset.load(path)
    if checksum(Path(path)) != expected:
        raise ValueError(f"--data {path}: is no longer what it was when the study was made")
    return dataset


def _recorded_in(dataset: OfflineDataset) -> str:
    env_id, env_kwargs = (dataset.metadata.get(key) for key in ("env_id", "env_kwargs"))
    return f", recorded in {env_id} with {env_kwargs}" if env_id else ""


def _check_months(objective: Objective, dataset: OfflineDataset) -> None:
    """Raise a ``ValueError`` if the data say that they are of months of the validation or the test."""
    family, recorded = family_of(objective.env_id), dataset.metadata.get("env_id")
    if recorded is None or family is None or family.name != "vcc" or recorded not in family.presets:
        return
    judged = {*months_of(objective.env_id, {}), *objective.validation_kwargs["month"]}
    shared = sorted(judged & set(months_of(recorded, dataset.metadata.get("env_kwargs") or {})))
    if shared:
        raise ValueError(
            f"--data {objective.data}: recorded in {', '.join(shared)}, which trials are judged on; "
            "collect in the months of split=train"
        )
