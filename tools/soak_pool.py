"""Invariants of the resource pool, checked from outside over a batch: units, jobs, values, energy, time.

Each check works from the tables of jobs and the accounts that the kernel keeps, and adds up again, by another
way, what the kernel has added up step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.kernel_command import SETTLED_SHARE
from greendc.resource_pool.simulator import ResourcePoolSimulator

Bools = NDArray[np.bool_]

SOURCES = ("solar_kwh", "wind_kwh", "discharged_kwh", "grid_kwh")
SINKS = ("critical_kwh", "pool_kwh", "charged_kwh", "curtailed_kwh")
ACCOUNTS = (*SOURCES, *SINKS, "unserved_kwh", "carbon_kg", "used_unit_steps", "powered_unit_steps")
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


class PoolWatch:
    """Watches a batch of pools from their first reset on.

    :param simulator: the batch
    """

    def __init__(self, simulator: ResourcePoolSimulator) -> None:
        self.simulator, self.config = simulator, simulator.config
        n = simulator.num_envs
        self._rewards, self._costs, self._potentials = np.zeros(n), np.zeros(n), np.zeros(n)
        self._now, self._initial = np.zeros(n, np.int64), np.zeros(n)
        self._before = {name: np.zeros(n) for name in ACCOUNTS}

    def reset(self, index: int, look: bool = True) -> None:
        """Take note of an environment that has been reset.

        :param index: its number
        :param look: check its jobs, too
        """
        env = self.simulator.state.env[index]
        self._rewards[index] = self._costs[index] = self._potentials[index] = 0.0
        self._now[index], self._initial[index] = 0, env["stored_kwh"]
        for before in self._before.values():
            before[index] = 0.0
        require(env["now"] == 0 and env["used_unit_steps"] == 0, "an episode begins at nothing", env)
        if look:
            self.look([index])

    def step(self) -> None:
        """Check what a step has done in every environment, from the accounts alone."""
        simulator, env = self.simulator, self.simulator.state.env
        reward, cost, advanced = simulator.rewards, env["cost"], env["time_advanced"]
        require(np.isfinite(reward), "a reward is a finite number", reward)
        require(cost >= 0.0, "a cost is at least 0", cost)
        require((advanced > 0) | (cost == 0.0), "no cost without time", cost)
        self._now += advanced
        require(env["now"] == self._now, "the clock goes on by the steps that are told", env["now"])
        require(env["now"] <= self.config.episode_steps, "an episode ends in time", env["now"])
        require(simulator.truncated == (env["now"] == self.config.episode_steps), "truncated at the end")
        self._rewards += reward
        self._costs += cost
        self._potentials += env["potential"]
        require(close(env["accrued_reward"], self._rewards), "rewards add up", env["accrued_reward"])
        require(close(env["accrued_cost"], self._costs), "costs add up", env["accrued_cost"])
        in_use = simulator.state.counts[:, : self.config.resource_types]
        used = (in_use >= 0) & (in_use <= self.config.units)
        require(used.all(axis=1), "units in use: none to all")
        for name, before in self._before.items():
            require(env[name] >= before, f"{name} never falls", env[name], before)
            before[:] = env[name]
        if self.config.power == "trace":
            self._energy(env)
        if self.config.cost in ("brown", "carbon"):
            kg, kwh = env["carbon_kg"] + env["settled_carbon_kg"], SETTLED_SHARE * env["shortfall_kwh"]
            bought = 0.01 * (kg if self.config.cost == "carbon" else env["grid_kwh"] + kwh)
            require(close(env["accrued_cost"], bought), "the cost is that of grid energy", bought)

    def _energy(self, env: NDArray[np.void]) -> None:
        sources, sinks = (sum(env[name] for name in names) for names in (SOURCES, SINKS))
        require(close(sources, sinks), "energy in is energy out", sources, sinks)
        battery, stored = self.config.site_config.battery, env["stored_kwh"]
        kept = self._initial + battery.efficiency * env["charged_kwh"] - env["discharged_kwh"]
        size = env["charged_kwh"] + self._initial
        require(close(stored, kept, size), "the battery holds what was charged", stored, kept)
        low, high = (share * battery.energy_kwh for share in (battery.min_charge, battery.max_charge))
        margin = 1e-9 * (1.0 + battery.energy_kwh)
        require((stored >= low - margin) & (stored <= high + margin), "the battery keeps its limits", stored)
        served = env["critical_kwh"] + env["unserved_kwh"]
        wanted = self.config.site_config.critical_kw * self.config.step_hours * env["now"]
        require(close(served, wanted), "critical energy: served or counted as unserved", served, wanted)

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
            total = self._potentials[index]
            worth += weights.potential * (config.shaping_gamma * total - (total - env["potential"]))
        paid = env["accrued_reward"] * self.simulator.mean_value
        size = value.sum() + abs(self._potentials[index]) + charged
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
        # Units that start are paid for when the step ends in which they do.
        switched = env["switched_units"] - env["units_starting"] * self.config.resource_types
        return float(charged + weights.switching * switched)


def _brown(config: Any) -> bool:
    return config.power == "trace" and config.site_config.grid == "qos_above"
