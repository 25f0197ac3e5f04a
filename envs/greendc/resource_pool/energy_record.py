"""The energy of an episode, step by step: sources, battery, units that are on, and what the grid emits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool.config import ResourcePoolConfig

SUMS = ("solar", "wind", "critical", "pool", "charged", "discharged", "grid", "curtailed", "unserved")
"""Energies of a step, in this order."""


@dataclass(frozen=True, eq=False)
class EnergyRecord:
    """What happened in the first ``T`` steps of an episode at a site.

    :param config: the configuration
    :param kwh: ``(T, 9)`` energies of each step, in the order of :data:`SUMS`
    :param stored_kwh: ``(T,)`` energy in the battery when the step began
    :param units_on: ``(T,)`` units of each type that had power
    :param battery_mode: ``(T,)`` as in :mod:`greendc.energy.kernel`
    :param carbon: ``(T,)`` emissions of grid energy, kg/kWh
    :param price: ``(T,)`` price of grid energy, a kWh
    """

    config: ResourcePoolConfig
    kwh: NDArray[np.float64]
    stored_kwh: NDArray[np.float64]
    units_on: NDArray[np.int64]
    battery_mode: NDArray[np.int64]
    carbon: NDArray[np.float64]
    price: NDArray[np.float64]

    @property
    def steps(self) -> int:
        """Time steps recorded."""
        return len(self.kwh)

    def of(self, name: str) -> NDArray[np.float64]:
        """Return one energy of :data:`SUMS`, ``(T,)`` in kWh."""
        column: NDArray[np.float64] = self.kwh[:, SUMS.index(name)]
        return column
