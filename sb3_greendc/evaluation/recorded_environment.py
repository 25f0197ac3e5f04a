"""The environment that a saved model was made for: where its folder says so, none other need be named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import greendc
from greendc import baselines, registration
from greendc.vcc.splits import DEFAULT_MONTH, SPLITS
from sb3_greendc.evaluation.policy_specs import WORK_CONSERVING, ModelSpec, parse_source, split_name
from sb3_greendc.runs.models import model_folder, read_run
from sb3_greendc.runs.portable import read_environment


def recorded_environment(policies: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the environment that the first saved model among policies was made for, and its settings.

    A portable folder says it (:mod:`sb3_greendc.runs.portable`), else the record of a training run. Of the
    latter, the months (or the carbon) that training put in the place of the id's own are left out: nothing
    is judged on the months of its training, unless these were chosen by hand.

    :param policies: as commands take them
    :return: an id, and keyword arguments
    :raises ValueError: if there is no such model, or a policy or its environment is unknown
    """
    for path in _saved_models(policies):
        environment = read_environment(path)
        if environment is not None:
            return environment.env_id, dict(environment.env_kwargs)
        run = read_run(model_folder(path))
        if run.get("env_id") is not None:
            env_id = str(run["env_id"])
            return env_id, _without_training_split(env_id, run.get("env_kwargs") or {})
    raise ValueError("--env: missing; only a saved model with a record of its environment does without")


def _saved_models(policies: Sequence[str]) -> Iterator[str]:
    """Yield the paths of the saved models among policies; of a pattern, those that fit it."""
    known = [
        name
        for family in registration.FAMILIES
        for name in baselines.names(family.name, hindsight=True, commands=True)
    ]
    for policy in policies:
        source = split_name(policy)[1].removeprefix(f"{WORK_CONSERVING}:")
        spec = parse_source(source, known, "without --env")
        if isinstance(spec, ModelSpec):
            yield from spec.paths


def _without_training_split(env_id: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded keyword arguments without those that ``train`` or ``tune`` added to them."""
    for added in _training_splits(greendc.resolve_env_id(env_id)):
        if added.items() <= env_kwargs.items():
            return {key: value for key, value in env_kwargs.items() if key not in added}
    return dict(env_kwargs)


def _training_splits(env_id: str) -> Iterator[dict[str, Any]]:
    """Yield the keyword arguments that ``train`` adds to an id with its version, as JSON has them.

    Then those of ``tune``, where they are others: for VCC it leaves out the month that the id is tested on.
    """
    yield greendc.training_kwargs(env_id)
    entry = registration.family_of(env_id)
    if entry is not None and entry.name == "vcc":
        month = entry.presets[env_id].get("month", DEFAULT_MONTH)
        own = (month,) if isinstance(month, str) else tuple(month)
        yield {"month": [month for month in SPLITS["train"] if month not in own]}
