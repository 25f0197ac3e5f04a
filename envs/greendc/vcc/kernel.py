"""The compiled simulator: one hour of a batch of datacenters under a virtual capacity curve.

This module has what Python calls. An hour is in :mod:`greendc.vcc.kernel_hour`, what is told of it in
:mod:`~greendc.vcc.kernel_report`, the state in :mod:`~greendc.vcc.layout`. All work is counted in integers
(millionths of a machine unit, whole hours), so that a plain reference gives bit-identical trajectories. An
hour costs time in proportion to the jobs that come, start, stop and go, not to those that wait.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.by_reference import by_reference
from greendc.compiled import compiled, expanded, inlined, unlocked
from greendc.records import Floats, Ints, Ints32, Table, wide
from greendc.vcc.kernel_cluster import (
    least_loaded,
    note_fixed,
    note_running,
    push,
    run_flexible,
    run_inflexible,
    take_place,
    wait,
)
from greendc.vcc.kernel_hour import advance
from greendc.vcc.kernel_lateness import clear_waiting, count_running, pending_overdue
from greendc.vcc.kernel_report import observe, report, reward_of
from greendc.vcc.layout import (
    DAY,
    FIRST_FLEXIBLE_CLASS,
    MICRO,
    OUTSIDE,
    Datacenter,
    Job,
    Report,
    State,
    TraceJob,
    World,
)


@expanded
def datacenter(i: int, world: World, state: State) -> Datacenter:
    """Return environment ``i`` of a batch; nothing is copied."""
    return by_reference(
        Datacenter(
            world.settings[0],
            world.trace,
            world.hour_offsets,
            world.started,
            state.cluster[i],
            state.places[i],
            state.keys[i],
            state.stack[i],
            state.fixed[i],
            state.loads[i],
            state.inflexible_loads[i],
            state.leaving[i],
            state.leaving_bins[i],
            state.waiting[i],
            state.left[i],
            state.day_ends[i],
            state.kinks[i],
            state.delays[i],
        )
    )


@unlocked
def step_batch(actions: Floats, world: World, state: State, told: Report, out: NDArray[np.float32]) -> int:
    """Advance every environment by an hour, or none of them.

    Return 0; or i + 1 if the action of environment i is not a number from 0 to 1; or -i - 1 if its
    episode is over or not begun.

    :param actions: ``(n,)`` virtual capacities, fractions of C
    :param out: ``(n, size)`` observations, overwritten
    """
    settings = world.settings[0]
    for i in range(actions.shape[0]):
        if state.cluster[i].now >= settings.hours:
            return -i - 1
        if not 0.0 <= actions[i] <= 1.0:
            return i + 1
    for i in range(actions.shape[0]):
        dc = datacenter(i, world, state)
        cluster, hour, seen = dc.cluster, told.info[i], told.observation[i]
        now = cluster.now
        demand = world.no_delay[i, now]
        advance(dc, actions[i], demand, DAY * world.days[i, 1 + now // DAY])
        report(dc, world.moer[cluster.month, now], hour, seen)
        told.rewards[i] = reward_of(hour, demand / MICRO, settings)
        told.truncated[i] = cluster.now == settings.hours
        told.history[i, now] = hour
        observe(cluster, settings, world.forecast[cluster.forecast, cluster.now], seen)
        scale(told.raw[i], world.scale, out[i])
    return 0


@inlined
def scale(raw: Floats, factors: Floats, out: NDArray[np.float32]) -> None:
    """Write the columns of an observation that the agent sees, times ``factors``, as float32."""
    for k in range(out.shape[0]):
        out[k] = raw[k] * factors[k]


@compiled
def observe_one(i: int, world: World, state: State, told: Report, out: NDArray[np.float32]) -> None:
    """Write the present observation of environment ``i`` into its row of ``out``."""
    cluster = state.cluster[i]
    observe(cluster, world.settings[0], world.forecast[cluster.forecast, cluster.now], told.observation[i])
    scale(told.raw[i], world.scale, out[i])


@compiled
def begin(i: int, warm_start: bool, world: World, state: State, day_profiles: Ints) -> int:
    """Empty environment ``i`` and, for a warm start, let the jobs of the day before that go on run.

    Return what delaying all flexible work for an hour would add to the SLO charge, as ``pending_overdue``
    does. What :data:`~greendc.vcc.layout.ZEROED` names is zero before the call.

    ``day_profiles[d, h]`` is the no-delay load, h hours after its midnight, of the jobs submitted on
    day d of the trace (millionths of a machine unit); ``no_delay`` is their sum over the episode.
    """
    dc = datacenter(i, world, state)
    clear_waiting(dc)
    state.cluster[i] = world.start[0]
    clear(dc.loads)
    clear(dc.inflexible_loads)
    clear(dc.kinks)
    clear(dc.delays)
    clear(world.no_delay[i])
    no_delay, days = world.no_delay[i], world.days[i]
    hours = no_delay.shape[0]
    for d in range(0 if warm_start else 1, days.shape[0]):
        midnight = DAY * (d - 1)
        for h in range(max(0, midnight), min(hours, midnight + day_profiles.shape[1])):
            no_delay[h] += day_profiles[days[d], h - midnight]
    if warm_start:
        warm_up(dc, world.input_order, DAY * days[0])
    return pending_overdue(dc)


@inlined
def clear(numbers: Ints) -> None:
    """Set numbers to zero."""
    for k in range(numbers.shape[0]):
        numbers[k] = 0


@inlined
def warm_up(dc: Datacenter, input_order: Ints32, first_hour: int) -> None:
    """Put the jobs of the day before where the no-delay schedule has them at t = 0, by id.

    They go to the least-loaded machine; where it is full, flexible jobs wait and inflexible ones run
    outside.

    :param first_hour: the trace's hour that is that day's midnight
    """
    cluster, offsets = dc.cluster, dc.hour_offsets
    for hour in range(DAY):
        for index in range(offsets[first_hour + hour], offsets[first_hour + hour + 1]):
            submitted = dc.trace[input_order[index]]
            cpu, duration = wide(submitted.cpu), wide(submitted.duration)
            left = duration - (DAY - hour)
            if left <= 0:
                continue
            cluster.submitted_work += cpu * left
            machine = least_loaded(dc.loads)
            fits = dc.loads[machine] + cpu <= MICRO
            if submitted.job_class < FIRST_FLEXIBLE_CLASS:
                if not fits:
                    machine = OUTSIDE
                    cluster.outside_jobs += 1
                run_inflexible(dc, cpu, machine, left)
                note_fixed(dc, cpu, machine, left)
                continue
            cluster.submitted_flexible_work += cpu * left
            job = Job(cpu, left, 0, wide(submitted.order), duration)
            j = take_place(dc, submitted.job_class - FIRST_FLEXIBLE_CLASS)
            if not fits:
                wait(dc, j, job)
                continue
            cluster.load_flexible += cpu
            run_flexible(dc, cpu, machine, left)
            count_running(dc, cpu, 0, left)
            dc.delays[0] += 1
            note_running(dc.started[0, 0], job, left, machine, j)
            push(dc.stack, dc.cluster, dc.started[0, 0])
    cluster.id_base = offsets[first_hour + DAY] - offsets[first_hour]


@compiled
def add_profile(trace: Table[TraceJob], hours: Ints, first_hour: int, profile: Ints) -> None:
    """Add the no-delay load of one day's jobs, hour by hour from its midnight, to ``profile``."""
    for hour in range(DAY):
        for j in range(hours[first_hour + hour], hours[first_hour + hour + 1]):
            for h in range(hour, min(profile.shape[0], hour + trace[j].duration)):
                profile[h] += trace[j].cpu
