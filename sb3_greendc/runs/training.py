"""A training run: checked, built, trained, saved, and resumed. What ``greendc train`` is made of."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import TrainFrequencyUnit

import greendc
from greendc.config import require
from greendc.registration import family_of
from greendc.vcc.splits import SPLITS
from sb3_greendc.core.callbacks import EpisodeMetricsCallback, ProgressBarCallback
from sb3_greendc.core.files import RescuedError, is_output_error, sha256_of, write_or_rescue
from sb3_greendc.core.provenance import package_versions, provenance
from sb3_greendc.core.secrets import values_without_secrets
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.crr import CRR
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.datasets.npz import checksum
from sb3_greendc.runs.checkpoints import CheckpointError
from sb3_greendc.runs.divergence import require_finite
from sb3_greendc.runs.hyperparameters import (
    Hyperparameters,
    learns_from_data,
    load_hyperparameters,
    policy_for,
    read_hyperparameters,
)
from sb3_greendc.runs.models import save_model
from sb3_greendc.runs.resume import Checkpointing, CheckpointWriter, learn
from sb3_greendc.runs.resume_offline import OfflineCheckpointing
from sb3_greendc.runs.run_logger import RunLogger
from sb3_greendc.runs.training_state import require_resumable

CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints in the run's folder."""


@dataclass(frozen=True)
class DataSource:
    """The data set that a run learns from.

    :param path: its file
    :param checksum: SHA-256 of the content
    :param transitions: how many there are
    :param sources: what recorded them
    """

    path: Path
    checksum: str
    transitions: int
    sources: Sequence[str]


@dataclass(frozen=True)
class Run:
    """A training run, checked and ready to start: on an environment, or on a data set.

    :param env_id: the environment's id with its version; of a data set, what it was recorded in, ``None`` if
        it does not say
    :param env_kwargs: the environment's keyword arguments, the training split included
    :param hyperparameters: those of the algorithm
    :param timesteps: environment steps to train for; with data, gradient steps
    :param seed: seeds the model and, as ``seed + i``, environment ``i``
    :param model: the model, with its environments or data
    :param data: the data set, ``None`` where the run learns from an environment
    """

    env_id: str | None
    env_kwargs: Mapping[str, Any]
    hyperparameters: Hyperparameters
    timesteps: int
    seed: int
    model: BaseAlgorithm
    data: DataSource | None = None

    def identity(self) -> dict[str, Any]:
        """Return what makes the run the one that it is: the same identity gives the same model.

        Data count by their content, wherever their file is and whatever it says of their making. Secrets
        among the environment's arguments are neither part of it nor recorded.
        """
        if self.data is None:
            learns_from: dict[str, Any] = {
                "env_id": self.env_id,
                "env_kwargs": values_without_secrets(self.env_kwargs),
                "n_envs": self.hyperparameters.n_envs,
            }
        else:
            learns_from = {"data_checksum": self.data.checksum, "transitions": self.data.transitions}
        return {
            "algorithm": self.hyperparameters.algorithm,
            **learns_from,
            "seed": self.seed,
            "timesteps": self.timesteps,
            "hyperparameters": dict(self.hyperparameters.settings),
            "device": self.model.device.type,
        }

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of the run."""
        if self.data is None:
            return {**self.identity(), **provenance()}
        recorded = {
            "data": str(self.data.path),
            "env_id": self.env_id,
            "env_kwargs": values_without_secrets(self.env_kwargs),
            "n_envs": 1,
        }
        return {**self.identity(), **recorded, **provenance()}


def prepare(
    algorithm: str,
    env_id: str | None = None,
    timesteps: int | None = None,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
    device: str = "auto",
    data: Path | None = None,
    mmap: bool = False,
    base: Mapping[str, Any] | Path | None = None,
) -> Run:
    """Check everything that a run is given, and build its model with its environments or data.

    Environments that keep months apart are trained on their training split, unless ``env_kwargs`` says
    which split or month to use.

    :param algorithm: name of the algorithm
    :param env_id: an environment id, with or without a version; with ``data``: whose hyperparameters to take,
        by default those of the environment that the data name
    :param timesteps: environment steps, or gradient steps on data; default: what the hyperparameter file says
    :param seed: seed of the run
    :param env_kwargs: keyword arguments of the environment
    :param hyperparameters: values in place of the hyperparameter file's
    :param device: of the model
    :param data: file of a data set, to learn from that
    :param mmap: leave the data on disk
    :param base: what stands in place of the algorithm's hyperparameter file: another file, or all values
    :raises ValueError: for unknown names, wrong values, an algorithm that does not fit the spaces, data that
        do not fit, or what takes more memory than there is
    :raises TypeError: for an unknown keyword argument of the environment
    :raises OSError: if there is no such file
    """
    require_device(device)
    require_seed(seed)
    try:
        if data is not None:
            return _prepare_offline(
                algorithm, data, env_id, timesteps, seed, hyperparameters, device, mmap, base
            )
        return _prepare_online(algorithm, env_id, timesteps, seed, env_kwargs, hyperparameters, device, base)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise ValueError(
            f"{algorithm}: takes more memory than there is (buffer_size, n_steps, n_envs, net_arch): {reason}"
        ) from error


def require_device(device: str) -> None:
    """Check that there is a device: Stable-Baselines3 would take the processor in place of a missing GPU.

    :raises ValueError: naming it
    """
    if device == "auto":
        return
    try:
        th.zeros(1, device=device).item()
    # What torch raises: AssertionError where it was built without CUDA, the others for what is not there.
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        said = " ".join(str(error).split()).partition(". ")[0]
        raise ValueError(f"--device {device}: cannot be used on this machine: {said}") from error


def require_seed(seed: int) -> None:
    """Check that every generator takes a seed: NumPy's old one takes 32 bits, Gymnasium's none below 0.

    :raises ValueError: naming it
    """
    require(0 <= seed < 2**32, "seed", seed, "at least 0 and below 2**32")


def _prepare_online(
    algorithm: str,
    env_id: str | None,
    timesteps: int | None,
    seed: int,
    env_kwargs: Mapping[str, Any] | None,
    hyperparameters: Mapping[str, Any] | None,
    device: str,
    base: Mapping[str, Any] | Path | None,
) -> Run:
    if env_id is None:
        raise ValueError("env_id: a run needs an environment, or data")
    env_id = greendc.resolve_env_id(env_id)
    if learns_from_data(algorithm):
        raise ValueError(f"{algorithm} learns from a data set: say --data FILE in place of --env")
    chosen = _choose(algorithm, env_id, hyperparameters, base)
    total = _timesteps(timesteps, chosen, env_id)
    env_kwargs = {**training_split(env_id, env_kwargs or {}), **(env_kwargs or {})}
    env = chosen.wrap(make_vec_env(env_id, chosen.n_envs, seed, **env_kwargs))
    try:
        model = chosen.build(env, seed, device)
    except ValueError as error:
        hint = _discrete_twin(env_id) if "action space" in str(error) else ""
        raise ValueError(f"{error}{hint}") from error
    first, every = getattr(model, "learning_starts", 0), getattr(model, "train_freq", 1)
    warn_of_no_update(first, total, model.n_envs, every)
    return Run(env_id, env_kwargs, chosen, total, seed, model)


def warn_of_no_update(learning_starts: int, timesteps: int, n_envs: int, train_freq: Any) -> None:
    """Warn where a training ends before the first update.

    :param learning_starts: steps before it
    :param timesteps: of the training, which goes on to a multiple of the steps between updates
    :param n_envs: environments
    :param train_freq: as SB3 takes it; of whole episodes nobody knows where the last one ends
    """
    count, unit = train_freq if isinstance(train_freq, tuple) else (train_freq, "step")
    each = n_envs * count
    known = TrainFrequencyUnit(unit) == TrainFrequencyUnit.STEP
    if known and -(-timesteps // each) * each <= learning_starts:
        said = f"learning_starts={learning_starts}: no update in {timesteps:,} steps: nothing is learned"
        warnings.warn(said, stacklevel=2)


def _prepare_offline(
    algorithm: str,
    data: Path,
    env_id: str | None,
    timesteps: int | None,
    seed: int,
    hyperparameters: Mapping[str, Any] | None,
    device: str,
    mmap: bool,
    base: Mapping[str, Any] | Path | None,
) -> Run:
    if not learns_from_data(algorithm):
        raise ValueError(f"--data: {algorithm} learns from an environment, not from data")
    dataset = OfflineDataset.load(data, mmap=mmap)
    recorded = dataset.metadata.get("env_id")
    named = greendc.resolve_env_id(env_id) if env_id else versioned(recorded or "")
    chosen = _choose(algorithm, named, hyperparameters, base)
    total = _timesteps(timesteps, chosen, named)
    policy = policy_for(chosen.policy, isinstance(dataset.observation_space, spaces.Dict))
    try:
        model = CRR(policy, dataset=dataset, seed=seed, device=device, **chosen.arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{algorithm} does not fit: {error}") from error
    source = DataSource(data, checksum(data) or sha256_of(data), len(dataset), dataset.sources)
    return Run(recorded, dataset.metadata.get("env_kwargs", {}), chosen, total, seed, model, source)


def versioned(env_id: str) -> str:
    """Return an environment's id with its version; one that is not registered here as it is."""
    try:
        return greendc.resolve_env_id(env_id) if env_id else ""
    except ValueError:
        return env_id


def _choose(
    algorithm: str,
    env_id: str,
    hyperparameters: Mapping[str, Any] | None,
    base: Mapping[str, Any] | Path | None,
) -> Hyperparameters:
    if isinstance(base, Mapping):
        return read_hyperparameters(algorithm, {**base, **(hyperparameters or {})})
    return load_hyperparameters(algorithm, env_id, hyperparameters, base)


def _timesteps(asked: int | None, chosen: Hyperparameters, env_id: str | None) -> int:
    total = asked or chosen.n_timesteps
    if total is None:
        raise ValueError(
            f"timesteps: the hyperparameters of {chosen.algorithm} for {env_id} have no n_timesteps"
        )
    return total


def _discrete_twin(env_id: str) -> str:
    """Return a hint at the environment of the same name with discrete actions, where there is one."""
    twin = f"Discrete{env_id}"
    return f"; {twin} has discrete actions" if twin in gym.registry else ""


def training_split(env_id: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of the training split; none where ``env_kwargs`` picks a split or month itself.

    A split that is picked takes the place of the month that an id names, where that month is not in it:
    ``month=None`` says so.
    """
    if "month" in env_kwargs:
        return {}
    if "split" in env_kwargs:
        entry = family_of(env_id)
        own = None if entry is None else entry.presets[greendc.resolve_env_id(env_id)].get("month")
        others = [months for split, months in SPLITS.items() if split == env_kwargs["split"]]
        return {"month": None} if own is not None and others and own not in others[0] else {}
    return greendc.training_kwargs(env_id)


def open_checkpoints(run: Run, out: Path, every: int, resume: bool) -> CheckpointWriter:
    """Prepare for checkpoints in ``out/checkpoints``; to resume, bring the run back to the last whole one.

    :param run: what :func:`prepare` returns; after a checkpoint was read its model is the saved one
    :param out: the run's folder
    :param every: steps between checkpoints
    :param resume: go on from the last checkpoint, if there is one; else older checkpoints are removed
    :raises ValueError: if the algorithm cannot be checkpointed, the last checkpoint is of another run, or
        none is whole
    """
    require_resumable(run.model)
    kind = Checkpointing if run.data is None else OfflineCheckpointing
    checkpoints = kind(out / CHECKPOINTS, every, run.identity())
    if not resume:
        checkpoints.folder.clear()
        return checkpoints
    checkpoint = checkpoints.folder.latest(run.identity(), print)
    if checkpoint is None:
        print(f"no checkpoint in {checkpoints.folder.folder}: starting from the beginning")
        return checkpoints
    if dict(checkpoint.versions) != package_versions():
        print(
            f"checkpoint {checkpoint.path} was written with other versions: results may differ in last bits"
        )
    checkpoints.resume(run.model, checkpoint)
    print(f"going on from step {checkpoint.step:,}")
    return checkpoints


def train(
    run: Run,
    out: Path,
    progress: bool = True,
    formats: Sequence[str] = ("csv",),
    checkpoints: CheckpointWriter | None = None,
) -> bool:
    """Train and save the model; after Ctrl-C the model so far is saved.

    :param run: what :func:`prepare` returns; of a resumed run, the model is that of its checkpoint
    :param out: folder of ``model.zip``, ``run.json``, ``MANIFEST.json``, ``progress.csv`` and, for models
        trained under ``VecNormalize``, ``normalizer.json``
    :param progress: show a progress bar
    :param formats: SB3's logger formats: ``csv``, ``stdout``, ``tensorboard``
    :param checkpoints: what :func:`open_checkpoints` returns
    :return: whether the run was completed
    :raises CheckpointError: if a checkpoint cannot be made or written; nothing is saved then
    :raises DivergedError: if weights are not finite, or distributions are of no use; nothing is saved
    :raises KeyboardInterrupt: after Ctrl-C before the first step, when there is nothing to save
    :raises RescuedError: if the disk takes no more; the model so far is in the place that the message names
    """
    out.mkdir(parents=True, exist_ok=True)
    model = run.model
    model.set_logger(RunLogger(out, formats, checkpoints.resumed_at if checkpoints else None))
    callbacks: list[BaseCallback] = [*run.hyperparameters.make_callbacks(), EpisodeMetricsCallback()]
    bar = ProgressBarCallback(run.timesteps)
    if progress:
        callbacks.append(bar)
    completed, full_disk = True, None
    try:
        if checkpoints is None:
            model.learn(run.timesteps, callback=callbacks)
        else:
            learn(model, run.timesteps, checkpoints, callbacks)
    except KeyboardInterrupt:
        if model.num_timesteps == 0:
            raise
        completed = False
    except OSError as error:
        if not is_output_error(error):
            raise
        completed, full_disk = False, error  # of the log: checkpoints have an error of their own
    except (ArithmeticError, RuntimeError, ValueError) as error:
        # Weights that are not finite make SB3, torch or the environment raise, each in its own way.
        if isinstance(error, CheckpointError):
            raise
        require_finite(model, error)
        raise
    finally:
        bar.close()
        with contextlib.suppress(OSError):  # what is still to be flushed
            model.logger.close()
    require_finite(model)
    seconds = round((time.time_ns() - model.start_time) / 1e9, 1)
    trained = {"completed": completed, "trained_timesteps": model.num_timesteps, "seconds": seconds}
    record = {**run.record(), **trained}
    write_or_rescue(lambda folder: save_model(model, folder, record), out, "the model")
    if full_disk is not None:
        reason = full_disk.strerror or str(full_disk)
        raise RescuedError(f"{out}: {reason}; training ended early, and the model so far is there")
    return completed
