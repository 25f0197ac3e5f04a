# mypy: warn-return-any=False
"""Compiled passage of time in the resource pool."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import internal
from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_command import switch_units
from greendc.resource_pool.kernel_place import begin, highest_unit, release, suspend
from greendc.resource_pool.kernel_power import account_energy, dark_units_in_use, refresh_levels
from greendc.resource_pool.kernel_queue import enqueue, insert, may_use_brown, rebuild
from greendc.resource_pool.kernel_reward import EXECUTED, LATE, ON_TIME, pay
from greendc.resource_pool.kernel_rows import ring
from greendc.resource_pool.layout import Pool

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]


@internal
def advance(pool: Pool) -> None:
    """Let time go on by one step, in the order that the environment's docstring states.

    What is commanded is in ``units_ordered`` and ``battery_mode``.
    """
    account_step(pool)
    pool.env.now += 1
    pool.env.head = ring(pool.env.head, 1, pool.config.horizon)
    pool.env.time_advanced += 1
    charge_lateness(pool)
    finish_jobs(pool)
    if pool.config.commands > 1:
        switch_units(pool)
    fell = refresh_levels(pool)
    if not pool.config.exact_levels:
        obey_levels(pool, fell)
    for i in range(pool.env.n_placed):
        job = pool.placed[i]
        if pool.jobs[job].start == pool.env.now:
            begin(pool, job)
    admit(pool)
    rebuild(pool)
    delayed, waiting = pool.env.n_delayed, pool.env.n_not_started
    cost = pool.config.cost_delayed * delayed + pool.config.cost_waiting * waiting
    pool.env.cost += cost
    pool.env.accrued_cost += cost


@internal
def account_step(pool: Pool) -> None:
    """Account for the step that ends: work executed, units in use, energy."""
    types, now = pool.config.types, pool.env.now
    level = pool.levels[pool.env.head]
    used = 0
    for k in range(types):
        used += pool.in_use[k]
    used_dark = 0
    if pool.config.brown_above < np.inf:
        used_dark = dark_units_in_use(pool, level)
    pool.env.used_unit_steps += used
    pool.env.powered_unit_steps += level * types + used_dark
    if pool.config.pay_executed > 0.0:
        for i in range(pool.env.n_placed):
            job = pool.placed[i]
            worked = now - pool.jobs[job].start - pool.config.start_delay
            if pool.jobs[job].status == at.RUNNING and 0 <= worked < pool.jobs[job].remaining:
                pay(pool, EXECUTED, job)
    if pool.config.has_site:
        idle = level * types - (used - used_dark)
        account_energy(pool, used, idle)


@internal
def charge_lateness(pool: Pool) -> None:
    """Notice the jobs that are past their latest finish now, and charge all such jobs for the step."""
    while pool.env.next_overdue < pool.env.n_jobs:
        job = pool.by_latest[pool.env.next_overdue]
        if pool.jobs[job].latest >= pool.env.now:
            break
        pool.env.next_overdue += 1
        if pool.jobs[job].status < at.FINISHED:
            pool.jobs[job].delayed = 1
            pool.env.n_delayed += 1
            if pool.config.charge_lateness > 0.0:
                insert(pool.overdue, pool.env.n_overdue, job)
                pool.env.n_overdue += 1
    kept = 0
    for i in range(pool.env.n_overdue):
        job = pool.overdue[i]
        if pool.jobs[job].status >= at.FINISHED:
            continue
        pay(pool, LATE, job)
        if pool.jobs[job].late_paid < pool.config.lateness_cap * pool.jobs[job].value:
            pool.overdue[kept] = job
            kept += 1
    pool.env.n_overdue = kept


@internal
def finish_jobs(pool: Pool) -> None:
    """Let the jobs leave whose placement ends now, and pay those that are on time."""
    kept = 0
    for i in range(pool.env.n_placed):
        job = pool.placed[i]
        if pool.jobs[job].end > pool.env.now:
            pool.placed[kept] = job
            kept += 1
            continue
        pool.jobs[job].status = at.FINISHED
        pool.jobs[job].finish = pool.env.now
        pool.jobs[job].remaining = 0
        for k in range(pool.config.types):
            pool.in_use[k] -= pool.needs[job, k]
        if pool.jobs[job].delayed:
            pool.env.n_delayed -= 1
        else:
            pay(pool, ON_TIME, job)
    pool.env.n_placed = kept


@internal
def obey_levels(pool: Pool, fell: bool) -> None:
    """Suspend running jobs that row 0 does not carry; break reservations that some row does not carry.

    Reservations are looked at only when a level fell: they were carried when they were made.
    """
    horizon = pool.config.horizon
    i = 0
    while i < pool.env.n_placed:
        job = pool.placed[i]
        highest = highest_unit(pool, job)
        running = pool.jobs[job].status == at.RUNNING
        carried = True
        if not may_use_brown(pool, job):
            if running:
                carried = highest <= pool.levels[pool.env.head]
            elif fell:
                for t in range(pool.jobs[job].start, pool.jobs[job].end):
                    carried = carried and highest <= pool.levels[t % horizon]
        if carried:
            i += 1
            continue
        if running:
            suspend(pool, job)
            pool.env.power_suspensions += 1
        else:
            release(pool, job)
            pool.env.broken_reservations += 1
        enqueue(pool, job)


@internal
def admit(pool: Pool) -> None:
    """Let the jobs enter that arrive now or earlier."""
    while pool.env.next_arrival < pool.env.n_jobs:
        job = pool.env.next_arrival
        if pool.jobs[job].arrival > pool.env.now:
            return
        pool.env.next_arrival += 1
        pool.env.n_not_started += 1
        enqueue(pool, job)
