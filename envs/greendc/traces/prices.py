"""Prices of grid energy, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from greendc.traces.power import check_series, resample


@dataclass(frozen=True, eq=False)
class PriceTrace:
    """Price of a kWh of grid energy, step by step, checked when built.

    :param per_kwh: ``(T,)`` float64, in any one currency. Prices below zero are refused: a site could earn
        without end by wasting energy, which the simulator has no bound for
    :param step_hours: length of a step in hours
    :param start: when the first step begins
    :raises ValueError: as for :class:`~greendc.traces.power.PowerTrace`
    """

    per_kwh: NDArray[np.float64] = field(repr=False)
    step_hours: float = 1.0
    start: datetime = datetime(2021, 1, 1)

    def __post_init__(self) -> None:
        check_series(self, ("per_kwh",), "energy_price", self.step_hours)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.per_kwh)

    def resample(self, step_hours: float) -> PriceTrace:
        """Return the trace in steps of another length, each the mean over its time."""
        values = resample(self.per_kwh, self.step_hours, step_hours)
        return replace(self, per_kwh=values, step_hours=step_hours)
