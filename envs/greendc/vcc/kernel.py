"""The compiled simulator: one hour of a batch of datacenters under a virtual capacity curve.

``step_batch`` reads like an hour: finish, arrive, start the inflexible, evict, start the flexible,
charge, observe. All work is counted in integers (millionths of a machine unit, whole hours), so that
a plain reference gives bit-identical trajectories. Column names are in :mod:`greendc.vcc.layout`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from greendc.vcc.layout import (
    BASELINE,
    CAPACITY,
    CARBON_WEIGHT,
    CLASS,
    CONSTRAINED,
    COSINE,
    CPU,
    DELAY_BINS,
    DEMAND,
    DONE,
    DURATION,
    EVICT,
    EVICTED,
    EVICTION_LOSS,
    EVICTIONS,
    EXECUTED_FLEXIBLE_WORK,
    EXECUTED_WORK,
    EXTENDED,
    FINISHED_FLEXIBLE,
    FIRST_FLEXIBLE_CLASS,
    FORECAST,
    HOUR,
    HOURS,
    ID,
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
    LOAD_FLEXIBLE,
    LOAD_INFLEXIBLE,
    LOST_WORK,
    MACHINE,
    MICRO,
    MOER_GAP,
    MOER_MEAN,
    MOER_RANK,
    MONTH,
    N_DELAY_BINS,
    NEXT_ID,
    OUTSIDE,
    OUTSIDE_JOBS,
    OVERDUE,
    PAUSE_CHARGE,
    PENDING,
    PENDING_OVERDUE,
    QUEUE_FREE,
    QUEUE_MID,
    RUNNING_FLEXIBLE,
    RUNNING_INFLEXIBLE,
    SINE,
    SLO_OVERDUE,
    SLO_WEIGHT,
    START,
    SUBMIT,
    SUBMITTED_FLEXIBLE_WORK,
    SUBMITTED_WORK,
    TOLERANCE,
    TRACE_CLASS,
    TRACE_CPU,
    TRACE_DURATION,
    TRACE_HOUR,
    UNUSED,
    VCC_SPENT,
    VCC_TODAY,
)

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Floats = NDArray[np.float64]


@njit(cache=True)
def step_batch(
    actions: Floats,
    trace: Slots,
    day_offsets: Ints,
    days: Ints,
    moer: Floats,
    forecast: Floats,
    no_delay: Ints,
    settings: Floats,
    switches: Ints,
    scale: Floats,
    slots: NDArray[np.int32],
    lists: NDArray[np.int32],
    machines: Ints,
    counters: Ints,
    sums: Floats,
    delays: Ints,
    info: Floats,
    history: Floats,
    rewards: Floats,
    truncated: NDArray[np.bool_],
    raw: Floats,
    out: NDArray[np.float32],
) -> int:
    """Advance every environment by an hour; return the index of the first bad action, else -1.

    Nothing is changed if an action is not a number from 0 to 1. Leading axes are environments:
    ``slots (n, S, 8)``, ``lists (n, 7, S)``, ``machines (n, M)``, ``counters (n, C)``,
    ``days (n, D + 1)`` (the trace's day before t = 0, then one for each day), ``no_delay (n, hours)``;
    ``moer (months, hours)`` is shared, and ``forecast (tables, hours + 1, 24)`` may be.
    """
    for i in range(actions.shape[0]):
        if not 0.0 <= actions[i] <= 1.0:
            return i
    for i in range(actions.shape[0]):
        advance(
            actions[i],
            trace,
            day_offsets,
            days[i],
            moer[counters[i, MONTH]],
            no_delay[i],
            settings,
            switches,
            slots[i],
            lists[i],
            machines[i],
            counters[i],
            sums[i],
            delays[i],
            info[i],
            history[i],
            rewards[i : i + 1],
            raw[i],
        )
        truncated[i] = counters[i, HOUR] == switches[HOURS]
        observe(
            forecast[counters[i, FORECAST]],
            no_delay[i],
            switches,
            counters[i],
            sums[i],
            scale,
            raw[i],
            out[i],
        )
    return -1


@njit(cache=True)
def advance(
    vcc: float,
    trace: Slots,
    day_offsets: Ints,
    days: Ints,
    moer: Floats,
    no_delay: Ints,
    settings: Floats,
    switches: Ints,
    slots: Slots,
    lists: Slots,
    machines: Ints,
    counters: Ints,
    sums: Floats,
    delays: Ints,
    info: Floats,
    history: Floats,
    reward: Floats,
    raw: Floats,
) -> None:
    """Advance one environment by an hour under the virtual capacity ``vcc`` (a fraction of C)."""
    hour = counters[HOUR]
    budget = math.floor(vcc * switches[CAPACITY])
    finish(hour, slots, lists, machines, counters, delays)
    arrive(hour, trace, day_offsets, days, switches, slots, lists, machines, counters)
    if switches[EVICT]:
        evict(budget, switches, slots, lists, machines, counters)
    requeue_evicted(slots, lists, counters)
    start_flexible(hour, budget, slots, lists, machines, counters)
    work_one_hour(slots, lists, counters)

    counters[HOUR] = hour + 1
    sums[LAST_VCC] = vcc
    sums[VCC_TODAY] += vcc
    pending_before = counters[PENDING_OVERDUE]
    overdue, undone = assess(switches, slots, lists, counters, raw)

    load = (counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]) / MICRO
    slo, overdue_charge, cost = charge_slo(
        overdue, undone, pending_before, no_delay, switches, counters, sums
    )
    carbon = settings[KW_PER_UNIT] * load * moer[hour]
    saved = carbon
    if switches[BASELINE]:
        saved = settings[KW_PER_UNIT] * (load - no_delay[hour] / MICRO) * moer[hour]
    reward[0] = -settings[CARBON_WEIGHT] * saved
    if not switches[CONSTRAINED]:
        reward[0] -= settings[SLO_WEIGHT] * slo

    info[INFO_COST] = cost
    info[INFO_CARBON] = carbon
    info[INFO_SLO] = slo
    info[INFO_OVERDUE] = overdue_charge
    info[INFO_VCC] = vcc
    info[INFO_LOAD] = load
    info[INFO_INFLEXIBLE] = counters[LOAD_INFLEXIBLE] / MICRO
    info[INFO_WAITING] = waiting_jobs(counters)
    info[INFO_MOER] = moer[hour]
    history[hour] = info


# --- the phases of an hour -------------------------------------------------------------------------


@njit(cache=True)
def finish(hour: int, slots: Slots, lists: Slots, machines: Ints, counters: Ints, delays: Ints) -> None:
    """Take the jobs whose work is done off their machines."""
    for running in (RUNNING_INFLEXIBLE, RUNNING_FLEXIBLE):
        kept = 0
        for k in range(counters[running]):
            s = lists[running, k]
            if slots[s, DONE] < slots[s, DURATION]:
                lists[running, kept] = s
                kept += 1
                continue
            release(s, slots, machines, counters)
            if running == RUNNING_FLEXIBLE:
                delays[hour - slots[s, SUBMIT] - slots[s, DURATION]] += 1
                counters[FINISHED_FLEXIBLE] += 1
            lists[UNUSED, counters[UNUSED]] = s
            counters[UNUSED] += 1
        counters[running] = kept


@njit(cache=True)
def arrive(
    hour: int,
    trace: Slots,
    day_offsets: Ints,
    days: Ints,
    switches: Ints,
    slots: Slots,
    lists: Slots,
    machines: Ints,
    counters: Ints,
) -> None:
    """Submit this hour's jobs: start the inflexible (monitoring, then production), queue the flexible."""
    day = days[1 + hour // 24]
    first, end = hour_range(trace, day_offsets[day], day_offsets[day + 1], hour % 24)
    for job_class in range(FIRST_FLEXIBLE_CLASS):
        for j in range(first, end):
            if trace[j, TRACE_CLASS] == job_class:
                s = submit(counters[NEXT_ID] + j - first, trace[j], hour, slots, lists, counters)
                start_inflexible(s, hour, switches, slots, lists, machines, counters)
    for j in range(first, end):
        if trace[j, TRACE_CLASS] >= FIRST_FLEXIBLE_CLASS:
            s = submit(counters[NEXT_ID] + j - first, trace[j], hour, slots, lists, counters)
            append(lists, counters, trace[j, TRACE_CLASS] - FIRST_FLEXIBLE_CLASS, s)
    counters[NEXT_ID] += end - first


@njit(cache=True)
def start_inflexible(
    s: int, hour: int, switches: Ints, slots: Slots, lists: Slots, machines: Ints, counters: Ints
) -> None:
    """Start an inflexible job at once, making room by evictions, or outside the machines."""
    machine = least_loaded(machines)
    if machines[machine] + slots[s, CPU] > MICRO:
        machine = OUTSIDE
        if switches[EVICT]:
            machine = make_room(slots[s, CPU], switches, slots, lists, machines, counters)
        if machine == OUTSIDE:
            counters[OUTSIDE_JOBS] += 1
    run(s, machine, hour, RUNNING_INFLEXIBLE, slots, lists, machines, counters)


@njit(cache=True)
def evict(budget: int, switches: Ints, slots: Slots, lists: Slots, machines: Ints, counters: Ints) -> None:
    """Evict flexible jobs, latest start first, then higher id, until the running load fits the VCC."""
    end = counters[RUNNING_FLEXIBLE]
    while end > 0 and counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE] > budget:
        first = sort_last_starts(end, slots, lists)
        while end > first and counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE] > budget:
            end -= 1
            evict_slot(lists[RUNNING_FLEXIBLE, end], switches, slots, lists, machines, counters)
    counters[RUNNING_FLEXIBLE] = end


@njit(cache=True)
def start_flexible(
    hour: int, budget: int, slots: Slots, lists: Slots, machines: Ints, counters: Ints
) -> None:
    """Start waiting jobs by class, then id, wherever they fit; one that does not fit is passed over."""
    for queue in range(QUEUE_MID, QUEUE_FREE + 1):
        kept = 0
        for k in range(counters[queue]):
            s = lists[queue, k]
            room = budget - counters[LOAD_INFLEXIBLE] - counters[LOAD_FLEXIBLE]
            if slots[s, CPU] <= room:
                machine = least_loaded(machines)
                if machines[machine] + slots[s, CPU] <= MICRO:
                    run(s, machine, hour, RUNNING_FLEXIBLE, slots, lists, machines, counters)
                    continue
            lists[queue, kept] = s
            kept += 1
        counters[queue] = kept


@njit(cache=True)
def work_one_hour(slots: Slots, lists: Slots, counters: Ints) -> None:
    """Let every running job do an hour of its work."""
    for running in (RUNNING_INFLEXIBLE, RUNNING_FLEXIBLE):
        for k in range(counters[running]):
            slots[lists[running, k], DONE] += 1
    counters[EXECUTED_WORK] += counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]
    counters[EXECUTED_FLEXIBLE_WORK] += counters[LOAD_FLEXIBLE]


# --- what they are made of -------------------------------------------------------------------------


@njit(cache=True)
def append(lists: Slots, counters: Ints, which: int, s: int) -> None:
    """Append slot ``s`` to a list."""
    lists[which, counters[which]] = s
    counters[which] += 1


@njit(cache=True)
def hour_range(trace: Slots, first: int, end: int, hour: int) -> tuple[int, int]:
    """Return the range of a day's jobs that are submitted in ``hour`` (bisection)."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if trace[middle, TRACE_HOUR] < hour:
            low = middle + 1
        else:
            high = middle
    first = low
    while low < end and trace[low, TRACE_HOUR] == hour:
        low += 1
    return first, low


@njit(cache=True)
def submit(job_id: int, job: Slots, hour: int, slots: Slots, lists: Slots, counters: Ints) -> int:
    """Give a job of the trace a slot, and return it."""
    counters[UNUSED] -= 1
    s = lists[UNUSED, counters[UNUSED]]
    slots[s, ID] = job_id
    slots[s, CPU] = job[TRACE_CPU]
    slots[s, DURATION] = job[TRACE_DURATION]
    slots[s, SUBMIT] = hour
    slots[s, CLASS] = job[TRACE_CLASS]
    slots[s, DONE] = 0
    count_submitted(s, slots, counters)
    return int(s)


@njit(cache=True)
def count_submitted(s: int, slots: Slots, counters: Ints) -> None:
    """Count the work that a job still has to do."""
    work = np.int64(slots[s, CPU]) * (slots[s, DURATION] - slots[s, DONE])
    counters[SUBMITTED_WORK] += work
    if slots[s, CLASS] >= FIRST_FLEXIBLE_CLASS:
        counters[SUBMITTED_FLEXIBLE_WORK] += work


@njit(cache=True)
def least_loaded(machines: Ints) -> int:
    """Return the machine of least load, the first of equals."""
    best = 0
    for machine in range(1, machines.shape[0]):
        if machines[machine] < machines[best]:
            best = machine
    return best


@njit(cache=True)
def run(
    s: int,
    machine: int,
    hour: int,
    running: int,
    slots: Slots,
    lists: Slots,
    machines: Ints,
    counters: Ints,
) -> None:
    """Start the job in slot ``s`` on a machine (or :data:`OUTSIDE`)."""
    slots[s, START] = hour
    slots[s, MACHINE] = machine
    if machine != OUTSIDE:
        machines[machine] += slots[s, CPU]
    load = LOAD_FLEXIBLE if running == RUNNING_FLEXIBLE else LOAD_INFLEXIBLE
    counters[load] += slots[s, CPU]
    append(lists, counters, running, s)


@njit(cache=True)
def release(s: int, slots: Slots, machines: Ints, counters: Ints) -> None:
    """Take the load of slot ``s`` off its machine and off the running load."""
    if slots[s, MACHINE] != OUTSIDE:
        machines[slots[s, MACHINE]] -= slots[s, CPU]
    load = LOAD_FLEXIBLE if slots[s, CLASS] >= FIRST_FLEXIBLE_CLASS else LOAD_INFLEXIBLE
    counters[load] -= slots[s, CPU]


@njit(cache=True)
def evict_slot(s: int, switches: Ints, slots: Slots, lists: Slots, machines: Ints, counters: Ints) -> None:
    """Stop a flexible job; it keeps its work, less the hours that an eviction costs."""
    release(s, slots, machines, counters)
    lost = min(slots[s, DONE], switches[EVICTION_LOSS])
    slots[s, DONE] -= lost
    counters[LOST_WORK] += lost * slots[s, CPU]
    counters[EVICTIONS] += 1
    append(lists, counters, EVICTED, s)


@njit(cache=True)
def sort_by_id(line: NDArray[np.int32], first: int, end: int, slots: Slots) -> None:
    """Sort slots by id (insertion: the stretches are short and nearly sorted)."""
    for k in range(first + 1, end):
        s = line[k]
        position = k
        while position > first and slots[line[position - 1], ID] > slots[s, ID]:
            line[position] = line[position - 1]
            position -= 1
        line[position] = s


@njit(cache=True)
def sort_last_starts(end: int, slots: Slots, lists: Slots) -> int:
    """Sort the running flexible jobs before ``end`` that share the last start; return where they begin."""
    first = end - 1
    start = slots[lists[RUNNING_FLEXIBLE, first], START]
    while first > 0 and slots[lists[RUNNING_FLEXIBLE, first - 1], START] == start:
        first -= 1
    sort_by_id(lists[RUNNING_FLEXIBLE], first, end, slots)
    return first


@njit(cache=True)
def make_room(cpu: int, switches: Ints, slots: Slots, lists: Slots, machines: Ints, counters: Ints) -> int:
    """Evict flexible jobs, latest start first, from the machine of least inflexible load.

    Return the machine, or :data:`OUTSIDE` where inflexible jobs alone leave no room.
    """
    inflexible = np.zeros(machines.shape[0], dtype=np.int64)
    for k in range(counters[RUNNING_INFLEXIBLE]):
        s = lists[RUNNING_INFLEXIBLE, k]
        if slots[s, MACHINE] != OUTSIDE:
            inflexible[slots[s, MACHINE]] += slots[s, CPU]
    machine = least_loaded(inflexible)
    if inflexible[machine] + cpu > MICRO:
        return OUTSIDE
    count = counters[RUNNING_FLEXIBLE]
    end = count
    while end > 0:
        end = sort_last_starts(end, slots, lists)
    for k in range(count - 1, -1, -1):
        if machines[machine] + cpu <= MICRO:
            break
        s = lists[RUNNING_FLEXIBLE, k]
        if slots[s, MACHINE] == machine:
            evict_slot(s, switches, slots, lists, machines, counters)
            for later in range(k + 1, counters[RUNNING_FLEXIBLE]):
                lists[RUNNING_FLEXIBLE, later - 1] = lists[RUNNING_FLEXIBLE, later]
            counters[RUNNING_FLEXIBLE] -= 1
    return machine


@njit(cache=True)
def requeue_evicted(slots: Slots, lists: Slots, counters: Ints) -> None:
    """Merge the evicted jobs into the queues of their classes, in the order of their ids."""
    count = counters[EVICTED]
    if count == 0:
        return
    sort_by_id(lists[EVICTED], 0, count, slots)
    for queue in range(QUEUE_MID, QUEUE_FREE + 1):
        joining = 0
        for k in range(count):
            if slots[lists[EVICTED, k], CLASS] - FIRST_FLEXIBLE_CLASS == queue:
                joining += 1
        position = counters[queue] + joining - 1
        waiting = counters[queue] - 1
        counters[queue] += joining
        for k in range(count - 1, -1, -1):
            s = lists[EVICTED, k]
            if slots[s, CLASS] - FIRST_FLEXIBLE_CLASS != queue:
                continue
            while waiting >= 0 and slots[lists[queue, waiting], ID] > slots[s, ID]:
                lists[queue, position] = lists[queue, waiting]
                position -= 1
                waiting -= 1
            lists[queue, position] = s
            position -= 1
    counters[EVICTED] = 0


@njit(cache=True)
def waiting_jobs(counters: Ints) -> int:
    """Return the number of jobs in the queues."""
    return int(counters[QUEUE_MID] + counters[QUEUE_MID + 1] + counters[QUEUE_FREE])


# --- lateness --------------------------------------------------------------------------------------


@njit(cache=True)
def assess(switches: Ints, slots: Slots, lists: Slots, counters: Ints, raw: Floats) -> tuple[int, int]:
    """Assess the flexible jobs' lateness now, at the end of an hour.

    A job owes at day end D the work that it would have done with 24 h of delay and has not done,
    ``cpu * max(0, min(duration, D - submit - 24) - done)``; at the episode's end also what the
    no-delay schedule would have done by then. Psi, the pending overdue work, is the sum over the day
    ends to come, each less its tolerance, if nothing is delayed from now on. Writes Psi to the
    counters, and to ``raw`` the delay bins and what pausing all flexible work for the next hour would
    add (``PAUSE_CHARGE``).

    :return: work overdue now, and flexible work undone, both in millionths of a machine-unit-hour
    """
    now = counters[HOUR]
    end = switches[HOURS]
    day_ends = (end - now + 23) // 24
    owed = np.zeros((2, day_ends + 1), dtype=np.int64)  # without and with a pause; one row a day end
    unfinished = np.zeros(2, dtype=np.int64)
    bins = np.zeros(N_DELAY_BINS, dtype=np.int64)
    overdue = 0
    undone = 0
    first_end = (now // 24 + 1) * 24
    for which in range(4):
        line = which if which < 3 else RUNNING_FLEXIBLE
        for k in range(counters[line]):
            s = lists[line, k]
            cpu = np.int64(slots[s, CPU])
            left = slots[s, DURATION] - slots[s, DONE]
            if left == 0:
                continue
            delay = now - slots[s, SUBMIT] - slots[s, DONE]
            bins[0 if delay == 0 else min(delay // 6, 4) + 1] += cpu
            late = delay - 24
            undone += cpu * min(delay, left)
            if late > 0:
                overdue += cpu * min(late, left)
            if late >= 0 and switches[SLO_OVERDUE]:
                for paused in range(2):
                    # Paused, the same job is an hour later and does its work from an hour on.
                    lateness = late + paused
                    last_end = min(end, now + paused + left - 1)
                    for day_end in range(first_end, last_end + 1, 24):
                        remaining = left - (day_end - now - paused)
                        owed[paused, (day_end - first_end) // 24] += cpu * min(lateness, remaining)
            for paused in range(2):
                remaining = left - (end - now - paused)
                if remaining > 0:
                    unfinished[paused] += cpu * min(delay + paused, remaining)
    pending = unfinished[0]
    pending_if_paused = unfinished[1]
    for row in range(day_ends):
        pending += max(0, owed[0, row] - switches[TOLERANCE])
        pending_if_paused += max(0, owed[1, row] - switches[TOLERANCE])
    if now == end:
        pending = 0
        pending_if_paused = 0
    counters[PENDING_OVERDUE] = pending
    if switches[EXTENDED]:
        for k in range(N_DELAY_BINS):
            raw[DELAY_BINS + k] = bins[k] / MICRO
        raw[OVERDUE] = overdue / MICRO
        raw[PENDING] = pending / MICRO
        raw[PAUSE_CHARGE] = (pending_if_paused - pending) / MICRO
    return overdue, undone


@njit(cache=True)
def charge_slo(
    overdue: int,
    undone: int,
    pending_before: int,
    no_delay: Ints,
    switches: Ints,
    counters: Ints,
    sums: Floats,
) -> tuple[float, float, float]:
    """Return the hour's SLO charge, the overdue work charged at a day's end, and the constraint cost.

    The first is what the reward sees (machine-unit-hours); the second is the plain form of
    ``slo="overdue"``, kept for reports whatever the reward sees; the third is the SLO term as a share
    of the day's demand, without tolerance.
    """
    now = counters[HOUR]
    charge = 0.0
    day_end_charge = 0.0
    cost = 0.0
    if now % 24 == 0:
        demand = 0
        for hour in range(now - 24, now):
            demand += no_delay[hour]
        missing = undone if now == switches[HOURS] else 0
        day_end_charge = max(0.0, overdue / MICRO - 0.03 * (demand / MICRO)) + missing / MICRO
        if switches[SLO_OVERDUE]:
            charge = day_end_charge
            shortfall = float(overdue + missing)
        else:
            allocated = sums[VCC_TODAY] * switches[CAPACITY]
            charge = max(0.0, 0.97 * demand - allocated) / MICRO
            shortfall = max(0.0, demand - allocated)
        if demand > 0:
            cost = shortfall / demand
        sums[VCC_TODAY] = 0.0
    if switches[INCURRED]:
        charge += (counters[PENDING_OVERDUE] - pending_before) / MICRO
    return charge, day_end_charge, cost


# --- observation -----------------------------------------------------------------------------------


@njit(cache=True)
def observe(
    forecast: Floats,
    no_delay: Ints,
    switches: Ints,
    counters: Ints,
    sums: Floats,
    scale: Floats,
    raw: Floats,
    out: NDArray[np.float32],
) -> None:
    """Write what the agent sees before the next hour: raw, and times ``scale`` as float32.

    The lateness features of ``raw`` are those that :func:`assess` left there.
    """
    now = counters[HOUR]
    raw[0] = sums[LAST_VCC]
    raw[1] = (counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]) / MICRO
    raw[2] = waiting_jobs(counters)
    raw[3:27] = forecast[now]
    if switches[EXTENDED]:
        angle = 2.0 * math.pi * (now % 24) / 24.0
        raw[SINE] = math.sin(angle)
        raw[COSINE] = math.cos(angle)
        raw[VCC_SPENT] = sums[VCC_TODAY] / 24.0
        demand = 0
        for hour in range(now - now % 24, now):
            demand += no_delay[hour]
        raw[DEMAND] = demand / MICRO / 24.0
        lower = 0
        total = 0.0
        for k in range(24):
            total += forecast[now, k]
            if forecast[now, k] < forecast[now, 0]:
                lower += 1
        raw[MOER_RANK] = lower / 23.0
        raw[MOER_MEAN] = total / 24.0
        raw[MOER_GAP] = forecast[now, 0] - total / 24.0
    for k in range(out.shape[0]):
        out[k] = raw[k] * scale[k]


# --- starting an episode ---------------------------------------------------------------------------


@njit(cache=True)
def begin(
    warm_start: bool,
    trace: Slots,
    day_offsets: Ints,
    days: Ints,
    day_profiles: Ints,
    no_delay: Ints,
    switches: Ints,
    slots: Slots,
    lists: Slots,
    machines: Ints,
    counters: Ints,
    sums: Floats,
    delays: Ints,
    raw: Floats,
) -> None:
    """Empty one environment and, for a warm start, let the day before's jobs that go on run.

    ``day_profiles[d, h]`` is the no-delay load, h hours after its midnight, of the jobs submitted on
    day d of the trace (millionths of a machine unit); ``no_delay`` is their sum over the episode.
    """
    counters[:] = 0
    sums[:] = 0.0
    sums[LAST_VCC] = 1.0
    machines[:] = 0
    delays[:] = 0
    raw[:] = 0.0
    for k in range(lists.shape[1]):
        lists[UNUSED, k] = lists.shape[1] - 1 - k
    counters[UNUSED] = lists.shape[1]

    no_delay[:] = 0
    hours = no_delay.shape[0]
    for d in range(0 if warm_start else 1, days.shape[0]):
        midnight = 24 * (d - 1)
        for h in range(max(0, midnight), min(hours, midnight + day_profiles.shape[1])):
            no_delay[h] += day_profiles[days[d], h - midnight]

    if warm_start:
        for j in range(day_offsets[days[0]], day_offsets[days[0] + 1]):
            submitted = trace[j, TRACE_HOUR] - 24
            if submitted + trace[j, TRACE_DURATION] > 0:
                warm_up(j - day_offsets[days[0]], trace[j], submitted, slots, lists, machines, counters)
        counters[NEXT_ID] = day_offsets[days[0] + 1] - day_offsets[days[0]]
    assess(switches, slots, lists, counters, raw)


@njit(cache=True)
def warm_up(
    job_id: int, job: Slots, submitted: int, slots: Slots, lists: Slots, machines: Ints, counters: Ints
) -> None:
    """Put a job of the day before where the no-delay schedule has it at t = 0, or in its queue if full."""
    counters[UNUSED] -= 1
    s = lists[UNUSED, counters[UNUSED]]
    slots[s, ID] = job_id
    slots[s, CPU] = job[TRACE_CPU]
    slots[s, DURATION] = job[TRACE_DURATION]
    slots[s, SUBMIT] = submitted
    slots[s, CLASS] = job[TRACE_CLASS]
    slots[s, DONE] = -submitted
    count_submitted(s, slots, counters)
    machine = least_loaded(machines)
    fits = machines[machine] + slots[s, CPU] <= MICRO
    if slots[s, CLASS] < FIRST_FLEXIBLE_CLASS:
        if not fits:
            counters[OUTSIDE_JOBS] += 1
        run(
            s,
            machine if fits else OUTSIDE,
            submitted,
            RUNNING_INFLEXIBLE,
            slots,
            lists,
            machines,
            counters,
        )
    elif fits:
        run(s, machine, submitted, RUNNING_FLEXIBLE, slots, lists, machines, counters)
    else:
        append(lists, counters, slots[s, CLASS] - FIRST_FLEXIBLE_CLASS, s)


@njit(cache=True)
def day_profile(trace: Slots, hours: int, profile: Ints) -> None:
    """Add the no-delay load of one day's jobs, hour by hour from its midnight, to ``profile``."""
    for j in range(trace.shape[0]):
        first = trace[j, TRACE_HOUR]
        for h in range(first, min(hours, first + trace[j, TRACE_DURATION])):
            profile[h] += trace[j, TRACE_CPU]
