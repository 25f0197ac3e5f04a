"""Policies as commands and tables name them: ``hvf:dispatch=easy,scope=queue``, ``ppo=runs/ppo/seed_*``."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from greendc.baselines.registry import families_with
from greendc.config import nearest
from sb3_greendc.core import yaml
from sb3_greendc.core.algorithms import ALGORITHMS
from sb3_greendc.evaluation.run_folders import is_run
from sb3_greendc.runs.models import MODEL_FILE

PRETRAINED = "pretrained"
RANDOM = "random"
"""Chance: of every family, and of environments that are none of ours."""
WORK_CONSERVING = "work_conserving"
"""Before a policy and a colon: guard it."""
_NAME = re.compile(r"(?P<name>[^=:/\\*?\[\]]+)=(?P<source>.+)")
_PATTERN = re.compile(r"[*?\[]")
_NEXT_OPTION = re.compile(r",(?=\s*\w+=)")


@dataclass(frozen=True)
class BaselineSpec:
    """A baseline and its options.

    :param name: as in ``greendc.baselines.names``
    :param options: keyword arguments of its class
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelSpec:
    """Saved models: one, or several runs of one algorithm, which are judged together.

    :param paths: for each run its ``model.zip`` or folder, with ``ALGORITHM:`` before it if need be
    """

    paths: tuple[str, ...]


@dataclass(frozen=True)
class PretrainedSpec:
    """A trained policy that ships with the package.

    :param name: of a release, or an environment id that one serves
    """

    name: str


def split_name(text: str) -> tuple[str, str]:
    """Split ``NAME=SOURCE``; without a name the source is its own.

    A name has no colon, slash, bracket or wildcard: the ``=`` of an option or a path is another.
    """
    match = _NAME.fullmatch(text)
    return (match["name"], match["source"]) if match else (text, text)


def parse_source(
    text: str, baselines: Sequence[str], env_id: str
) -> BaselineSpec | ModelSpec | PretrainedSpec:
    """Read the source of a policy.

    - ``NAME`` or ``NAME:OPTION=VALUE,...``: a baseline; values are YAML
    - ``pretrained`` or ``pretrained:NAME``: a trained policy that ships, by default the environment's own
    - ``PATH`` or ``ALGORITHM:PATH``: a saved model, a zip file or its run's folder
    - the same with ``*``, ``?`` or ``[...]`` in it: every model that fits, in the order of their numbers

    A baseline's name wins over a file of that name; write ``./NAME`` for the file.

    :param text: what to read
    :param baselines: names of the environment's baselines
    :param env_id: the environment, for the message
    :raises ValueError: if it is neither, no model fits a pattern, or a run without a model does; the message
        names what is allowed, or the run
    """
    if not text.strip():
        raise ValueError(f"policy {text!r}: must name a baseline or a saved model")
    name, separator, options = text.partition(":")
    if name in baselines:
        return BaselineSpec(name, _options(text, options) if separator else {})
    if name == PRETRAINED:
        return PretrainedSpec(options or env_id)
    algorithm, path = (name, options) if name in ALGORITHMS and separator else ("", text)
    if _PATTERN.search(path) and not Path(path).exists():
        prefix = f"{algorithm}:" if algorithm else ""
        return ModelSpec(tuple(prefix + match for match in _matches(path)))
    if algorithm or path.endswith(".zip") or "/" in path or "\\" in path or Path(path).exists():
        return ModelSpec((text,))
    allowed = ", ".join(map(repr, baselines))
    raise ValueError(
        f"unknown policy {text!r}{_of_others(name, baselines) or nearest(name, baselines)} "
        f"(a saved model's path, {PRETRAINED!r}, or {allowed})"
    )


def _of_others(name: str, baselines: Sequence[str]) -> str:
    """Return whose baseline it is, if it is one, and how an id that has none but chance gets it."""
    families = ", ".join(families_with(name))
    if not families:
        return ""
    variant = "; an id of one's own has it if greendc.register_variant makes it, not gym.register"
    return f", a baseline of {families}{variant if set(baselines) <= {RANDOM} else ''}"


def _options(text: str, options: str) -> dict[str, Any]:
    """Return ``a=1,b=[x, y]`` as a dict; a comma separates where a name and ``=`` follow it."""
    assignments = [option.strip() for option in _NEXT_OPTION.split(options)]
    if assignments == [""]:
        raise ValueError(f"policy {text!r}: no option after ':'; must be NAME:OPTION=VALUE,...")
    return yaml.parse_assignments(assignments, f"policy {text!r}:")


def _matches(pattern: str) -> list[str]:
    """Return the models that fit a pattern: zip files, and folders that hold one.

    :raises ValueError: if there is none, or a run that fits has no model: without the runs that diverged,
        the others would look better than the algorithm is
    """
    fitting = sorted(glob.glob(pattern), key=_in_numbers)
    found = [match for match in fitting if match.endswith(".zip") or (Path(match) / MODEL_FILE).is_file()]
    parent = Path(pattern).parent
    of_folders = glob.glob(str(parent)) if Path(pattern).name == MODEL_FILE else fitting
    lacking = [one for one in of_folders if is_run(Path(one)) and not (Path(one) / MODEL_FILE).is_file()]
    if lacking:
        raise ValueError(
            f"models {pattern}: no {MODEL_FILE} in {', '.join(sorted(lacking, key=_in_numbers))} "
            "(unfinished or diverged); finish the run, or write a pattern that leaves it out, as seed_[02]"
        )
    if not found:
        raise ValueError(f"models {pattern}: none there; must fit zip files, or folders with a {MODEL_FILE}")
    return found


def _in_numbers(path: str) -> list[tuple[int, str]]:
    """Sort ``seed_10`` behind ``seed_9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]
