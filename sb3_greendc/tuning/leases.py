"""Ownership of running trials: a trial belongs to its worker for as long as the worker renews its lease.

A worker that is killed leaves its trial in the state *running* for ever. So each worker says every few
seconds that it lives. A trial of a worker that has been silent for too long is closed as failed, and queued
again with the same parameters; the next worker that asks for a trial gets it, on any machine.

In a database this is Optuna's heartbeat, and it is the server's clock that counts. Journal files and gRPC
proxies have no heartbeat: there the worker writes the time of its own clock into the trial, and clocks must
agree to within half a lease. In every storage the trial names its worker's process, so that one on the same
machine that is known to be dead need not be waited for.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import threading
import time
import warnings
from collections.abc import Iterator

import optuna
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.storages import BaseStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from sb3_greendc.core import ownership

OWNER = "owner"
"""User attribute of a trial: its worker's machine and process, and the time of the last renewal."""
DROPPED = "dropped"
"""User attribute of a failed trial that is not to be tried again."""

SECONDS = 60.0
"""How long a lease lasts without being renewed."""
MAX_RETRIES = 3
"""A trial that ended its worker so often (too little memory, say) is given up."""

_KEPT = ("fixed_params", "failed_trial", "retry_history")  # of what Optuna notes in a trial


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence Optuna where it says that heartbeats are experimental, and made for ``Study.optimize``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield


with quiet():
    _retry = RetryHeartbeatStaleTrialCallback(max_retry=MAX_RETRIES)


@contextlib.contextmanager
def hold(storage: BaseStorage, trial_id: int, seconds: float = SECONDS) -> Iterator[None]:
    """Own a running trial inside the block, unless somebody takes it away.

    :param storage: the study's
    :param trial_id: Optuna's id of the trial, of which there is one for each trial of the storage
    :param seconds: how long a lease lasts; it is renewed six times as often
    """
    done = threading.Event()

    def renew() -> None:
        while not done.wait(seconds / 6):
            try:
                _renew(storage, trial_id)
            except UpdateFinishedTrialError:  # taken away
                return
            except Exception as error:  # a storage that cannot be reached now may be later
                optuna.logging.get_logger(__name__).warning("the lease could not be renewed: %s", error)

    _renew(storage, trial_id)
    _sign(storage, trial_id)
    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield
    finally:
        done.set()
        renewing.join(seconds)


def requeue_lost(study: optuna.Study, seconds: float = SECONDS) -> None:
    """Queue again every running trial whose worker is dead or silent; never one of a live worker.

    :param study: the study
    :param seconds: how long leases last, where the storage has no heartbeat
    """
    with quiet():
        optuna.storages.fail_stale_trials(study)
    trials = study.get_trials(deepcopy=False)
    retried = {number for trial in trials for number in _history(trial)}
    for trial in trials:
        if trial.state == TrialState.RUNNING and _is_lost(study._storage, trial, seconds):
            if close(study, trial):
                requeue(study, trial)
        elif _was_left_between(trial, seconds) and trial.number not in retried:
            requeue(study, trial)


def close(study: optuna.Study, trial: FrozenTrial, drop: bool = False) -> bool:
    """Close a running trial as failed, and return whether it was this call that did so.

    :param study: the study
    :param trial: one of its trials
    :param drop: whether it is not to be tried again. If it is, and this process dies before
        :func:`requeue`, somebody else queues it.
    """
    storage = study._storage  # tell() would need the worker's own Trial object
    try:
        if drop:
            storage.set_trial_user_attr(trial._trial_id, DROPPED, True)
        return storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    except UpdateFinishedTrialError:  # closed by somebody else
        return False


def requeue(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue the parameters of a closed trial again, unless that was done too often.

    The new trial has no owner yet, and has passed none of the pruner's rungs.
    """
    again = copy.deepcopy(trial)
    again.user_attrs = {}
    again.system_attrs = {key: value for key, value in again.system_attrs.items() if key in _KEPT}
    _retry(study, again)


def _renew(storage: BaseStorage, trial_id: int) -> None:
    if _has_heartbeat(storage):
        storage.record_heartbeat(trial_id)  # type: ignore[attr-defined]  # of databases alone
    else:
        _sign(storage, trial_id)


def _sign(storage: BaseStorage, trial_id: int) -> None:
    """Write the trial's owner into it."""
    storage.set_trial_user_attr(trial_id, OWNER, {**ownership.claim(), "time": time.time()})


def _has_heartbeat(storage: BaseStorage) -> bool:
    return hasattr(storage, "record_heartbeat")


def _is_lost(storage: BaseStorage, trial: FrozenTrial, seconds: float) -> bool:
    """Tell whether the worker of a running trial is dead; without a heartbeat, also whether it is silent."""
    owner = trial.user_attrs.get(OWNER)
    if owner is None:  # its worker has only just begun, or died at once
        return _age(trial.datetime_start) > seconds
    if ownership.is_dead(owner):
        return True
    return not _has_heartbeat(storage) and time.time() - owner["time"] > seconds


def _was_left_between(trial: FrozenTrial, seconds: float) -> bool:
    """Tell whether the worker that closed a lost trial seems to have died before it queued it again."""
    if trial.state != TrialState.FAIL or DROPPED in trial.user_attrs or len(_history(trial)) >= MAX_RETRIES:
        return False
    return _age(trial.datetime_complete) > seconds


def _history(trial: FrozenTrial) -> list[int]:
    """Return the numbers of the trials that a trial is a retry of, first to last, as Optuna notes them."""
    return list(trial.system_attrs.get("retry_history", ()))


def _age(moment: datetime.datetime | None) -> float:
    assert moment is not None
    return (datetime.datetime.now() - moment).total_seconds()
