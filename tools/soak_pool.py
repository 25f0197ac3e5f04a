"""Invariants of the resource pool, checked from outside over a batch: units, jobs, values, energy, time.

Each check works from the tables of jobs and the accounts that the kernel keeps, and adds up again, by another
way, what the kernel has added up step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel import step_batch
from greendc.resource_pool.kernel_command import SETTLED_SHARE
from greendc.resource_pool.observation import KERNEL_ORDER
from greendc.resource_pool.simulator import ResourcePoolSimulator

Bools = NDArray[np.bool_]

ACCOUNTS = (
    *("solar_kwh", "wind_kwh", "discharged_kwh", "grid_kwh"),
    *("critical_kwh", "pool_kwh", "charged_kwh", "curtailed_kwh"),
    *("unserved_kwh", "carbon_kg", "grid_cost", "used_unit_steps", "powered_unit_steps", "switched_units"),
)
"""Sums over the episode that never fall."""


class BrokenLawError(AssertionError):
    """An invariant that does not hold."""


def require(held: Any, what: str, *values: object) -> None:
    """Raise a :class:`BrokenLawError` unless a condition holds, in every environment where it is an array.

    :param held: the condition
    :param what: the law
    :param values: what to show, arrays of the condition's shape or anything else
    """
    good = np.atleast_1d(held)
    if good.all():
        return
    where = tuple(int(axis[0]) for axis in np.nonzero(~good))
    shown = [
        np.asarray(value)[where] if np.shape(value) == np.shape(held) != () else value for value in values
    ]
    raise BrokenLawError(f"{what}{f', environment {where[0]}' if good.size > 1 else ''}: {_list(shown)}")


def _list(values: Iterable[object]) -> str:
    return ", ".join(" ".join(str(value).split()) for value in values)


def close(found: Any, expected: Any, size: Any = 0.0) -> Bools:
    """Tell where numbers agree to rounding; ``size`` is that of the terms that they are sums of."""
    scale = 1.0 + np.abs(expected) + np.abs(size)
    agree: Bools = np.abs(np.asarray(found) - expected) <= 1e-9 * scale
    return agree


WATCH = np.dtype(
    [
        *((name, np.float64) for name in ("rewards", "costs", "potentials", "initial")),
        *((name, np.int64) for name in ("now", "steps")),
        ("random", np.uint64),
    ]
)
"""What is kept of an environment: sums since its reset, its steps in all, the state of its random numbers."""

SETTINGS = np.dtype(
    [
        *((name, np.int64) for name in ("units", "types", "episode_steps", "site", "cost")),
        *((name, np.float64) for name in ("lazy", "efficiency", "low", "high", "critical_kwh", "refill")),
    ]
)
"""What laws take from the configuration; ``cost`` is 1 where it is carbon, 2 where it is brown energy."""

LAWS = (
    "a reward is a finite number",
    "a cost is at least 0",
    "no cost without time",
    "the clock goes on by the steps that are told",
    "an episode ends in time",
    "truncated at the end",
    "rewards add up",
    "costs add up",
    "units in use: none to all",
    "energy in is energy out",
    "the battery holds what was charged",
    "the battery keeps its limits",
    "critical energy: served or counted as unserved",
    "the cost is that of grid energy",
    *(f"{name} never falls" for name in ACCOUNTS),
)

IS_WHOLE = np.array([at.ENV[name].kind == "i" for name in ACCOUNTS])
PLACES = np.array([dict(at.ENV.fields or {})[name][1] // 8 for name in ACCOUNTS])
"""Where the accounts are in a record whose every field has eight bytes."""

_compiled = numba.njit(error_model="numpy")


@_compiled
def _close(found: float, expected: float, size: float) -> bool:
    return abs(found - expected) <= 1e-9 * (1.0 + abs(expected) + abs(size))


@_compiled
def _broken_law(b: int, state: Any, truncated: Any, watch: Any, settings: Any, shown: Any) -> int:
    """Return the number of a law that the last step of environment ``b`` has broken, or -1.

    :param shown: ``(2,)`` what was found and what was expected, overwritten
    """
    env, kept = state.env[b], watch[b]
    kept.steps += 1
    kept.now += env.time_advanced
    kept.rewards += env.reward
    kept.costs += env.cost
    kept.potentials += env.potential
    shown[0], shown[1] = env.reward, env.cost
    if not np.isfinite(env.reward):
        return 0
    if not env.cost >= 0.0:
        return 1
    if env.time_advanced <= 0 and env.cost != 0.0:
        return 2
    shown[0], shown[1] = env.now, kept.now
    if env.now != kept.now:
        return 3
    if env.now > settings.episode_steps:
        return 4
    if truncated[b] != (env.now == settings.episode_steps):
        return 5
    shown[0], shown[1] = env.accrued_reward, kept.rewards
    if not _close(env.accrued_reward, kept.rewards, 0.0):
        return 6
    shown[0], shown[1] = env.accrued_cost, kept.costs
    if not _close(env.accrued_cost, kept.costs, 0.0):
        return 7
    for k in range(settings.types):
        if not 0 <= state.counts[b, k] <= settings.units:
            shown[0], shown[1] = state.counts[b, k], settings.units
            return 8
    if settings.site:
        law = _broken_energy(env, kept, settings, shown)
        if law >= 0:
            return law
    if settings.cost:
        refill = settings.refill * env.shortfall_kwh
        bought = env.carbon_kg + env.settled_carbon_kg if settings.cost == 1 else env.grid_kwh + refill
        shown[0], shown[1] = env.accrued_cost, 0.01 * bought
        if not _close(env.accrued_cost, 0.01 * bought, 0.0):
            return 13
    return -1


@_compiled
def _broken_energy(env: Any, kept: Any, settings: Any, shown: Any) -> int:
    sources = env.solar_kwh + env.wind_kwh + env.discharged_kwh + env.grid_kwh
    sinks = env.critical_kwh + env.pool_kwh + env.charged_kwh + env.curtailed_kwh
    shown[0], shown[1] = sources, sinks
    if not _close(sources, sinks, 0.0):
        return 9
    expected = kept.initial + settings.efficiency * env.charged_kwh - env.discharged_kwh
    shown[0], shown[1] = env.stored_kwh, expected
    if not _close(env.stored_kwh, expected, env.charged_kwh + kept.initial):
        return 10
    if not settings.low <= env.stored_kwh <= settings.high:
        return 11
    served, wanted = env.critical_kwh + env.unserved_kwh, settings.critical_kwh * env.now
    shown[0], shown[1] = served, wanted
    return -1 if _close(served, wanted, 0.0) else 12


@_compiled
def _fallen_account(b: int, reals: Any, wholes: Any, before: Any, shown: Any) -> int:
    """Return the number of an account that fell in the last step, or -1."""
    for k in range(len(PLACES)):
        value = float(wholes[b, PLACES[k]]) if IS_WHOLE[k] else reals[b, PLACES[k]]
        if not value >= before[b, k]:
            shown[0], shown[1] = value, before[b, k]
            return k
        before[b, k] = value
    return -1


@_compiled
def _check(
    b: int, state: Any, truncated: Any, watch: Any, settings: Any, views: Any, before: Any, shown: Any
) -> int:
    law = _broken_law(b, state, truncated, watch, settings[0], shown)
    if law >= 0:
        return law
    fallen = _fallen_account(b, views[0], views[1], before, shown)
    return fallen + 14 if fallen >= 0 else -1


@_compiled
def _check_all(
    state: Any, truncated: Any, watch: Any, settings: Any, views: Any, before: Any, shown: Any
) -> tuple[int, int]:
    """Check the last step of every environment; return the broken law and the environment, or -1 twice."""
    for b in range(watch.shape[0]):
        law = _check(b, state, truncated, watch, settings, views, before, shown)
        if law >= 0:
            return law, b
    return -1, -1


@_compiled
def _uniform(kept: Any) -> float:
    """Return a random number in [0, 1) (Marsaglia's xorshift)."""
    x = kept.random
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    kept.random = x
    return float(x >> np.uint64(11)) / 9007199254740992.0


@_compiled
def _random_action(mask: Any, kept: Any, lazy: float) -> int:
    """Return a valid action, and now and then any."""
    if _uniform(kept) < 0.001:
        return int(_uniform(kept) * mask.shape[0])
    best, action = -1.0, 0
    for k in range(mask.shape[0]):
        if mask[k]:
            drawn = _uniform(kept) * (1.0 + lazy if k == mask.shape[0] - 1 else 1.0)
            if drawn > best:
                best, action = drawn, k
    return action


@_compiled
def _play_block(
    steps: int,
    state: Any,
    truncated: Any,
    out: Any,
    watch: Any,
    settings: Any,
    views: Any,
    before: Any,
    shown: Any,
) -> tuple[int, int]:
    """Let every environment take random steps, to its end at most, and check each of them.

    One environment after the other, so that what it works on stays in the processor's cache.
    """
    actions = np.zeros(1, np.int64)
    types = settings[0].types
    for b in range(watch.shape[0]):
        one = at.PoolState(
            state.config,
            state.env[b : b + 1],
            state.counts[b : b + 1],
            state.forecast[b : b + 1],
            state.jobs[b : b + 1],
            state.units[b : b + 1],
            state.lists[b : b + 1],
            state.rows[b : b + 1],
            state.image[b : b + 1],
            state.series[b : b + 1],
        )
        image, jobs, context, mask = out
        places = image[b : b + 1], jobs[b : b + 1], context[b : b + 1], mask[b : b + 1]
        for _ in range(steps):
            if truncated[b]:
                break
            actions[0] = _random_action(state.counts[b, types:], watch[b], settings[0].lazy)
            step_batch(actions, one, truncated[b : b + 1], places[0], places[1], places[2], places[3])
            law = _check(b, state, truncated, watch, settings, views, before, shown)
            if law >= 0:
                return law, b
    return -1, -1


class PoolWatch:
    """Watches a batch of pools from their first reset on.

    :param simulator: the batch
    :param lazy: how seldom :meth:`play` places jobs
    :param seed: of what :meth:`play` draws
    """

    def __init__(self, simulator: ResourcePoolSimulator, lazy: float = 0.0, seed: int = 0) -> None:
        self.simulator, self.config = simulator, simulator.config
        n, config = simulator.num_envs, simulator.config
        self._watch, self._before = np.zeros(n, WATCH), np.zeros((n, len(ACCOUNTS)))
        self._watch["random"] = np.random.default_rng([seed, 1]).integers(1, 2**63, n)
        self._settings, self._shown = np.zeros(1, SETTINGS), np.zeros(2)
        fields: dict[str, float] = {
            "units": config.units,
            "types": config.resource_types,
            "episode_steps": config.episode_steps,
            "cost": ("carbon", "brown").index(config.cost) + 1 if config.cost in ("carbon", "brown") else 0,
            "lazy": lazy,
            "refill": SETTLED_SHARE,
        }
        if config.power == "trace":
            site, battery = config.site_config, config.site_config.battery
            margin = 1e-9 * (1.0 + battery.energy_kwh)
            fields |= {
                "site": 1,
                "efficiency": battery.efficiency,
                "low": battery.min_charge * battery.energy_kwh - margin,
                "high": battery.max_charge * battery.energy_kwh + margin,
                "critical_kwh": site.critical_kw * config.step_hours,
            }
        for name, value in fields.items():
            self._settings[name] = value

    @property
    def steps(self) -> int:
        """Steps that were checked, those of all environments together."""
        return int(self._watch["steps"].sum())

    def reset(self, index: int, look: bool = True) -> None:
        """Take note of an environment that has been reset.

        :param index: its number
        :param look: check its jobs, too
        """
        env, kept = self.simulator.state.env[index], self._watch[index]
        for name in ("rewards", "costs", "potentials", "now"):
            kept[name] = 0
        kept["initial"] = env["stored_kwh"]
        self._before[index] = 0.0
        require(env["now"] == 0 and env["used_unit_steps"] == 0, "an episode begins at nothing", env)
        if look:
            self.look([index])

    def step(self) -> None:
        """Check what a step has done in every environment, from the accounts alone."""
        self._judge(_check_all(*self._arrays()))

    def play(self, steps: int, out: dict[str, NDArray[Any]]) -> None:
        """Let environments whose episodes are not over take random steps, and check each of them.

        :param steps: of each environment at most
        :param out: where observations go
        """
        state, truncated, *rest = self._arrays()
        outputs = tuple(out[key] for key in KERNEL_ORDER)
        self._judge(_play_block(steps, state, truncated, outputs, *rest))

    def _arrays(self) -> tuple[Any, ...]:
        state = self.simulator.state
        views = tuple(state.env.view(kind).reshape(len(state.env), -1) for kind in (np.float64, np.int64))
        kept = self._watch, self._settings, views, self._before, self._shown
        return state, self.simulator.truncated, *kept

    def _judge(self, broken: tuple[int, int]) -> None:
        law, index = broken
        if law >= 0:
            raise BrokenLawError(f"{LAWS[law]}, environment {index}: {_list(self._shown)}")

    def look(self, environments: Iterable[int]) -> None:
        """Check the jobs of some environments one by one, against everything that counts them."""
        for index in environments:
            self._jobs(index)

    def _jobs(self, index: int) -> None:
        state, config = self.simulator.state, self.config
        env = state.env[index]
        now, arrived = int(env["now"]), int(env["next_arrival"])
        jobs, needs = state.jobs[index, : env["n_jobs"]], state.units[index, at.NEEDS, : env["n_jobs"]]
        require((jobs["status"][arrived:] == at.FUTURE).all(), "a job that has not arrived is nowhere")
        require(
            (jobs["arrival"][:arrived] <= now).all() and (jobs["arrival"][arrived:] > now).all(), "arrivals"
        )
        jobs, needs = jobs[:arrived], needs[:arrived]
        status = jobs["status"]
        require((status != at.FUTURE).all(), "a job that has arrived is somewhere")
        lists = state.lists[index]
        waiting = np.concatenate([lists[at.QUEUE, : env["n_queue"]], lists[at.LATE, : env["n_late"]]])
        placed = lists[at.PLACED, : env["n_placed"]]
        is_placed = (status == at.RESERVED) | (status == at.RUNNING)
        for name, ids, marked in (("waiting", waiting, status == at.WAITING), ("placed", placed, is_placed)):
            same = np.array_equal(np.sort(ids), np.flatnonzero(marked))
            require(same, f"{name} jobs are listed once each", ids, np.flatnonzero(marked))
        open_jobs = (status >= at.WAITING) & (status <= at.RUNNING)
        counts = {
            "left": status == at.LEFT,
            "n_delayed": open_jobs & (jobs["latest"] < now),
            "n_not_started": open_jobs & (jobs["first_start"] < 0),
        }
        for name, marked in counts.items():
            require(env[name] == np.count_nonzero(marked), f"{name} counts jobs", env[name], marked.sum())
        self._units(index, env, jobs[is_placed], needs[is_placed], state.units[index, at.BLOCKS][placed])
        in_use = state.counts[index, : config.resource_types]
        running = needs[status == at.RUNNING].sum(axis=0)
        require((running == in_use).all(), "units in use are those of the running jobs", running, in_use)
        done = jobs[status == at.FINISHED]
        require((done["finish"] - done["first_start"] >= done["duration"]).all(), "work takes its time")
        require((done["first_start"] >= done["arrival"]).all(), "nothing starts before it arrives")
        self._work(index, env, jobs, needs)

    def _units(self, index: int, env: np.void, jobs: Any, needs: Any, blocks: Any) -> None:
        """Check that no unit is used twice, none above the last, none without power now."""
        config, now = self.config, int(env["now"])
        running = jobs["status"] == at.RUNNING
        length = config.start_delay + jobs["remaining"] + config.end_delay
        require((jobs["end"] - jobs["start"] == length).all(), "a placement is as long as the work left")
        require(
            ((jobs["start"] <= now) == running).all() and (jobs["end"] > now).all(),
            "a job that runs, runs now",
        )
        require((jobs["end"] - now <= config.horizon).all(), "nothing is placed beyond the horizon")
        require((blocks >= 0).all() and (blocks + needs <= config.units).all(), "blocks lie in the pool")
        level = self.simulator.state.rows[index, env["head"], at.LEVEL]
        brown = (
            jobs["qos"] > (config.site_config.grid_qos_above or 0.0) if _brown(config) else running & False
        )
        dark = running & ~brown & ((blocks + needs > level) & (needs > 0)).any(axis=1)
        require(not dark.any(), "nothing runs in the dark", level)
        taken = np.zeros((config.horizon, config.resource_types, config.units), np.int64)
        for job, first, need in zip(jobs, blocks, needs, strict=True):
            rows = slice(max(job["start"] - now, 0), job["end"] - now)
            for k in range(config.resource_types):
                taken[rows, k, first[k] : first[k] + need[k]] += 1
        require(taken.max() <= 1, "no unit is used twice")

    def _work(self, index: int, env: np.void, jobs: Any, needs: Any) -> None:
        """Check unit-steps and rewards against what the jobs say that they did."""
        config, now, status = self.config, int(env["now"]), jobs["status"]
        delays = config.start_delay + config.end_delay
        suspended = bool(jobs["suspensions"].sum())
        if delays and suspended:
            return  # what suspended placements occupied is nowhere to be read
        running, finished = status == at.RUNNING, status == at.FINISHED
        past = np.where(running, now - jobs["start"], 0)
        occupied = jobs["duration"] - jobs["remaining"] + past + np.where(finished, delays, 0)
        unit_steps = int((occupied * needs.sum(axis=1)).sum())
        require(env["used_unit_steps"] == unit_steps, "unit-steps are those of the jobs", unit_steps)
        most = config.units * config.resource_types * now
        require(env["used_unit_steps"] <= most, "no more unit-steps than there are", most)
        weights, value = config.weights, jobs["value"]
        on_time = finished & (jobs["finish"] <= jobs["latest"])
        resumed = np.maximum(jobs["suspensions"] + (running | finished) - (jobs["first_start"] >= 0), 0)
        worth = weights.on_time * value[on_time].sum() - jobs["late_paid"].sum()
        worth += (weights.resumption * resumed * value).sum()
        worth -= (weights.suspension * jobs["suspensions"] * value).sum()
        if weights.executed > 0.0:
            if delays:
                return  # of a placement that runs, it is not told which steps were work
            worth += weights.executed * (value * (occupied / jobs["duration"])).sum()
        charged = self._charged(index, env)
        worth -= charged
        if weights.potential > 0.0:
            placed = (status == at.RESERVED) | running
            planned = value[placed & (jobs["end"] <= jobs["latest"])].sum()
            if env["decisions"] > 0:
                require(close(env["potential"], planned), "the potential is the planned value", planned)
            total = self._watch[index]["potentials"]
            worth += weights.potential * (config.shaping_gamma * total - (total - env["potential"]))
        paid = env["accrued_reward"] * self.simulator.mean_value
        size = value.sum() + abs(self._watch[index]["potentials"]) + charged
        require(close(paid, worth, size), "rewards are the values of the jobs", paid, worth)
        capped = jobs["late_paid"] <= weights.lateness_cap * value * (1.0 + 1e-12) + 1e-12
        require(capped.all(), "lateness costs no more than its cap")

    def _charged(self, index: int, env: np.void) -> float:
        """Return what energy and switching have cost in value, the battery's refill at the end included."""
        weights = self.config.weights
        refill = SETTLED_SHARE * env["shortfall_kwh"]  # 0 before the end
        price = self.simulator.state.series[index, : self.config.episode_steps, at.PRICE].mean()
        charged = weights.carbon * (env["carbon_kg"] + env["settled_carbon_kg"])
        charged += weights.brown * (env["grid_kwh"] + refill)
        charged += weights.price * (env["grid_cost"] + refill * price)
        return float(charged + weights.switching * env["switched_units"])


def _brown(config: Any) -> bool:
    return bool(config.power == "trace" and config.site_config.grid == "qos_above")
