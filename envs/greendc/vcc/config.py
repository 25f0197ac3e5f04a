"""Configuration of the virtual-capacity-curve (VCC) environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greendc.config import require, require_default, require_kinds, require_one_of
from greendc.traces.jobs import JobTrace
from greendc.traces.moer import MoerSeries
from greendc.vcc.splits import SPLITS

FORECASTS = ("oracle", "sgip", "noisy", "persistence")
"""``oracle`` shows the true next 24 h; the others know the past and the archived 3 h forecast only: ``sgip``
that forecast and then the mean day of the last two weeks, ``noisy`` the same plus noise, ``persistence`` the
day before."""


@dataclass(frozen=True)
class VCCConfig:
    """Everything that defines a VCC environment; the defaults are those of version 1.

    :param month: ``"YYYY-MM"``, or several months of which each episode draws one by its seed; ``None``:
        those of the split, and without a split May 2019. The ids of a year name its May
    :param split: ``"train"``, ``"validation"``, ``"heldout"`` or ``"test"`` (:mod:`greendc.vcc.splits`):
        draws each episode's month from the split, which must contain ``month``
    :param region: whose emissions: ``"PGE"`` or ``"SCE"``
    :param moer: emissions of one's own, in place of the shipped series; ``region`` then stays the default
    :param utc_offset: hours between UTC and the region's local standard clock, whose midnight is t = 0
    :param days: length of an episode in days, from the first of the month
    :param forecast: one of :data:`FORECASTS`
    :param forecast_noise: of ``noisy``, the ``sgip`` forecast plus noise: standard deviation of this noise
        at 24 h lead, kg CO2/kWh. It grows with the square root of the lead time; the error of the ``sgip``
        forecast, which is larger at the default, comes on top
    :param workload: ``"google_like"``, a folder or file of Google per-day job CSVs, or a ``JobTrace``
    :param workload_seed: seed of the generated jobs (``"google_like"``); the same jobs meet every month and
        year
    :param resample_days: each episode strings together whole days of the trace, drawn by its seed
        among those of the same weekday; without it, the trace is replayed in its own order
    :param warm_start: fill the cluster with the jobs still running from the day before; flexible ones that
        find no room wait, inflexible ones run outside the machines
    :param target_load: mean no-delay load as a share of the capacity C; above 0.8 some days cannot be
        served
    :param capacity: C in machine units, in place of the one that follows from ``target_load``
    :param kw_per_unit: power of a busy machine unit, kW
    :param carbon_weight: weight of a kilogram of CO2 in the reward
    :param slo_weight: weight of a machine-unit-hour of the SLO term in the reward
    :param slo: ``"overdue"`` charges flexible work more than 24 h late; ``"page"`` is SustainGym's
        shortfall of allocated capacity
    :param charge: when overdue work is charged: ``"incurred"`` (in the hour that makes it inevitable)
        or ``"day_end"``; both add up to the same over an episode
    :param reward_baseline: ``"no_delay"`` takes the no-delay schedule's emissions off the carbon term
        (a control variate: the optimum stays), ``"none"`` does not
    :param constrained: leave the SLO out of the reward; it is in ``info["cost"]`` either way
    :param evict: suspend flexible jobs when the VCC falls below the running load, or an inflexible job needs
        their room (``False``: CICS)
    :param eviction_loss_hours: hours of work that an eviction costs a job
    :param observation: ``"page"`` (27 numbers) or ``"extended"`` (43)
    :param normalize: divide observations by constants of the configuration
    :param discrete_actions: ``None`` for ``Box(0, 1, (1,))``, else the number of equally spaced levels
    :raises ValueError: for a wrong value, and for an option that changes nothing beside the others, such as
        ``region``; the message names the field, the value and what is allowed
    """

    month: str | tuple[str, ...] | None = None
    split: str | None = None
    region: str = "PGE"
    moer: MoerSeries | None = None
    utc_offset: int = -8
    days: int = 30
    forecast: str = "sgip"
    forecast_noise: float = 0.05
    workload: str | Path | JobTrace = "google_like"
    workload_seed: int = 0
    resample_days: bool = True
    warm_start: bool = True
    target_load: float = 0.65
    capacity: float | None = None
    kw_per_unit: float = 1.0
    carbon_weight: float = 1.0
    slo_weight: float = 1.0
    slo: str = "overdue"
    charge: str = "incurred"
    reward_baseline: str = "no_delay"
    constrained: bool = False
    evict: bool = True
    eviction_loss_hours: int = 0
    observation: str = "extended"
    normalize: bool = True
    discrete_actions: int | None = None

    def __post_init__(self) -> None:
        require_kinds(type(self).__annotations__, vars(self))
        if self.split is not None:
            require_one_of("split", self.split, SPLITS)
        if self.month is not None and not isinstance(self.month, str):
            several = isinstance(self.month, Sequence) and len(self.month) > 0
            require(several, "month", self.month, "a month 'YYYY-MM' or a sequence of months")
            object.__setattr__(self, "month", tuple(self.month))
        self._check_split()
        require_one_of("region", self.region, ("PGE", "SCE"))
        known = self.moer is None or isinstance(self.moer, MoerSeries)
        require(known, "moer", self.moer, "a MoerSeries or None")
        known = isinstance(self.workload, str | Path | JobTrace)
        require(known, "workload", self.workload, "'google_like', a file, or a JobTrace")
        require(self.workload_seed >= 0, "workload_seed", self.workload_seed, "0 or more")
        require(-12 <= self.utc_offset <= 14, "utc_offset", self.utc_offset, "whole hours from -12 to 14")
        require(1 <= self.days <= 30, "days", self.days, "from 1 to 30")
        require_one_of("forecast", self.forecast, FORECASTS)
        finite = 0 <= self.forecast_noise < float("inf")
        require(finite, "forecast_noise", self.forecast_noise, "finite and 0 or more (kg CO2/kWh)")
        require(0 < self.target_load <= 1, "target_load", self.target_load, "above 0 and at most 1")
        if self.capacity is not None:
            require(1e-6 <= self.capacity < 1e6, "capacity", self.capacity, "1e-6 to 1e6 (machine units)")
            self._require_default("target_load", "with a capacity")
        for field in ("kw_per_unit", "carbon_weight", "slo_weight"):
            value = getattr(self, field)
            require(0 <= value < float("inf"), field, value, "finite and 0 or more")
        require_one_of("slo", self.slo, ("overdue", "page"))
        require_one_of("charge", self.charge, ("incurred", "day_end"))
        require(
            self.charge == "day_end" or self.slo == "overdue",
            "charge",
            self.charge,
            "'day_end' with slo='page', which is defined at the day's end only",
        )
        require_one_of("reward_baseline", self.reward_baseline, ("no_delay", "none"))
        require(
            0 <= self.eviction_loss_hours < 10**6,
            "eviction_loss_hours",
            self.eviction_loss_hours,
            "0 or more hours, below a million",
        )
        if not self.evict:
            self._require_default("eviction_loss_hours", "with evict=False")
        require_one_of("observation", self.observation, ("page", "extended"))
        if self.moer is not None:
            self._require_default("region", "with emissions of one's own (moer)")
        if self.forecast != "noisy":
            self._require_default("forecast_noise", f"with forecast={self.forecast!r}")
        if self.workload != "google_like":
            self._require_default("workload_seed", "with a workload other than 'google_like'")
        if self.discrete_actions is not None:
            levels = self.discrete_actions
            require(2 <= levels <= 10**6, "discrete_actions", levels, "from 2 to a million levels")

    def _require_default(self, name: str, where: str) -> None:
        """Refuse an option that changes nothing there."""
        default, value = type(self).__dataclass_fields__[name].default, getattr(self, name)
        require_default(name, value, default, where)

    def _check_split(self) -> None:
        """Refuse a split that leaves out the month that an id, or ``month``, names."""
        if self.split is None or self.month is None:
            return
        named = (self.month,) if isinstance(self.month, str) else self.month
        for month in named:
            require(
                month in SPLITS[self.split],
                "split",
                self.split,
                f"one that contains {month}, which the id or month= names; for the months of a split make "
                "'VCC-v1' ('DiscreteVCC-v1'), or say month=None",
            )
