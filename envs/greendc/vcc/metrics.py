"""What an episode under a virtual capacity curve is judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.records import Records
from greendc.vcc import layout
from greendc.vcc.config import VCCConfig


def episode_metrics(
    config: VCCConfig,
    capacity: int,
    history: Records,
    no_delay: NDArray[np.int64],
    cluster: Any,
    unfinished: tuple[int, int, int],
    delays: NDArray[np.int64],
) -> dict[str, float]:
    """Return the metrics of one environment over its episode so far.

    Units: carbon in kg CO2, work in machine-unit-hours, delays in hours.

    - ``carbon_kg``, ``carbon_no_delay_kg`` (the no-delay schedule's), ``carbon_per_work`` (kg per
      machine-unit-hour done)
    - ``overdue_work``: the ``overdue`` SLO, charged at day ends, undone work at the end included
    - ``page_shortfall``: the page's SLO
    - ``total_cost``: carbon and overdue work by their weights, whatever the reward of the configuration
    - ``days_violated``: days with an overdue charge
    - ``flexible_work_done``: flexible work done as a share of what the no-delay schedule would have done. A
      job that evictions set back behind what it had done at t = 0 has done none
    - ``mean_delay``, ``p97_delay``: over flexible jobs, those still unfinished with their delay so far
    - ``evictions``, ``outside_jobs`` (inflexible jobs that no machine had room for)
    - ``utilization``: mean running load as a share of C; ``mean_vcc``: mean action
    - ``submitted_work``, ``executed_work``, ``lost_work`` (to evictions), ``queued_work`` (still to do)

    :param history: ``(T,)`` :class:`~greendc.vcc.columns.Hour`
    :param cluster: a :class:`~greendc.vcc.layout.Cluster`
    :param unfinished: as :func:`~greendc.vcc.kernel_metrics.count_unfinished` returns it
    :param delays: number of flexible jobs by their delay, ``(n,)``
    """
    hours = int(cluster["now"])
    past = history[:hours]
    carbon = float(past["carbon"].sum())
    overdue = float(past["overdue"].sum())
    baseline = float(config.kw_per_unit * (no_delay[:hours] / layout.MICRO) @ past["moer"])
    executed = cluster["executed_work"] / layout.MICRO
    still_to_do, undone, set_back = (work / layout.MICRO for work in unfinished)
    net = (cluster["executed_flexible_work"] - cluster["lost_work"]) / layout.MICRO  # may be below 0
    share = (net + set_back) / (net + undone) if undone > 0 else 1.0
    mean_delay, p97_delay = _delay_statistics(delays)
    return {
        "carbon_kg": carbon,
        "carbon_no_delay_kg": baseline,
        "carbon_per_work": carbon / executed if executed > 0 else 0.0,
        "overdue_work": overdue,
        "page_shortfall": page_shortfall(capacity, past["vcc"], no_delay[:hours]),
        "total_cost": config.carbon_weight * carbon + config.slo_weight * overdue,
        "days_violated": float((past["overdue"] > 0).sum()),
        "flexible_work_done": float(share),
        "mean_delay": mean_delay,
        "p97_delay": p97_delay,
        "evictions": float(cluster["evictions"]),
        "outside_jobs": float(cluster["outside_jobs"]),
        "utilization": float(past["load"].mean() * layout.MICRO / capacity) if hours else 0.0,
        "mean_vcc": float(past["vcc"].mean()) if hours else 0.0,
        "submitted_work": float(cluster["submitted_work"] / layout.MICRO),
        "executed_work": float(executed),
        "lost_work": float(cluster["lost_work"] / layout.MICRO),
        "queued_work": still_to_do,
    }


def page_shortfall(capacity: int, vcc: NDArray[np.float64], no_delay: NDArray[np.int64]) -> float:
    """Return the page's SLO over whole days: sum of max(0, 0.97 w - C sum(a)), machine-unit-hours."""
    days = len(vcc) // 24
    allocated = vcc[: 24 * days].reshape(days, 24).sum(axis=1) * capacity
    demand = no_delay[: 24 * days].reshape(days, 24).sum(axis=1)
    return float(np.maximum(0.0, 0.97 * demand - allocated).sum() / layout.MICRO)


def _delay_statistics(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Return mean and 97th percentile (nearest rank) of delays, of which ``counts`` is the histogram."""
    jobs = int(counts.sum())
    if jobs == 0:
        return 0.0, 0.0
    mean = float(counts @ np.arange(len(counts)) / jobs)
    p97 = float(np.searchsorted(np.cumsum(counts), 0.97 * jobs))
    return mean, p97
