"""A training run: checked, built, trained, saved, and resumed. What ``scripts/train.py`` is made of."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

import greendc
from sb3_greendc.core.callbacks import EpisodeMetricsCallback, ProgressBarCallback
from sb3_greendc.core.provenance import package_versions, provenance
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.runs.hyperparameters import Hyperparameters, learns_from_data, load_hyperparameters
from sb3_greendc.runs.models import save_model
from sb3_greendc.runs.resume import Checkpointing, learn
from sb3_greendc.runs.run_logger import RunLogger
from sb3_greendc.runs.training_state import require_resumable

CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints in the run's folder."""


@dataclass(frozen=True)
class Run:
    """A training run, checked and ready to start.

    :param env_id: the environment's id with its version
    :param env_kwargs: its keyword arguments, the training split included
    :param hyperparameters: those of the algorithm
    :param timesteps: environment steps to train for
    :param seed: seeds the model and, as ``seed + i``, environment ``i``
    :param model: the model, with its environments
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    hyperparameters: Hyperparameters
    timesteps: int
    seed: int
    model: BaseAlgorithm

    def identity(self) -> dict[str, Any]:
        """Return what makes the run the one that it is: the same identity gives the same model."""
        return {
            "algorithm": self.hyperparameters.algorithm,
            "env_id": self.env_id,
            "env_kwargs": dict(self.env_kwargs),
            "seed": self.seed,
            "timesteps": self.timesteps,
            "n_envs": self.hyperparameters.n_envs,
            "hyperparameters": dict(self.hyperparameters.settings),
            "device": self.model.device.type,
        }

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of the run."""
        return {**self.identity(), **provenance()}


def prepare(
    algorithm: str,
    env_id: str,
    timesteps: int | None = None,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
    device: str = "auto",
) -> Run:
    """Check everything that a run is given, and build its environments and model.

    Environments that keep months apart are trained on their training split, unless ``env_kwargs`` says
    which split or month to use.

    :param algorithm: name of the algorithm
    :param env_id: an environment id, with or without a version
    :param timesteps: environment steps, default: what the hyperparameter file says
    :param seed: seed of the run
    :param env_kwargs: keyword arguments of the environment
    :param hyperparameters: values in place of the hyperparameter file's
    :param device: of the model
    :raises ValueError: for unknown names, wrong values, or an algorithm that does not fit the spaces
    :raises TypeError: for an unknown keyword argument of the environment
    """
    env_id = greendc.resolve_env_id(env_id)
    if learns_from_data(algorithm):
        raise ValueError(f"{algorithm} learns from a data set: say --data FILE in place of --env")
    chosen = load_hyperparameters(algorithm, env_id, hyperparameters)
    total = timesteps or chosen.n_timesteps
    if total is None:
        raise ValueError(f"timesteps: the hyperparameters of {algorithm} for {env_id} have no n_timesteps")
    env_kwargs = {**training_split(env_id, env_kwargs or {}), **(env_kwargs or {})}
    env = chosen.wrap(make_vec_env(env_id, chosen.n_envs, seed, **env_kwargs))
    try:
        model = chosen.build(env, seed, device)
    except ValueError as error:
        hint = _discrete_twin(env_id) if "action space" in str(error) else ""
        raise ValueError(f"{error}{hint}") from error
    return Run(env_id, env_kwargs, chosen, total, seed, model)


def _discrete_twin(env_id: str) -> str:
    """Return a hint at the environment of the same name with discrete actions, where there is one."""
    twin = f"Discrete{env_id}"
    return f"; {twin} has discrete actions" if twin in gym.registry else ""


def training_split(env_id: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of the training split; none where ``env_kwargs`` picks a split or month itself."""
    if "split" in env_kwargs or "month" in env_kwargs:
        return {}
    return greendc.training_kwargs(env_id)


def open_checkpoints(run: Run, out: Path, every: int, resume: bool) -> Checkpointing:
    """Prepare for checkpoints in ``out/checkpoints``; to resume, bring the run back to the last whole one.

    :param run: what :func:`prepare` returns; after a checkpoint was read its model is the saved one
    :param out: the run's folder
    :param every: environment steps between checkpoints
    :param resume: go on from the last checkpoint, if there is one; else older checkpoints are removed
    :raises ValueError: if the algorithm cannot be checkpointed, the last checkpoint is of another run, or
        none is whole
    """
    require_resumable(run.model)
    checkpointing = Checkpointing(out / CHECKPOINTS, every, run.identity())
    if not resume:
        checkpointing.folder.clear()
        return checkpointing
    checkpoint = checkpointing.folder.latest(run.identity(), print)
    if checkpoint is None:
        print(f"no checkpoint in {checkpointing.folder.folder}: starting from the beginning")
        return checkpointing
    if dict(checkpoint.versions) != package_versions():
        print(
            f"checkpoint {checkpoint.path} was written with other versions: results may differ in last bits"
        )
    checkpointing.resume(run.model, checkpoint)
    print(f"going on from step {checkpoint.step:,}")
    return checkpointing


def train(
    run: Run,
    out: Path,
    progress: bool = True,
    formats: Sequence[str] = ("csv",),
    checkpointing: Checkpointing | None = None,
) -> bool:
    """Train and save the model; after Ctrl-C the model so far is saved.

    :param run: what :func:`prepare` returns
    :param out: folder of ``model.zip``, ``run.json``, ``MANIFEST.json``, ``progress.csv`` and, for models
        trained under ``VecNormalize``, ``normalizer.json``
    :param progress: show a progress bar
    :param formats: SB3's logger formats: ``csv``, ``stdout``, ``tensorboard``
    :param checkpointing: what :func:`open_checkpoints` returns
    :return: whether the run was completed
    :raises CheckpointError: if a checkpoint cannot be made or written; nothing is saved then
    """
    out.mkdir(parents=True, exist_ok=True)
    model = run.model
    model.set_logger(RunLogger(out, formats, checkpointing.resumed_at if checkpointing else None))
    callbacks: list[BaseCallback] = [*run.hyperparameters.make_callbacks(), EpisodeMetricsCallback()]
    bar = ProgressBarCallback(run.timesteps)
    if progress:
        callbacks.append(bar)
    completed = True
    try:
        if checkpointing is None:
            model.learn(run.timesteps, callback=callbacks)
        else:
            learn(model, run.timesteps, checkpointing, callbacks)
    except KeyboardInterrupt:
        completed = False
    finally:
        bar.close()
        model.logger.close()
    seconds = round((time.time_ns() - model.start_time) / 1e9, 1)
    trained = {"completed": completed, "trained_timesteps": model.num_timesteps, "seconds": seconds}
    save_model(model, out, {**run.record(), **trained})
    return completed
