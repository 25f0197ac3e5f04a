"""``scripts/train.py``: train an algorithm on an environment or a data set, and save what repeats the run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from sb3_greendc.cli.common import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    Parser,
    add_environment_options,
    one_line_errors,
)
from sb3_greendc.cli.from_study import TRAINED, add_study_options, describe, take_over
from sb3_greendc.core import yaml
from sb3_greendc.core.algorithms import ALGORITHMS, hyperparameters_of
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.engine import ENGINES, TaskError, map_tasks, require_engine
from sb3_greendc.runs.folder import locked
from sb3_greendc.runs.jobs import ENDS_A_RUN, Ended, Job
from sb3_greendc.runs.models import MODEL_FILE
from sb3_greendc.runs.training import Run, train
from sb3_greendc.tuning.storage import FOLDER


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("train"),
        description="Train an algorithm on an environment, or on data; hyperparameters come from "
        "zoo_hparams/ALGO.yml.",
    )
    parser.add_argument("--algo", help=f"one of {', '.join(ALGORITHMS)}")
    parser.add_argument(
        "--env",
        help="environment id, with or without a version: VCC-2019; with --data: whose hyperparameters to "
        "take, by default those of what the data were recorded in",
    )
    parser.add_argument(
        "--timesteps",
        type=whole_number,
        help="environment steps, with --data gradient steps; default: n_timesteps of the hyperparameters",
    )
    parser.add_argument(
        "--out", type=Path, help=f"folder for the model and its record; of a study: {FOLDER}/NAME/{TRAINED}"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a model that --out has already")
    parser.add_argument(
        "--n-envs",
        type=whole_number,
        help="environments side by side; default: n_envs of the hyperparameters",
    )
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
        "--hparams-file",
        type=Path,
        metavar="FILE",
        help="hyperparameters in place of zoo_hparams/ALGO.yml, such as the hparams.yml of `tune`",
    )
    parser.add_argument(
        "--cost-limit",
        type=float,
        metavar="D",
        help="cost allowed per episode, in the units of info['cost']; for pid_ppo and recurrent_pid_ppo",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    add_study_options(parser)
    _add_data_options(parser)
    _add_seed_options(parser)
    _add_checkpoint_options(parser)
    parser.add_argument("--tensorboard", action="store_true", help="log to TensorBoard too")
    parser.add_argument("--verbose", action="store_true", help="print SB3's tables while training")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data, for crr")
    group.add_argument(
        "--data", type=Path, metavar="FILE", help=f"learn from this file of {how_to_start('collect')}, x.npz"
    )
    group.add_argument(
        "--mmap", action="store_true", help="leave the data on disk, if memory does not hold them"
    )


def _add_seed_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("seeds")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, help="default: 0, or the study's")
    which.add_argument(
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
    options = build_parser().parse_args(argv)
    try:
        return _train_one(options) if options.seeds is None else _train_seeds(options)
    except ENDS_A_RUN as error:
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
            checkpoints = job.open_checkpoints(run)
        completed = train(run, job.out, job.progress, job.formats, checkpoints)
    print(f"{'saved' if completed else 'interrupted; saved the model so far:'} {job.out / MODEL_FILE}")
    return 0 if completed else INTERRUPTED


def _train_seeds(options: argparse.Namespace) -> int:
    with one_line_errors("train"):
        require_engine(options.engine, options.jobs, options.ray_address)
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

    failed: dict[int, Ended] = {}

    def report(index: int, ended: Ended) -> None:
        if ended.failure is not None:
            failed[index] = ended
            print(f"failed: {jobs[index].out}", flush=True)
        else:
            said = "done before" if ended.done_before else "saved"
            print(f"{said}: {jobs[index].out / MODEL_FILE}", flush=True)

    def lose(index: int, error: TaskError, given_up: bool) -> None:
        if given_up:
            report(index, Ended(failure=error.reason))
        else:
            print(f"{jobs[index].out}: {error.reason}", flush=True)

    # Workers on other machines have folders of their own to be in.
    tasks = [replace(job, out=job.out.absolute()) for job in jobs]
    try:
        map_tasks(
            Job.carry_out,
            tasks,
            options.engine,
            options.jobs,
            options.ray_address,
            report,
            again=Job.once_more,
            on_lost=lose,
        )
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED
    except ConnectionError as error:  # something else than Ray answers at --ray-address
        print(f"train: error: {error}", file=sys.stderr)
        return BAD_INPUT
    finally:
        for index, ended in sorted(failed.items()):
            print(
                f"{ended.traceback}train: error: seed {options.seeds[index]}: {ended.failure}",
                file=sys.stderr,
            )
    return FAILED if failed else 0


def _job(options: argparse.Namespace) -> Job:
    """Return the job that the options ask for.

    :raises ValueError: for options that contradict each other, or malformed ones
    """
    env_kwargs = yaml.parse_assignments(options.set, "--set")
    base: Any = options.hparams_file
    if options.from_study is not None:
        if base is not None:
            raise ValueError(f"--hparams-file {base}: the hyperparameters come from --from-study")
        found, env_kwargs = take_over(options, env_kwargs)
        base = dict(found.settings)
        print(describe(found))
    _check_options(options)
    hyperparameters = yaml.parse_assignments(options.hparams, "--hparams")
    for key in ("n_envs", "cost_limit"):
        if key in hyperparameters and getattr(options, key) is not None:
            option = f"--{key.replace('_', '-')}"
            raise ValueError(f"{option} and --hparams {key}={hyperparameters[key]}: give one of them")
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
        "seed": options.seed or 0,
        "env_kwargs": env_kwargs,
        "hyperparameters": hyperparameters,
        "device": options.device,
        "data": None if options.data is None else options.data.absolute(),
        "mmap": options.mmap,
        "base": base,
    }
    return Job(
        options.out,
        arguments,
        _log_formats(options),
        not options.no_progress,
        options.overwrite,
        options.checkpoint_every,
        options.resume,
    )


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other.

    :raises ValueError: naming them
    """
    if options.algo is None:
        raise ValueError("--algo NAME, or --from-study NAME, is required: what to train")
    if options.out is None:
        raise ValueError("--out FOLDER is required: where the model and its record go")
    if options.storage is not None and options.from_study is None:
        raise ValueError(f"--storage {options.storage}: needs --from-study NAME")
    if options.data is None:
        if options.env is None:
            raise ValueError("--env ID, or --data FILE, is required: what to learn from")
        if options.mmap:
            raise ValueError("--mmap: is for --data")
    elif options.set or options.n_envs is not None:
        raise ValueError(f"{'--set' if options.set else '--n-envs'}: is for an environment; --data has none")
    if options.resume and options.checkpoint_every is None:
        raise ValueError("--resume: needs --checkpoint-every N, as the run that it goes on with had it")
    if options.resume and options.overwrite:
        raise ValueError("--resume and --overwrite contradict each other")
    if options.seeds is None and (options.engine != "serial" or options.jobs or options.ray_address):
        raise ValueError("--engine, --jobs and --ray-address are for several --seeds")


def _log_formats(options: argparse.Namespace) -> list[str]:
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
    algorithm = run.hyperparameters.algorithm
    if run.data is not None:
        return (
            f"{algorithm} on {run.data.transitions:,} transitions of {', '.join(run.data.sources)}: "
            f"{run.timesteps:,} gradient steps, {said_seeds}"
        )
    lines = [
        f"{algorithm} on {run.env_id}: {run.timesteps:,} steps in "
        f"{run.hyperparameters.n_envs} environments, {said_seeds}"
    ]
    split = {key: value for key, value in run.env_kwargs.items() if key not in asked}
    said = ", ".join(f"{key}={value}" for key, value in split.items() if value is not None)
    if said:
        lines.append(f"training split: {said} (--set month=... or split=... chooses others)")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
