"""The end of a search: the best trial trained again, and judged once on episodes that nothing has seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import greendc
from sb3_greendc.core.engine import map_tasks
from sb3_greendc.core.files import write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.metrics import main_metrics
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.policy_sources import Policy
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.runs.hyperparameters import Hyperparameters
from sb3_greendc.runs.models import save_model
from sb3_greendc.tuning.objective import TEST_SEED, VALIDATION_SEED, Objective
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.study import EXCESS_COST, Search
from sb3_greendc.tuning.training import Training, train_and_score

REFERENCES = {"vcc": ["always_on"], "resource_pool": ["sjf"]}
"""Baselines that show what the test figures of a family mean."""

_REPORTED = "report"


@dataclass(frozen=True)
class Report:
    """What is said of a finished search.

    :param trials: trials that the study had
    :param best: number of the best one
    :param settings: its hyperparameters
    :param score: its score on the validation episodes
    :param retrained: the score of the model that was trained from its parameters again
    :param base: the score of the hyperparameters that the search started from, with a trial's budget;
        ``None`` if they diverged
    :param test: summary of the test episodes as records, see
        :func:`sb3_greendc.evaluation.statistics.summarize`
    """

    trials: int
    best: int
    settings: Mapping[str, Any]
    score: Score
    retrained: Score
    base: Score | None
    test: Sequence[Mapping[str, Any]]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Report:
        """Return the report that :func:`dataclasses.asdict` made a record of."""
        scores = {key: record[key] and Score(**record[key]) for key in ("score", "retrained", "base")}
        return cls(**{**record, **scores})

    def table(self) -> pd.DataFrame:
        """Return the test figures as a table."""
        return pd.DataFrame([dict(row) for row in self.test])


def report(search: Search, folder: Path) -> Report:
    """Train the best trial again, save it, and judge it on the test episodes.

    A study whose best trial has been reported is not judged again: the figures are in its storage.

    :param search: a study with a completed trial
    :param folder: for ``best/`` (the model) and ``report.json``
    """
    best = search.best()
    assert best is not None
    trials = len(search.finished())
    known = search.study.user_attrs.get(_REPORTED)
    if known is not None and (known["trials"], known["best"]) == (trials, best.number):
        return Report.from_record(known)
    task = _Finals(search.objective, dict(best.params), folder / "best")
    [(retrained, base, test)] = map_tasks(_train_finals, [task])  # with one torch thread, as trials were
    assert best.value is not None
    score = Score(best.value, best.user_attrs.get(EXCESS_COST, 0.0))
    made = Report(trials, best.number, best.user_attrs["settings"], score, retrained, base, test)
    search.study.set_user_attr(_REPORTED, dataclasses.asdict(made))
    record = {
        "study": search.study.study_name,
        "objective": search.objective.record(),
        **dataclasses.asdict(made),
    }
    write_json(folder / "report.json", {**record, **provenance()})
    search.study.trials_dataframe().to_csv(folder / "trials.csv", index=False)
    return made


@dataclass(frozen=True)
class _Finals:
    objective: Objective
    parameters: Mapping[str, Any]
    folder: Path


def _train_finals(task: _Finals) -> tuple[Score, Score | None, list[dict[str, Any]]]:
    """Train the best trial and the file's settings, and judge both on the test episodes.

    :return: the score of either, and the summary of the test
    """
    objective = task.objective
    best = _train(objective, objective.hyperparameters(task.parameters))
    if best.score is None:
        raise RuntimeError("the best trial diverged when it was trained again")
    hyperparameters = objective.hyperparameters(task.parameters)
    run = {
        "algorithm": objective.algorithm,
        "env_id": objective.env_id,
        "env_kwargs": objective.training_kwargs,
        "seed": objective.seed,
        "timesteps": objective.timesteps,
        "n_envs": hyperparameters.n_envs,
        "hyperparameters": dict(hyperparameters.settings),
        **provenance(),
    }
    save_model(best.model, task.folder, run)
    base = _train(objective, objective.hyperparameters({}))
    policies: dict[str, Policy] = {"best trial": best.model}
    if base.score is not None:
        policies["settings of the file"] = base.model
    for name in REFERENCES.get(greendc.family(objective.env_id) or "", []):
        policies[name] = name
    episodes = evaluate(
        policies, objective.env_id, objective.episodes, TEST_SEED, env_kwargs=objective.env_kwargs
    )
    metrics = [name for name in main_metrics(episodes) if not episodes[name].isna().all()]
    summary = summarize(episodes, metrics).to_dict("records")
    rows = [{str(column): value for column, value in row.items()} for row in summary]
    return best.score, base.score, rows


def _train(objective: Objective, hyperparameters: Hyperparameters) -> Training:
    return train_and_score(objective, hyperparameters, lambda step, score: False, lambda: False)


def provenance_comments(search: Search, made: Report) -> list[str]:
    """Return the lines that say, in a hyperparameter file, where a block comes from."""
    objective, origin = search.objective, provenance()
    last = VALIDATION_SEED + objective.episodes - 1
    months = objective.validation_kwargs.get("month")
    where = f"months {', '.join(months)}, " if months else ""
    return [
        f"Tuned: trial {made.best} of {len(search.finished())} in study {search.study.study_name!r},",
        f"{objective.timesteps:,} steps each, seed {objective.seed}. Validation return {made.score}",
        f"({where}{objective.episodes} episodes, seeds {VALIDATION_SEED} to {last}).",
        f"Commit {origin['commit'] or 'unknown'}, {origin['date']}:",
        f"{origin['command']}",
    ]
