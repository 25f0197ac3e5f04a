"""A study in its storage: made or found again, sampled, counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from greendc.config import nearest
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.tuning import leases
from sb3_greendc.tuning.objective import Objective
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.spaces import Space
from sb3_greendc.tuning.storage import open_storage

EXCESS_COST = "excess_cost"
"""User attribute of a trial: mean cost above the limit, for algorithms with a limit."""

_STARTUP_TRIALS = 10  # random ones, before the sampler has something to go by
_COUNTED = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True)
class Search:
    """A study and the objective that it was made for."""

    study: optuna.Study
    objective: Objective
    space: Space

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Return the trials in these states."""
        return self.study.get_trials(deepcopy=False, states=states)

    def finished(self) -> list[FrozenTrial]:
        """Return the trials that count towards the study's total: completed and pruned ones."""
        return self.trials(*_COUNTED)

    def best(self) -> FrozenTrial | None:
        """Return the best completed trial, ``None`` if there is none.

        It is the one of the highest value among those within the cost limit; if none is, the one that
        exceeds the limit least.
        """
        completed = self.trials(TrialState.COMPLETE)
        return max(completed, key=_rank, default=None)

    def ask(self, total: int) -> optuna.Trial | None:
        """Start a trial, a queued one first; ``None`` if as many as ``total`` are finished or running.

        Of workers that ask at the same moment for the last trial, the one with the lowest number keeps it.
        """
        if len(self.trials(*_COUNTED, TrialState.RUNNING)) >= total:
            return None
        self.study.sampler = _Sampler(self.objective)
        with leases.quiet():
            trial = self.study.ask(fixed_distributions=self.space)
        counted = self.trials(*_COUNTED, TrialState.RUNNING)
        if sum(other.number < trial.number for other in counted) >= total:
            leases.close(self.study, self.study.trials[trial.number], drop=True)
            return None
        return trial


class _Sampler(BaseSampler):
    """TPE whose draws for a trial follow from the study's seed and the number of trials that count before it.

    So a search that was interrupted goes on as it would have without the interruption, and workers that ask
    at the same moment draw different parameters: their trials have different places.

    :param objective: what is searched for
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.tpe = TPESampler()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        states = (*_COUNTED, TrialState.RUNNING, TrialState.WAITING)
        before = sum(t.number < trial.number for t in study.get_trials(deepcopy=False, states=states))
        seed = np.random.SeedSequence([self.objective.seed, before]).generate_state(1)[0]
        options: dict[str, Any] = {}
        if self.objective.cost_limit is not None and not hasattr(optuna.Trial, "set_constraint"):
            options["constraints_func"] = _constraints  # Optuna 4; :func:`set_excess_cost` does it in 5
        with leases.quiet():
            self.tpe = TPESampler(
                n_startup_trials=_STARTUP_TRIALS,
                multivariate=True,
                constant_liar=True,
                seed=int(seed),
                **options,
            )
        self.tpe.before_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Space:
        return self.tpe.infer_relative_search_space(study, trial)

    def sample_relative(self, study: optuna.Study, trial: FrozenTrial, search_space: Space) -> dict[str, Any]:
        return self.tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.tpe.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self.tpe.after_trial(study, trial, state, values)


def set_excess_cost(trial: optuna.Trial, excess_cost: float) -> None:
    """Store a trial's mean cost above the limit, for the sampler and for :meth:`Search.best`."""
    trial.set_user_attr(EXCESS_COST, excess_cost)
    if hasattr(trial, "set_constraint"):
        trial.set_constraint(EXCESS_COST, excess_cost)


def create_or_load(
    objective: Objective, name: str, url: str, lease_seconds: float = leases.SECONDS
) -> Search:
    """Make a study, or find the one of that name again.

    A study keeps the hyperparameters that it began with, whatever has become of their file since.

    :param objective: what is to be searched for
    :param name: of the study
    :param url: of its storage
    :param lease_seconds: how long a worker may be silent, see :mod:`~sb3_greendc.tuning.leases`
    :raises ValueError: if there is a study of that name for another objective; the message says what differs
    :raises ConnectionError: if the storage cannot be reached
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=open_storage(url, lease_seconds),
        study_name=name,
        direction="maximize",
        load_if_exists=True,
        pruner=_pruner(objective),
    )
    if "objective" not in study.user_attrs:
        if study.get_trials(deepcopy=False):
            raise ValueError(f"study {name!r}: made by another program; --study names another")
        study.set_user_attr("space", _space_record(objective.space))
        study.set_user_attr("objective", objective.record())
    search = load(name, url, lease_seconds)
    _check_same(objective, search, name)
    return search


def load(name: str, url: str, lease_seconds: float = leases.SECONDS, to_write: bool = True) -> Search:
    """Return a study of this package.

    :param name: of the study
    :param url: of its storage
    :param lease_seconds: how long a worker may be silent, see :mod:`~sb3_greendc.tuning.leases`
    :param to_write: else the study is only read
    :raises ValueError: if the storage has no such study, or it is of another program
    :raises ConnectionError: if the storage cannot be reached
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = open_storage(url, lease_seconds, to_write)
    try:
        study = optuna.load_study(storage=storage, study_name=name)
    except KeyError as error:
        known = nearest(name, optuna.get_all_study_names(storage))
        raise ValueError(
            f"study {name!r}: not in {without_secrets(url)}{known}; every worker must be able to reach it"
        ) from error
    if "objective" not in study.user_attrs:
        raise ValueError(f"study {name!r}: made by another program; --study names another")
    objective = Objective.from_record(study.user_attrs["objective"])
    study.pruner = _pruner(objective)
    space = {key: json_to_distribution(value) for key, value in study.user_attrs["space"].items()}
    return Search(study, objective, space)


def _check_same(asked: Objective, found: Search, name: str) -> None:
    mine, theirs = _comparable(asked), _comparable(found.objective)
    differences = [
        f"{key} {theirs[key]!r}, not {value!r}" for key, value in mine.items() if theirs[key] != value
    ]
    if differences:
        raise ValueError(f"study {name!r} was made with {'; '.join(differences)}; --study names another")
    space, stored = _space_record(asked.space), _space_record(found.space)
    if space != stored:
        changed = [key for key in {**stored, **space} if stored.get(key) != space.get(key)]
        raise ValueError(
            f"study {name!r} is of another search space (it differs in {', '.join(changed)}); "
            "--study names another"
        )


def _comparable(objective: Objective) -> dict[str, Any]:
    """Return what a command asks for; ``base`` is the file's, as it was when the study began."""
    record: dict[str, Any] = json.loads(json.dumps(objective.record()))
    del record["base"]
    return record


def _space_record(space: Space) -> dict[str, str]:
    return {name: distribution_to_json(distribution) for name, distribution in space.items()}


def _pruner(objective: Objective) -> BasePruner:
    if objective.pruner == "none":
        return NopPruner()
    if objective.pruner == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=objective.evaluations, reduction_factor=3)
    return MedianPruner(n_startup_trials=5, n_warmup_steps=objective.evaluations // 4)


def _constraints(trial: FrozenTrial) -> tuple[float]:
    return (float(trial.user_attrs.get(EXCESS_COST, 0.0)),)


def _rank(trial: FrozenTrial) -> tuple[float, float]:
    assert trial.value is not None
    return Score(trial.value, _constraints(trial)[0]).rank
