"""Leases: a trial belongs to its worker for as long as the worker renews its claim.

A worker that is killed leaves its trial in the state *running* for ever; journal files have no heartbeat
that would tell. So each worker writes a lease into its trial every few seconds. A trial whose lease has run
out is closed as failed and queued again with the same parameters; whoever asks for a trial next, on
whichever machine, gets it. A worker on the same machine that is known to be dead need not be waited for.

Times are those of the machines' clocks, which must agree to within half a lease.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Iterator
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from sb3_greendc.core import ownership

LEASE = "lease"
"""User attribute of a trial: ``{"host": ..., "pid": ..., "time": ...}`` of its worker's last renewal."""
RETRY_OF = "retry_of"
"""User attribute of a trial that was queued again: the numbers of the trials before it, first to last."""
LOST = "lost"
"""User attribute of a trial whose lease ran out."""

SECONDS = 60.0
"""How long a lease lasts without being renewed."""
MAX_RETRIES = 3
"""A trial that ended its worker so often (too little memory, say) is given up."""


@contextlib.contextmanager
def lease(storage: BaseStorage, trial_id: int, seconds: float = SECONDS) -> Iterator[threading.Event]:
    """Hold a running trial inside the block.

    :param storage: the study's
    :param trial_id: Optuna's id of the trial, of which there is one for each trial of the storage
    :param seconds: how long a lease lasts; it is renewed six times as often
    :return: an event that is set when the trial was taken away: its results no longer count
    """
    lost, done = threading.Event(), threading.Event()

    def renew() -> None:
        while not done.wait(seconds / 6):
            try:
                storage.set_trial_user_attr(trial_id, LEASE, _claim())
            except RuntimeError:  # Optuna's word for: the trial is closed
                lost.set()
                return
            except Exception as error:  # a storage that cannot be reached now may be later
                optuna.logging.get_logger(__name__).warning("the lease could not be renewed: %s", error)

    storage.set_trial_user_attr(trial_id, LEASE, _claim())
    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield lost
    finally:
        done.set()
        renewing.join(seconds)


def requeue_lost(study: optuna.Study, seconds: float = SECONDS) -> list[int]:
    """Queue again every running trial whose lease has run out; never one of a live worker.

    :param study: the study
    :param seconds: how long leases last
    :return: the numbers of the trials that this call queued again
    """
    trials = study.get_trials(deepcopy=False)
    queued_again = {number for trial in trials for number in trial.user_attrs.get(RETRY_OF, ())}
    numbers = []
    for trial in trials:
        if trial.state == TrialState.RUNNING and has_run_out(trial, seconds):
            if close(study, trial, lost=True):
                requeue(study, trial)
                numbers.append(trial.number)
        elif _was_left_between(trial, seconds) and trial.number not in queued_again:
            requeue(study, trial)
            numbers.append(trial.number)
    return numbers


def has_run_out(trial: FrozenTrial, seconds: float = SECONDS) -> bool:
    """Tell whether the worker of a running trial is dead, or has not renewed its lease in time."""
    claim = trial.user_attrs.get(LEASE)
    if claim is None:  # its worker has only just begun, or died at once
        assert trial.datetime_start is not None
        return (datetime.datetime.now() - trial.datetime_start).total_seconds() > seconds
    return ownership.is_dead(claim) or time.time() - claim["time"] > seconds


def close(study: optuna.Study, trial: FrozenTrial, lost: bool) -> bool:
    """Close a running trial as failed, and return whether it was this call that did so.

    :param lost: whether it is to be queued again, by somebody else if this process dies first
    """
    storage = study._storage  # tell() would need the worker's own Trial object
    try:
        if lost:
            storage.set_trial_user_attr(trial._trial_id, LOST, True)
        return storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    except RuntimeError:  # closed by somebody else
        return False


def requeue(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue the parameters of a closed trial again, unless that was done too often."""
    before = [*trial.user_attrs.get(RETRY_OF, ()), trial.number]
    if len(before) <= MAX_RETRIES:
        parameters = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        study.enqueue_trial(parameters, user_attrs={RETRY_OF: before})


def _was_left_between(trial: FrozenTrial, seconds: float) -> bool:
    """Tell whether whoever closed a lost trial seems to have died before queueing it again."""
    if trial.state != TrialState.FAIL or not trial.user_attrs.get(LOST) or trial.datetime_complete is None:
        return False
    if len(trial.user_attrs.get(RETRY_OF, ())) >= MAX_RETRIES:
        return False
    return (datetime.datetime.now() - trial.datetime_complete).total_seconds() > seconds


def _claim() -> dict[str, Any]:
    return {**ownership.claim(), "time": time.time()}
