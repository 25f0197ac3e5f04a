# mypy: warn-return-any=False
"""Compiled orders of the waiting jobs; :mod:`greendc.cluster.rules` says what they are."""

from __future__ import annotations

import math

from greendc.cluster import rules
from greendc.cluster.kernel_evolved import Queue, evolved_score, look_at_queue
from greendc.cluster.kernel_groups import expected
from greendc.cluster.kernel_plan import admitted, plan_for_admission
from greendc.cluster.layout import Rule, Site
from greendc.compiled import compiled, internal


@internal
def look(site: Site, rule: Rule) -> Queue:
    """Return what a rule has to know of the queue before it scores jobs."""
    if rule.kind == rules.EVOLVED:
        return look_at_queue(site)
    return Queue(0, 0.0, 0.0, 0.0)


@compiled
def score(site: Site, job: int, rule: Rule, queue: Queue) -> float:
    """Return the score of a waiting job; the lowest is first."""
    entry, kind, predicted = site.log[site.cluster.first + job], rule.kind, rule.predicted
    run, inverse = expected(site, job) if predicted else (float(entry.request), 0.0)
    if kind == rules.EVOLVED:
        return evolved_score(site, job, run, queue, rule.weights)
    n, submit = float(entry.processors), float(entry.submit)
    if kind == rules.FCFS:
        return submit
    if kind == rules.SJF:
        return run
    if kind == rules.SMALLEST:
        return n
    if kind == rules.SAF:
        return run * n
    if kind == rules.WSPT:
        return run / inverse * n if predicted else entry.weight
    if kind >= rules.F1 and kind <= rules.F4:
        late = math.log10(max(submit, 1.0))
        if kind == rules.F1:
            return math.log10(run) * n + 870.0 * late
        if kind == rules.F2:
            return math.sqrt(run) * n + 25_600.0 * late
        if kind == rules.F3:
            return run * n + 6_860_000.0 * late
        return run * math.sqrt(n) + 530_000.0 * late
    wait = float(site.cluster.now - entry.submit)
    if kind == rules.WFP3_PRINTED or kind == rules.UNICEP_PRINTED:
        wait = -1.0 - submit
    if kind == rules.WFP3 or kind == rules.WFP3_PRINTED:
        share = wait / run
        return -(share * share * share) * n
    return -(wait + 1e-15) / (math.log2(n + 1e-15) * run)


@internal
def best_waiting(site: Site, rule: Rule) -> int:
    """Return the first waiting job by a rule; there must be one."""
    if rule.kind == rules.WSPT and not rule.fitting and not rule.predicted:
        return site.light[0]
    size = plan_for_admission(site) if rule.fitting else 0
    queue = look(site, rule)
    best, lowest, fits = -1, math.inf, False
    for k in range(site.cluster.waiting):
        job = site.queue[k]
        can = rule.fitting != 0 and admitted(site, size, job)
        if fits and not can:
            continue
        value = score(site, job, rule, queue)
        if best < 0 or value < lowest or (can and not fits):
            best, lowest, fits = job, value, can
    return best
