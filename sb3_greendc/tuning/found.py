"""What a study found, in the form that a training takes it: ``train --from-study``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from greendc.config import nearest
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.datasets.npz import checksum
from sb3_greendc.tuning.objective import Objective
from sb3_greendc.tuning.storage import (
    FOLDER,
    JOURNAL,
    JOURNAL_FILE,
    absolute,
    file_of,
    journal_of,
    open_storage,
)
from sb3_greendc.tuning.study import load

_PICKS_MONTHS = ("month", "split")


@dataclass(frozen=True)
class Found:
    """The best trial of a study.

    :param study: the study's name
    :param number: of the trial
    :param trials: that the study has finished
    :param objective: what was searched for
    :param settings: the trial's hyperparameters, whole: no file is read
    """

    study: str
    number: int
    trials: int
    objective: Objective
    settings: Mapping[str, Any]

    def env_kwargs(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the environment that trials were trained on.

        :param chosen: in their place; a month or a split takes the place of the study's months
        """
        kwargs = self.objective.training_kwargs
        if any(key in chosen for key in _PICKS_MONTHS):
            kwargs = {key: value for key, value in kwargs.items() if key not in _PICKS_MONTHS}
        return {**kwargs, **chosen}

    def data(self) -> Path | None:
        """Return the data set that trials learned from, if they did.

        :raises ValueError: if the file is another one today
        """
        if self.objective.data is None:
            return None
        path = Path(self.objective.data)
        if checksum(path) != self.objective.data_checksum:
            raise ValueError(
                f"study {self.study!r}: {path} is not what it was when the study was made; --data names "
                "another file"
            )
        return path


def best_of(study: str, storage: str | None = None) -> Found:
    """Return the best trial of a study.

    :param study: the study's name, or the folder that ``tune`` made for one
    :param storage: URL of its storage; default: the journal file where ``tune`` puts it
    :raises ValueError: if there is no such study, or no trial of it is complete
    :raises ConnectionError: if the storage cannot be reached
    """
    name, url = locate(study, storage)
    search = load(name, url, to_write=False)
    best = search.best()
    if best is None:
        states = [
            f"{len(search.trials(state))} {said}"
            for state, said in ((TrialState.PRUNED, "pruned or diverged"), (TrialState.RUNNING, "running"))
        ]
        raise ValueError(f"study {name!r}: no trial is complete yet ({', '.join(states)})")
    settings = search.objective.hyperparameters(best.params).settings
    return Found(name, best.number, len(search.finished()), search.objective, settings)


def locate(study: str, storage: str | None = None) -> tuple[str, str]:
    """Return a study's name and the URL of its storage; nothing is made where there is none.

    :param study: the study's name, or a folder with its journal file
    :param storage: URL; default: the journal file where ``tune`` puts it
    :raises ValueError: if there is no such file
    """
    if storage is None and (Path(study) / JOURNAL_FILE).is_file():
        url = absolute(f"{JOURNAL}{Path(study) / JOURNAL_FILE}")
        names = optuna.get_all_study_names(open_storage(url, to_write=False))
        return (names[0] if len(names) == 1 else Path(study).resolve().name), url
    url = absolute(storage or journal_of(study))
    file = file_of(url)
    if file is None or file.is_file():
        return study, url
    if storage is not None:
        raise ValueError(f"study {study!r}: --storage {without_secrets(storage)}: no such file")
    known = sorted(path.parent.name for path in FOLDER.glob(f"*/{JOURNAL_FILE}"))
    raise ValueError(
        f"study {study!r}: not in {FOLDER}{nearest(study, known)}; --storage URL says where it is"
    )
