# mypy: warn-return-any=False
"""Compiled rollouts: what each candidate would come to, if more jobs like those of the past arrived.

The plan is a cluster of its own, run by the simulator's code. Its jobs are those that wait, in their order,
then a future, then those that run, with expected run times; its power is the forecast.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from greendc.cluster.kernel import choose, site_of, to_next_decision
from greendc.cluster.kernel_groups import expected, run_at
from greendc.cluster.kernel_queue import enqueue
from greendc.cluster.kernel_rules import best_waiting
from greendc.cluster.kernel_time import next_event, read_power
from greendc.cluster.layout import (
    DAY,
    DONE,
    EASY,
    NEVER,
    NOBODY,
    REWARD_CARBON,
    REWARD_SLOWDOWN,
    REWARD_WAIT,
    RUNNING,
    SHORT_RUN,
    TO_COME,
    WAITING,
    Rule,
    Site,
    State,
    World,
)
from greendc.compiled import compiled, internal
from greendc.records import Floats, Ints, Ints32

WAIT = -1
"""The candidate that starts nothing."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Steps of it modulo 1 fill [0, 1) evenly, however many there are."""


class Options(NamedTuple):
    """How rollouts are made."""

    base: Rule
    """Followed after the first decision, and deviated from for a reason only."""
    futures: int
    horizon: int
    """Jobs of a future."""
    history: int
    """Jobs before the episode that futures are drawn from, too."""
    daytime: int
    """Seconds by which the time of day of what a future repeats may differ from now."""
    first_round: int
    """Futures that all candidates play; the better half plays as many again, and so on."""
    guard: float
    """Standard errors by which a candidate must be better than the base."""
    lightest: int
    """Waiting jobs of the least weight that are candidates, too."""
    predicted: int
    """Whether jobs are expected to run as their users' jobs did so far, else as long as requested."""


class Scratch(NamedTuple):
    """Working space."""

    rules: Ints
    """``(C, 3)``: kind, fitting, predicted of the rules that nominate candidates."""
    candidates: Ints
    """``(C + lightest + 2,)``"""
    costs: Floats
    """``(C + lightest + 2, futures)``"""
    totals: Floats
    """``(C + lightest + 2,)``: what each candidate has cost so far."""
    going_on: Ints
    """``(C + lightest + 2,)``: the candidates that have not dropped out, the base's first."""
    light: Ints32
    """``(J,)``: the waiting jobs of the plan by weight."""


@compiled
def decide(
    i: int, world: World, state: State, plan_world: World, plan_state: State, options: Options, draw: float,
    scratch: Scratch,
) -> int:  # fmt: skip
    """Return the job that environment ``i`` should take, or ``WAIT``; some job must wait.

    :param plan_world: what the plan runs on
    :param plan_state: one environment
    :param draw: uniform on [0, 1): which parts of the past the futures repeat
    """
    site, plan = site_of(i, world, state), site_of(0, plan_world, plan_state)
    count = nominate(site, options, scratch)
    if count == 1:
        return scratch.candidates[0]
    waiting = site.cluster.waiting
    expect(site, plan, world.done_before, options, draw)
    for k in range(waiting):
        plan.jobs[k].worked = site.jobs[site.queue[k]].worked
    plan.cluster.first = plan.cluster.waiting = 0
    for k in range(waiting):
        enqueue(plan, k)
    for k in range(waiting):
        scratch.light[k] = plan.light[k]
    left = play_rounds(site, plan, options, count, scratch)
    return scratch.candidates[best_of(scratch, left, futures_of(options), options.guard)]


@internal
def futures_of(options: Options) -> int:
    """Return how many futures differ from each other: without jobs to come there is one."""
    return options.futures if options.horizon > 0 else 1


@internal
def play_rounds(site: Site, plan: Site, options: Options, count: int, scratch: Scratch) -> int:
    """Write what candidates cost in the futures; return how many have played all of them.

    Sequential halving (Karnin, Koren and Somekh, "Almost Optimal Exploration in Multi-Armed Bandits", ICML
    2013): after each round the base and the cheaper half of the others go on, and the futures played double.
    """
    going_on, totals, futures = scratch.going_on, scratch.totals, futures_of(options)
    for c in range(count):
        going_on[c], totals[c] = c, 0.0
    left, played, until = count, 0, min(options.first_round, futures)
    while True:
        for k in range(left):
            c = going_on[k]
            for f in range(played, until):
                scratch.costs[c, f] = play(site, plan, scratch.candidates[c], f, options, scratch.light)
                totals[c] += scratch.costs[c, f]
        if until == futures:
            return left
        sort_behind_first(going_on, totals, left)
        left = 1 + left // 2
        played, until = until, min(2 * until, futures)


@internal
def play(site: Site, plan: Site, candidate: int, f: int, options: Options, light: Ints32) -> float:
    """Return what a candidate costs in future ``f``, in which the base decides all that follows."""
    begin_plan(site, plan, f, options.horizon, light)
    take(site, plan, candidate)
    while plan.cluster.over == 0:
        choose(plan, best_waiting(plan, options.base))
    return cost_of(plan)


@internal
def sort_behind_first(going_on: Ints, totals: Floats, left: int) -> None:
    """Put the candidates behind the first one in the order of their costs."""
    for k in range(2, left):
        c, at = going_on[k], k
        while at > 1 and totals[going_on[at - 1]] > totals[c]:
            going_on[at] = going_on[at - 1]
            at -= 1
        going_on[at] = c


@internal
def nominate(site: Site, options: Options, scratch: Scratch) -> int:
    """Write the base's job, those of other rules and the lightest that wait; return how many there are."""
    base = options.base
    scratch.candidates[0] = best_waiting(site, Rule(base.kind, base.fitting, options.predicted, base.weights))
    count = 1
    for r in range(scratch.rules.shape[0]):
        kind, fitting = scratch.rules[r, 0], scratch.rules[r, 1]
        job = best_waiting(site, Rule(kind, fitting, scratch.rules[r, 2], base.weights))
        count = add(job, count, scratch)
    for k in range(min(options.lightest, site.cluster.waiting)):
        count = add(site.light[k], count, scratch)
    if may_wait(site):
        scratch.candidates[count] = WAIT
        count += 1
    return count


@internal
def may_wait(site: Site) -> bool:
    """Tell whether starting nothing is tried.

    Where slowdown or waiting is paid and nothing runs, it is not: a wide job that delays the small ones of
    each future by more than itself would wait for ever.
    """
    if site.settings.profile != EASY or next_event(site) == NEVER:
        return False
    delays = site.settings.reward == REWARD_SLOWDOWN or site.settings.reward == REWARD_WAIT
    return site.cluster.running > 0 or not delays


@internal
def add(job: int, count: int, scratch: Scratch) -> int:
    """Write a candidate behind ``count`` others unless it is one of them; return how many there are then."""
    for c in range(count):
        if scratch.candidates[c] == job:
            return count
    scratch.candidates[count] = job
    return count + 1


@internal
def expect(site: Site, plan: Site, done_before: Ints, options: Options, draw: float) -> None:
    """Write the jobs of the plan, once for each future: those that wait, the future, those that run."""
    cluster, waiting, horizon = site.cluster, site.cluster.waiting, options.horizon
    size = waiting + horizon + cluster.running
    oldest = max(cluster.first - options.history, 0)
    # So few jobs have arrived that there is no whole block: one of those that come round again.
    room = max(cluster.first + cluster.arrived - oldest - horizon, 1)
    alike = count_alike(site, oldest, room, options.daytime)
    for f in range(futures_of(options)):
        first = f * size
        for k in range(waiting):
            row = cluster.first + site.queue[k]
            copy_job(site, plan, row, first + k, options.predicted, False)
            if options.predicted and futures_of(options) > 1:
                draw_run(site, plan, row, first + k, share_of(row, f, draw))
        if horizon > 0:
            share = (draw + f * GOLDEN) % 1.0
            block = oldest + int(share * room)
            if alike >= options.futures:
                block = alike_at(site, oldest, int(share * alike), options.daytime)
            last = cluster.first + cluster.arrived - 1
            shift = cluster.now - site.log[block].submit
            for k in range(horizon):
                row = block + 1 + k
                if row > last:
                    row = last
                copy_job(
                    site, plan, row, first + waiting + k, options.predicted, is_done(site, done_before, row)
                )
                entry = plan.log[first + waiting + k]
                entry.submit += shift
                if entry.deadline < NEVER:
                    entry.deadline += shift
        for k in range(cluster.running):
            copy_job(site, plan, cluster.first + site.running[k].job, first + waiting + horizon + k, 0, False)


@internal
def count_alike(site: Site, oldest: int, room: int, daytime: int) -> int:
    """Return how many of the jobs from ``oldest`` on arrived at about the time of day that it is now."""
    count = 0
    for row in range(oldest, oldest + room):
        count += is_alike(site, row, daytime)
    return count


@internal
def alike_at(site: Site, oldest: int, place: int, daytime: int) -> int:
    """Return the row of one of them, numbered from 0."""
    row = oldest
    while True:
        if is_alike(site, row, daytime):
            if place == 0:
                return row
            place -= 1
        row += 1


@internal
def is_alike(site: Site, row: int, daytime: int) -> bool:
    """Tell whether a job arrived at about the time of day that it is now."""
    apart = (site.cluster.now - site.log[row].submit) % DAY
    return min(apart, DAY - apart) <= daytime


@internal
def is_done(site: Site, done_before: Ints, row: int) -> bool:
    """Tell whether a job of the log is done by now, so that its run time is known."""
    if row < site.cluster.first:
        return done_before[row] <= site.cluster.now
    return site.jobs[row - site.cluster.first].phase == DONE


@internal
def copy_job(site: Site, plan: Site, row: int, to: int, predicted: int, known: bool) -> None:
    """Write a job of the log into the plan, with its expected run time unless that is known."""
    entry, mine = site.log[row], plan.log[to]
    mine.submit, mine.request, mine.processors = entry.submit, entry.request, entry.processors
    mine.deadline, mine.value, mine.group = entry.deadline, entry.value, NOBODY
    mine.weight = entry.weight
    mine.run, mine.inverse = entry.request, 1.0 / max(entry.request, SHORT_RUN)
    if known:
        mine.run, mine.inverse = entry.run, entry.inverse
    elif predicted:
        run, mine.inverse = expected(site, row - site.cluster.first)
        mine.run = max(int(run), 1)
        mine.weight = run / mine.inverse * entry.processors
    if row >= site.cluster.first:
        mine.run = max(mine.run, site.jobs[row - site.cluster.first].worked + 1)


@internal
def draw_run(site: Site, plan: Site, row: int, to: int, share: float) -> None:
    """Let a waiting job run in this future as long as a share of jobs like it at most do.

    Rules go by what is expected all the same.
    """
    if site.log[row].group != NOBODY:
        job = row - site.cluster.first
        run = run_at(site, job, share)
        plan.log[to].run = max(run, site.jobs[job].worked + 1)
        plan.log[to].inverse = 1.0 / max(run, SHORT_RUN)


@internal
def share_of(row: int, f: int, draw: float) -> float:
    """Return a number in (0, 1) that looks as if drawn for this row and this future."""
    bits = (row * 0x2C9277B5 + f * 0x3C6EF35F + int(draw * 2**32)) & 0xFFFFFFFF
    for _ in range(2):
        bits = ((bits >> 16 ^ bits) * 0x45D9F3B) & 0xFFFFFFFF
    return ((bits >> 16 ^ bits) + 0.5) / 2**32


@internal
def begin_plan(site: Site, plan: Site, f: int, horizon: int, light: Ints32) -> None:
    """Let the plan be what the cluster is now, with future ``f``."""
    mine, real = plan.cluster, site.cluster
    waiting, running = real.waiting, real.running
    plan.settings.jobs = waiting + horizon
    mine.first = f * (waiting + horizon + running)
    mine.now, mine.limit, mine.over, mine.shift = real.now, real.limit, 0, real.shift
    mine.carbon_shift = real.carbon_shift
    mine.capacity, mine.used, mine.next_change = real.capacity, real.used, NEVER
    if plan.settings.power_period > 0:
        read_power(plan)
        mine.capacity = real.capacity
    mine.waiting, mine.running, mine.arrived = waiting, running, waiting
    mine.finished, mine.starts = -running, running
    mine.delay, mine.slowdown, mine.value, mine.carbon = 0, 0.0, 0.0, 0.0
    mine.busy = mine.powered = mine.excess = mine.wasted = mine.preemptions = 0
    for k in range(waiting):
        theirs, job = site.jobs[site.queue[k]], plan.jobs[k]
        plan.queue[k], plan.light[k] = k, light[k]
        job.phase, job.worked, job.delay, job.charged = WAITING, theirs.worked, theirs.delay, theirs.charged
        job.first_start, job.restore = theirs.first_start, 0
    for k in range(waiting, waiting + horizon):
        job = plan.jobs[k]
        job.phase, job.worked, job.delay, job.charged = TO_COME, 0, 0, 0.0
        job.first_start, job.restore = NEVER, 0
    for k in range(running):
        local, theirs = waiting + horizon + k, site.jobs[site.running[k].job]
        job, entry = plan.jobs[local], plan.log[mine.first + local]
        job.phase, job.worked, job.delay, job.charged = RUNNING, theirs.worked, theirs.delay, theirs.charged
        job.start, job.first_start, job.restore, job.order = theirs.start, theirs.start, theirs.restore, 0
        for other in range(running):
            job.order += site.jobs[site.running[other].job].order < theirs.order
        estimate = site.running[k].estimate
        mine_of = plan.running[k]
        mine_of.estimate, mine_of.processors, mine_of.job = estimate, entry.processors, local
        end, at = expected_end(site, k), k
        while at > 0 and plan.endings[at - 1].end > end:
            plan.endings[at] = plan.endings[at - 1]
            at -= 1
        ending = plan.endings[at]
        ending.end, ending.job = end, local


@internal
def expected_end(site: Site, k: int) -> int:
    """Return when a running job is expected to end: by its request, or soon if that is over."""
    now, job = site.cluster.now, site.running[k]
    if job.estimate > now:
        return job.estimate
    elapsed = now - site.jobs[job.job].start
    return now + 1 + elapsed // 2


@internal
def take(site: Site, plan: Site, candidate: int) -> None:
    """Let the plan's first decision be a candidate."""
    if candidate == WAIT:
        to_next_decision(plan)
        return
    k = 0
    while site.queue[k] != candidate:
        k += 1
    choose(plan, k)


@internal
def cost_of(plan: Site) -> float:
    """Return what the reward of the environment would have taken off."""
    cluster, reward = plan.cluster, plan.settings.reward
    if reward == REWARD_SLOWDOWN:
        return cluster.slowdown
    if reward == REWARD_WAIT:
        return float(cluster.delay)
    if reward == REWARD_CARBON:
        return cluster.carbon
    return -cluster.value


@internal
def best_of(scratch: Scratch, left: int, futures: int, guard: float) -> int:
    """Return the candidate that is cheapest on average by more than its error, else the base (0)."""
    best, least, costs = 0, 0.0, scratch.costs
    for k in range(1, left):
        c, total, squares = scratch.going_on[k], 0.0, 0.0
        for f in range(futures):
            gap = costs[c, f] - costs[0, f]
            total += gap
            squares += gap * gap
        mean = total / futures
        error = 0.0
        if futures > 1:
            error = math.sqrt(max(squares / futures - mean * mean, 0.0) / (futures - 1))
        if mean + guard * error < 0.0 and mean < least:
            best, least = c, mean
    return best
