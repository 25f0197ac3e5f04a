"""Configuration of the resource pool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING

from greendc.config import (
    is_number,
    numbers,
    require,
    require_class,
    require_default,
    require_kinds,
    require_one_of,
)
from greendc.energy.site import SiteConfig
from greendc.resource_pool.rewards import RewardWeights, reward_weights
from greendc.traces.limits import LIMITS

if TYPE_CHECKING:
    from greendc.resource_pool.workloads import Workload
    from greendc.traces.power import CarbonTrace, PowerTrace
    from greendc.traces.prices import PriceTrace
    from greendc.traces.swf import JobLog

LATE_JOBS = ("leave", "demote", "stay")
QUEUE_ORDERS = ("arrival", "latest_start")
MASKS = ("valid", "now", "now_on_time")
PLACEMENTS = ("earliest", "now")
COSTS = ("delayed", "waiting", "weighted", "carbon", "brown")
POWERS = {
    "constant": ("power_level",),
    "on_off": ("power_level", "power_low", "on_steps", "off_steps"),
    "markov": ("power_level", "power_low", "stay_on", "stay_off"),
    "random": ("power_level",),
    "trace": (),
}
"""Kinds of power, and the options of each."""
OBSERVATIONS = ("dict", "flat")
LARGEST_ERROR = 1000.0
"""Of a forecast, relative; beyond it, forecasts of kilowatts would overflow."""
IMAGE_DTYPES = ("uint8", "float32")
LARGEST_LOAD = 10.0
"""Far above what any policy can serve; what lies beyond it is a percentage, or a slip."""
LONGEST_STEP = 168.0
"""A week in hours; a longer step is one in minutes or seconds."""
DIRTIEST = LIMITS["carbon_intensity"].high
"""kg/kWh, several times the dirtiest coal; what lies beyond it is in grams."""
MODES = 3
"""Of the battery, in the order of :mod:`greendc.energy.kernel`: auto, hold, charge."""
OUTLOOK = 24
"""Rows of carbon, price and green share that are observed where power is commanded, horizon permitting."""
MOST_LEVELS = 32
"""How many levels of power can be told apart."""
ENERGY_COST_UNIT = 100.0
"""kg, or kWh, of one unit of ``info["cost"]`` with ``cost="carbon"`` or ``"brown"``."""


@dataclass(frozen=True)
class ResourcePoolConfig:
    """Everything that defines a resource-pool problem; checked when built.

    **Pool**

    :param units: units ``M`` of each resource type
    :param resource_types: number of resource types ``R`` (CPU, GPU, ...)
    :param horizon: rows of the resource image, in steps; nothing can be planned beyond it
    :param ready_pool_size: how many waiting jobs the agent can choose from
    :param step_hours: length of a time step in hours
    :param episode_steps: length of an episode in time steps (not decisions)
    :param prices: value of one unit of each type for one step; ``None`` for all ones

    **Jobs**

    :param workload: a registered name, the path of a job log, or an object; see
        :func:`~greendc.resource_pool.workloads.make_workload`
    :param offered_load: work offered per step over what the pool can do; ``None`` takes a log's own arrivals.
        A workload object has its own, and takes no other
    :param too_large: ``"clip"`` or ``"drop"`` recorded jobs that can never fit; the workload counts them
    :param late_jobs: what happens to a waiting job that can no longer be on time: ``"demote"`` sends it
        behind all others, ``"leave"`` removes and counts it, ``"stay"`` keeps its place (the papers' text;
        the ready pool then fills with hopeless jobs)
    :param queue_order: how the waiting jobs stand, of which the first ``ready_pool_size`` can be chosen:
        by ``"arrival"``, or by ``"latest_start"``, the last step at which a job can start and be on time.
        Where many more wait than can be chosen, the second is worth much (``docs/heuristics.md``)
    :param placement: ``"earliest"`` reserves the first start within the horizon, ``"now"`` allows none but
        this step
    :param suspend: whether the ``suspend`` action may be valid at all
    :param mask: ``"valid"``: every action that does something; ``"now"``: of the jobs, only those that
        start in this step; ``"now_on_time"``: and finish on time, those that ``suspend`` starts too. Other
        actions are invalid, not just hidden
    :param skip_forced: pass over decisions in which ``no_op`` alone is valid (except the first one of an
        episode); rewards and costs of the steps passed over are summed, and the potential of the shaping
        counts once
    :param start_delay: steps that each placement occupies before the job works (RARE section 5.1)
    :param end_delay: steps that it occupies afterwards; the job is finished when they are over
    :param pausing: let ``suspend`` pause the running job of least value per remaining unit-step where no
        ready job could start in its place; planners and ``lookahead`` do not know of pauses

    **Objectives**

    :param reward: ``"completion"``, ``"dense"``, ``"potential"``, or
        :class:`~greendc.resource_pool.rewards.RewardWeights` (or a mapping of them)
    :param shaping_gamma: discount in the potential-based shaping, for rewards that have it; set it to the
        agent's
    :param lateness_in_reward: off, the reward's lateness weight counts as 0, for agents that meet lateness
        through the cost
    :param cost: ``info["cost"]`` of a time step: number of jobs ``"delayed"`` (unfinished and past their
        latest finish when the step ends: a job that finishes one step late is gone by then and costs
        nothing), number ``"waiting"`` (not yet started), their sum ``"weighted"`` by ``cost_weights``
        (CoCoRL, equation 11), or what grid energy emits, ``"carbon"`` in 100 kg, or how much it is,
        ``"brown"`` in 100 kWh, at a site; the last step adds what refilling the battery would
    :param cost_weights: weights of delayed and of waiting jobs for ``cost="weighted"``

    **Power**

    :param power: ``"constant"``; ``"on_off"`` (a fixed cycle that starts on); ``"markov"`` (two states,
        starts high); ``"random"`` (each step's level drawn, uniform around ``power_level`` as widely as
        [0, 1] allows, RARE Fig. 6); ``"trace"`` (sun and wind in kW at a site: without it, ``trace``,
        ``site``, ``carbon`` and ``price`` must be left as they are, and with it the options of levels below)
    :param power_level: share of units powered: constant, high state, or mean of the random level
    :param power_low: the low state of ``"on_off"`` and ``"markov"``
    :param on_steps: steps in the high state, ``"on_off"``
    :param off_steps: steps in the low state, ``"on_off"``
    :param stay_on: probability that a high step is followed by a high one, ``"markov"``
    :param stay_off: the same for the low state
    :param trace: a :class:`~greendc.traces.power.PowerTrace`, or a path that
        :func:`~greendc.traces.power.read_power` reads; ``None`` with ``power="trace"`` generates a
        GLEAMM-like year from generators of ``site.pv_kw`` and ``site.wind_kw``. It is resampled to
        ``step_hours``, and episodes start at a random midnight of it, by the clock of its first step
    :param site: loads, generators, battery and grid connection; ``None`` with ``power="trace"`` is
        :class:`~greendc.energy.SiteConfig` as it is
    :param carbon: carbon intensity of grid energy in kg/kWh: a number, or a series that covers the time of
        ``trace`` (a :class:`~greendc.traces.power.CarbonTrace`, or a path that
        :func:`~greendc.traces.power.read_carbon` reads), or a year of the marginal emissions that ship with
        the package: ``"PGE-2019"``, ``"SCE-2021"``, ...; a generated trace is then one of the same days.
        Steps after days that ``trace`` leaves out have the values of their own days, here and in ``price``.
        The default is the average of the Texas grid (ERCOT) in eGRID 2021
    :param price: price of grid energy for a kWh: a number, or a
        :class:`~greendc.traces.prices.PriceTrace` that covers the time of ``trace``
    :param forecast_error: standard deviation of the forecast's relative error one step ahead; it grows with
        the root of the lead time (a random walk: what is learned at one step revises every later row).
        0 is an exact forecast, 1000 the most

    **Power as a decision** (:mod:`greendc.resource_pool.kernel_command`)

    :param power_levels: units of each type that the agent may order to be on, ascending; ``None``: units
        follow the available power, and there is nothing to command. Needs ``power="trace"``, a site with
        ``grid="open"``, and ``placement="now"``
    :param switch_delay: steps that a unit needs to start after the step for which it was ordered, 0 or 1
    :param switch_hours: energy that starting a unit takes, in hours of its full draw

    **Observation**

    :param observation: ``"dict"``, or ``"flat"``: image, job table and context in one float32 vector
    :param image_dtype: ``"uint8"`` (0 to 255) or ``"float32"`` (0 to 1, four times the memory)
    :param context_rows: how many rows the summary of free units looks ahead, at most the horizon
    :param lookahead: steps that the observation looks ahead to say what each action is worth if no more jobs
        came (:class:`~greendc.resource_pool.lookahead.Lookahead`); 0: it does not
    :param fragmentation: tell of each ready job that can start now how much of the largest free blocks it
        would take (:class:`~greendc.resource_pool.fragmentation.Fragmentation`)
    :param info_jobs: put the raw ready jobs into ``info["ready_jobs"]``
    :raises ValueError: for a wrong value; names the field, the value and what is allowed
    :raises TypeError: for a site or battery that is none; names the field
    """

    units: int = 10
    resource_types: int = 2
    horizon: int = 48
    ready_pool_size: int = 10
    step_hours: float = 1.0
    episode_steps: int = 500
    prices: tuple[float, ...] | None = None

    workload: str | Path | JobLog | Workload = "synthetic"
    offered_load: float | None = 1.0
    too_large: str = "clip"
    late_jobs: str = "demote"
    queue_order: str = "arrival"
    placement: str = "earliest"
    suspend: bool = False
    pausing: bool = False
    mask: str = "valid"
    skip_forced: bool = False
    start_delay: int = 0
    end_delay: int = 0

    reward: str | RewardWeights | Mapping[str, float] = "potential"
    shaping_gamma: float = 0.995
    lateness_in_reward: bool = True
    cost: str = "delayed"
    cost_weights: tuple[float, float] = (1.0, 1.0)

    power: str = "constant"
    power_level: float = 1.0
    power_low: float = 0.0
    on_steps: int = 12
    off_steps: int = 12
    stay_on: float = 0.9
    stay_off: float = 0.8
    trace: PowerTrace | str | Path | None = field(default=None, compare=False)
    site: SiteConfig | Mapping[str, object] | None = None
    carbon: float | CarbonTrace | str | Path = 0.37
    price: float | PriceTrace = 0.0
    forecast_error: float = 0.0

    power_levels: tuple[int, ...] | None = None
    switch_delay: int = 0
    switch_hours: float = 0.0

    observation: str = "dict"
    image_dtype: str = "uint8"
    context_rows: int = 12
    lookahead: int = 0
    fragmentation: bool = False
    info_jobs: bool = False

    def __post_init__(self) -> None:
        require_kinds(type(self).__annotations__, vars(self))
        self._check_pool()
        self._check_rules()
        self._check_power()
        self._check_commands()

    def _check_pool(self) -> None:
        for name, least in (
            ("units", 1),
            ("resource_types", 1),
            ("horizon", 1),
            ("ready_pool_size", 1),
            ("episode_steps", 1),
            ("start_delay", 0),
            ("end_delay", 0),
            ("on_steps", 1),
            ("off_steps", 1),
            ("context_rows", 1),
            ("lookahead", 0),
        ):
            value = getattr(self, name)
            require(value >= least, name, value, f"at least {least}")
        require(
            self.longest_job >= 1,
            "horizon",
            self.horizon,
            f"above start_delay + end_delay = {self.start_delay + self.end_delay}, to leave room for work",
        )
        hours = f"above 0 and at most {LONGEST_STEP:g} (hours)"
        require(0.0 < self.step_hours <= LONGEST_STEP, "step_hours", self.step_hours, hours)
        load = self.offered_load
        least_to_most = f"in [0, {LARGEST_LOAD:g}] (1 is what the pool can just do; 90 % is 0.9), or None"
        require(load is None or 0.0 <= load <= LARGEST_LOAD, "offered_load", load, least_to_most)
        require_one_of("too_large", self.too_large, ("clip", "drop"))
        if self.prices is not None:
            object.__setattr__(self, "prices", numbers("prices", self.prices))
        require(
            len(self.price_list) == self.resource_types
            and all(0.0 <= price < math.inf for price in self.price_list)
            and self.price_list[0] > 0.0,
            "prices",
            self.prices,
            f"one finite price >= 0 for each of {self.resource_types} types, the first above 0",
        )

    def _check_rules(self) -> None:
        require_one_of("late_jobs", self.late_jobs, LATE_JOBS)
        require_one_of("queue_order", self.queue_order, QUEUE_ORDERS)
        require_one_of("placement", self.placement, PLACEMENTS)
        require_one_of("mask", self.mask, MASKS)
        require_one_of("cost", self.cost, COSTS)
        require_one_of("observation", self.observation, OBSERVATIONS)
        require_one_of("image_dtype", self.image_dtype, IMAGE_DTYPES)
        require(0.0 < self.shaping_gamma <= 1.0, "shaping_gamma", self.shaping_gamma, "in (0, 1]")
        object.__setattr__(self, "cost_weights", numbers("cost_weights", self.cost_weights))
        require(
            len(self.cost_weights) == 2 and all(0.0 <= weight < math.inf for weight in self.cost_weights),
            "cost_weights",
            self.cost_weights,
            "two finite weights >= 0, of delayed and of waiting jobs",
        )
        default = type(self).cost_weights
        if self.cost != "weighted":
            require_default("cost_weights", self.cost_weights, default, f'with cost="{self.cost}"')
        object.__setattr__(self, "reward", reward_weights(self.reward))
        if reward_weights(self.reward).potential == 0.0:
            gamma = type(self).shaping_gamma
            where = "with a reward whose weight of potential is 0"
            require_default("shaping_gamma", self.shaping_gamma, gamma, where)

    def _check_power(self) -> None:
        require_one_of("power", self.power, POWERS)
        for name in ("power_level", "power_low", "stay_on", "stay_off"):
            require(0.0 <= getattr(self, name) <= 1.0, name, getattr(self, name), "in [0, 1]")
        error = self.forecast_error
        require(0.0 <= error <= LARGEST_ERROR, "forecast_error", error, f"in [0, {LARGEST_ERROR:g}]")
        if isinstance(self.site, Mapping):
            object.__setattr__(self, "site", SiteConfig.from_mapping(self.site))
        require_class("site", self.site, (SiteConfig, type(None)), "a SiteConfig, a mapping or None")
        for name in dict.fromkeys(option for options in POWERS.values() for option in options):
            if name not in POWERS[self.power]:
                value, default = getattr(self, name), getattr(type(self), name)
                require_default(name, value, default, f'with power="{self.power}"')
        if self.power == "trace":
            if self.site is None:
                object.__setattr__(self, "site", SiteConfig())
        else:
            require_default("site", self.site, None, f'with power="{self.power}"')
            for name in ("trace", "carbon", "price"):
                value, default = getattr(self, name), getattr(type(self), name)
                shown = value if isinstance(value, Real | str | Path | None) else f"<{name}>"
                require_default(name, shown, default, f'with power="{self.power}"')
        if isinstance(self.carbon, float | Real):
            most = f"in [0, {DIRTIEST:g}] kg/kWh (370 g/kWh is 0.37)"
            require(is_number(self.carbon) and 0.0 <= self.carbon <= DIRTIEST, "carbon", self.carbon, most)
        if isinstance(self.price, float | Real):
            right = is_number(self.price) and 0.0 <= self.price < math.inf
            require(right, "price", self.price, "finite, at least 0 for a kWh")
        carbon_weight = reward_weights(self.reward).carbon
        require(
            self.cost != "carbon" or carbon_weight == 0.0,
            "reward.carbon",
            carbon_weight,
            '0 with cost="carbon": carbon is charged once',
        )
        if self.power != "trace":
            if self.cost in ("carbon", "brown"):
                raise ValueError(f'cost={self.cost!r}: needs power="trace"')
            weights = vars(reward_weights(self.reward))
            for name in ("carbon", "brown", "price", "switching"):
                if weights[name] != 0.0:
                    raise ValueError(f'reward.{name}={weights[name]!r}: needs power="trace"')

    def _check_commands(self) -> None:
        levels, hours = self.power_levels, self.switch_hours
        require(self.switch_delay in (0, 1), "switch_delay", self.switch_delay, "0 or 1")
        require(0.0 <= hours < math.inf, "switch_hours", hours, "a finite number of hours, at least 0")
        require(not self.pausing or self.suspend, "suspend", self.suspend, "True with pausing=True")
        require(not self.pausing or self.lookahead == 0, "lookahead", self.lookahead, "0 with pausing=True")
        if levels is None:
            require(self.switch_delay == 0, "switch_delay", self.switch_delay, "0 without power_levels")
            require(hours == 0.0, "switch_hours", hours, "0 without power_levels")
            switching = reward_weights(self.reward).switching
            require(switching == 0.0, "reward.switching", switching, "0 without power_levels")
            return
        require(
            isinstance(levels, tuple | list)
            and 1 <= len(levels) <= MOST_LEVELS
            and all(is_number(level) and isinstance(level, Integral) for level in levels)
            and all(0 <= level <= self.units for level in levels)
            and list(levels) == sorted({*levels})
            and levels[-1] > 0,
            "power_levels",
            levels,
            f"a tuple of 1 to {MOST_LEVELS} whole numbers of units in 0 .. units={self.units}, ascending, "
            "the last above 0",
        )
        object.__setattr__(self, "power_levels", tuple(int(level) for level in levels))
        for name, value in (
            ("power", "trace"),
            ("placement", "now"),
            ("lookahead", 0),
        ):
            found = getattr(self, name)
            require(found == value, name, found, f"{value!r} with power_levels: later levels are unknown")
        skips = "False with power_levels, where each step has a choice"
        require(not self.skip_forced, "skip_forced", self.skip_forced, skips)
        grid = self.site_config.grid
        require(
            grid == "open", "site.grid", grid, "'open' with power_levels: the grid serves what is ordered"
        )

    @property
    def commands(self) -> int:
        """How many commands of power there are; 1 where the agent has none."""
        return 1 if self.power_levels is None else MODES * len(self.power_levels)

    @property
    def no_op(self) -> int:
        """The action of rules that know nothing of power: time goes on, every unit on, the battery alone."""
        return self.ready_pool_size + (1 if self.power_levels is None else 1 + self.commands - MODES)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.ready_pool_size + 1 + self.commands

    @property
    def outlook_rows(self) -> int:
        """Rows that the observation of carbon, price and green share looks ahead."""
        return min(OUTLOOK, self.horizon)

    @property
    def price_list(self) -> tuple[float, ...]:
        """The price of each resource type."""
        return (1.0,) * self.resource_types if self.prices is None else self.prices

    @property
    def site_config(self) -> SiteConfig:
        """The site, where there is one.

        :raises ValueError: unless ``power="trace"``
        """
        if not isinstance(self.site, SiteConfig):
            raise ValueError(f'power="{self.power}": there is a site only with power="trace"')
        return self.site

    @property
    def cell_dtype(self) -> str:
        """The dtype in which the image is written; flat observations are float32 throughout."""
        return "float32" if self.observation == "flat" else self.image_dtype

    @property
    def longest_job(self) -> int:
        """Longest run time in steps that fits the horizon beside the delays."""
        return self.horizon - self.start_delay - self.end_delay

    @property
    def summary_rows(self) -> int:
        """Rows that the summary of free units looks ahead."""
        return min(self.context_rows, self.horizon)

    @property
    def weights(self) -> RewardWeights:
        """The reward's weights, with ``lateness_in_reward`` applied."""
        weights = reward_weights(self.reward)
        if self.lateness_in_reward:
            return weights
        return RewardWeights(**{**vars(weights), "lateness": 0.0})

    @property
    def cost_pair(self) -> tuple[float, float]:
        """The cost's weights of delayed and of waiting jobs."""
        pairs = {"delayed": (1.0, 0.0), "waiting": (0.0, 1.0), "weighted": self.cost_weights}
        return pairs.get(self.cost, (0.0, 0.0))
