"""A datacenter site: what it draws, its battery, and what its grid connection may be used for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from greendc.config import from_mapping, require, require_class, require_kinds, require_one_of
from greendc.energy import kernel

GRID_MODES = ("critical", "off", "capped", "qos_above", "open")
"""What the grid may serve; see :class:`SiteConfig`."""


@dataclass(frozen=True)
class BatteryConfig:
    """A battery. Sun and wind charge it; the grid only where the agent may order so (``power_levels``).

    :param energy_kwh: capacity in kWh; 0 means no battery
    :param charge_kw: largest charging power in kW, measured before losses
    :param discharge_kw: largest discharging power in kW
    :param efficiency: share of the charged energy that can be discharged again (round trip)
    :param initial_charge: state of charge at the start of an episode, as a share of the capacity
    :param min_charge: state of charge below which nothing is discharged
    :param max_charge: state of charge above which nothing is charged
    :raises ValueError: for a value out of range
    """

    energy_kwh: float = 1000.0
    charge_kw: float = 250.0
    discharge_kw: float = 250.0
    efficiency: float = 0.9
    initial_charge: float = 0.5
    min_charge: float = 0.0
    max_charge: float = 1.0

    def __post_init__(self) -> None:
        require_kinds(type(self).__annotations__, vars(self), "battery.")
        for name in ("energy_kwh", "charge_kw", "discharge_kw"):
            require_power(
                f"battery.{name}", getattr(self, name), unit="kWh" if name == "energy_kwh" else "kW"
            )
        require(0.0 < self.efficiency <= 1.0, "battery.efficiency", self.efficiency, "in (0, 1]")
        require(0.0 <= self.min_charge <= 1.0, "battery.min_charge", self.min_charge, "in [0, 1]")
        require(
            self.min_charge <= self.max_charge <= 1.0,
            "battery.max_charge",
            self.max_charge,
            f"in [min_charge, 1] = [{self.min_charge}, 1]",
        )
        require(
            self.min_charge <= self.initial_charge <= self.max_charge,
            "battery.initial_charge",
            self.initial_charge,
            f"between min_charge={self.min_charge} and max_charge={self.max_charge}",
        )

    @property
    def initial_kwh(self) -> float:
        """Energy stored at the start of an episode, in kWh."""
        return self.initial_charge * self.energy_kwh


@dataclass(frozen=True)
class SiteConfig:
    """A site with photovoltaics, wind turbines, a battery, a critical load and a grid connection.

    The defaults are RARE's (section 3.3): 240 kW in all, of which 80 kW is critical (cooling, network,
    management) and the rest is the pool at full use, on the generators of the GLEAMM microgrid, 150 kW of
    photovoltaics and three 300 kW turbines.

    :param total_kw: draw of the whole datacenter with every unit in use
    :param critical_kw: the part of it that is served first, always
    :param idle_fraction: draw of a powered unit that no job uses, as a share of one in use
    :param battery: the battery; ``BatteryConfig(energy_kwh=0)`` for none
    :param grid: what grid energy may be used for. ``"critical"``: the critical load only, without limit;
        ``"off"``: nothing; ``"capped"``: any load, the critical one first, up to ``grid_cap_kw``;
        ``"qos_above"``: the critical load, and units without green power for jobs whose QoS value is above
        ``grid_qos_above`` (RARE section 3.2: a little brown energy for urgent jobs); ``"open"``: any load,
        without limit
    :param grid_cap_kw: with ``grid="capped"``, the limit in kW
    :param grid_qos_above: with ``grid="qos_above"``, the QoS value that a job must exceed
    :param pv_kw: installed photovoltaics; a solar trace that exceeds it is refused (wrong unit?)
    :param wind_kw: installed wind power, likewise
    :raises ValueError: for a value out of range, or a limit that its grid mode does not use
    :raises TypeError: for a battery that is none
    """

    total_kw: float = 240.0
    critical_kw: float = 80.0
    idle_fraction: float = 0.0
    battery: BatteryConfig = field(default_factory=BatteryConfig)
    grid: str = "critical"
    grid_cap_kw: float | None = None
    grid_qos_above: float | None = None
    pv_kw: float = 150.0
    wind_kw: float = 900.0

    def __post_init__(self) -> None:
        require_kinds(type(self).__annotations__, vars(self), "site.")
        require_class("site.battery", self.battery, (BatteryConfig,), "a BatteryConfig or a mapping")
        for name in ("total_kw", "critical_kw", "pv_kw", "wind_kw"):
            require_power(f"site.{name}", getattr(self, name))
        require(
            self.critical_kw < self.total_kw,
            "site.critical_kw",
            self.critical_kw,
            f"below total_kw={self.total_kw}, the rest is the pool's",
        )
        require(0.0 <= self.idle_fraction <= 1.0, "site.idle_fraction", self.idle_fraction, "in [0, 1]")
        require_one_of("site.grid", self.grid, GRID_MODES)
        cap, qos = self.grid_cap_kw, self.grid_qos_above
        if self.grid == "capped":
            require(cap is not None, "site.grid_cap_kw", cap, 'a power in kW with grid="capped"')
            require_power("site.grid_cap_kw", cap)
        else:
            require(cap is None, "site.grid_cap_kw", cap, f'None with grid="{self.grid}"')
        if self.grid == "qos_above":
            allowed = 'in [0, 1] with grid="qos_above"'
            require(qos is not None and 0.0 <= qos <= 1.0, "site.grid_qos_above", qos, allowed)
        else:
            require(qos is None, "site.grid_qos_above", qos, f'None with grid="{self.grid}"')

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> SiteConfig:
        """Build a site from a mapping, in which ``battery`` may be a mapping too.

        :raises TypeError: for an unknown key, with the nearest known one, and for a battery that is none
        :raises ValueError: for a wrong value
        """
        battery = values.get("battery")
        if isinstance(battery, Mapping):
            values = {**values, "battery": from_mapping(BatteryConfig, battery, "battery")}
        return from_mapping(cls, values, "site")

    @property
    def pool_kw(self) -> float:
        """Draw of the pool with every unit in use, in kW."""
        return self.total_kw - self.critical_kw

    def to_record(self) -> np.void:
        """Return what :func:`greendc.energy.kernel.dispatch` needs, of dtype ``SITE``."""
        battery = self.battery
        site: np.void = np.zeros(1, kernel.SITE)[0]
        site["critical_kw"] = self.critical_kw
        site["pool_kw"] = self.pool_kw
        site["idle_fraction"] = self.idle_fraction
        site["battery_min_kwh"] = battery.min_charge * battery.energy_kwh
        site["battery_max_kwh"] = battery.max_charge * battery.energy_kwh
        site["charge_kw"] = battery.charge_kw
        site["discharge_kw"] = battery.discharge_kw
        site["efficiency"] = battery.efficiency
        cap = 0.0 if self.grid_cap_kw is None else self.grid_cap_kw
        limit = {"off": 0.0, "capped": cap}.get(self.grid, np.inf)
        site["grid_kw"] = limit
        site["grid_pool_kw"] = limit if self.grid in ("capped", "open") else 0.0
        return site


def require_power(field_name: str, value: object, unit: str = "kW") -> None:
    """Raise a ``ValueError`` unless ``value`` is a finite number >= 0."""
    valid = isinstance(value, int | float) and math.isfinite(value) and value >= 0.0
    require(valid, field_name, value, f"a finite number of {unit}, at least 0")
