"""``scripts/train.py --algo crr --data FILE``: learn from a data set, and save what repeats the run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback

import greendc
from sb3_greendc.cli.common import INTERRUPTED, one_line_errors
from sb3_greendc.cli.train import log_formats
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.files import sha256_of
from sb3_greendc.core.provenance import package_versions, provenance
from sb3_greendc.crr import CRR
from sb3_greendc.crr.updates import Losses
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.datasets.npz import checksum
from sb3_greendc.runs.checkpoints import Checkpoint, CheckpointFolder, require_same_run
from sb3_greendc.runs.folder import discard, is_finished, locked
from sb3_greendc.runs.hyperparameters import (
    Hyperparameters,
    learns_from_data,
    load_hyperparameters,
    policy_for,
)
from sb3_greendc.runs.models import MODEL_FILE, RUN_FILE, read_run, save_model
from sb3_greendc.runs.run_logger import RunLogger
from sb3_greendc.runs.training import CHECKPOINTS
from sb3_greendc.runs.trees import pack_tree, unpack_tree


@dataclass(frozen=True)
class OfflineRun:
    """A run on a data set, checked and ready to start.

    :param data: the file
    :param data_checksum: of the file
    :param env_id: what the data were recorded in, ``None`` if they do not say
    :param env_kwargs: its keyword arguments then
    :param hyperparameters: of the algorithm
    :param timesteps: gradient steps
    :param seed: of the model
    :param model: the model, with its data
    """

    data: Path
    data_checksum: str
    env_id: str | None
    env_kwargs: Mapping[str, Any]
    hyperparameters: Hyperparameters
    timesteps: int
    seed: int
    model: CRR

    def identity(self) -> dict[str, Any]:
        """Return what makes the run the one that it is: the same identity gives the same model."""
        return {
            "algorithm": self.hyperparameters.algorithm,
            "data_checksum": self.data_checksum,
            "transitions": len(self.model.dataset),
            "seed": self.seed,
            "timesteps": self.timesteps,
            "hyperparameters": dict(self.hyperparameters.settings),
            "device": self.model.device.type,
        }

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of the run."""
        recorded = {
            "data": str(self.data),
            "env_id": self.env_id,
            "env_kwargs": dict(self.env_kwargs),
            "n_envs": 1,
        }
        return {**self.identity(), "data": str(self.data), **recorded, **provenance()}


def prepare(
    algorithm: str,
    data: Path,
    env_id: str | None = None,
    timesteps: int | None = None,
    seed: int = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    device: str = "auto",
    mmap: bool = False,
) -> OfflineRun:
    """Check everything that a run is given, read the data, and build the model.

    :param algorithm: name of an algorithm that learns from data
    :param data: file of a data set
    :param env_id: whose hyperparameters to take; default: the environment that the data name
    :param timesteps: gradient steps, default: what the hyperparameter file says
    :param seed: of the run
    :param hyperparameters: values in place of the hyperparameter file's
    :param device: of the model
    :param mmap: leave the data on disk
    :raises ValueError: for unknown names, wrong values, or data that do not fit
    :raises OSError: if there is no such file
    """
    if not learns_from_data(algorithm):
        raise ValueError(f"--data: {algorithm} learns from an environment, not from data")
    dataset = OfflineDataset.load(data, mmap=mmap)
    recorded = dataset.metadata.get("env_id")
    named = env_id or recorded
    chosen = load_hyperparameters(algorithm, greendc.resolve_env_id(named) if named else "", hyperparameters)
    total = timesteps or chosen.n_timesteps
    if total is None:
        raise ValueError(f"timesteps: the hyperparameters of {algorithm} for {named} have no n_timesteps")
    policy = policy_for(chosen.policy, isinstance(dataset.observation_space, spaces.Dict))
    try:
        model = CRR(policy, dataset=dataset, seed=seed, device=device, **chosen.arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{algorithm} does not fit: {error}") from error
    env_kwargs = dataset.metadata.get("env_kwargs", {})
    return OfflineRun(
        data, checksum(data) or sha256_of(data), recorded, env_kwargs, chosen, total, seed, model
    )


class OfflineCheckpoints(BaseCallback):
    """Writes a checkpoint after every so many steps, and keeps the last two.

    It holds what learning changes: weights, optimizer, counters, the running means of the log, and the log.
    The rest follows from the data and the settings: CRR draws its batches from the number of the update
    alone. It is made of numbers and text, no pickle.

    :param folder: where they go
    :param every: gradient steps
    :param identity: of the run
    """

    def __init__(self, folder: Path, every: int, identity: Mapping[str, Any]) -> None:
        super().__init__()
        self.folder = CheckpointFolder(folder)
        self.every = every
        self.identity = identity
        self._resumed: dict[str, Any] | None = None

    def resume(self, model: CRR, checkpoint: Checkpoint) -> None:
        """Give a freshly built model what a checkpoint holds; the log follows when training starts.

        :raises ValueError: if the checkpoint does not fit the model
        """
        try:
            state = unpack_tree(checkpoint.state)
            model.set_parameters(state["parameters"], exact_match=True, device=model.device)
            model.advantage_std = state["advantage_std"].to(model.device)
            model.num_timesteps, model._n_updates = checkpoint.step, state["n_updates"]
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise ValueError(f"checkpoint {checkpoint.path}: does not fit the run: {reason}") from error
        self._resumed = state

    def _on_training_start(self) -> None:
        if self._resumed is None:
            return
        model, state, self._resumed = self._crr(), self._resumed, None
        model._history = [
            (actor.to(model.device), critic.to(model.device), accepted)
            for actor, critic, accepted in state["history"]
        ]
        if state["last"] is not None:
            moved = (None if tensor is None else tensor.to(model.device) for tensor in state["last"])
            model._last_losses = Losses._make(moved)
        self._log().load_state_dict(state["log"])
        if model._history and model.num_timesteps % self.locals["log_interval"] == 0:
            model.dump_logs()  # as it did right after the checkpoint

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            self.write()
        return True

    def write(self) -> None:
        """Write a checkpoint, whole or not at all.

        :raises CheckpointError: if it cannot be written
        """
        model = self._crr()
        last = model._last_losses
        state = {
            "parameters": model.get_parameters(),
            "advantage_std": model.advantage_std,
            "n_updates": model._n_updates,
            "history": model._history,
            "last": None if last is None else tuple(last),
            "log": self._log().state_dict(),
        }
        self.folder.write(self.num_timesteps, self.identity, package_versions(), pack_tree(state))

    def _crr(self) -> CRR:
        assert isinstance(self.model, CRR)
        return self.model

    def _log(self) -> RunLogger:
        assert isinstance(self.logger, RunLogger)
        return self.logger


def open_checkpoints(run: OfflineRun, out: Path, every: int, resume: bool) -> OfflineCheckpoints:
    """Prepare for checkpoints in ``out/checkpoints``; to resume, bring the run back to the last whole one.

    :param run: what :func:`prepare` returns
    :param out: the run's folder
    :param every: gradient steps between checkpoints
    :param resume: go on from the last checkpoint, if there is one; else older ones are removed
    :raises ValueError: if the last checkpoint is of another run, or none is whole
    """
    checkpoints = OfflineCheckpoints(out / CHECKPOINTS, every, run.identity())
    if not resume:
        checkpoints.folder.clear()
        return checkpoints
    checkpoint = checkpoints.folder.latest(run.identity(), print)
    if checkpoint is None:
        print(f"no checkpoint in {checkpoints.folder.folder}: starting from the beginning")
        return checkpoints
    checkpoints.resume(run.model, checkpoint)
    print(f"going on from step {checkpoint.step:,}")
    return checkpoints


def train(
    run: OfflineRun,
    out: Path,
    progress: bool = True,
    formats: Sequence[str] = ("csv",),
    checkpoints: OfflineCheckpoints | None = None,
) -> bool:
    """Train and save the model; after Ctrl-C the model so far is saved. Return whether it was completed.

    :param run: what :func:`prepare` returns; of a resumed run, the model is that of its checkpoint
    :param out: folder of ``model.zip``, ``run.json``, ``MANIFEST.json`` and ``progress.csv``
    :param progress: show a progress bar
    :param formats: SB3's logger formats: ``csv``, ``stdout``, ``tensorboard``
    :param checkpoints: what :func:`open_checkpoints` returns
    :raises CheckpointError: if a checkpoint cannot be written; nothing is saved then
    """
    out.mkdir(parents=True, exist_ok=True)
    model, before = run.model, run.model.num_timesteps
    logger = RunLogger(out, formats, before or None)
    model.set_logger(logger)
    callbacks: list[BaseCallback] = [] if checkpoints is None else [checkpoints]
    started, completed = time.monotonic(), True
    try:
        model.learn(run.timesteps - before, callbacks, reset_num_timesteps=before == 0, progress_bar=progress)
    except KeyboardInterrupt:
        completed = False
    finally:
        logger.close()
    seconds = round(time.monotonic() - started, 1)
    trained = {"completed": completed, "trained_timesteps": model.num_timesteps, "seconds": seconds}
    save_model(model, out, {**run.record(), **trained})
    return completed


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog="train",
        description="Learn from a data set; hyperparameters come from zoo_hparams/ALGO.yml.",
    )
    parser.add_argument("--algo", required=True, help="crr")
    parser.add_argument("--data", type=Path, required=True, help="a file of scripts/collect.py, x.npz")
    parser.add_argument(
        "--env", help="whose hyperparameters to take; default: what the data were recorded in"
    )
    parser.add_argument(
        "--timesteps", type=whole_number, help="gradient steps; default: n_timesteps of the file"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="folder for the model and its record")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that --out has already")
    parser.add_argument(
        "--hparams",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="hyperparameters in place of the file's (weight_mode=exp beta=0.2)",
    )
    parser.add_argument(
        "--mmap", action="store_true", help="leave the data on disk, if memory does not hold them"
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument(
        "--checkpoint-every", type=whole_number, metavar="N", help="gradient steps between them"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint; start if there is none"
    )
    parser.add_argument("--tensorboard", action="store_true", help="log to TensorBoard too")
    parser.add_argument("--verbose", action="store_true", help="print SB3's tables while training")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    :raises CheckpointError: if a checkpoint cannot be written
    """
    options = build_parser().parse_args(argv)
    out: Path = options.out
    with ExitStack() as stack:
        with one_line_errors("train"):
            formats = log_formats(options)
            if options.resume and (options.overwrite or options.checkpoint_every is None):
                raise ValueError(
                    "--resume: needs --checkpoint-every N, as the run had it, and no --overwrite"
                )
            stack.enter_context(locked(out))
            run = _prepare(options)
            if _is_done(run, options):
                print(f"done before: {out / MODEL_FILE}")
                return 0
            if options.overwrite:
                discard(out, (MODEL_FILE, RUN_FILE))
                CheckpointFolder(out / CHECKPOINTS).clear()
            checkpoints = None
            if options.checkpoint_every is not None:
                checkpoints = open_checkpoints(run, out, options.checkpoint_every, options.resume)
        sources = ", ".join(run.model.dataset.sources)
        print(
            f"{options.algo} on {len(run.model.dataset):,} transitions of {sources}: "
            f"{run.timesteps:,} gradient steps"
        )
        completed = train(run, out, not options.no_progress, formats, checkpoints)
    print(f"{'saved' if completed else 'interrupted; saved the model so far:'} {out / MODEL_FILE}")
    return 0 if completed else INTERRUPTED


def _prepare(options: argparse.Namespace) -> OfflineRun:
    """Return the run that the options ask for.

    :raises ValueError: if it does not fit, or its folder holds another one
    """
    out: Path = options.out
    if not (options.overwrite or options.resume):
        if (out / MODEL_FILE).exists():
            raise ValueError(f"--out {out}: has a {MODEL_FILE} already; --overwrite starts anew")
        if CheckpointFolder(out / CHECKPOINTS).paths():
            raise ValueError(
                f"--out {out}: has checkpoints; --resume goes on from them, --overwrite starts anew"
            )
    return prepare(
        options.algo,
        options.data,
        options.env,
        options.timesteps,
        options.seed,
        yaml.parse_assignments(options.hparams, "--hparams"),
        options.device,
        options.mmap,
    )


def _is_done(run: OfflineRun, options: argparse.Namespace) -> bool:
    """Tell whether the run that is to be resumed was completed.

    :raises ValueError: if the folder has the model of another one
    """
    out: Path = options.out
    if not options.resume or not is_finished(out, MODEL_FILE, RUN_FILE):
        return False
    record = read_run(out)
    there = {key: record.get(key) for key in run.identity()}
    require_same_run(f"--out {out}", there, run.identity())
    return bool(record.get("completed"))
