"""A trained model as a folder that can be carried elsewhere, with its environment and its files.

Beside the model lies ``environment.json``: the environment's id, its keyword arguments, and ``choice``,
those that say what this model chooses from and sees. Files that the arguments name (a job log, power,
carbon) lie in ``inputs/`` and are named by paths within the folder. ``evaluate --policies FOLDER`` needs
nothing else.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sb3_greendc.core.files import write_json
from sb3_greendc.runs.models import MODEL_FILE, NORMALIZER_FILE, RUN_FILE, model_folder

ENVIRONMENT_FILE = "environment.json"
INPUTS = "inputs"
FILE_ARGUMENTS = ("workload", "trace", "carbon")
"""Keyword arguments that may be files."""


@dataclass(frozen=True)
class Environment:
    """The environment of a portable model.

    :param env_id: its id
    :param env_kwargs: keyword arguments that all policies share
    :param choice: keyword arguments that say what this model chooses from and sees
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    choice: Mapping[str, Any]


def write_portable(target: Path, model: Path, environment: Environment) -> Path:
    """Copy a model and the files of its environment to a folder, in place of what was there; return it.

    :param target: the folder
    :param model: folder of the model; checkpoints and logs in it are left behind
    :param environment: that it acts in; files by paths that exist
    """
    shutil.rmtree(target, ignore_errors=True)
    (target / INPUTS).mkdir(parents=True)
    for name in (MODEL_FILE, RUN_FILE, NORMALIZER_FILE):
        if (model / name).is_file():
            shutil.copyfile(model / name, target / name)
    carried = dict(environment.env_kwargs)
    files = []
    for name in FILE_ARGUMENTS:
        value = carried.get(name)
        if isinstance(value, str | Path) and Path(value).is_file():
            shutil.copyfile(value, target / INPUTS / Path(value).name)
            carried[name] = f"{INPUTS}/{Path(value).name}"
            files.append(name)
    record = {
        "env_id": environment.env_id,
        "env_kwargs": carried,
        "choice": dict(environment.choice),
        "files": files,
    }
    write_json(target / ENVIRONMENT_FILE, record)
    return target


def read_environment(source: str | Path) -> Environment | None:
    """Return the environment beside a model, ``None`` where there is none.

    :param source: path of a model or its folder, as evaluations take it
    :raises ValueError: if the file is damaged, or names a file that is not in the folder
    """
    folder = model_folder(source)
    path = folder / ENVIRONMENT_FILE
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        env_id, files = str(record["env_id"]), list(record["files"])
        env_kwargs, choice = dict(record["env_kwargs"]), dict(record["choice"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: damaged: {type(error).__name__}: {error}") from error
    for name in files:
        inside = (folder / str(env_kwargs.get(name))).resolve()
        if not inside.is_relative_to(folder.resolve()) or not inside.is_file():
            raise ValueError(f"{path}: {name}={env_kwargs.get(name)!r}: must be a file in the folder")
        env_kwargs[name] = str(inside)
    return Environment(env_id, env_kwargs, choice)
