# mypy: warn-return-any=False
"""Compiled choice of actions: which row of the view a rule takes."""

from __future__ import annotations

import math

from greendc.cluster.kernel import site_of
from greendc.cluster.kernel_plan import admitted, plan_for_admission
from greendc.cluster.kernel_rules import look, score
from greendc.cluster.kernel_time import next_event
from greendc.cluster.layout import NEVER, NO_BACKFILL, RLSCHEDULER, Rule, Site, State, World
from greendc.compiled import compiled, internal
from greendc.records import Ints


@compiled
def choose_visible(actions: Ints, rule: Rule, world: World, state: State) -> None:
    """Write the action of a rule in each environment; 0 where the episode is over."""
    for i in range(actions.shape[0]):
        site = site_of(i, world, state)
        actions[i] = 0
        if site.cluster.over == 0:
            actions[i] = row_of_rule(site, rule)


@compiled
def action_of(i: int, job: int, world: World, state: State) -> int:
    """Return the action that takes a job in environment ``i``: of one not in view, the first row's."""
    site = site_of(i, world, state)
    row = 0
    for k in range(site.cluster.visible):
        if site.visible[k] == job:
            row = k
    return waits_for(site, row, admitted(site, plan_for_admission(site), site.visible[row]))


@internal
def row_of_rule(site: Site, rule: Rule) -> int:
    """Return the row of the first visible job by a rule, or the action that waits for it to fit."""
    size, queue = plan_for_admission(site), look(site, rule)
    best, lowest, fits, arrival = -1, math.inf, False, 0
    for k in range(site.cluster.visible):
        job = site.visible[k]
        can = admitted(site, size, job)
        if rule.fitting != 0 and fits and not can:
            continue
        value = score(site, job, rule, queue)
        first = best < 0 or value < lowest or (value == lowest and job < arrival)
        if first or (rule.fitting != 0 and can and not fits):
            best, lowest, fits, arrival = k, value, can, job
    return waits_for(site, best, fits)


@internal
def waits_for(site: Site, row: int, fits: bool) -> int:
    """Return the action that takes a row: without backfilling, to take what cannot start is to wait."""
    settings = site.settings
    blind = settings.profile != RLSCHEDULER and settings.backfill == NO_BACKFILL
    return settings.visible if blind and not fits and next_event(site) != NEVER else row
