"""What a storage does while its server does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import optuna
import pytest
import sqlalchemy.exc
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

from sb3_greendc.tuning import outages
from sb3_greendc.tuning.outages import is_transient, patient

GONE = sqlalchemy.exc.OperationalError("SELECT", {}, Exception("server closed the connection"))


class Flaky(InMemoryStorage):
    """Fails when told to, before or after it did what was asked for."""

    before: Iterator[bool] = iter(())
    after: Iterator[bool] = iter(())

    def set_trial_state_values(self, *args: Any, **kwargs: Any) -> bool:
        if next(self.before, False):
            raise GONE
        result = super().set_trial_state_values(*args, **kwargs)
        if next(self.after, False):
            raise GONE
        return result


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(outages, "_PAUSE", 0.0)
    return patient(Flaky, "postgresql://tuner:s3cret@host/x")()


def test_a_call_is_made_again(storage: Any) -> None:
    storage.before = iter([True, True, False])
    study = optuna.create_study(storage=storage)
    study.tell(study.ask(), 1.0)
    assert study.best_value == 1.0
    assert list(storage.before) == []


@pytest.mark.parametrize(("code", "transient"), [("8s2b", True), ("7s2a", False)])
def test_optuna_may_go_on_in_the_transaction_that_broke(code: str, transient: bool) -> None:
    """It logs that a query failed, asks otherwise, and says that the data may be at fault."""
    error = optuna.exceptions.StorageInternalError("An exception is raised during the commit.")
    error.__cause__ = sqlalchemy.exc.PendingRollbackError("Can't reconnect", code=code)
    assert is_transient(error) is transient


def test_what_was_done_before_the_connection_went_counts(storage: Any) -> None:
    """Optuna itself would say that the trial is closed already."""
    storage.after = iter([True])
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    assert storage.set_trial_state_values(trial._trial_id, TrialState.COMPLETE, [2.0]) is True
    assert study.best_value == 2.0
    with pytest.raises(RuntimeError):
        storage.set_trial_state_values(trial._trial_id, TrialState.COMPLETE, [3.0])


def test_what_somebody_else_did_meanwhile_is_told(storage: Any) -> None:
    study = optuna.create_study(storage=storage)
    trial = study.ask()

    def closed_elsewhere() -> Iterator[bool]:
        InMemoryStorage.set_trial_state_values(storage, trial._trial_id, TrialState.FAIL)
        yield True

    storage.before = closed_elsewhere()
    with pytest.raises(RuntimeError):
        storage.set_trial_state_values(trial._trial_id, TrialState.COMPLETE, [2.0])


def test_patience_ends(storage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PATIENCE", 0.05)
    storage.before = iter(lambda: True, False)
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    with pytest.raises(ConnectionError, match=r"^storage postgresql.*no answer for 0 s: ") as error:
        study.tell(trial, 1.0)
    assert "s3cret" not in str(error.value)


def test_other_errors_are_not_waited_for(storage: Any) -> None:
    with pytest.raises(KeyError):
        storage.get_trial(77)
