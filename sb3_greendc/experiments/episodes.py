"""Baselines judged on an experiment's episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

import greendc
from sb3_greendc.evaluation.episodes import Batch, run_batch
from sb3_greendc.evaluation.paired import FIRST_SEED
from sb3_greendc.evaluation.policy_sources import Policy, policy_sources
from sb3_greendc.experiments.tasks import Outcome, Scenario, Task

TEST_SEED = FIRST_SEED
"""Seed of the first episode that policies are judged on, as of `greendc evaluate`."""

_BATCH = 64
_SECONDS_PER_STEP = 3e-6  # of one environment of ten units
_SECONDS_PER_FUTURE = 2.5e-6  # of one step, planned by rollouts
_LONG_QUEUES = 4.0  # times slower where logs and overload make many jobs wait
_LONG_FUTURES = 6.0  # times slower there to plan
_SECONDS_PER_MONTH = 0.6  # of capacity curves: some of their baselines solve programmes


@dataclass(frozen=True)
class Variant:
    """A baseline in one of its forms.

    :param name: name of the baseline
    :param options: its options
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The variant's name in tables: ``hvf/skip/ready``, ``density/easy/queue/suspend``."""
        parts = [key if value is True else str(value) for key, value in self.options.items()]
        return "/".join([self.name, *parts])

    @property
    def spec(self) -> str:
        """The variant as evaluations take it: ``hvf:dispatch=skip,scope=ready``."""
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name


@dataclass(frozen=True)
class Baselines(Task):
    """Every variant of some baselines on the same episodes.

    :param scenario: what they are judged on; heuristics have the environment's ordinary mask
    :param variants: the variants
    :param episodes: number of episodes; episode ``k`` is seeded :data:`TEST_SEED` ``+ k``
    """

    scenario: Scenario
    variants: tuple[Variant, ...]
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"baselines {self.scenario.env_id}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        if greendc.family(self.scenario.env_id) == "vcc":
            return 3.0 + self.episodes * len(self.variants) * _SECONDS_PER_MONTH
        futures = sum(int(variant.options.get("futures", 0)) for variant in self.variants)
        rules, plans = len(self.variants) * _SECONDS_PER_STEP, futures * _SECONDS_PER_FUTURE
        if self.scenario.has_long_queues:
            rules, plans = rules * _LONG_QUEUES, plans * _LONG_FUTURES
        size = 1.0 + 0.08 * self.scenario.size
        return 1.5 + self.episodes * self.scenario.episode_steps * size * (rules + plans)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        rows = [row for variant in self.variants for row in self._play(variant)]
        return Outcome({"episodes": pd.DataFrame(rows)})

    def _play(self, variant: Variant) -> Iterator[dict[str, Any]]:
        head = {"policy": variant.label, "baseline": variant.name}
        for row in play(variant.spec, self.scenario, self.episodes):
            yield {**head, **row}


def play(
    policy: Policy, scenario: Scenario, episodes: int, draws: bool = False, first_seed: int | None = None
) -> Iterator[dict[str, Any]]:
    """Play an experiment's test episodes, and return each one's metrics.

    :param policy: what plays
    :param scenario: what is played
    :param episodes: number of episodes
    :param draws: draw actions instead of taking the most likely ones
    :param first_seed: of other episodes than those of tests, to choose by them
    """
    seed = TEST_SEED if first_seed is None else first_seed
    env_id = greendc.resolve_env_id(scenario.env_id)
    (actor,) = policy_sources({"policy": policy}, env_id)
    for first in range(0, episodes, _BATCH):
        count = min(_BATCH, episodes - first)
        batch = Batch(actor, env_id, first, count, seed + first, scenario.env_kwargs, not draws)
        for k, result in enumerate(run_batch(batch).episodes, first):
            yield {"episode": k, **result}


PAPER = ("sjf", "qos", "hvf", "fcfs")
"""The heuristics that the papers compare with."""

BEYOND = ("edf", "density", "deadline_last", "deadline_never")
"""Those that they do not, apart from CoCoRL's ``edf``."""

HEURISTICS = (*PAPER, *BEYOND)


def likely_variants() -> tuple[Variant, ...]:
    """Return the papers' heuristics with ``skip``, and of the others all forms but ``reserve``.

    The best heuristic was always among them, and they take less than half of the time of all.
    """
    others = tuple(name for name in BEYOND if name != "edf")
    return (
        *all_variants((*PAPER, "edf"), dispatches=("skip",)),
        *all_variants(others, dispatches=("skip", "block", "easy")),
    )


def all_variants(
    names: Sequence[str] = HEURISTICS,
    dispatches: Sequence[str] = ("skip", "block", "reserve", "easy"),
    scopes: Sequence[str] = ("ready", "queue"),
) -> tuple[Variant, ...]:
    """Return every dispatch and scope of some heuristics of the resource pool."""
    return tuple(
        Variant(name, {"dispatch": dispatch, "scope": scope})
        for name in names
        for dispatch in dispatches
        for scope in scopes
    )


def suspending_variants() -> tuple[Variant, ...]:
    """Return the heuristics that suspend jobs for others worth more, for where jobs may be suspended."""
    return tuple(
        Variant(form.name, {**form.options, "suspend": True})
        for form in all_variants(("density", "deadline_never"), dispatches=("skip", "easy"))
    )
