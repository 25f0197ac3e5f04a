"""The compiled simulator: one hour of a batch of datacenters under a virtual capacity curve.

``advance`` reads like an hour: jobs leave, arrive, are evicted, start, work, and are charged for. All
work is counted in integers (millionths of a machine unit, whole hours), so that a plain reference gives
bit-identical trajectories. Column names are in :mod:`greendc.vcc.layout`; jobs on machines in
:mod:`~greendc.vcc.kernel_cluster`, waiting jobs in :mod:`~greendc.vcc.kernel_queue`, lateness in
:mod:`~greendc.vcc.kernel_lateness`. An hour costs time in proportion to the jobs that come, start, stop
and go, not to those that wait.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.vcc import kernel_queue
from greendc.vcc.kernel_cluster import (
    complete,
    count_submitted,
    evict_slot,
    is_running,
    least_loaded,
    leave,
    machine_with_room,
    push,
    run,
    run_last_hour,
    submit,
    vacate,
    wait,
)
from greendc.vcc.kernel_lateness import (
    count_running,
    count_waiting,
    delay_of_waiting,
    pass_hour,
    pending_overdue,
)
from greendc.vcc.layout import (
    ALL_JOBS,
    BASELINE,
    BY_DELAY,
    CAPACITY,
    CARBON_WEIGHT,
    CLASS,
    CLASSES,
    CONSTRAINED,
    COSINE,
    CPU,
    DAY,
    DELAY,
    DELAY_BINS,
    DELAYS,
    DEMAND,
    DEMAND_TODAY,
    EVICT,
    EXECUTED_FLEXIBLE_WORK,
    EXECUTED_WORK,
    EXTENDED,
    FINISH,
    FINISHING,
    FIRST_FLEXIBLE_CLASS,
    FORECAST,
    FORECAST_FEATURES,
    HIGH_WATER,
    HOUR,
    HOURS,
    ID,
    ID_BASE,
    INCURRED,
    INFO_CARBON,
    INFO_COST,
    INFO_INFLEXIBLE,
    INFO_LOAD,
    INFO_MOER,
    INFO_OVERDUE,
    INFO_SLO,
    INFO_VCC,
    INFO_WAITING,
    KW_PER_UNIT,
    LAST_VCC,
    LATE_WAITING_CPU,
    LEFT,
    LOAD_FLEXIBLE,
    LOAD_INFLEXIBLE,
    MICRO,
    MOER_RANK,
    MONTH,
    N_DELAY_BINS,
    NOTHING,
    OUTSIDE,
    OUTSIDE_JOBS,
    OVERDUE,
    OVERDUE_RUNNING,
    OVERDUE_WAITING,
    PAUSE_CHARGE,
    PENDING,
    PENDING_OVERDUE,
    POSITIONS,
    RUNNING,
    RUNNING_DELAYS,
    RUNNING_STACK,
    SINE,
    SLO_OVERDUE,
    SLO_WEIGHT,
    STACK_TOP,
    STARTED_MID,
    STATE,
    TRACE_CLASS,
    TRACE_CPU,
    TRACE_DURATION,
    TRACE_ORDER,
    VCC_SPENT,
    VCC_TODAY,
    WAITING,
    WAITING_JOBS,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]


class World(NamedTuple):
    """What the environments run on; n environments, T hours, D = T / 24 days."""

    trace: Slots
    """``(J, TRACE_FIELDS)``: the job trace, by hour, class and input order."""
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


class State(NamedTuple):
    """The environments' state; n environments, S slots, M machines, T hours. Columns: ``layout``."""

    slots: Slots
    """``(n, S, SLOT_FIELDS)``: the jobs that have arrived and are not done."""
    lists: Slots
    """``(n, LISTS, max(S, T + 1))``"""
    queues: Slots
    """``(n, 3, ...)``: waiting jobs by class, see :mod:`greendc.vcc.kernel_queue`."""
    machines: Ints
    """``(n, MACHINE_ROWS, M)``"""
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


# The compiled functions below take single arrays, since reading one out of a tuple costs two atomic
# additions (its reference count) each time.


@njit(cache=True)
def step_batch(actions: Floats, world: World, state: State, report: Report, out: NDArray[np.float32]) -> int:
    """Advance every environment by an hour; return the index of the first bad action, else -1.

    Nothing is changed if an action is not a number from 0 to 1.

    :param actions: ``(n,)`` virtual capacities, fractions of C
    :param out: ``(n, size)`` observations, overwritten
    """
    for i in range(actions.shape[0]):
        if not 0.0 <= actions[i] <= 1.0:
            return i
    trace, hour_offsets, switches = world.trace, world.hour_offsets, world.switches
    settings, scale = world.settings, world.scale
    for i in range(actions.shape[0]):
        slots, lists, queues, machines = state.slots[i], state.lists[i], state.queues[i], state.machines[i]
        counters, lateness, sums = state.counters[i], state.lateness[i], state.sums[i]
        hour = counters[HOUR]
        demand = world.no_delay[i, hour]
        first_hour = DAY * world.days[i, 1 + hour // DAY]
        advance(
            actions[i],
            demand,
            first_hour,
            trace,
            hour_offsets,
            slots,
            lists,
            queues,
            machines,
            counters,
            lateness,
            switches,
            sums,
        )
        report.rewards[i] = charge(
            demand,
            world.moer[counters[MONTH], hour],
            settings,
            slots,
            counters,
            lateness,
            switches,
            sums,
            report.info[i],
            report.raw[i],
        )
        report.truncated[i] = counters[HOUR] == switches[HOURS]
        report.history[i, hour] = report.info[i]
        forecast = world.forecast[counters[FORECAST], counters[HOUR]]
        observe(forecast, scale, counters, lateness, switches, sums, report.raw[i], out[i])
    return -1


@njit(cache=True, forceinline=True)
def advance(
    vcc: float,
    demand: int,
    first_hour: int,
    trace: Slots,
    hour_offsets: Ints,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
    sums: Floats,
) -> None:
    """Run an hour under the virtual capacity ``vcc`` (a fraction of C).

    :param demand: load of the no-delay schedule in this hour
    :param first_hour: the trace's hour that is today's midnight
    """
    hour = first_hour + counters[HOUR] % DAY
    first, end = hour_offsets[hour], hour_offsets[hour + 1]
    budget = math.floor(vcc * switches[CAPACITY])
    leave(machines, counters)
    first = start_inflexible(trace, first, end, slots, lists, queues, machines, counters, lateness, switches)
    if switches[EVICT]:
        evict(budget, slots, lists, queues, machines, counters, lateness, switches)
    start_flexible(trace, first, end, budget, slots, lists, queues, machines, counters, lateness, switches)
    counters[EXECUTED_WORK] += counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]
    counters[EXECUTED_FLEXIBLE_WORK] += counters[LOAD_FLEXIBLE]
    counters[DEMAND_TODAY] += demand
    sums[LAST_VCC] = vcc
    sums[VCC_TODAY] += vcc
    pass_hour(counters, lateness, switches)
    complete(slots, lists, machines, counters, lateness)
    if counters[HOUR] % DAY == 0:
        counters[ID_BASE] += hour_offsets[first_hour + DAY] - hour_offsets[first_hour]


# --- the phases of an hour -------------------------------------------------------------------------


@njit(cache=True, forceinline=True)
def start_inflexible(
    trace: Slots,
    first: int,
    end: int,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> int:
    """Start this hour's inflexible jobs, monitoring before production; return the first flexible one.

    Where the least-loaded machine has no room, flexible jobs are evicted; failing that, the job runs
    outside the machines.
    """
    while first < end and trace[first, TRACE_CLASS] < FIRST_FLEXIBLE_CLASS:
        job = trace[first]
        first += 1
        cpu = job[TRACE_CPU]
        machine = least_loaded(machines, ALL_JOBS)
        if machines[ALL_JOBS, machine] + cpu > MICRO:
            machine = OUTSIDE
            if switches[EVICT]:
                machine = machine_with_room(cpu, slots, lists, queues, machines, counters, lateness, switches)
            if machine == OUTSIDE:
                counters[OUTSIDE_JOBS] += 1
        if job[TRACE_DURATION] == 1:
            count_submitted(job, 0, counters)
            run_last_hour(cpu, False, machine, machines, counters)
            continue
        job_id = counters[ID_BASE] + job[TRACE_ORDER]
        s = submit(job_id, job, counters[HOUR], 0, slots, lists, queues, counters)
        run(s, machine, slots, lists, machines, counters, switches)
    return first


@njit(cache=True, forceinline=True)
def evict(
    budget: int,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Evict flexible jobs, latest start first, then higher id, until the running load fits the VCC."""
    while counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE] > budget and counters[STACK_TOP] > 0:
        top = counters[STACK_TOP] - 1
        counters[STACK_TOP] = top
        s = lists[RUNNING_STACK, top]
        if is_running(s, top, slots):
            evict_slot(s, slots, lists, queues, machines, counters, lateness, switches)


@njit(cache=True, forceinline=True)
def start_flexible(
    trace: Slots,
    first: int,
    end: int,
    budget: int,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Start flexible jobs by class, then id, wherever they fit; one that does not fit is passed over."""
    started = np.zeros(CLASSES - FIRST_FLEXIBLE_CLASS, dtype=np.int64)
    for which in range(started.shape[0]):
        started[which] = start_waiting(
            which, budget, slots, lists, queues, machines, counters, lateness, switches
        )
        while first < end and trace[first, TRACE_CLASS] == which + FIRST_FLEXIBLE_CLASS:
            job = trace[first]
            first += 1
            machine = fitting_machine(job[TRACE_CPU], budget, machines, counters)
            if machine != NOTHING and job[TRACE_DURATION] == 1:
                count_submitted(job, 0, counters)
                run_last_hour(job[TRACE_CPU], True, machine, machines, counters)
                lateness[DELAYS, 0] += 1
                continue
            job_id = counters[ID_BASE] + job[TRACE_ORDER]
            s = submit(job_id, job, counters[HOUR], 0, slots, lists, queues, counters)
            if machine == NOTHING:
                wait(s, slots, queues, counters, lateness, switches)
            else:
                start(s, machine, which, started[which], slots, lists, machines, counters, lateness, switches)
                started[which] += 1
    stack_started(started, slots, lists, counters)


@njit(cache=True, forceinline=True)
def start_waiting(
    which: int,
    budget: int,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> int:
    """Start the waiting jobs of a flexible class that fit; return how many will run for more than an hour."""
    queue = queues[which]
    end = counters[POSITIONS + which]
    position = 0
    started = 0
    while counters[WAITING_JOBS + which] > 0:
        room = budget - counters[LOAD_INFLEXIBLE] - counters[LOAD_FLEXIBLE]
        if room <= 0:
            break
        position = kernel_queue.next_fit(queue, position, end, room)
        if position == end:
            break
        s = queue[position]
        machine = fitting_machine(slots[s, CPU], budget, machines, counters)
        if machine != NOTHING:
            kernel_queue.remove(queue, position)
            counters[WAITING_JOBS + which] -= 1
            count_waiting(s, -1, slots, counters, lateness, switches)
            if slots[s, LEFT] == 1:
                run_last_hour(slots[s, CPU], True, machine, machines, counters)
                lateness[DELAYS, delay_of_waiting(s, counters[HOUR], slots)] += 1
                vacate(s, slots, lists, counters)
            else:
                start(s, machine, which, started, slots, lists, machines, counters, lateness, switches)
                started += 1
        position += 1
    return started


@njit(cache=True, forceinline=True)
def fitting_machine(cpu: int, budget: int, machines: Ints, counters: Ints) -> int:
    """Return the least-loaded machine if the job fits there and under the VCC, else ``NOTHING``."""
    if counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE] + cpu > budget:
        return NOTHING
    machine = least_loaded(machines, ALL_JOBS)
    return machine if machines[ALL_JOBS, machine] + cpu <= MICRO else NOTHING


@njit(cache=True, forceinline=True)
def start(
    s: int,
    machine: int,
    which: int,
    started: int,
    slots: Slots,
    lists: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Start a flexible job, the next of its class to do so in this hour."""
    run(s, machine, slots, lists, machines, counters, switches)
    count_running(s, 1, slots, counters, lateness, switches)
    lists[STARTED_MID + which, started] = s


@njit(cache=True, forceinline=True)
def stack_started(started: Ints, slots: Slots, lists: Slots, counters: Ints) -> None:
    """Put the jobs that started in this hour on the stack by id, merging the classes' lists."""
    taken = np.zeros(started.shape[0], dtype=np.int64)
    for _ in range(started.sum()):
        best = NOTHING
        for which in range(started.shape[0]):
            if taken[which] < started[which]:
                s = lists[STARTED_MID + which, taken[which]]
                if best == NOTHING or slots[s, ID] < slots[lists[STARTED_MID + best, taken[best]], ID]:
                    best = which
        push(lists[STARTED_MID + best, taken[best]], slots, lists, counters)
        taken[best] += 1


# --- charges ---------------------------------------------------------------------------------------


@njit(cache=True, forceinline=True)
def charge(
    demand: int,
    moer: float,
    settings: Floats,
    slots: Slots,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
    sums: Floats,
    info: Floats,
    raw: Floats,
) -> float:
    """Fill in what is reported of the hour that has just passed, and return its reward.

    :param demand: load of the no-delay schedule, millionths of a machine unit
    :param moer: emissions, kg CO2/kWh
    """
    load = (counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]) / MICRO
    pending_before = counters[PENDING_OVERDUE]
    raw[PAUSE_CHARGE] = pending_overdue(counters, lateness, switches) / MICRO
    slo, overdue, cost = charge_slo(pending_before, slots, counters, switches, sums)
    carbon = settings[KW_PER_UNIT] * load * moer
    saved = carbon
    if switches[BASELINE]:
        saved = settings[KW_PER_UNIT] * (load - demand / MICRO) * moer
    reward = -settings[CARBON_WEIGHT] * saved
    if not switches[CONSTRAINED]:
        reward -= settings[SLO_WEIGHT] * slo
    info[INFO_COST] = cost
    info[INFO_CARBON] = carbon
    info[INFO_SLO] = slo
    info[INFO_OVERDUE] = overdue
    info[INFO_VCC] = sums[LAST_VCC]
    info[INFO_LOAD] = load
    info[INFO_INFLEXIBLE] = counters[LOAD_INFLEXIBLE] / MICRO
    info[INFO_WAITING] = waiting_jobs(counters)
    info[INFO_MOER] = moer
    return reward


@njit(cache=True, forceinline=True)
def charge_slo(
    pending_before: int, slots: Slots, counters: Ints, switches: Ints, sums: Floats
) -> tuple[float, float, float]:
    """Return the hour's SLO charge, the overdue work charged at a day's end, and the constraint cost.

    The first is what the reward sees (machine-unit-hours); the second is the plain form of
    ``slo="overdue"``, kept for reports whatever the reward sees; the third is the SLO term as a share
    of the day's demand, without tolerance.
    """
    charged = 0.0
    day_end_charge = 0.0
    cost = 0.0
    if counters[HOUR] % DAY == 0:
        demand = counters[DEMAND_TODAY]
        overdue = counters[OVERDUE_WAITING] + counters[OVERDUE_RUNNING]
        missing = undone(slots, counters) if counters[HOUR] == switches[HOURS] else 0
        day_end_charge = max(0.0, overdue / MICRO - 0.03 * (demand / MICRO)) + missing / MICRO
        if switches[SLO_OVERDUE]:
            charged = day_end_charge
            shortfall = float(overdue + missing)
        else:
            allocated = sums[VCC_TODAY] * switches[CAPACITY]
            charged = max(0.0, 0.97 * demand - allocated) / MICRO
            shortfall = max(0.0, demand - allocated)
        if demand > 0:
            cost = shortfall / demand
        sums[VCC_TODAY] = 0.0
        counters[DEMAND_TODAY] = 0
    if switches[INCURRED]:
        charged += (counters[PENDING_OVERDUE] - pending_before) / MICRO
    return charged, day_end_charge, cost


@njit(cache=True, forceinline=True)
def undone(slots: Slots, counters: Ints) -> int:
    """Return the flexible work that the no-delay schedule would have done by now, and that is not done."""
    work = 0
    for s in range(counters[HIGH_WATER]):
        if slots[s, CLASS] >= FIRST_FLEXIBLE_CLASS:
            if slots[s, STATE] == WAITING:
                work += np.int64(slots[s, CPU]) * min(
                    slots[s, LEFT], delay_of_waiting(s, counters[HOUR], slots)
                )
            elif slots[s, STATE] == RUNNING:
                work += np.int64(slots[s, CPU]) * min(slots[s, FINISH] - counters[HOUR], slots[s, DELAY])
    return work


@njit(cache=True, forceinline=True)
def waiting_jobs(counters: Ints) -> int:
    """Return the number of jobs in the queues."""
    return int(counters[WAITING_JOBS] + counters[WAITING_JOBS + 1] + counters[WAITING_JOBS + 2])


# --- observation -----------------------------------------------------------------------------------


@njit(cache=True)
def observe(
    forecast: Floats,
    scale: Floats,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
    sums: Floats,
    raw: Floats,
    out: NDArray[np.float32],
) -> None:
    """Write what the agent sees before the next hour: raw, and times ``scale`` as float32.

    :param forecast: ``(FORECAST_FEATURES,)`` of the hour that begins
    """
    raw[0] = sums[LAST_VCC]
    raw[1] = (counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]) / MICRO
    raw[2] = waiting_jobs(counters)
    for k in range(DAY):
        raw[3 + k] = forecast[k]
    if switches[EXTENDED]:
        now = counters[HOUR]
        angle = 2.0 * math.pi * (now % DAY) / DAY
        raw[SINE] = math.sin(angle)
        raw[COSINE] = math.cos(angle)
        raw[VCC_SPENT] = sums[VCC_TODAY] / DAY
        raw[DEMAND] = counters[DEMAND_TODAY] / MICRO / DAY
        raw[OVERDUE] = (counters[OVERDUE_WAITING] + counters[OVERDUE_RUNNING]) / MICRO
        for k in range(DAY, FORECAST_FEATURES):
            raw[MOER_RANK + k - DAY] = forecast[k]
        observe_delays(now, counters, lateness, raw)
        raw[PENDING] = counters[PENDING_OVERDUE] / MICRO
    for k in range(out.shape[0]):
        out[k] = raw[k] * scale[k]


@njit(cache=True, forceinline=True)
def observe_delays(now: int, counters: Ints, lateness: Ints, raw: Floats) -> None:
    """Write the flexible CPU, waiting or running, by delay: 0, below 6, 12, 18, 24, and 24 h or more."""
    for k in range(N_DELAY_BINS):
        raw[DELAY_BINS + k] = 0.0
    cpu = np.zeros(N_DELAY_BINS, dtype=np.int64)
    for delay in range(DAY):
        which = 0 if delay == 0 else delay // 6 + 1
        cpu[which] += lateness[BY_DELAY, (now - delay) % DAY] + lateness[BY_DELAY, RUNNING_DELAYS + delay]
    cpu[N_DELAY_BINS - 1] = counters[LATE_WAITING_CPU] + lateness[BY_DELAY, RUNNING_DELAYS + DAY]
    for k in range(N_DELAY_BINS):
        raw[DELAY_BINS + k] = cpu[k] / MICRO


# --- starting an episode ---------------------------------------------------------------------------


@njit(cache=True)
def begin(i: int, warm_start: bool, world: World, state: State, day_profiles: Ints, raw: Floats) -> None:
    """Empty environment ``i`` and, for a warm start, let the jobs of the day before that go on run.

    ``day_profiles[d, h]`` is the no-delay load, h hours after its midnight, of the jobs submitted on
    day d of the trace (millionths of a machine unit); ``no_delay`` is their sum over the episode.
    """
    state.lists[i, FINISHING] = NOTHING
    state.machines[i] = 0
    state.counters[i] = 0
    state.lateness[i] = 0
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
            world.hour_offsets,
            state.slots[i],
            state.lists[i],
            state.queues[i],
            state.machines[i],
            state.counters[i],
            state.lateness[i],
            world.switches,
        )
    raw[PAUSE_CHARGE] = pending_overdue(state.counters[i], state.lateness[i], world.switches) / MICRO


@njit(cache=True, forceinline=True)
def warm_up(
    first_hour: int,
    trace: Slots,
    offsets: Ints,
    slots: Slots,
    lists: Slots,
    queues: Slots,
    machines: Ints,
    counters: Ints,
    lateness: Ints,
    switches: Ints,
) -> None:
    """Put the jobs of the day before where the no-delay schedule has them at t = 0, by id.

    They go to the least-loaded machine; where it is full, flexible jobs wait and inflexible ones run
    outside.
    """
    scratch = lists[STARTED_MID]
    for hour in range(DAY):
        first = offsets[first_hour + hour]
        end = offsets[first_hour + hour + 1]
        for j in range(first, end):
            scratch[trace[j, TRACE_ORDER] - (first - offsets[first_hour])] = j
        for k in range(end - first):
            job = trace[scratch[k]]
            if hour - DAY + job[TRACE_DURATION] <= 0:
                continue
            machine = least_loaded(machines, ALL_JOBS)
            flexible = job[TRACE_CLASS] >= FIRST_FLEXIBLE_CLASS
            fits = machines[ALL_JOBS, machine] + job[TRACE_CPU] <= MICRO
            if not fits and not flexible:
                machine = OUTSIDE
                counters[OUTSIDE_JOBS] += 1
            s = submit(job[TRACE_ORDER], job, hour - DAY, DAY - hour, slots, lists, queues, counters)
            if flexible and not fits:
                wait(s, slots, queues, counters, lateness, switches)
                continue
            run(s, machine, slots, lists, machines, counters, switches)
            if flexible:
                count_running(s, 1, slots, counters, lateness, switches)
                push(s, slots, lists, counters)
    counters[ID_BASE] = offsets[first_hour + DAY] - offsets[first_hour]


@njit(cache=True)
def add_profile(trace: Slots, hours: Ints, first_hour: int, profile: Ints) -> None:
    """Add the no-delay load of one day's jobs, hour by hour from its midnight, to ``profile``."""
    for hour in range(DAY):
        for j in range(hours[first_hour + hour], hours[first_hour + hour + 1]):
            for h in range(hour, min(profile.shape[0], hour + trace[j, TRACE_DURATION])):
                profile[h] += trace[j, TRACE_CPU]
