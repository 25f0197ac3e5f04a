"""The compiled simulator: one hour of a batch of datacenters under a virtual capacity curve.

This module has the arrays and what Python calls. An hour is in :mod:`greendc.vcc.kernel_hour`, what is
told of it in :mod:`~greendc.vcc.kernel_report`, column names in :mod:`~greendc.vcc.layout`. All work is
counted in integers (millionths of a machine unit, whole hours), so that a plain reference gives
bit-identical trajectories. An hour costs time in proportion to the jobs that come, start, stop and go,
not to those that wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
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
from greendc.vcc.kernel_report import charge, observe
from greendc.vcc.layout import (
    ALL_JOBS,
    DAY,
    DELAYS,
    END_PLACES,
    FIRST_FLEXIBLE_CLASS,
    FIRST_PLACES,
    FLEXIBLE_GROUPS,
    HOUR,
    HOURS,
    ID_BASE,
    LAST_VCC,
    LOAD_FLEXIBLE,
    MICRO,
    MONTH,
    OUTSIDE,
    OUTSIDE_JOBS,
    PAUSE_CHARGE,
    SUBMITTED_FLEXIBLE_WORK,
    SUBMITTED_WORK,
    TRACE_CLASS,
    TRACE_CPU,
    TRACE_DURATION,
    TRACE_ORDER,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]


class World(NamedTuple):
    """What the environments run on; n environments, T hours, D = T / 24 days."""

    trace: Ints32
    """``(J, TRACE_FIELDS)``: the job trace, by hour, class and input order."""
    input_order: Ints32
    """``(J,)``: rows of the trace by hour, then input order."""
    hour_offsets: Ints
    """``(24 * trace days + 1,)``: first job of each hour of the trace."""
    days: Ints
    """``(n, D + 1)``: the trace's day before t = 0, then one for each day."""
    moer: Floats
    """``(months, T)``: kg CO2/kWh."""
    forecast: Floats
    """``(tables, T + 1, FORECAST_FEATURES)``"""
    no_delay: Ints
    """``(n, T)``: load of the no-delay schedule, millionths of a machine unit."""
    settings: Floats
    """``(SETTINGS,)``: weights, see ``layout``."""
    switches: Ints
    """``(SWITCHES,)``: the rest of the configuration."""
    scale: Floats
    """``(EXTENDED_SIZE,)``: what raw observations are multiplied by."""
    started: Ints32
    """``(FLEXIBLE_GROUPS, F + 1, RUNNING_FIELDS)``: working space for the jobs that start in an hour."""


class State(NamedTuple):
    """The environments' state; n environments, P places, M machines, T hours. Columns: ``layout``."""

    places: Ints32
    """``(n, P, PLACE_FIELDS)``: flexible jobs that wait."""
    keys: Ints32
    """``(n, ...)``: which places are taken, see :mod:`greendc.vcc.kernel_queue`."""
    stack: Ints32
    """``(n, F, RUNNING_FIELDS)``: running flexible jobs by start, then id, and some that run no more."""
    fixed: Ints32
    """``(n, ..., RUNNING_FIELDS)``: inflexible jobs, and some that run no more."""
    machines: Ints
    """``(n, MACHINE_ROWS, M)``"""
    waiting: Ints
    """``(n, T // CHUNK + 1, 24, CHUNK)``: CPU of waiting jobs by work left."""
    calendar: Ints
    """``(n, CALENDAR_ROWS, LEAVING + 2 M + 1)``"""
    counters: Ints
    """``(n, COUNTERS)``"""
    lateness: Ints
    """``(n, LATE_ROWS, T + 49)``: see :mod:`greendc.vcc.kernel_lateness`."""
    sums: Floats
    """``(n, SUMS)``"""


class Report(NamedTuple):
    """What a step tells; n environments."""

    info: Floats
    """``(n, len(INFO))``"""
    history: Floats
    """``(n, T, len(INFO))``"""
    rewards: Floats
    """``(n,)``"""
    truncated: NDArray[np.bool_]
    """``(n,)``"""
    raw: Floats
    """``(n, EXTENDED_SIZE)``: the observation before scaling."""


@compiled
def step_batch(
    actions: Floats,
    trace: Ints32,
    _input_order: Ints32,
    hour_offsets: Ints,
    days: Ints,
    moer: Floats,
    forecast: Floats,
    no_delay: Ints,
    settings: Floats,
    switches: Ints,
    scale: Floats,
    started: Ints32,
    all_places: Ints32,
    all_keys: Ints32,
    stacks: Ints32,
    all_fixed: Ints32,
    all_machines: Ints,
    all_waiting: Ints,
    calendars: Ints,
    all_counters: Ints,
    all_lateness: Ints,
    all_sums: Floats,
    infos: Floats,
    history: Floats,
    rewards: Floats,
    truncated: NDArray[np.bool_],
    raws: Floats,
    out: NDArray[np.float32],
) -> int:
    """Advance every environment by an hour, or none of them.

    Return 0; or i + 1 if the action of environment i is not a number from 0 to 1; or -i - 1 if its
    episode is over or not begun. Between the parameters below are the
    fields of :class:`World`, :class:`State` and :class:`Report`: arrays in named tuples would take Numba
    2 us more to unpack, as long as an hour takes.

    :param actions: ``(n,)`` virtual capacities, fractions of C
    :param out: ``(n, size)`` observations, overwritten
    """
    for i in range(actions.shape[0]):
        if all_counters[i, HOUR] >= switches[HOURS]:
            return -i - 1
        if not 0.0 <= actions[i] <= 1.0:
            return i + 1
    for i in range(actions.shape[0]):
        places, keys, stack, fixed = all_places[i], all_keys[i], stacks[i], all_fixed[i]
        machines, waiting, calendar = all_machines[i], all_waiting[i], calendars[i]
        counters, lateness, sums = all_counters[i], all_lateness[i], all_sums[i]
        info, raw = infos[i], raws[i]
        hour = counters[HOUR]
        demand = no_delay[i, hour]
        first_hour = DAY * days[i, 1 + hour // DAY]
        advance(
            actions[i],
            demand,
            first_hour,
            trace,
            hour_offsets,
            places,
            keys,
            stack,
            fixed,
            started,
            machines,
            waiting,
            calendar,
            counters,
            lateness,
            switches,
            sums,
        )
        rewards[i] = charge(
            demand,
            moer[counters[MONTH], hour],
            settings,
            places,
            keys,
            stack,
            counters,
            lateness,
            switches,
            sums,
            info,
            raw,
        )
        truncated[i] = counters[HOUR] == switches[HOURS]
        for k in range(info.shape[0]):
            history[i, hour, k] = info[k]
        observe(forecast, scale, counters, lateness, switches, sums, raw, out[i])
    return 0


@compiled
def begin(i: int, warm_start: bool, world: World, state: State, day_profiles: Ints, raw: Floats) -> None:
    """Empty environment ``i`` and, for a warm start, let the jobs of the day before that go on run.

    ``day_profiles[d, h]`` is the no-delay load, h hours after its midnight, of the jobs submitted on
    day d of the trace (millionths of a machine unit); ``no_delay`` is their sum over the episode.
    """
    state.machines[i] = 0
    clear_waiting(state.waiting[i], state.lateness[i])
    state.calendar[i] = 0
    state.counters[i] = 0
    state.lateness[i] = 0
    for group in range(FLEXIBLE_GROUPS):
        state.counters[i, END_PLACES + group] = world.switches[FIRST_PLACES + group]
    state.sums[i] = 0.0
    state.sums[i, LAST_VCC] = 1.0
    raw[:] = 0.0
    no_delay, days = world.no_delay[i], world.days[i]
    no_delay[:] = 0
    hours = no_delay.shape[0]
    for d in range(0 if warm_start else 1, days.shape[0]):
        midnight = DAY * (d - 1)
        for h in range(max(0, midnight), min(hours, midnight + day_profiles.shape[1])):
            no_delay[h] += day_profiles[days[d], h - midnight]
    if warm_start:
        warm_up(
            DAY * days[0],
            world.trace,
            world.input_order,
            world.hour_offsets,
            state.places[i],
            state.keys[i],
            state.stack[i],
            state.fixed[i],
            world.started,
            state.machines[i],
            state.waiting[i],
            state.calendar[i],
            state.counters[i],
            state.lateness[i],
            world.switches,
        )
    raw[PAUSE_CHARGE] = pending_overdue(state.counters[i], state.lateness[i], world.switches) / MICRO


@inlined
def warm_up(
    first_hour: int,
    trace: Ints32,
    input_order: Ints32,
    offsets: Ints,
    places: Ints32,
    keys: Ints32,
    stack: Ints32,
    fixed: Ints32,
    started: Ints32,
    machines: Ints,
    waiting: Ints,
    calendar: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Put the jobs of the day before where the no-delay schedule has them at t = 0, by id.

    They go to the least-loaded machine; where it is full, flexible jobs wait and inflexible ones run
    outside.
    """
    for hour in range(DAY):
        for index in range(offsets[first_hour + hour], offsets[first_hour + hour + 1]):
            k = input_order[index]
            cpu, duration = int(trace[k, TRACE_CPU]), int(trace[k, TRACE_DURATION])
            left = duration - (DAY - hour)
            if left <= 0:
                continue
            counters[SUBMITTED_WORK] += cpu * left
            machine = least_loaded(machines, ALL_JOBS)
            fits = machines[ALL_JOBS, machine] + cpu <= MICRO
            if trace[k, TRACE_CLASS] < FIRST_FLEXIBLE_CLASS:
                if not fits:
                    machine = OUTSIDE
                    counters[OUTSIDE_JOBS] += 1
                run_inflexible(cpu, machine, left, machines, calendar, counters)
                note_fixed(cpu, left, machine, fixed, counters)
                continue
            counters[SUBMITTED_FLEXIBLE_WORK] += cpu * left
            group, job_id = trace[k, TRACE_CLASS] - FIRST_FLEXIBLE_CLASS, trace[k, TRACE_ORDER]
            j = take_place(group, keys, counters)
            if not fits:
                wait(j, cpu, 0, left, job_id, duration, places, keys, waiting, counters, lateness, switches)
                continue
            counters[LOAD_FLEXIBLE] += cpu
            run_flexible(cpu, machine, left, machines, calendar, counters)
            count_running(cpu, 0, left, calendar, counters, switches)
            lateness[DELAYS, 0] += 1
            note_running(cpu, left, 0, machine, j, job_id, duration, started, 0, 0)
            push(0, 0, started, stack, counters)
    counters[ID_BASE] = offsets[first_hour + DAY] - offsets[first_hour]


@compiled
def add_profile(trace: Ints32, hours: Ints, first_hour: int, profile: Ints) -> None:
    """Add the no-delay load of one day's jobs, hour by hour from its midnight, to ``profile``."""
    for hour in range(DAY):
        for j in range(hours[first_hour + hour], hours[first_hour + hour + 1]):
            for h in range(hour, min(profile.shape[0], hour + trace[j, TRACE_DURATION])):
                profile[h] += trace[j, TRACE_CPU]
