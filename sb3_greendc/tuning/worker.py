"""What a worker does, in whichever engine: take one trial of a study, train it, and tell what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import optuna
from optuna.trial import TrialState

from sb3_greendc.tuning import leases
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.study import Search, load, set_excess_cost
from sb3_greendc.tuning.training import Training, train_and_score


@dataclass(frozen=True)
class Order:
    """A request for one trial.

    :param storage: URL of the storage
    :param study: name of the study
    :param total: trials of the study in all
    :param lease_seconds: how long a worker's lease lasts
    """

    storage: str = field(repr=False)
    study: str
    total: int
    lease_seconds: float = leases.SECONDS


@dataclass(frozen=True)
class Outcome:
    """What became of a trial.

    :param number: its number
    :param state: ``"complete"``, ``"pruned"``, ``"diverged"`` or ``"lost"`` (its lease ran out meanwhile)
    :param score: on the validation episodes, at its end or when it was pruned
    :param share: of its budget that it used
    :param seconds: that it took
    """

    number: int
    state: str
    score: Score | None
    share: float
    seconds: float


def work(order: Order) -> Outcome | None:
    """Take one trial and see it through; ``None`` if there is none left to take.

    An error in a trial closes it as failed; Ctrl-C queues it again.
    """
    search = load(order.study, order.storage)
    leases.requeue_lost(search.study, order.lease_seconds)
    trial = search.ask(order.total)
    if trial is None:
        return None
    try:
        return _see_through(search, trial, order.lease_seconds)
    except BaseException as error:
        frozen = search.study.trials[trial.number]
        interrupted = isinstance(error, KeyboardInterrupt)
        if leases.close(search.study, frozen, lost=interrupted) and interrupted:
            leases.requeue(search.study, frozen)
        raise


def _see_through(search: Search, trial: optuna.Trial, lease_seconds: float) -> Outcome:
    problem = search.problem
    started = time.perf_counter()
    steps, score = 0, None

    def should_stop(step: int, reached: Score) -> bool:
        nonlocal steps, score
        steps, score = step, reached
        trial.report(reached.value, step)
        return trial.should_prune()

    try:
        with leases.lease(search.study._storage, trial._trial_id, lease_seconds) as lost:
            hyperparameters = problem.hyperparameters(trial.params)
            trial.set_user_attr("settings", dict(hyperparameters.settings))
            training = train_and_score(problem, hyperparameters, should_stop, lost.is_set)
        state = "lost" if lost.is_set() else _tell(search, trial, training)
    except (RuntimeError, ValueError):  # Optuna's words for: the trial is closed
        if not _is_closed(search, trial):
            raise
        state = "lost"
    if state == "complete":
        steps, score = problem.evaluations, training.score
    return Outcome(trial.number, state, score, steps / problem.evaluations, time.perf_counter() - started)


def _tell(search: Search, trial: optuna.Trial, training: Training) -> str:
    """Close a trial with its result. One that diverged counts as pruned: its parameters are bad ones."""
    if training.score is None:
        search.study.tell(trial, state=TrialState.PRUNED)
        return "diverged" if training.diverged else "pruned"
    if search.problem.cost_limit is not None:
        set_excess_cost(trial, training.score.excess_cost)
    trial.report(training.score.value, search.problem.evaluations)
    search.study.tell(trial, training.score.value)
    return "complete"


def _is_closed(search: Search, trial: optuna.Trial) -> bool:
    return search.study.trials[trial.number].state.is_finished()
