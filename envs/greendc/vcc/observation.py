"""The space of observations: bounds that hold for any episode, and what raw numbers are divided by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.vcc import columns, layout
from greendc.vcc.config import VCCConfig
from greendc.vcc.workload import Workload

MOER_SCALE = 0.66375
"""The archive's cap, kg CO2/kWh (12.5 MMBtu/MWh times 53.1 kg/MMBtu): normalised emissions end at 1."""


def raw_bounds(
    config: VCCConfig, workload: Workload, most_moer: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bounds ``(43,)`` of the raw observation that hold for any jobs that the trace can give.

    :param most_moer: kg CO2/kWh that neither emissions nor forecasts exceed
    """
    trace, hours, days = workload.trace, layout.DAY * config.days, config.days + 1
    cpu = trace.cpu / layout.MICRO
    work = cpu * np.minimum(trace.duration, hours + layout.DAY)
    day_of = trace.submit_hour // 24
    most_cpu = days * float(np.bincount(day_of, cpu).max())
    most_work = days * float(np.bincount(day_of, work).max())
    bounds = np.zeros(2, columns.OBSERVATION)
    low, high = bounds[0], bounds[1]
    for name in ("vcc", "sine", "cosine", "vcc_spent", "moer_rank"):
        high[name] = 1.0
    high["load"] = high["demand"] = high["delayed"] = most_cpu
    high["waiting"] = float(workload.most_jobs_a_day) * days
    high["forecast"] = high["moer_mean"] = high["moer_gap"] = most_moer
    low["sine"] = low["cosine"] = -1.0
    low["moer_gap"] = -most_moer
    high["overdue"] = most_work
    # A job can be charged at each day end until it is done, and once at the episode's end.
    high["pending"] = high["pause_charge"] = most_work * (days + 1)
    low["pause_charge"] = -most_work * (days + 1)
    numbers = bounds.view(np.float64).reshape(2, columns.EXTENDED_SIZE)
    return numbers[0], numbers[1]


def normalization(workload: Workload, capacity: int) -> NDArray[np.float64]:
    """Return what raw observations are multiplied by, ``(43,)``.

    :param capacity: C, millionths of a machine unit
    """
    scale = np.ones(1, columns.OBSERVATION)
    for name in ("load", "demand", "overdue", "delayed", "pending", "pause_charge"):
        scale[name] = 1 / (capacity / layout.MICRO)
    for name in ("forecast", "moer_mean", "moer_gap"):
        scale[name] = 1 / MOER_SCALE
    scale["waiting"] = workload.trace.days / len(workload.trace)
    return scale.view(np.float64)
