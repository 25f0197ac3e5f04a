"""What an hour is charged and what the agent sees (compiled)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from greendc.compiled import compiled, inlined
from greendc.vcc.kernel_lateness import pending_overdue
from greendc.vcc.layout import (
    BASELINE,
    BY_ROW,
    CAPACITY,
    CARBON_WEIGHT,
    CONSTRAINED,
    COSINE,
    CPU,
    DAY,
    DELAY,
    DELAY_BINS,
    DEMAND,
    DEMAND_TODAY,
    END_PLACES,
    EXTENDED,
    FINISH,
    FIRST_PLACES,
    FLEXIBLE_GROUPS,
    FORECAST,
    FORECAST_FEATURES,
    HOUR,
    HOURS,
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
    LATE,
    LATE_ROW,
    LEFT,
    LOAD_FLEXIBLE,
    LOAD_INFLEXIBLE,
    MICRO,
    MOER_RANK,
    N_DELAY_BINS,
    NO_JOB,
    ORIGIN,
    OVERDUE,
    OVERDUE_WORK,
    PAUSE_CHARGE,
    PENDING,
    PENDING_OVERDUE,
    RUNNING_BINS,
    SINE,
    SLO_OVERDUE,
    SLO_WEIGHT,
    STACK_TOP,
    VCC_SPENT,
    VCC_TODAY,
    WAITING_JOBS,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]


@inlined
def charge(
    demand: int,
    moer: float,
    settings: Floats,
    places: Ints32,
    keys: Ints32,
    stack: Ints32,
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
    slo, overdue, cost = charge_slo(pending_before, places, keys, stack, counters, switches, sums)
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
    info[INFO_WAITING] = counters[WAITING_JOBS]
    info[INFO_MOER] = moer
    return float(reward)


@inlined
def charge_slo(
    pending_before: int,
    places: Ints32,
    keys: Ints32,
    stack: Ints32,
    counters: Ints,
    switches: Ints,
    sums: Floats,
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
        overdue = counters[OVERDUE_WORK]
        missing = undone(places, keys, stack, counters, switches) if counters[HOUR] == switches[HOURS] else 0
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


@compiled
def undone(places: Ints32, keys: Ints32, stack: Ints32, counters: Ints, switches: Ints) -> int:
    """Return the flexible work that the no-delay schedule would have done by now, and that is not done."""
    work, now = 0, counters[HOUR]
    for group in range(FLEXIBLE_GROUPS):
        for j in range(switches[FIRST_PLACES + group], counters[END_PLACES + group]):
            if keys[j] != NO_JOB:
                work += int(keys[j]) * min(places[j, LEFT], now - places[j, ORIGIN])
    for index in range(counters[STACK_TOP]):
        left = stack[index, FINISH] - now
        if left > 0:
            work += int(stack[index, CPU]) * min(left, stack[index, DELAY])
    return work


@compiled
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

    :param forecast: ``(tables, T + 1, FORECAST_FEATURES)``
    """
    table, now = counters[FORECAST], counters[HOUR]
    raw[0] = sums[LAST_VCC]
    raw[1] = (counters[LOAD_INFLEXIBLE] + counters[LOAD_FLEXIBLE]) / MICRO
    raw[2] = counters[WAITING_JOBS]
    for k in range(DAY):
        raw[3 + k] = forecast[table, now, k]
    if switches[EXTENDED]:
        angle = 2.0 * math.pi * (now % DAY) / DAY
        raw[SINE] = math.sin(angle)
        raw[COSINE] = math.cos(angle)
        raw[VCC_SPENT] = sums[VCC_TODAY] / DAY
        raw[DEMAND] = counters[DEMAND_TODAY] / MICRO / DAY
        raw[OVERDUE] = counters[OVERDUE_WORK] / MICRO
        for k in range(DAY, FORECAST_FEATURES):
            raw[MOER_RANK + k - DAY] = forecast[table, now, k]
        observe_delays(now, counters, lateness, raw)
        raw[PENDING] = counters[PENDING_OVERDUE] / MICRO
    for k in range(out.shape[0]):
        out[k] = raw[k] * scale[k]


@inlined
def observe_delays(now: int, counters: Ints, lateness: Ints, raw: Floats) -> None:
    """Write the flexible CPU, waiting or running, by delay: 0, below 6, 12, 18, 24, and 24 h or more."""
    for k in range(N_DELAY_BINS):
        cpu = counters[RUNNING_BINS + k]
        if k == LATE:
            cpu += lateness[BY_ROW, LATE_ROW]
        elif k == 0:
            cpu += lateness[BY_ROW, now % DAY]
        else:
            for delay in range(max(1, 6 * k - 6), 6 * k):
                cpu += lateness[BY_ROW, (now - delay) % DAY]
        raw[DELAY_BINS + k] = cpu / MICRO
