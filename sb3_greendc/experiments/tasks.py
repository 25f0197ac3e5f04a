"""Tasks: the independent pieces of an experiment, each one training or one evaluation.

A task is a frozen dataclass that can be pickled, computes from its own fields alone, and returns all that
it has to say. Its key is a hash of its fields, so that a finished task is recognised, by any experiment,
and one with changed settings is another task. A task may need others, such as the training of what it
judges: these come first, and it is given their files.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import pandas as pd

import greendc
from greendc.shipped.release import releases

PRINTED = "as printed"
"""What names of the papers' own learners have in them."""

SYNTHETIC = "synthetic"
"""The workload of generated jobs, and what figures call it."""

ALL_WAITING = ", all waiting jobs"
"""End of the name of a heuristic that chooses among all waiting jobs, as RARE's do (section 5.4.4; SC20 and
CoCoRL do not say). Without it, a heuristic has the better of this form and the ready pool's."""

FIRST_SLOT = ", first free slot"
"""The same for one that, like the papers' agents, places each job at the first free slot, now or in later
rows. No paper says that its heuristics do, or that they do not."""


NO_OVERTAKING = ", no overtaking"
"""The same for one that starts no job past another that does not fit: "without backfilling" (RARE), read
literally. It chooses among the ready pool or all waiting jobs, whichever earns more."""


def without_form(name: str) -> str:
    """Return a heuristic's name without what says that it is not in its better form."""
    return name.removesuffix(NO_OVERTAKING).removesuffix(FIRST_SLOT).removesuffix(ALL_WAITING)


LOG_SERIES = "HPC log"
"""What figures call job logs, each with its own name behind."""


def name_of_log(series: str) -> str:
    """Return the name of a series' log alone; that of another series as it is."""
    _, of_log, behind = series.partition(f"{LOG_SERIES} (")
    return behind.partition(")")[0] if of_log else series


Files = Mapping[str, bytes]
"""Contents of a finished task's files, by name."""

FORMAT = 2
"""Part of every key; to be raised when tasks of the same settings would give other results."""


@dataclass(frozen=True)
class Outcome:
    """What a task returns.

    :param tables: tidy tables by name; ``"episodes"`` has a row for each episode played
    :param files: contents of further files by name, such as a trained model
    :param seconds: processor time that it took, in this process
    """

    tables: Mapping[str, pd.DataFrame]
    files: Files = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """An environment with its settings.

    :param env_id: environment id
    :param env_kwargs: keyword arguments of the environment
    """

    env_id: str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments with those of the environment's preset."""
        return {**gym.spec(greendc.resolve_env_id(self.env_id)).kwargs, **self.env_kwargs}

    @property
    def has_long_queues(self) -> bool:
        """Whether hundreds of jobs wait at times, as on logs and where more arrives than the pool can do."""
        return bool(self.settings.get("workload", SYNTHETIC) != SYNTHETIC)

    @property
    def may_suspend(self) -> bool:
        """Whether jobs may be suspended by an action."""
        return bool(self.settings.get("suspend", False))

    @property
    def size(self) -> float:
        """Units of the pool, in multiples of the smallest one's ten."""
        return float(self.settings.get("units", 10)) / 10.0

    @property
    def episode_steps(self) -> int:
        """Time steps of an episode."""
        return int(self.settings.get("episode_steps", 500))

    def with_kwargs(self, **env_kwargs: Any) -> Scenario:
        """Return the same scenario with other or further keyword arguments."""
        return Scenario(self.env_id, {**self.env_kwargs, **env_kwargs})


class Task(abc.ABC):
    """Base of all tasks; subclasses are frozen dataclasses."""

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """A few words for progress displays and file names."""

    @abc.abstractmethod
    def seconds(self) -> float:
        """Return about how long the task takes on one core of 2024."""

    @property
    def needs(self) -> tuple[Task, ...]:
        """Tasks whose files this one takes up, where they are there already."""
        return ()

    def given(self, *files: Files) -> Task:
        """Return the same task with the files of the tasks that it needs, in their order."""
        return self

    @abc.abstractmethod
    def compute(self) -> Outcome:
        """Do the work; what the task needs and was not given, too."""

    def describe(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain values.

        Fields that are not compared are left out: they hold the files that were given, which follow from
        the tasks that are needed.
        """
        own = dataclasses.asdict(self)  # type: ignore[call-overload]  # every task is a dataclass
        compared = {one.name for one in dataclasses.fields(self) if one.compare}  # type: ignore[arg-type]
        own = {name: value for name, value in own.items() if name in compared}
        return {"task": type(self).__name__, "format": FORMAT, **own}

    @property
    def key(self) -> str:
        """A hash of :meth:`describe`, and of the files and the policies that ship which it names."""
        said = self.describe()
        named = sorted(set(_named(said)))
        text = json.dumps([said, named] if named else said, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def identity(self) -> tuple[str, str]:
        """What tells tasks apart: runs of one key under two titles are two, since their tables name them."""
        return self.title, self.key


def _named(said: object) -> Iterator[str]:
    """Yield the checksum of each file, and of each policy that ships, that plain values name."""
    if isinstance(said, Mapping):
        for value in said.values():
            yield from _named(value)
    elif isinstance(said, list | tuple):
        for value in said:
            yield from _named(value)
    elif isinstance(said, str) and said.partition(":")[0] == "pretrained":
        yield from (release.sha256 for release in releases().values())
    elif isinstance(said, str) and os.sep in said and Path(said).is_file():
        status = Path(said).stat()
        yield _checksum(said, status.st_mtime_ns, status.st_size)


@functools.lru_cache
def _checksum(path: str, _changed: int, _size: int) -> str:
    """Return the checksum of a file as it was when it was last changed."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Item:
    """A task and its place in an experiment.

    :param task: the task; several experiments may have it, and it runs once
    :param labels: columns that tell its rows apart in the experiment's tables (``series``, ``x``)
    """

    task: Task
    labels: Mapping[str, Any] = field(default_factory=dict)


def compute(task: Task) -> Outcome:
    """Do a task's work: the function that every engine maps over tasks."""
    started = time.process_time()
    outcome = task.compute()
    return dataclasses.replace(outcome, seconds=round(time.process_time() - started, 2))
