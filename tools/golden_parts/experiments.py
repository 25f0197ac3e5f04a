"""Part ``experiments``: tables of three experiments, with tiny budgets, as CSV."""

from __future__ import annotations

import dataclasses
import io
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from golden_parts.digest import Case, Value, digest_of
from golden_parts.names import find, old_words

LIMITS = {
    "checkpoints": 2,
    "decisions": 256,
    "episodes": 2,
    "episodes_along": 1,
    "epochs": 1,
    "labels": 840,
    "online_steps": 64,
    "steps": 20,
    "transitions": 240,
}
"""The most of each that a task may have; by the names of its fields."""
OPTIONS = {"futures": 2, "depth": 8}
"""The same for options of planners."""
SHORT = {"ResourcePool": ("episode_steps", 50), "VCC": ("days", 2), "DiscreteVCC": ("days", 2)}
"""Length of an episode, by the beginning of an id."""
QUICKER = {"n_envs": 8, "n_steps": 16, "learning_starts": 64, "batch_size": 32}
"""Hyperparameters that are lowered where a learner or its algorithm has them."""
LEARNERS: dict[str, tuple[str, ...]] = {
    "a2c": ("n_envs", "n_steps"),
    "discrete_sac": ("n_envs", "learning_starts", "batch_size"),
    "dqn": ("n_envs", "learning_starts", "batch_size"),
    "maskable_ppo": ("n_envs", "n_steps", "batch_size"),
    "pid_ppo": ("n_envs", "n_steps", "batch_size"),
    "ppo": ("n_envs", "n_steps", "batch_size"),
    "sac": ("n_envs", "learning_starts", "batch_size"),
}
"""Which of :data:`QUICKER` each algorithm has."""
ONLINE = {"learning_starts": 24}

CHOSEN: dict[str, Mapping[str, Any] | None] = {
    "rare-fig4": {"x": 10},
    "rare-mixed": None,
    "vcc-shift": None,
}
"""Experiments, and which of their items: those with these labels, or all."""


def cases() -> list[Case]:
    """Return a case an experiment."""
    return [Case(name, partial(tables, name, labels)) for name, labels in CHOSEN.items()]


def tables(name: str, labels: Mapping[str, Any] | None) -> dict[str, Value]:
    """Run an experiment with tiny budgets and return its tables, without columns of seconds.

    :param name: of the experiment
    :param labels: items to run, by their labels; default: all
    """
    from rich.console import Console

    experiment, form = find("load_experiment")(name), find("Form")(quick=True, seeds=1)
    items = [
        dataclasses.replace(item, task=smaller(item.task))
        for item in experiment.items(form)
        if all(item.labels.get(key) == value for key, value in (labels or {}).items())
    ]
    with tempfile.TemporaryDirectory() as folder:
        store = find("Store")(Path(folder))
        find("run_tasks")(items, store, "serial", None, Console(file=io.StringIO()))
        analysis = experiment.analyze(find("Results")(items, store), form)
    found = {f"{name}.csv": as_csv(table) for name, table in analysis.tables.items()}
    return {name: digest_of(text, detail=text) for name, text in found.items()}


def as_csv(table: pd.DataFrame) -> str:
    """Return a table as experiments write it, in the old words, without columns of seconds."""
    kept = table[[column for column in table if "seconds" not in str(column)]]
    kept = kept.rename(columns=old_words)
    for column in kept.columns:
        if pd.api.types.is_numeric_dtype(kept[column]):
            continue
        kept[column] = [old_words(cell) if isinstance(cell, str) else cell for cell in kept[column]]
    return str(kept.to_csv(index=False, float_format="%.6g"))


def smaller(part: Any) -> Any:
    """Return a task, or a part of one, with less to do: fields above their limit are lowered.

    :param part: a frozen dataclass, a mapping or a tuple of such, or any other value
    """
    if isinstance(part, tuple):
        return tuple(smaller(one) for one in part)
    if isinstance(part, Mapping):
        return {key: smaller(value) for key, value in part.items()}
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    whole: Any = part
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.name == "options":
            changes[field.name] = {key: _limited(key, one, OPTIONS) for key, one in value.items()}
        elif field.name == "test_kwargs":
            key, length = SHORT["ResourcePool"]
            changes[field.name] = {**value, **({key: length} if key in value else {})}
        elif field.name == "env_kwargs":
            family = whole.env_id.partition("-")[0]
            key, length = next(short for start, short in SHORT.items() if family.startswith(start))
            changes[field.name] = {**value, key: length}
        elif field.name == "hyperparameters":
            lowered = {key: QUICKER[key] for key in LEARNERS[whole.algorithm]}
            changes[field.name] = {**value, **lowered}
        elif field.name == "online_options":
            changes[field.name] = {**value, **ONLINE}
        elif field.init:
            changes[field.name] = _limited(field.name, smaller(value), LIMITS)
    return dataclasses.replace(part, **changes)


def _limited(name: str, value: Any, limits: Mapping[str, int]) -> Any:
    return min(value, limits[name]) if name in limits and isinstance(value, int) else value
