"""What a study searches for: the algorithm, the environment and its splits, the budget of a trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import greendc
from greendc.config import require, require_one_of
from greendc.registration import family_of
from greendc.vcc.splits import DEFAULT_MONTH, SPLITS
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.runs.hyperparameters import Hyperparameters, read_hyperparameters
from sb3_greendc.tuning.conversion import setting_of, to_settings
from sb3_greendc.tuning.spaces import Setting, Space, search_space

PRUNERS = ("median", "hyperband", "none")

VALIDATION_SEED = 1_000_000
"""Validation episode ``k`` is seeded ``VALIDATION_SEED + k``; trainings are seeded far below."""
TEST_SEED = 2_000_000
"""Test episode ``k`` is seeded ``TEST_SEED + k``."""

_VALIDATION_CARBON = {"PGE-2019": "PGE-2020", "SCE-2019": "SCE-2020"}
"""The year of emissions to validate on, by the one to train on; the id's own is the test's."""


@dataclass(frozen=True)
class Objective:
    """A search, in plain values that are stored with the study.

    :param algorithm: name of the algorithm
    :param env_id: the environment's id with its version
    :param timesteps: environment steps of a trial
    :param env_kwargs: keyword arguments of the environment
    :param fixed: hyperparameters that are not searched, in place of the hyperparameter file's
    :param base: hyperparameters of which the search replaces some, ``fixed`` among them
    :param seed: of every training, and of the sampler
    :param evaluations: evaluations of a trial, evenly spread; the last one is its value
    :param episodes: validation episodes of an evaluation
    :param pruner: one of :data:`PRUNERS`; ``"none"`` under a cost limit, of which pruners know nothing
    :param data: file of the data set that an offline algorithm learns from, on every machine that works on
        the study; ``timesteps`` are gradient steps then
    :param data_checksum: of that file; ``None`` where it has none
    :param validation_carbon: year of the emissions that trials are judged on (``"PGE-2020"``); ``None``: what
        the environment has anyway
    """

    algorithm: str
    env_id: str
    timesteps: int
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    evaluations: int = 10
    episodes: int = 16
    pruner: str = "median"
    data: str | None = None
    data_checksum: str | None = None
    validation_carbon: str | None = None

    def __post_init__(self) -> None:
        require(self.timesteps >= 1, "timesteps", self.timesteps, "1 or more")
        limit = f"from 0 to {VALIDATION_SEED - 10_000} (higher ones are the validation's)"
        require(0 <= self.seed <= VALIDATION_SEED - 10_000, "seed", self.seed, limit)
        require(self.evaluations >= 1, "evaluations", self.evaluations, "1 or more")
        require(1 <= self.episodes <= TEST_SEED - VALIDATION_SEED, "episodes", self.episodes, "1 or more")
        require_one_of("pruner", self.pruner, PRUNERS)
        limited = self.cost_limit is not None
        require(not limited or self.pruner == "none", "pruner", self.pruner, "'none' with a cost_limit")
        if greendc.family(self.env_id) == "vcc":
            for key in ("month", "split"):
                known = ", ".join(SPLITS)
                why = f"left out: tuning trains, validates and tests on months of its own (splits {known})"
                require(key not in self.env_kwargs, key, self.env_kwargs.get(key), why)

    @property
    def training_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of the environments that are trained on.

        For a VCC the months of the split ``"train"``, without the id's own month, which is its test
        (``VCC-2019``'s would be among them). A resource pool with the emissions of 2021 is trained on those
        of 2019. Other environments differ by their seeds alone.
        """
        kwargs = greendc.training_kwargs(self.env_id)
        if greendc.family(self.env_id) == "vcc" and self._months("train") != SPLITS["train"]:
            kwargs = {"month": self._months("train")}
        return {**kwargs, **self.env_kwargs}

    @property
    def validation_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of the environments that trials are judged on: never those of the test.

        For a VCC the months of the split ``"validation"``, without the id's own; for a resource pool with
        emissions, those of :attr:`validation_carbon`.
        """
        if greendc.family(self.env_id) == "vcc":
            return {"month": self._months("validation"), **self.env_kwargs}
        carbon = {} if self.validation_carbon is None else {"carbon": self.validation_carbon}
        return {**self.env_kwargs, **carbon}

    @property
    def validation_of(self) -> str:
        """What tells the validation episodes from the others, beside their seeds, in words."""
        months = self.validation_kwargs.get("month")
        if months:
            return f"months {', '.join(months)}"
        return f"emissions of {self.validation_carbon}" if self.validation_carbon else ""

    def _months(self, split: str) -> tuple[str, ...]:
        own = months_of(self.env_id, {})
        return tuple(month for month in SPLITS[split] if month not in own)

    @property
    def space(self) -> Space:
        """The search space: the algorithm's, without what is fixed."""
        env = make_vec_env(self.env_id, 1, **self.training_kwargs)
        setting = Setting.of(greendc.family(self.env_id), env.action_space)
        env.close()
        fixed = {"policy_kwargs", *self.fixed} if "policy" in self.fixed else set(self.fixed)
        if self.base.get("noise_type") is None:
            fixed.add("noise_std")  # of no noise
        space = search_space(self.algorithm, setting)
        return {name: values for name, values in space.items() if setting_of(name) not in fixed}

    @property
    def cost_limit(self) -> float | None:
        """The limit on an episode's cost, for algorithms that have one."""
        limit = self.base.get("cost_limit")
        return None if limit is None else float(limit)

    def hyperparameters(self, parameters: Mapping[str, Any]) -> Hyperparameters:
        """Return the hyperparameters of a trial's parameters."""
        return read_hyperparameters(self.algorithm, to_settings(self.algorithm, parameters, self.base))

    def record(self) -> dict[str, Any]:
        """Return the objective as JSON can hold it; :meth:`from_record` reads it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Objective:
        """Return the objective that a study was made for."""
        return cls(**record)


def validation_carbon(env_id: str, env_kwargs: Mapping[str, Any]) -> str | None:
    """Return the year of emissions that trials on an environment are judged on.

    ``None`` if it has no years of its own for training and test, or ``env_kwargs`` says which to use.

    :param env_id: with its version
    :param env_kwargs: keyword arguments that the user gave
    """
    trained_on = greendc.training_kwargs(env_id).get("carbon")
    if trained_on is None or "carbon" in env_kwargs:
        return None
    return _VALIDATION_CARBON.get(trained_on, str(trained_on))


def months_of(env_id: str, env_kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the months of a VCC environment."""
    entry = family_of(env_id)
    assert entry is not None
    if env_kwargs.get("split") is not None:
        return SPLITS.get(env_kwargs["split"], ())
    month = env_kwargs.get("month") or entry.presets[env_id].get("month", DEFAULT_MONTH)
    return (month,) if isinstance(month, str) else tuple(month)
