"""``scripts/train.py``: train any SB3 or sb3-contrib algorithm on any id, and save what repeats the run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

import greendc
from sb3_greendc.cli.common import add_environment_options, one_line_errors, whole_number
from sb3_greendc.common import yaml
from sb3_greendc.common.algorithms import ALGORITHMS
from sb3_greendc.common.callbacks import EpisodeMetricsCallback, ProgressBarCallback
from sb3_greendc.common.models import MODEL_FILE, save_model
from sb3_greendc.common.provenance import provenance
from sb3_greendc.common.vec_env import make_vec_env
from sb3_greendc.zoo import Hyperparameters, load_hyperparameters

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it; the model so far is saved."""


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

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of the run."""
        return {
            "algorithm": self.hyperparameters.algorithm,
            "env_id": self.env_id,
            "env_kwargs": dict(self.env_kwargs),
            "seed": self.seed,
            "timesteps": self.timesteps,
            "n_envs": self.hyperparameters.n_envs,
            "hyperparameters": dict(self.hyperparameters.settings),
            **provenance(),
        }


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
    chosen = load_hyperparameters(algorithm, env_id, hyperparameters)
    total = timesteps or chosen.n_timesteps
    if total is None:
        raise ValueError(f"timesteps: the hyperparameters of {algorithm} for {env_id} have no n_timesteps")
    env_kwargs = {**training_split(env_id, env_kwargs or {}), **(env_kwargs or {})}
    env = chosen.wrap(make_vec_env(env_id, chosen.n_envs, seed, **env_kwargs))
    try:
        model = chosen.build(env, seed, device)
    except ValueError as error:
        raise ValueError(f"{error}{_discrete_twin(env_id)}") from error
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


def train(run: Run, out: Path, progress: bool = True, formats: Sequence[str] = ("csv",)) -> bool:
    """Train and save the model; after Ctrl-C the model so far is saved.

    :param run: what :func:`prepare` returns
    :param out: folder of ``model.zip``, ``run.json``, ``progress.csv`` and, for models trained under
        ``VecNormalize``, ``vecnormalize.pkl``
    :param progress: show a progress bar
    :param formats: SB3's logger formats: ``csv``, ``stdout``, ``tensorboard``
    :return: whether the run was completed
    """
    out.mkdir(parents=True, exist_ok=True)
    model = run.model
    model.set_logger(configure(str(out), list(formats)))
    callbacks: list[BaseCallback] = [EpisodeMetricsCallback()]
    bar = ProgressBarCallback(run.timesteps)
    if progress:
        callbacks.append(bar)
    record = run.record()
    started = time.perf_counter()
    completed = True
    try:
        model.learn(run.timesteps, callback=callbacks)
    except KeyboardInterrupt:
        completed = False
    finally:
        bar.close()
    seconds = round(time.perf_counter() - started, 1)
    trained = {"completed": completed, "trained_timesteps": model.num_timesteps, "seconds": seconds}
    save_model(model, out, {**record, **trained})
    return completed


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog="train",
        description="Train an algorithm on an environment; hyperparameters come from zoo_hparams/ALGO.yml.",
    )
    parser.add_argument("--algo", required=True, help=f"one of {', '.join(ALGORITHMS)}")
    parser.add_argument("--env", required=True, help="environment id, with or without a version: VCC-2019")
    parser.add_argument("--timesteps", type=whole_number, help="default: n_timesteps of the hyperparameters")
    parser.add_argument("--seed", type=int, default=0)
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
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--tensorboard", action="store_true", help="log to TensorBoard too")
    parser.add_argument("--verbose", action="store_true", help="print SB3's tables while training")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("train"):
        formats = _formats(options)
        if (options.out / MODEL_FILE).exists() and not options.overwrite:
            raise ValueError(f"--out {options.out}: has a model already; --overwrite replaces it")
        hyperparameters = yaml.parse_assignments(options.hparams, "--hparams")
        if options.n_envs is not None:
            hyperparameters["n_envs"] = options.n_envs
        env_kwargs = yaml.parse_assignments(options.set, "--set")
        run = prepare(
            options.algo,
            options.env,
            options.timesteps,
            options.seed,
            env_kwargs,
            hyperparameters,
            options.device,
        )
        options.out.mkdir(parents=True, exist_ok=True)
    print(_describe(run, env_kwargs))
    completed = train(run, options.out, not options.no_progress, formats)
    print(f"{'saved' if completed else 'interrupted; saved the model so far:'} {options.out / MODEL_FILE}")
    return 0 if completed else INTERRUPTED


def _formats(options: argparse.Namespace) -> list[str]:
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


def _describe(run: Run, asked: Mapping[str, Any]) -> str:
    lines = [
        f"{run.hyperparameters.algorithm} on {run.env_id}: {run.timesteps:,} steps in "
        f"{run.hyperparameters.n_envs} environments, seed {run.seed}"
    ]
    split = {key: value for key, value in run.env_kwargs.items() if key not in asked}
    if split:
        said = ", ".join(f"{key}={value}" for key, value in split.items())
        lines.append(f"training split: {said} (--set month=... or split=... chooses others)")
    return "\n".join(lines)
