"""A trial whose worker died is queued again, once, with the same parameters; a live worker's never is."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, TrialState

from sb3_greendc.tuning import leases

SPACE = {"x": FloatDistribution(0.0, 1.0)}


class Later(datetime.datetime):
    """A clock that is two leases ahead."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Later:
        return super().now(tz) + datetime.timedelta(seconds=2 * leases.SECONDS)


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal.log")))
    return optuna.create_study(storage=storage)


def run(study: optuna.Study, **claim: Any) -> FrozenTrial:
    """Leave a trial running, with the lease of this process changed so."""
    trial = study.ask(SPACE)
    trial.set_user_attr(leases.LEASE, {**leases._claim(), **claim})
    return study.trials[trial.number]


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_live_workers_keep_their_trials(study: optuna.Study) -> None:
    run(study)
    run(study, host="elsewhere")
    run(study, host="elsewhere", pid=dead_pid())  # a process id means nothing on another machine
    run(study, boot="a container", pid=dead_pid())
    study.ask(SPACE)  # its worker has not written a lease yet
    assert leases.requeue_lost(study) == []
    assert all(trial.state == TrialState.RUNNING for trial in study.trials)


@pytest.mark.parametrize("claim", [{"pid": dead_pid()}, {"host": "elsewhere", "time": time.time() - 61}])
def test_lost_trial_is_queued_again_once(study: optuna.Study, claim: dict[str, Any]) -> None:
    lost = run(study, **claim)
    assert leases.requeue_lost(study) == [lost.number]
    assert leases.requeue_lost(study) == []
    assert study.trials[lost.number].state == TrialState.FAIL
    retry = study.ask(SPACE)
    assert retry.number == 1
    assert retry.params == lost.params
    assert retry.user_attrs[leases.RETRY_OF] == [0]


def test_trial_whose_worker_died_before_its_first_lease(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.ask(SPACE)
    assert leases.requeue_lost(study) == []
    monkeypatch.setattr(leases.datetime, "datetime", Later)
    assert leases.requeue_lost(study) == [0]


def test_lease_as_long_as_the_caller_says(study: optuna.Study) -> None:
    run(study, host="elsewhere", time=time.time() - 5)
    assert leases.requeue_lost(study, 10) == []
    assert leases.requeue_lost(study, 4) == [0]


def test_trial_that_keeps_ending_its_worker_is_given_up(study: optuna.Study) -> None:
    run(study, pid=dead_pid())
    for number in range(leases.MAX_RETRIES):
        assert leases.requeue_lost(study) == [number]
        run(study, pid=dead_pid())
    leases.requeue_lost(study)
    assert {trial.state for trial in study.trials} == {TrialState.FAIL}
    assert len(study.trials) == 1 + leases.MAX_RETRIES


def test_death_between_closing_and_queueing_loses_nothing(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = run(study, pid=dead_pid())
    leases.close(study, lost, lost=True)
    assert leases.requeue_lost(study) == []  # perhaps somebody is about to do so

    monkeypatch.setattr(leases.datetime, "datetime", Later)
    assert leases.requeue_lost(study) == [0]
    assert leases.requeue_lost(study) == []


def test_lease_is_renewed_until_the_trial_is_taken_away(study: optuna.Study) -> None:
    trial = study.ask(SPACE)
    with leases.lease(study._storage, trial._trial_id, 0.3) as lost:
        first = study.trials[0].user_attrs[leases.LEASE]
        assert first["pid"] == os.getpid()
        time.sleep(0.4)
        assert leases.requeue_lost(study, 0.3) == []
        assert study.trials[0].user_attrs[leases.LEASE]["time"] > first["time"]
        assert not lost.is_set()
        leases.close(study, study.trials[0], lost=True)
        assert lost.wait(5)
