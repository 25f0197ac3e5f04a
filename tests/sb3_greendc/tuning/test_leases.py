"""A trial whose worker died is queued again, once, with the same parameters; a live worker's never is."""

from __future__ import annotations

import datetime
import os
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.pruners import SuccessiveHalvingPruner
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from sb3_greendc.tuning import leases
from sb3_greendc.tuning.storage import open_storage

SPACE = {"x": FloatDistribution(0.0, 1.0)}


class Later(datetime.datetime):
    """A clock that is two leases ahead."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Later:
        return super().now(tz) + datetime.timedelta(seconds=2 * leases.SECONDS)


@pytest.fixture(params=["journal", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a storage with our lease, and of one with Optuna's heartbeat."""
    return f"{request.param}:///{tmp_path}/study"


@pytest.fixture
def study(url: str) -> optuna.Study:
    return optuna.create_study(storage=open_storage(url), study_name="s")


def ask(study: optuna.Study) -> optuna.Trial:
    with leases.quiet():
        return study.ask(SPACE)


def run(study: optuna.Study, silent: float = 0, **owner: Any) -> FrozenTrial:
    """Leave a trial running, its worker silent for so many seconds, the owner changed so."""
    trial = ask(study)
    storage = study._storage
    with leases.hold(storage, trial._trial_id):
        signed = storage.get_trial(trial._trial_id).user_attrs[leases.OWNER]
    changed = {**signed, "time": time.time() - silent, **owner}
    storage.set_trial_user_attr(trial._trial_id, leases.OWNER, changed)
    if hasattr(storage, "record_heartbeat"):
        file = storage._backend.engine.url.database  # type: ignore[attr-defined]
        with sqlite3.connect(file) as database:
            moment = f"datetime('now', '-{silent} seconds')"
            database.execute(
                f"UPDATE trial_heartbeats SET heartbeat = {moment} WHERE trial_id = {trial._trial_id}"
            )
        database.close()
    return study.trials[trial.number]


def waiting(study: optuna.Study) -> list[int]:
    """Return which trials those that wait are retries of."""
    found = study.get_trials(states=(TrialState.WAITING,))
    with leases.quiet():
        return [RetryHeartbeatStaleTrialCallback.retry_history(trial)[-1] for trial in found]


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_live_workers_keep_their_trials(study: optuna.Study) -> None:
    run(study)
    run(study, host="elsewhere")
    run(study, host="elsewhere", pid=dead_pid())  # a process id means nothing on another machine
    run(study, boot="a container", pid=dead_pid())
    run(study, silent=50, host="elsewhere")
    ask(study)  # its worker does not hold it yet
    leases.requeue_lost(study)
    assert [trial.state for trial in study.trials] == [TrialState.RUNNING] * 6


@pytest.mark.parametrize("how", [{"pid": dead_pid()}, {"host": "elsewhere", "silent": 62}])
def test_lost_trial_is_queued_again_once(study: optuna.Study, how: dict[str, Any]) -> None:
    lost = run(study, **how)
    for _ in range(2):
        leases.requeue_lost(study)
        assert waiting(study) == [lost.number]
    assert study.trials[lost.number].state == TrialState.FAIL
    retry = ask(study)
    assert retry.number == 1
    assert retry.params == lost.params
    leases.requeue_lost(study)
    assert study.trials[1].state == TrialState.RUNNING, "the dead one's ownership is not inherited"


def test_databases_keep_time_by_the_servers_clock(study: optuna.Study) -> None:
    run(study, host="elsewhere", time=time.time() - 1000)
    leases.requeue_lost(study)
    assert waiting(study) == ([] if hasattr(study._storage, "record_heartbeat") else [0])


def test_trial_whose_worker_died_before_its_first_lease(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(study)
    leases.requeue_lost(study)
    assert waiting(study) == []
    monkeypatch.setattr(leases.datetime, "datetime", Later)
    leases.requeue_lost(study)
    assert waiting(study) == [0]


def test_lease_as_long_as_the_caller_says(url: str) -> None:
    optuna.create_study(storage=open_storage(url), study_name="s")
    longer, shorter = (optuna.load_study(storage=open_storage(url, s), study_name="s") for s in (10, 4))
    run(longer, silent=6, host="elsewhere")
    leases.requeue_lost(longer, 10)
    assert waiting(longer) == []
    leases.requeue_lost(shorter, 4)
    assert waiting(longer) == [0]


def test_trial_that_keeps_ending_its_worker_is_given_up(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(study, pid=dead_pid())
    for number in range(leases.MAX_RETRIES):
        leases.requeue_lost(study)
        assert waiting(study) == [number]
        run(study, pid=dead_pid())
    leases.requeue_lost(study)
    monkeypatch.setattr(leases.datetime, "datetime", Later)
    leases.requeue_lost(study)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL] * (1 + leases.MAX_RETRIES)


def test_retry_has_passed_none_of_the_pruners_rungs(study: optuna.Study) -> None:
    study.pruner = SuccessiveHalvingPruner(min_resource=1)
    trial = ask(study)
    trial.report(1.0, 1)
    trial.should_prune()
    assert "completed_rung_0" in study.trials[0].system_attrs
    leases.close(study, study.trials[0])
    leases.requeue(study, study.trials[0])
    assert study.trials[1].system_attrs.keys() == {"failed_trial", "retry_history"}


@pytest.mark.parametrize("drop", [False, True])
def test_death_between_closing_and_queueing_loses_nothing(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch, drop: bool
) -> None:
    lost = run(study, pid=dead_pid())
    assert leases.close(study, lost, drop)
    assert not leases.close(study, lost), "somebody else did"
    leases.requeue_lost(study)
    assert waiting(study) == [], "perhaps somebody is about to do so"

    monkeypatch.setattr(leases.datetime, "datetime", Later)
    for _ in range(2):
        leases.requeue_lost(study)
        assert waiting(study) == ([] if drop else [0])


def test_lease_is_renewed_until_the_trial_is_taken_away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(storage=open_storage(url), study_name="s")
    trial = ask(study)
    renewed: list[float] = []
    renew = leases._renew

    def count(storage: optuna.storages.BaseStorage, trial_id: int) -> None:
        renewed.append(time.time())
        if len(renewed) == 2:
            raise ConnectionError("out of reach for a moment")
        renew(storage, trial_id)

    monkeypatch.setattr(leases, "_renew", count)
    with leases.hold(study._storage, trial._trial_id, 0.3):
        assert study.trials[0].user_attrs[leases.OWNER]["pid"] == os.getpid()
        deadline = time.monotonic() + 30
        while len(renewed) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    after = len(renewed)
    time.sleep(0.2)
    assert len(renewed) == after


def test_no_warning_reaches_the_user(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study = optuna.create_study(storage=open_storage(url), study_name="s")
        run(study, pid=dead_pid())
        leases.requeue_lost(study)
    assert len(study.trials) == 2
