"""The search itself: workers are asked for trials until the study has its total."""

from __future__ import annotations

import time
from collections.abc import Callable

from optuna.trial import TrialState

from sb3_greendc.core.engine import map_tasks
from sb3_greendc.tuning import leases
from sb3_greendc.tuning.study import Search
from sb3_greendc.tuning.worker import Order, Outcome, work

_POLL_SECONDS = 1.0


def run_search(
    search: Search,
    order: Order,
    engine: str = "serial",
    jobs: int | None = None,
    ray_address: str | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
    on_wait: Callable[[int], None] | None = None,
) -> None:
    """Run trials until the study has as many as the order says, together with its other workers.

    When the last trials run elsewhere, this waits for them, and takes those over whose workers die.

    :param search: the study
    :param order: what every worker is told
    :param engine: see :func:`sb3_greendc.core.engine.map_tasks`, as the next two
    :param jobs: trials at once
    :param ray_address: a running Ray cluster
    :param on_outcome: called after each trial of this process's workers
    :param on_wait: called once with the number of trials that run elsewhere
    """

    def tell(_: int, outcome: Outcome | None) -> None:
        if outcome is not None and on_outcome is not None:
            on_outcome(outcome)

    waiting = False
    while True:
        leases.requeue_lost(search.study, order.lease_seconds)
        elsewhere = len(search.trials(TrialState.RUNNING))
        missing = order.total - len(search.finished())
        if missing <= 0:
            return
        if missing > elsewhere:
            map_tasks(work, [order] * (missing - elsewhere), engine, jobs, ray_address, tell)
            continue
        if not waiting and on_wait is not None:
            on_wait(elsewhere)
        waiting = True
        time.sleep(_POLL_SECONDS)
