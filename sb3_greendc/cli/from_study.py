"""``train --from-study``: the study says what the options leave open."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import greendc
from sb3_greendc.core.commands import how_to_start, imported_modules
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.tuning.found import Found, best_of
from sb3_greendc.tuning.storage import FOLDER

TRAINED = "trained"
"""Folder of the model beside the study, if ``--out`` says no other."""


def add_study_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a study."""
    group = parser.add_argument_group(
        "what `tune` found",
        "The best trial says algorithm, environment and its settings, hyperparameters, normalization, seed "
        "and steps; other options of this command override it.",
    )
    group.add_argument(
        "--from-study", metavar="NAME", help="train the best trial of a study, or of its folder"
    )
    group.add_argument(
        "--storage",
        metavar="URL",
        help=f"where the study is, as `tune` was told; default: {FOLDER}/NAME/journal.log",
    )


def take_over(options: argparse.Namespace, chosen: Mapping[str, Any]) -> tuple[Found, dict[str, Any]]:
    """Complete the options of a training by what a study found.

    :param options: of ``train``; algorithm, environment, steps, seed, data and folder are filled in
    :param chosen: keyword arguments of the environment that the user gave
    :return: the best trial, and the environment's keyword arguments
    :raises ValueError: if there is no such study, none of its trials is complete, or the options contradict
    """
    found = best_of(options.from_study, options.storage)
    objective = found.objective
    if options.algo not in (None, objective.algorithm):
        raise ValueError(
            f"--algo {options.algo}: study {found.study!r} tuned {objective.algorithm}, whose settings "
            "fit no other; leave --algo out"
        )
    options.algo = objective.algorithm
    options.timesteps = options.timesteps or objective.timesteps
    options.seed = objective.seed if options.seed is None else options.seed
    options.out = options.out or FOLDER / found.study / TRAINED
    if options.data is None and options.env is None:
        options.data = found.data()
    if options.data is not None:
        return found, dict(chosen)
    if options.env is None or greendc.resolve_env_id(options.env) == objective.env_id:
        options.env = objective.env_id
        return found, found.env_kwargs(chosen)
    return found, {**objective.env_kwargs, **chosen}


def describe(found: Found) -> str:
    """Return a line about the trial that is trained."""
    return f"study {found.study!r}: trial {found.number}, the best of {found.trials}"


def command_for(study: str, storage: str | None = None) -> str:
    """Return the command that trains the best trial of a study; a password in the storage's URL is left out.

    :param study: its name
    :param storage: URL of its storage, ``None`` for the journal file where ``tune`` puts it
    """
    where = [] if storage is None else ["--storage", without_secrets(storage)]
    modules = [word for name in imported_modules() for word in ("--import", name)]
    return f"{how_to_start('train')} {shlex.join(['--from-study', study, *where, *modules])}"


def hyperparameter_file(study_folder: Path) -> Path:
    """Return the file of the best trial's hyperparameters in a study's folder."""
    return study_folder / "hparams.yml"
