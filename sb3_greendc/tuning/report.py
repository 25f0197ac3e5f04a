"""The end of a search: the best trial trained again, and judged once on episodes that nothing has seen."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from stable_baselines3.common.base_class import BaseAlgorithm

import greendc
from sb3_greendc.core.engine import map_tasks
from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.metrics import main_metrics
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.policy_sources import Policy
from sb3_greendc.evaluation.policy_specs import RANDOM
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.runs.folder import is_finished
from sb3_greendc.runs.hyperparameters import Hyperparameters, load_hyperparameters, read_hyperparameters
from sb3_greendc.runs.models import MODEL_FILE, RUN_FILE, read_run, save_model
from sb3_greendc.tuning.models import require_fit
from sb3_greendc.tuning.objective import TEST_SEED, VALIDATION_SEED, Objective
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.study import EXCESS_COST, Search
from sb3_greendc.tuning.training import Training, train_and_score

REFERENCES = {"vcc": "always_on", "resource_pool": "sjf", "cluster": "fcfs"}
"""The baseline of each family that, beside chance, shows what test figures mean."""

_REPORTED = "report"


@dataclass(frozen=True)
class Rival:
    """What the hyperparameter file says for the environment, and how good it is with a trial's budget.

    Nothing that ``--hparams`` fixed is in it.

    :param block: the settings of the file, as they stand there
    :param score: theirs on the validation episodes; ``None`` if they have none
    :param reason: why they have none
    """

    block: Mapping[str, Any]
    score: Score | None
    reason: str = ""

    def __str__(self) -> str:
        return str(self.score or f"none: they {self.reason}")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Rival:
        """Return the rival that :func:`dataclasses.asdict` made a record of."""
        return cls(record["block"], record["score"] and Score(**record["score"]), record["reason"])


@dataclass(frozen=True)
class Report:
    """What is said of a finished search.

    :param trials: trials that the study had
    :param best: number of the best one
    :param settings: its hyperparameters
    :param score: its score on the validation episodes
    :param retrained: the score of the model that was trained from its parameters again
    :param file: the settings that the file had when the report was made
    :param test: summary of the test episodes as records, see
        :func:`sb3_greendc.evaluation.statistics.summarize`
    """

    trials: int
    best: int
    settings: Mapping[str, Any]
    score: Score
    retrained: Score
    file: Rival
    test: Sequence[Mapping[str, Any]]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Report:
        """Return the report that :func:`dataclasses.asdict` made a record of."""
        scores = {key: Score(**record[key]) for key in ("score", "retrained")}
        return cls(**{**record, **scores, "file": Rival.from_record(record["file"])})

    def table(self) -> pd.DataFrame:
        """Return the test figures as a table."""
        return pd.DataFrame([dict(row) for row in self.test])


def report(search: Search, folder: Path, say: Callable[[str], None] = lambda line: None) -> Report:
    """Train the best trial again, save it, and judge it on the test episodes.

    A study whose best trial has been reported is not judged again: the figures are in its storage. A folder
    that lacks the model gets it, trained again, and the files. The storage is told last: what is reported
    there is on a disk.

    :param search: a study with a completed trial
    :param folder: for ``best/`` (the model), ``report.json`` and ``trials.csv``
    :param say: is told what is trained
    :raises OSError: if a file cannot be written
    """
    best = search.best()
    assert best is not None
    trials = len(search.finished())
    task = _Finals(search.objective, dict(best.params), folder / "best")
    known = search.study.user_attrs.get(_REPORTED)
    if known is not None and "file" in known and (known["trials"], known["best"]) == (trials, best.number):
        made = Report.from_record(known)
        if not _is_in(task.folder, task.record()):
            say(f"training trial {best.number} again, for {task.folder}")
            map_tasks(_train_best, [task])
        _write_files(search, made, folder)
        return made
    say(f"training trial {best.number} again, and the settings of the file, for their test")
    try:
        task = dataclasses.replace(task, block=block_of_the_file(search.objective))
    except (OSError, ValueError) as error:  # it was one when the search began
        task = dataclasses.replace(task, unread=f"cannot be read ({error})")
    [(retrained, rival, test)] = map_tasks(_train_finals, [task])  # with one torch thread, as trials were
    assert best.value is not None
    score = Score(best.value, best.user_attrs.get(EXCESS_COST, 0.0))
    made = Report(trials, best.number, best.user_attrs["settings"], score, retrained, rival, test)
    _write_files(search, made, folder)
    search.study.set_user_attr(_REPORTED, dataclasses.asdict(made))
    return made


def block_of_the_file(objective: Objective) -> dict[str, Any]:
    """Return what the hyperparameter file says for a study's environment now, without ``--hparams``.

    :raises OSError: if there is no such file
    :raises ValueError: if it is not one of hyperparameters
    """
    return dict(load_hyperparameters(objective.algorithm, objective.env_id).settings)


def present_rival(search: Search, made: Report) -> Rival:
    """Return what the hyperparameter file says now, trained anew if it has changed since the report.

    :param search: the study
    :param made: its report
    :raises OSError: if there is no such file
    :raises ValueError: if it is not one of hyperparameters
    """
    block = block_of_the_file(search.objective)
    if block == made.file.block:
        return made.file
    [rival] = map_tasks(_score_block, [_Finals(search.objective, {}, Path(), block)])
    return rival


def _is_in(folder: Path, record: Mapping[str, Any]) -> bool:
    """Tell whether a folder holds the model of a run, whole."""
    if not is_finished(folder, MODEL_FILE, RUN_FILE):
        return False
    there = read_run(folder)
    return all(there.get(key) == value for key, value in json.loads(json.dumps(record, default=str)).items())


def _write_files(search: Search, made: Report, folder: Path) -> None:
    """Write ``trials.csv`` and ``report.json``, unless the folder has those of this report."""
    record = {
        "study": search.study.study_name,
        "objective": search.objective.record(),
        **dataclasses.asdict(made),
    }
    path, table = folder / "report.json", folder / "trials.csv"
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        if table.is_file() and there.items() >= json.loads(json.dumps(record, default=str)).items():
            return
    except (FileNotFoundError, ValueError, AttributeError):  # none, or another program's
        pass
    with atomic_write(table) as file:
        search.study.trials_dataframe().to_csv(file, index=False)
    write_json(path, {**record, **provenance()})


@dataclass(frozen=True)
class _Finals:
    """What is trained for a report.

    :param parameters: of the best trial
    :param folder: for its model
    :param block: settings of the file
    :param unread: why there are none
    """

    objective: Objective
    parameters: Mapping[str, Any]
    folder: Path
    block: Mapping[str, Any] = field(default_factory=dict)
    unread: str = ""

    def record(self) -> dict[str, Any]:
        """Return what tells the model from others, as its ``run.json`` says it."""
        objective, hyperparameters = self.objective, self.objective.hyperparameters(self.parameters)
        return {
            "algorithm": objective.algorithm,
            "env_id": objective.env_id,
            "env_kwargs": objective.training_kwargs,
            "seed": objective.seed,
            "timesteps": objective.timesteps,
            "n_envs": hyperparameters.n_envs,
            "hyperparameters": dict(hyperparameters.settings),
        }


def _train_finals(task: _Finals) -> tuple[Score, Rival, list[dict[str, Any]]]:
    """Train the best trial and the file's settings, and judge both on the test episodes.

    :return: the score of either, and the summary of the test
    """
    objective = task.objective
    best, score = _train_and_save(task)
    rival, model = _train_block(task)
    policies: dict[str, Policy] = {"best trial": best}
    if model is not None:
        policies["settings of the file"] = model
    family = greendc.family(objective.env_id)
    policies |= {name: name for name in (REFERENCES.get(family or ""), RANDOM) if name is not None}
    episodes = evaluate(
        policies, objective.env_id, objective.episodes, TEST_SEED, env_kwargs=objective.env_kwargs
    )
    metrics = [name for name in main_metrics(episodes) if not episodes[name].isna().all()]
    summary = summarize(episodes, metrics).to_dict("records")
    rows = [{str(column): value for column, value in row.items()} for row in summary]
    return score, rival, rows


def _train_best(task: _Finals) -> Score:
    """Train the best trial alone, and save its model."""
    return _train_and_save(task)[1]


def _score_block(task: _Finals) -> Rival:
    """Train the settings of the file alone."""
    return _train_block(task)[0]


def _train_and_save(task: _Finals) -> tuple[BaseAlgorithm, Score]:
    best = _train(task.objective, task.objective.hyperparameters(task.parameters))
    if best.score is None:
        raise RuntimeError("the best trial diverged when it was trained again")
    save_model(best.model, task.folder, {**task.record(), **provenance()})
    return best.model, best.score


def _train_block(task: _Finals) -> tuple[Rival, BaseAlgorithm | None]:
    """Train the settings of the file, as they are but for a cost limit above the study's."""
    if task.unread:
        return Rival(task.block, None, task.unread), None
    objective, settings = task.objective, dict(task.block)
    limit, own = objective.cost_limit, settings.get("cost_limit")
    if limit is not None:
        settings["cost_limit"] = limit if own is None else min(own, limit)
    try:
        hyperparameters = read_hyperparameters(objective.algorithm, settings)
        require_fit(objective, hyperparameters)
    except ValueError as error:  # what is fixed may be what makes them fit: a policy, say
        return Rival(task.block, None, f"do not fit ({error})"), None
    trained = _train(objective, hyperparameters)
    if trained.score is None:
        return Rival(task.block, None, "diverged"), None
    return Rival(task.block, trained.score), trained.model


def _train(objective: Objective, hyperparameters: Hyperparameters) -> Training:
    return train_and_score(objective, hyperparameters, lambda step, score: False, lambda: False)


def provenance_comments(search: Search, made: Report) -> list[str]:
    """Return the lines that say, in a hyperparameter file, where a block comes from."""
    objective, origin = search.objective, provenance()
    last = VALIDATION_SEED + objective.episodes - 1
    judged_on = objective.validation_of
    where = f"{judged_on}, " if judged_on else ""
    fixed = ", ".join(f"{key}={value}" for key, value in objective.fixed.items())
    return [
        f"Tuned: trial {made.best} of {len(search.finished())} in study {search.study.study_name!r},",
        f"{objective.timesteps:,} steps each, seed {objective.seed}. Validation return {made.score}",
        f"({where}{objective.episodes} episodes, seeds {VALIDATION_SEED} to {last}).",
        *([f"Fixed, not searched: {fixed}"] if fixed else []),
        f"Commit {origin['commit'] or 'unknown'}, {origin['date']}:",
        f"{origin['command']}",
    ]
