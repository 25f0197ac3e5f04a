"""Rules for pools whose power is commanded: which jobs are worth grid energy, how many units, the battery."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import BaselinePolicy, draws_of
from greendc.baselines.resource_pool.policy import require_pool
from greendc.config import require, require_one_of
from greendc.energy.kernel import AUTO, CHARGE, HOLD
from greendc.resource_pool import ResourcePoolSimulator
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import MODES
from greendc.simulator import Observation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATTERIES = ("auto", "arbitrage")
CHEAP, DEAR = 0.2, 0.6
"""Quantiles of the next day's carbon: the battery buys up to the first, if it can serve at the other."""


class Seen(NamedTuple):
    """What a rule sees of one pool."""

    env: Any
    """Record of :data:`~greendc.resource_pool.layout.ENV`."""
    jobs: NDArray[np.void]
    needs: Ints
    blocks: Ints
    queue: Ints
    placed: Ints
    series: Floats

    @property
    def now(self) -> int:
        """Time steps since the episode began."""
        return int(self.env["now"])


def look(simulator: ResourcePoolSimulator, index: int) -> Seen:
    """Return what environment ``index`` holds; views, not copies."""
    state = simulator.state
    env, lists = state.env[index], state.lists[index]
    units = state.units[index]
    queue = np.concatenate([lists[at.QUEUE, : env["n_queue"]], lists[at.LATE, : env["n_late"]]])
    placed = lists[at.PLACED, : env["n_placed"]]
    series = state.series[index]
    return Seen(env, state.jobs[index], units[at.NEEDS], units[at.BLOCKS], queue, placed, series)


def require_commands(simulator: object) -> ResourcePoolSimulator:
    """Return the simulator if it is of a pool whose power is commanded.

    :raises TypeError: for anything but a resource pool
    :raises ValueError: for a pool without ``power_levels``
    """
    pool = require_pool(simulator)
    require(
        pool.config.power_levels is not None, "power_levels", None, "given, for a rule that commands power"
    )
    return pool


class PowerRule(BaselinePolicy[ResourcePoolSimulator]):
    """Starts jobs in the order of their QoS values, orders units as they need them, and tells the battery.

    A job is worth grid energy if its QoS value, which is its value per unit-step, is above ``min_qos +
    kg_price * kg``, where ``kg`` is what a unit-step on the grid emits in that hour. Others run only as far
    as sun, wind and battery carry them. Ordered for the next step are the units of the jobs that are to run
    then, and ``spares``: units start late, and jobs without slack cannot wait for them.

    :param simulator: the simulator to act on
    :param spares: units beyond those that are needed
    :param min_qos: QoS value from which on a job is worth grid energy, however clean
    :param kg_price: value of a kg of CO2
    :param battery: ``"auto"``, or ``"arbitrage"``: charge in the cleanest hours of the coming day, hold
        until the dirty ones
    :param all_on: order every unit always
    :raises ValueError: for a value out of range, or a pool whose power is not commanded
    """

    reads_state = True

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        spares: int = 2,
        min_qos: float = 0.0,
        kg_price: float = 0.0,
        battery: str = "auto",
        all_on: bool = False,
    ) -> None:
        super().__init__(require_commands(simulator))
        require(spares >= 0, "spares", spares, "at least 0")
        require(min_qos >= 0.0, "min_qos", min_qos, "at least 0")
        require(kg_price >= 0.0, "kg_price", kg_price, "at least 0")
        require_one_of("battery", battery, BATTERIES)
        self.spares, self.min_qos, self.kg_price = spares, min_qos, kg_price
        self.battery, self.all_on = battery, all_on
        config = simulator.config
        self._site = config.site_config
        self._unit_kw = self._site.pool_kw / (config.units * config.resource_types)
        self._levels = np.array(config.power_levels)

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the next start of each pool, or its command.

        :raises RuntimeError: if an episode has not begun
        """
        self.simulator.require_begun()
        masks = self.simulator.action_masks()
        return np.array([self.choose(i, masks[i]) for i in range(self.simulator.num_envs)])

    def choose(self, index: int, mask: NDArray[np.bool_]) -> int:
        """Return the action in environment ``index``."""
        seen, config = look(self.simulator, index), self.simulator.config
        ready = seen.queue[: config.ready_pool_size]
        slots = np.flatnonzero(mask[: len(ready)])
        if len(slots):
            in_use = float(seen.needs[self._running(seen)].sum()) * self._unit_kw
            job = self._worth_running(seen, seen.now, ready[slots], self._green_kw(seen, seen.now) - in_use)
            if len(job):
                return int(slots[np.flatnonzero(ready[slots] == job[0])[0]])
        return self.command(index, mask)

    def command(self, index: int, mask: NDArray[np.bool_]) -> int:
        """Return the action that lets time go on in environment ``index``, a valid one."""
        seen, first = look(self.simulator, index), self.simulator.config.ready_pool_size + 1
        level = len(self._levels) - 1 if self.all_on else self._level(seen)
        number = MODES * level + (self._battery_mode(seen) if self.battery == "arbitrage" else AUTO)
        return first + (number if mask[first + number] else MODES * level + AUTO)

    def _running(self, seen: Seen) -> Ints:
        running: Ints = seen.placed[seen.jobs["status"][seen.placed] == at.RUNNING]
        return running

    def _green_kw(self, seen: Seen, step: int) -> float:
        """Return what sun, wind and battery can give the pool in a step, as the battery is now."""
        battery, hours = self._site.battery, self.simulator.config.step_hours
        stored = max(float(seen.env["stored_kwh"]) - battery.min_charge * battery.energy_kwh, 0.0)
        generation = float(seen.series[step, at.SOLAR] + seen.series[step, at.WIND])
        return generation + min(battery.discharge_kw, stored / hours) - self._site.critical_kw

    def _worth_running(self, seen: Seen, step: int, jobs: Ints, green_kw: float) -> Ints:
        """Return those of the jobs that are worth their energy in a step, the highest QoS value first."""
        hours = self.simulator.config.step_hours
        kg = float(seen.series[step, at.CARBON]) * self._unit_kw * hours
        least, kept = self.min_qos + self.kg_price * kg, []
        jobs = jobs[np.argsort(-seen.jobs["qos"][jobs], kind="stable")]
        for job in jobs.tolist():
            kw = float(seen.needs[job].sum()) * self._unit_kw
            if seen.jobs["qos"][job] > least or kw <= green_kw:
                kept.append(job)
                green_kw -= kw
        return np.array(kept, np.int64)

    def _level(self, seen: Seen) -> int:
        """Return the least level that carries what is to run in the next step, and the spares."""
        config, now = self.simulator.config, seen.now
        running = self._running(seen)
        running = running[seen.jobs["end"][running] > now + 1]
        length = seen.jobs["remaining"][seen.queue] + config.start_delay + config.end_delay
        waiting = seen.queue[now + 1 + length <= seen.jobs["latest"][seen.queue]]
        step = min(now + 1, len(seen.series) - 1)
        jobs = self._worth_running(seen, step, np.concatenate([running, waiting]), self._green_kw(seen, step))
        going = jobs[np.isin(jobs, running)]
        highest = int((seen.blocks[going] + seen.needs[going]).max(initial=0))
        needed = int(seen.needs[jobs].sum(axis=0).max(initial=0)) if len(jobs) else 0
        units = min(max(highest, needed) + self.spares, int(self._levels[-1]))
        return int(np.searchsorted(self._levels, units))

    def _battery_mode(self, seen: Seen) -> int:
        """Return the mode by the carbon of the rows that are observed: of a day, horizon permitting."""
        day = seen.series[seen.now : seen.now + self.simulator.config.outlook_rows, at.CARBON]
        served = self._site.battery.efficiency * float(np.quantile(day, DEAR))
        if day[0] >= served:
            return AUTO
        return CHARGE if day[0] <= np.quantile(day, CHEAP) else HOLD


class GridOn(PowerRule):
    """``grid_on``: every unit is on, whatever that takes from the grid; the battery alone."""

    def __init__(self, simulator: ResourcePoolSimulator) -> None:
        super().__init__(simulator, all_on=True)


class GridOff(PowerRule):
    """``grid_off``: jobs run as far as sun, wind and battery carry them; units as needed."""

    def __init__(self, simulator: ResourcePoolSimulator, spares: int = 0) -> None:
        super().__init__(simulator, spares, min_qos=np.inf)


class GridQos(PowerRule):
    """``grid_qos``: as ``grid_off``, and jobs of a QoS value above ``min_qos`` are worth grid energy."""

    def __init__(self, simulator: ResourcePoolSimulator, min_qos: float = 0.4, spares: int = 2) -> None:
        super().__init__(simulator, spares, min_qos=min_qos)


class AsNeeded(PowerRule):
    """``as_needed``: every job is worth its energy; units as needed, and spares."""

    def __init__(self, simulator: ResourcePoolSimulator, spares: int = 2) -> None:
        super().__init__(simulator, spares)


class Arbitrage(PowerRule):
    """``arbitrage``: as ``as_needed``, and the battery buys clean hours for dirty ones."""

    def __init__(self, simulator: ResourcePoolSimulator, spares: int = 4) -> None:
        super().__init__(simulator, spares, battery="arbitrage")


class CarbonThreshold(PowerRule):
    """``carbon_threshold``: jobs run on the grid in hours in which they are worth what they emit."""

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        kg_price: float = 0.15,
        spares: int = 2,
        battery: str = "arbitrage",
    ) -> None:
        super().__init__(simulator, spares, kg_price=kg_price, battery=battery)


class RandomCommands(BaselinePolicy[ResourcePoolSimulator]):
    """``random_actions``: any valid action, each as likely as another: the floor of every comparison.

    :param simulator: the simulator to act on
    :param seed: fixes the actions
    :raises ValueError: for a negative seed
    """

    reads_state = True

    def __init__(self, simulator: ResourcePoolSimulator, seed: int = 0) -> None:
        super().__init__(require_commands(simulator))
        require(seed >= 0, "seed", seed, "at least 0")
        self.seed = seed
        self.begin_at(0)

    def begin_at(self, episode: int) -> None:
        """See :class:`~greendc.baselines.policy.BaselinePolicy`."""
        self._generator = draws_of(self.seed, episode)

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return valid actions."""
        masks = self.simulator.action_masks()
        return np.array([self._generator.choice(np.flatnonzero(mask)) for mask in masks])


POWER_RULES: dict[str, type[BaselinePolicy[ResourcePoolSimulator]]] = {
    "grid_on": GridOn,
    "grid_off": GridOff,
    "grid_qos": GridQos,
    "as_needed": AsNeeded,
    "arbitrage": Arbitrage,
    "carbon_threshold": CarbonThreshold,
    "random_actions": RandomCommands,
}
