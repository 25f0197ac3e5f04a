# mypy: warn-return-any=False
"""The compiled simulator: one decision in each of a batch of clusters, and whole episodes by a rule.

This module has what Python calls. The state is in :mod:`~greendc.cluster.layout`; all times and processors
are integers, so that a plain reference gives bit-identical trajectories.
"""

from __future__ import annotations

from greendc.by_reference import by_reference
from greendc.cluster.kernel_backfill import backfill, fill_before, shadow_start
from greendc.cluster.kernel_groups import remember
from greendc.cluster.kernel_observe import observe, see
from greendc.cluster.kernel_plan import admitted, any_can_start, free_now, plan_for_admission
from greendc.cluster.kernel_queue import charge, needed, start
from greendc.cluster.kernel_rules import best_waiting
from greendc.cluster.kernel_time import (
    arrive,
    elapse,
    happen,
    next_arrival,
    next_event,
    one_event,
    read_power,
)
from greendc.cluster.layout import (
    NEVER,
    NO_BACKFILL,
    REWARD_CARBON,
    REWARD_SLOWDOWN,
    REWARD_WAIT,
    RLSCHEDULER,
    TO_COME,
    Report,
    Rule,
    Seen,
    Site,
    State,
    Totals,
    World,
)
from greendc.compiled import compiled, expanded, internal, unlocked
from greendc.records import Ints


@expanded
def site_of(i: int, world: World, state: State) -> Site:
    """Return environment ``i`` of a batch; nothing is copied."""
    return by_reference(
        Site(
            world.settings[0],
            world.log,
            world.power_times,
            world.power,
            world.forecast_times,
            world.forecast,
            world.carbon_times,
            world.carbon,
            world.carbon_sums,
            world.points,
            world.minima,
            world.rank,
            world.wider,
            state.cluster[i],
            state.jobs[i],
            state.queue[i],
            state.light[i],
            state.running[i],
            state.endings[i],
            state.visible[i],
            state.groups[i],
            state.pieces[i],
        )
    )


@compiled
def remember_jobs(i: int, rows: Ints, world: World, state: State) -> None:
    """Count jobs of the log as done, in this order, to tell how long others will run."""
    site = site_of(i, world, state)
    for row in rows:
        remember(site, site.log[row])


@compiled
def begin(i: int, first: int, shift: int, carbon_shift: int, world: World, state: State) -> None:
    """Empty environment ``i`` and let the job in row ``first`` of the log arrive."""
    site = site_of(i, world, state)
    cluster, settings = site.cluster, site.settings
    cluster.first, cluster.shift, cluster.carbon_shift = first, shift, carbon_shift
    cluster.now = site.log[first].submit
    cluster.limit = cluster.now + settings.limit
    cluster.over = cluster.waiting = cluster.running = cluster.arrived = cluster.finished = 0
    cluster.starts = cluster.pieces = cluster.decisions = cluster.invalid = cluster.preemptions = 0
    cluster.busy = cluster.powered = cluster.excess = cluster.wasted = cluster.used = 0
    cluster.carbon = cluster.slowdown = cluster.value = 0.0
    cluster.delay = 0
    cluster.paid_slowdown = cluster.paid_value = cluster.paid_carbon = 0.0
    cluster.paid_delay = cluster.paid_lost = 0
    cluster.capacity, cluster.next_change = settings.processors, NEVER
    for job in range(settings.jobs):
        state_of = site.jobs[job]
        state_of.phase, state_of.start, state_of.first_start, state_of.finish = TO_COME, NEVER, NEVER, NEVER
        state_of.worked = state_of.restore = state_of.order = state_of.piece = state_of.delay = 0
        state_of.charged = 0.0
    for k in range(site.groups.shape[0]):
        group = site.groups[k]
        group.jobs = group.runs = group.inverses = 0.0
    if site.groups.shape[0] > 0:
        for row in world.by_done:
            if world.done_before[row] > cluster.now:
                break
            if row < first:
                remember(site, site.log[row])
    read_power(site)
    arrive(site)
    if settings.profile != RLSCHEDULER:
        while next_arrival(site) <= cluster.now:
            arrive(site)
        if not any_can_start(site):
            to_next_decision(site)
    see(site)


@compiled
def choose(site: Site, job: int) -> None:
    """Take a waiting job as the first one, and go on to the next decision."""
    if site.settings.profile == RLSCHEDULER:
        commit(site, job)
        return
    if admitted(site, plan_for_admission(site), job):
        start(site, job)
        if site.cluster.waiting > 0 and any_can_start(site):
            return
    else:
        backfill(site, job)
    to_next_decision(site)


@internal
def commit(site: Site, job: int) -> None:
    """Start a job as soon as it fits, as RLScheduler does, and go on until another one waits."""
    cluster, settings = site.cluster, site.settings
    need = site.log[cluster.first + job].processors
    if need > free_now(site):
        shadow = shadow_start(site, need)
        while need > free_now(site):
            if settings.backfill != NO_BACKFILL:
                fill_before(site, shadow)
            one_event(site)
    start(site, job)
    while cluster.waiting == 0 and cluster.arrived < settings.jobs:
        one_event(site)
    if cluster.waiting == 0:
        while cluster.running > 0:
            one_event(site)
        cluster.over = 1


@internal
def to_next_decision(site: Site) -> None:
    """Let time go on until some job can start, all are done, or the episode is cut."""
    cluster = site.cluster
    while cluster.finished < site.settings.jobs:
        time = next_event(site)
        if time >= cluster.limit:
            elapse(site, cluster.limit)
            cut(site)
            break
        happen(site, time)
        if cluster.waiting > 0 and any_can_start(site):
            return
    cluster.over = 1


@internal
def cut(site: Site) -> None:
    """Charge the jobs that wait when the episode is cut as if they started then."""
    for k in range(site.cluster.waiting):
        charge(site, site.queue[k])


@compiled
def totals(site: Site) -> Totals:
    """Return the sums so far, with the delay that waiting jobs have had.

    The 1 that every slowdown begins with is paid when a job starts.
    """
    cluster, reward = site.cluster, site.settings.reward
    slowdown, delay = cluster.slowdown, cluster.delay
    if reward in (REWARD_SLOWDOWN, REWARD_WAIT):
        for k in range(cluster.waiting):
            job = site.queue[k]
            state, entry = site.jobs[job], site.log[cluster.first + job]
            late = cluster.now + needed(site, job) - entry.submit - entry.run
            delay += late - state.delay
            slowdown += max(1.0, (late + entry.run) * entry.inverse) - max(1.0, state.charged)
    return Totals(slowdown, delay, cluster.value, cluster.carbon)


@internal
def pay(site: Site) -> float:
    """Return the reward for what has happened since it was paid last, or since the beginning."""
    cluster, settings, now = site.cluster, site.settings, totals(site)
    before = Totals(cluster.paid_slowdown, cluster.paid_delay, cluster.paid_value, cluster.paid_carbon)
    cluster.paid_slowdown, cluster.paid_delay = now.slowdown, now.delay
    cluster.paid_value, cluster.paid_carbon = now.value, now.carbon
    if settings.reward == REWARD_SLOWDOWN:
        return (before.slowdown - now.slowdown) / settings.jobs
    if settings.reward == REWARD_WAIT:
        return (before.delay - now.delay) / (3600.0 * settings.jobs)
    if settings.reward == REWARD_CARBON:
        return before.carbon - now.carbon
    return (now.value - before.value) / settings.mean_value


@internal
def act(site: Site, action: int) -> None:
    """Take an action; an invalid one takes the job seen first, and is counted."""
    cluster, settings = site.cluster, site.settings
    cluster.decisions += 1
    if action == settings.visible and settings.profile != RLSCHEDULER and next_event(site) != NEVER:
        to_next_decision(site)
        return
    if action >= cluster.visible:
        cluster.invalid += 1
        action = 0
    choose(site, site.visible[action])


@unlocked
def step_batch(actions: Ints, world: World, state: State, told: Report, out: Seen) -> int:
    """Take a decision in every environment, or in none.

    Return 0, or i + 1 if the action of environment i is none, or -i - 1 if its episode is over or not begun.

    :param actions: ``(n,)``
    :param out: observations, overwritten
    """
    count = world.settings[0].visible + (world.settings[0].profile != RLSCHEDULER)
    for i in range(actions.shape[0]):
        if state.cluster[i].over:
            return -i - 1
        if actions[i] < 0 or actions[i] >= count:
            return i + 1
    for i in range(actions.shape[0]):
        site = site_of(i, world, state)
        cluster = site.cluster
        now, starts, paid = cluster.now, cluster.starts, cluster.paid_lost
        act(site, actions[i])
        see(site)
        told.seconds[i] = cluster.now - now
        told.started[i] = cluster.starts - starts
        cluster.paid_lost = cluster.wasted + cluster.excess
        told.cost[i] = (cluster.paid_lost - paid) / 3600.0
        told.truncated[i] = cluster.over != 0
        told.rewards[i] = pay(site)
        observe(site, i, out)
    return 0


@compiled
def observe_one(i: int, world: World, state: State, out: Seen) -> None:
    """Write the observation of environment ``i`` as its state is now into its row of ``out``."""
    site = site_of(i, world, state)
    see(site)
    observe(site, i, out)


@compiled
def play(i: int, rule: Rule, world: World, state: State) -> None:
    """Play environment ``i`` to its end by a rule, which looks at the whole queue."""
    site = site_of(i, world, state)
    while site.cluster.over == 0:
        site.cluster.decisions += 1
        choose(site, best_waiting(site, rule))
    see(site)


@compiled
def take_one(i: int, job: int, world: World, state: State) -> None:
    """Take a waiting job in environment ``i``, or with a job below 0 wait for the next decision."""
    site = site_of(i, world, state)
    site.cluster.decisions += 1
    if job < 0:
        to_next_decision(site)
    else:
        choose(site, job)
    see(site)


@compiled
def first_by_rule(i: int, rule: Rule, world: World, state: State) -> int:
    """Return the waiting job of environment ``i`` that is first by a rule, or -1 if none waits."""
    site = site_of(i, world, state)
    return best_waiting(site, rule) if site.cluster.waiting > 0 else -1
