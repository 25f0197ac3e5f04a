"""``scripts/train.py --algo crr --data FILE``: learn from a data set, and save what repeats the run.

A checkpoint is the model itself, written whole or not at all: CRR draws its batches from the number of the
update alone, so that there is nothing else to go on from.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import zipfile
from collections.abc import Mapping, Sequence
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
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.provenance import provenance
from sb3_greendc.crr import CRR
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.runs.checkpoints import comparable, require_same_run
from sb3_greendc.runs.hyperparameters import (
    Hyperparameters,
    learns_from_data,
    load_hyperparameters,
    policy_for,
)
from sb3_greendc.runs.models import MODEL_FILE, save_model
from sb3_greendc.runs.run_logger import RunLogger

CHECKPOINT_FILE = "checkpoint.zip"
_STATE = "run_state.json"


@dataclass(frozen=True)
class OfflineRun:
    """A run on a data set, checked and ready to start.

    :param data: the file
    :param env_id: what the data were recorded in, ``None`` if they do not say
    :param env_kwargs: its keyword arguments then
    :param hyperparameters: of the algorithm
    :param timesteps: gradient steps
    :param seed: of the model
    :param model: the model, with its data
    """

    data: Path
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
            "data": str(self.data),
            "transitions": len(self.model.dataset),
            "seed": self.seed,
            "timesteps": self.timesteps,
            "hyperparameters": dict(self.hyperparameters.settings),
            "device": self.model.device.type,
        }

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of the run."""
        recorded = {"env_id": self.env_id, "env_kwargs": dict(self.env_kwargs), "n_envs": 1}
        return {**self.identity(), **recorded, **provenance()}


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
    return OfflineRun(data, recorded, env_kwargs, chosen, total, seed, model)


class OfflineCheckpoints(BaseCallback):
    """Writes the model, with the state of the run's log, into one file, after every so many steps.

    :param path: the file, replaced each time
    :param every: gradient steps
    :param identity: of the run
    """

    def __init__(self, path: Path, every: int, identity: Mapping[str, Any]) -> None:
        super().__init__()
        self.path = path
        self.every = every
        self.identity = identity

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            self.write()
        return True

    def write(self) -> None:
        """Write the checkpoint, whole or not at all."""
        assert isinstance(self.logger, RunLogger)
        buffer = io.BytesIO()
        self.model.save(buffer)
        state = {"identity": self.identity, "log": self.logger.state_dict()}
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr(_STATE, json.dumps(state, default=str))
        with atomic_write(self.path) as file:
            file.write(buffer.getvalue())


def resume(run: OfflineRun, path: Path) -> tuple[OfflineRun, dict[str, Any]]:
    """Return the run with the model of its checkpoint, and the state of its log.

    :param run: what :func:`prepare` returned
    :param path: the checkpoint
    :raises ValueError: if the file is damaged, or of another run
    """
    try:
        with zipfile.ZipFile(path) as archive:
            state: dict[str, Any] = json.loads(archive.read(_STATE))
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not a whole checkpoint; --overwrite starts anew") from error
    require_same_run(str(path), state["identity"], comparable(run.identity()))
    model = CRR.load(path, device=run.model.device, dataset=run.model.dataset)
    return OfflineRun(**{**vars(run), "model": model}), state["log"]


def train(
    run: OfflineRun,
    out: Path,
    progress: bool = True,
    formats: Sequence[str] = ("csv",),
    checkpoint_every: int | None = None,
    log: Mapping[str, Any] | None = None,
) -> bool:
    """Train and save the model; after Ctrl-C the model so far is saved. Return whether it was completed.

    :param run: what :func:`prepare` or :func:`resume` returns
    :param out: folder of ``model.zip``, ``run.json`` and ``progress.csv``
    :param progress: show a progress bar
    :param formats: SB3's logger formats: ``csv``, ``stdout``, ``tensorboard``
    :param checkpoint_every: gradient steps between checkpoints
    :param log: state of the log, of a run that is resumed
    """
    out.mkdir(parents=True, exist_ok=True)
    model, before = run.model, run.model.num_timesteps
    logger = RunLogger(out, formats, before if log is not None else None)
    if log is not None:
        logger.load_state_dict(dict(log))
    model.set_logger(logger)
    callbacks: list[BaseCallback] = []
    if checkpoint_every is not None:
        callbacks.append(OfflineCheckpoints(out / CHECKPOINT_FILE, checkpoint_every, run.identity()))
    started, completed = time.monotonic(), True
    try:
        model.learn(run.timesteps - before, callbacks, reset_num_timesteps=log is None, progress_bar=progress)
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
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    out: Path = options.out
    with one_line_errors("train"):
        formats = log_formats(options)
        if options.resume and (options.overwrite or options.checkpoint_every is None):
            raise ValueError("--resume: needs --checkpoint-every N, as the run had it, and no --overwrite")
        if not (options.overwrite or options.resume):
            for name in (MODEL_FILE, CHECKPOINT_FILE):
                if (out / name).exists():
                    raise ValueError(f"--out {out}: has a {name} already; --overwrite starts anew")
        run = prepare(
            options.algo,
            options.data,
            options.env,
            options.timesteps,
            options.seed,
            yaml.parse_assignments(options.hparams, "--hparams"),
            options.device,
            options.mmap,
        )
        checkpoint, log = out / CHECKPOINT_FILE, None
        if options.resume and checkpoint.exists():
            run, log = resume(run, checkpoint)
            print(f"going on from step {run.model.num_timesteps:,}")
        out.mkdir(parents=True, exist_ok=True)
    sources = ", ".join(run.model.dataset.sources)
    print(
        f"{options.algo} on {len(run.model.dataset):,} transitions of {sources}: "
        f"{run.timesteps:,} gradient steps"
    )
    completed = train(run, out, not options.no_progress, formats, options.checkpoint_every, log)
    print(f"{'saved' if completed else 'interrupted; saved the model so far:'} {out / MODEL_FILE}")
    return 0 if completed else INTERRUPTED
