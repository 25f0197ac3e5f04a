"""What an hour is charged and what the agent sees (compiled)."""

from __future__ import annotations

import math
from typing import NamedTuple

from greendc.bits import lowest_bit
from greendc.compiled import compiled, inlined
from greendc.records import Floats
from greendc.vcc import kernel_queue
from greendc.vcc.columns import LATE, LEADS, N_DELAY_BINS, Hour, Observation
from greendc.vcc.kernel_lateness import pending_overdue
from greendc.vcc.layout import BLOCK, DAY, FLEXIBLE_GROUPS, MICRO, Cluster, Datacenter, Settings


class SloCharges(NamedTuple):
    """The SLO at the end of an hour."""

    charged: float
    """What the reward sees, machine-unit-hours."""
    overdue: float
    """The plain form of ``slo="overdue"``, kept for reports whatever the reward sees."""
    cost: float
    """The SLO term as a share of the day's demand (of the mean day's, where it is 0), without tolerance."""


@inlined
def reward_of(hour: Hour, no_delay: float, settings: Settings) -> float:
    """Return the reward of an hour from what has happened in it.

    :param no_delay: load of the no-delay schedule, machine units
    """
    load = hour.load - no_delay if settings.baseline else hour.load
    reward = -settings.carbon_weight * (settings.kw_per_unit * load * hour.moer)
    if not settings.constrained:
        reward -= settings.slo_weight * hour.slo
    return float(reward)


@inlined
def report(dc: Datacenter, moer: float, hour: Hour, seen: Observation) -> None:
    """Write what has happened in the hour that has just passed.

    :param moer: emissions, kg CO2/kWh
    :param seen: gets ``pause_charge``, which follows from the same sums
    """
    cluster = dc.cluster
    pending_before = cluster.pending_overdue
    seen.pause_charge = pending_overdue(dc) / MICRO
    charges = charge_slo(dc, pending_before)
    hour.cost = charges.cost
    hour.slo = charges.charged
    hour.overdue = charges.overdue
    hour.vcc = cluster.last_vcc
    hour.load = (cluster.load_inflexible + cluster.load_flexible) / MICRO
    hour.inflexible_load = cluster.load_inflexible / MICRO
    hour.waiting = cluster.waiting_jobs
    hour.moer = moer
    hour.carbon = dc.settings.kw_per_unit * hour.load * moer


@inlined
def charge_slo(dc: Datacenter, pending_before: int) -> SloCharges:
    """Return what is charged at the end of an hour; a day that ends is settled.

    :param pending_before: Psi of an hour ago
    """
    cluster, settings = dc.cluster, dc.settings
    charged, day_end_charge, cost = 0.0, 0.0, 0.0
    if cluster.now % DAY == 0:
        demand, overdue = cluster.demand_today, cluster.overdue_work
        missing = undone(dc) if cluster.now == settings.hours else 0
        day_end_charge = max(0.0, overdue / MICRO - 0.03 * (demand / MICRO)) + missing / MICRO
        if settings.slo_overdue:
            charged = day_end_charge
            shortfall = float(overdue + missing)
        else:
            allocated = cluster.vcc_today * settings.capacity
            charged = max(0.0, 0.97 * demand - allocated) / MICRO
            shortfall = max(0.0, demand - allocated)
        cost = shortfall / (demand if demand > 0 else settings.mean_day)
        cluster.vcc_today = 0.0
        cluster.demand_today = 0
    if settings.incurred:
        charged += (cluster.pending_overdue - pending_before) / MICRO
    return SloCharges(charged, day_end_charge, cost)


@compiled
def undone(dc: Datacenter) -> int:
    """Return the flexible work that the no-delay schedule would have done by now, and that is not done."""
    work, now = 0, dc.cluster.now
    for group in range(FLEXIBLE_GROUPS):
        first, end = dc.settings.first_places[group], dc.cluster.ends[group]
        for b in range(first // BLOCK, (end + BLOCK - 1) // BLOCK):
            bits = kernel_queue.waiting(dc.keys, b)
            while bits != 0:
                j = b * BLOCK + lowest_bit(bits)
                bits &= bits - 1
                work += int(dc.keys[j]) * min(dc.places[j].left, now - dc.places[j].origin)
    for index in range(dc.cluster.stack_top):
        job = dc.stack[index]
        left = job.finish - now
        if left > 0:
            work += int(job.cpu) * min(left, job.delay)
    return work


@compiled
def observe(cluster: Cluster, settings: Settings, forecast: Floats, seen: Observation) -> None:
    """Write what the agent sees before the next hour; ``report`` writes the pause charge.

    :param forecast: ``(27,)``: 24 hours, then rank, mean and gap of the first
    """
    seen.vcc = cluster.last_vcc
    seen.load = (cluster.load_inflexible + cluster.load_flexible) / MICRO
    seen.waiting = cluster.waiting_jobs
    for k in range(LEADS):
        seen.forecast[k] = forecast[k]
    if settings.extended:
        angle = 2.0 * math.pi * (cluster.now % DAY) / DAY
        seen.sine = math.sin(angle)
        seen.cosine = math.cos(angle)
        seen.vcc_spent = cluster.vcc_today / DAY
        seen.demand = cluster.demand_today / MICRO / DAY
        seen.overdue = cluster.overdue_work / MICRO
        seen.moer_rank = forecast[LEADS]
        seen.moer_mean = forecast[LEADS + 1]
        seen.moer_gap = forecast[LEADS + 2]
        observe_delays(cluster, seen)
        seen.pending = cluster.pending_overdue / MICRO


@inlined
def observe_delays(cluster: Cluster, seen: Observation) -> None:
    """Write the flexible CPU, waiting or running, by delay: 0, below 6, 12, 18, 24, and 24 h or more."""
    for k in range(N_DELAY_BINS):
        cpu = cluster.running_by_delay[k]
        if k == LATE:
            cpu += cluster.late_cpu
        elif k == 0:
            cpu += cluster.waiting_by_origin[cluster.now % DAY]
        else:
            for delay in range(max(1, 6 * k - 6), 6 * k):
                cpu += cluster.waiting_by_origin[(cluster.now - delay) % DAY]
        seen.delayed[k] = cpu / MICRO
