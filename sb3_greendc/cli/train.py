"""``scripts/train.py``: train any SB3 or sb3-contrib algorithm on any id, and save what repeats the run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sb3_greendc.cli.common import INTERRUPTED, add_environment_options, one_line_errors
from sb3_greendc.core import yaml
from sb3_greendc.core.algorithms import ALGORITHMS, hyperparameters_of
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.engine import ENGINES, map_tasks
from sb3_greendc.runs.checkpoints import CheckpointError, CheckpointFolder, require_same_run
from sb3_greendc.runs.folder import check_manifest, discard, is_finished, locked
from sb3_greendc.runs.models import MODEL_FILE, NORMALIZER_FILE, PICKLED_NORMALIZER_FILE, RUN_FILE, read_run
from sb3_greendc.runs.resume import Checkpointing
from sb3_greendc.runs.training import CHECKPOINTS, Run, open_checkpoints, prepare, train, training_split
from sb3_greendc.runs.training_state import require_resumable

__all__ = ["Job", "Run", "build_parser", "main", "prepare", "train", "training_split"]

FAILED = 1
"""Exit code when a checkpoint could not be written."""


@dataclass(frozen=True)
class Job:
    """One training run as the command was asked for it; what workers get.

    :param out: folder for the model and its record
    :param arguments: of :func:`~sb3_greendc.runs.training.prepare`
    :param formats: SB3's logger formats
    :param progress: show a progress bar
    :param overwrite: replace what ``out`` has
    :param checkpoint_every: environment steps between checkpoints, ``None`` for no checkpoints
    :param resume: go on from the last checkpoint
    """

    out: Path
    arguments: Mapping[str, Any]
    formats: Sequence[str] = ("csv",)
    progress: bool = False
    overwrite: bool = False
    checkpoint_every: int | None = None
    resume: bool = False

    def check(self) -> Run:
        """Check everything that can be wrong before training, and build environments and model.

        :raises ValueError: for wrong arguments, or a folder with results of another run
        """
        has_checkpoints = bool(CheckpointFolder(self.out / CHECKPOINTS).paths())
        if not (self.overwrite or self.resume):
            if (self.out / MODEL_FILE).exists():
                raise ValueError(f"--out {self.out}: has a model already; --overwrite replaces it")
            if has_checkpoints:
                raise ValueError(
                    f"--out {self.out}: has checkpoints; --resume goes on from them, --overwrite starts anew"
                )
        run = prepare(**self.arguments)
        if self.resume and self._is_saved():
            record = read_run(self.out)
            there = {key: record.get(key) for key in run.identity()}
            require_same_run(f"--out {self.out}", there, run.identity())
            if not (record.get("completed") or has_checkpoints):
                raise ValueError(
                    f"--out {self.out}: has the model of an interrupted run without checkpoints; "
                    "--overwrite starts anew"
                )
        elif self.resume and (self.out / MODEL_FILE).exists() and not has_checkpoints:
            check_manifest(self.out)
            raise ValueError(f"--out {self.out}: has a model without {RUN_FILE}; --overwrite replaces it")
        return run

    def is_done(self) -> bool:
        """Tell whether the run that is to be resumed was completed."""
        return self.resume and self._is_saved() and bool(read_run(self.out).get("completed"))

    def _is_saved(self) -> bool:
        """Tell whether the folder has the results of a run, whole."""
        return is_finished(self.out, MODEL_FILE, RUN_FILE)

    def open_checkpoints(self, run: Run) -> Checkpointing | None:
        """Return what writes the checkpoints, ``None`` if none are wanted; to resume, read the last one.

        What is to be overwritten is removed.

        :param run: what :meth:`check` returned
        :raises ValueError: if checkpoints cannot be made or resumed
        """
        if self.checkpoint_every is not None:
            require_resumable(run.model)
        if self.overwrite:
            discard(self.out, (MODEL_FILE, RUN_FILE, NORMALIZER_FILE, PICKLED_NORMALIZER_FILE))
            CheckpointFolder(self.out / CHECKPOINTS).clear()
        if self.checkpoint_every is None:
            return None
        return open_checkpoints(run, self.out, self.checkpoint_every, self.resume)

    def carry_out(self) -> bool:
        """Check, train and save, unless that was done before; return whether it was.

        :raises KeyboardInterrupt: after Ctrl-C, when the model so far has been saved
        """
        with locked(self.out):
            run = self.check()
            if self.is_done():
                return True
            if not train(run, self.out, self.progress, self.formats, self.open_checkpoints(run)):
                raise KeyboardInterrupt
            return False


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog="train",
        description="Train an algorithm on an environment; hyperparameters come from zoo_hparams/ALGO.yml.",
        epilog="With --data FILE in place of --env, crr learns from a data set: train --data x --help.",
    )
    parser.add_argument("--algo", required=True, help=f"one of {', '.join(ALGORITHMS)}")
    parser.add_argument("--env", required=True, help="environment id, with or without a version: VCC-2019")
    parser.add_argument("--timesteps", type=whole_number, help="default: n_timesteps of the hyperparameters")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model and its record")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that --out has already")
    parser.add_argument("--n-envs", type=whole_number, help="environments side by side")
    add_environment_options(parser)
    parser.add_argument(
        "--hparams",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="hyperparameters in place of the file's (gamma=0.985 policy_kwargs='{net_arch: [64]}')",
    )
    parser.add_argument(
        "--cost-limit",
        type=float,
        metavar="D",
        help="cost allowed per episode, in the units of info['cost']; for pid_ppo and recurrent_pid_ppo",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    _add_seed_options(parser)
    _add_checkpoint_options(parser)
    parser.add_argument("--tensorboard", action="store_true", help="log to TensorBoard too")
    parser.add_argument("--verbose", action="store_true", help="print SB3's tables while training")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def _add_seed_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("seeds")
    group.add_argument("--seed", type=int, default=0)
    group.add_argument(
        "--seeds", type=int, nargs="+", metavar="S", help="train once for each, into OUT/seed_S"
    )
    group.add_argument("--engine", choices=ENGINES, default="serial", help="where the --seeds are trained")
    group.add_argument("--jobs", type=whole_number, help="seeds at once; default: one a processor")
    group.add_argument("--ray-address", metavar="ADDR", help="a running Ray cluster, for --engine ray")


def _add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checkpoints")
    group.add_argument(
        "--checkpoint-every",
        type=whole_number,
        metavar="N",
        help="write a checkpoint into OUT/checkpoints after every N steps; the last two are kept",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on from the last checkpoint, as if the run had never stopped; start if there is none",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if any(argument.partition("=")[0] == "--data" for argument in argv):
        from sb3_greendc.cli import train_offline  # which imports this module

        command: Callable[[], int] = partial(train_offline.main, argv)
    else:
        options = build_parser().parse_args(argv)
        command = partial(_train_one if options.seeds is None else _train_seeds, options)
    try:
        return command()
    except CheckpointError as error:
        print(f"train: error: {error}", file=sys.stderr)
        return FAILED


def _train_one(options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        with one_line_errors("train"):
            job = _job(options)
            stack.enter_context(locked(job.out))
            run = job.check()
            print(_describe(run, job.arguments["env_kwargs"]))
            if job.is_done():
                print(f"done before: {job.out / MODEL_FILE}")
                return 0
            checkpointing = job.open_checkpoints(run)
        completed = train(run, job.out, job.progress, job.formats, checkpointing)
    print(f"{'saved' if completed else 'interrupted; saved the model so far:'} {job.out / MODEL_FILE}")
    return 0 if completed else INTERRUPTED


def _train_seeds(options: argparse.Namespace) -> int:
    with one_line_errors("train"):
        single = _job(options)
        if len(set(options.seeds)) < len(options.seeds):
            raise ValueError(f"--seeds {' '.join(map(str, options.seeds))}: each seed may be given once")
        jobs = [
            replace(
                single,
                out=single.out / f"seed_{seed}",
                arguments={**single.arguments, "seed": seed},
                progress=single.progress and options.engine == "serial",
            )
            for seed in options.seeds
        ]
        for job in jobs:
            with locked(job.out):
                run = job.check()
        print(_describe(run, single.arguments["env_kwargs"], options.seeds))

    def report(index: int, done_before: bool) -> None:
        print(f"{'done before' if done_before else 'saved'}: {jobs[index].out / MODEL_FILE}", flush=True)

    # Workers on other machines have folders of their own to be in.
    tasks = [replace(job, out=job.out.absolute()) for job in jobs]
    try:
        map_tasks(Job.carry_out, tasks, options.engine, options.jobs, options.ray_address, report)
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED
    return 0


def _job(options: argparse.Namespace) -> Job:
    """Return the job that the options ask for.

    :raises ValueError: for options that contradict each other, or malformed ones
    """
    if options.resume and options.checkpoint_every is None:
        raise ValueError("--resume: needs --checkpoint-every N, as the run that it goes on with had it")
    if options.resume and options.overwrite:
        raise ValueError("--resume and --overwrite contradict each other")
    if options.seeds is None and (options.engine != "serial" or options.jobs or options.ray_address):
        raise ValueError("--engine, --jobs and --ray-address are for several --seeds")
    hyperparameters = yaml.parse_assignments(options.hparams, "--hparams")
    if options.n_envs is not None:
        hyperparameters["n_envs"] = options.n_envs
    if options.cost_limit is not None:
        if "cost_limit" not in hyperparameters_of(options.algo):
            limited = [name for name in ALGORITHMS if "cost_limit" in hyperparameters_of(name)]
            raise ValueError(
                f"--cost-limit: {options.algo} knows no limit on cost; {' and '.join(limited)} do"
            )
        hyperparameters["cost_limit"] = options.cost_limit
    arguments = {
        "algorithm": options.algo,
        "env_id": options.env,
        "timesteps": options.timesteps,
        "seed": options.seed,
        "env_kwargs": yaml.parse_assignments(options.set, "--set"),
        "hyperparameters": hyperparameters,
        "device": options.device,
    }
    return Job(
        options.out,
        arguments,
        log_formats(options),
        not options.no_progress,
        options.overwrite,
        options.checkpoint_every,
        options.resume,
    )


def log_formats(options: argparse.Namespace) -> list[str]:
    """Return SB3's logger formats: ``csv``, and what ``--verbose`` and ``--tensorboard`` ask for.

    :raises ImportError: if TensorBoard is asked for and not installed
    """
    formats = ["csv"]
    if options.verbose:
        formats.append("stdout")
    if options.tensorboard:
        try:
            import torch.utils.tensorboard  # noqa: F401
        except ImportError as error:
            raise ImportError("--tensorboard needs TensorBoard: pip install tensorboard") from error
        formats.append("tensorboard")
    return formats


def _describe(run: Run, asked: Mapping[str, Any], seeds: Sequence[int] | None = None) -> str:
    said_seeds = f"seed {run.seed}" if seeds is None else f"seeds {' '.join(map(str, seeds))}"
    lines = [
        f"{run.hyperparameters.algorithm} on {run.env_id}: {run.timesteps:,} steps in "
        f"{run.hyperparameters.n_envs} environments, {said_seeds}"
    ]
    split = {key: value for key, value in run.env_kwargs.items() if key not in asked}
    if split:
        said = ", ".join(f"{key}={value}" for key, value in split.items())
        lines.append(f"training split: {said} (--set month=... or split=... chooses others)")
    return "\n".join(lines)
