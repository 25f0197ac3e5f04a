"""A plain-Python resource pool, written for reading: what the compiled kernel must equal bit for bit.

It follows the rules of the environment's docstring with lists and loops, searches every start and block
anew, and keeps no caches. Only the order of floating-point operations is shared with the kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from pool_reference_site import dispatch

from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.jobs import JobArrays, job_values

WAITING, RESERVED, RUNNING, FINISHED, LEFT = "waiting", "reserved", "running", "finished", "left"


@dataclass
class Job:
    id: int
    arrival: int
    duration: int
    units: list[int]
    qos: float
    value: float
    latest: int
    remaining: int
    status: str = WAITING
    demoted: bool = False
    start: int = -1
    end: int = -1
    blocks: list[int] = field(default_factory=list)
    first_start: int = -1
    finish: int = -1
    suspensions: int = 0
    barred: int = -1
    late_paid: float = 0.0


def add_up(jobs: list[Job]) -> float:
    """The jobs' value. (Python's own sum() of floats compensates for rounding, and so differs.)"""
    total = 0.0
    for job in jobs:
        total += job.value
    return total


class ReferencePool:
    """One environment.

    :param config: the configuration
    :param jobs: the jobs of the episode
    :param series: ``(episode_steps + horizon, 5)``: solar kW (or the level), wind kW, carbon, random walk,
        price
    :param mean_price: what prices are compared with in observations
    :param mean_value: what rewards are divided by
    """

    def __init__(
        self,
        config: ResourcePoolConfig,
        jobs: JobArrays,
        series: np.ndarray,
        mean_value: float,
        start_hour: float = 0.0,
        mean_price: float = 0.0,
    ) -> None:
        self.config, self.series, self.mean_value = config, series.tolist(), mean_value
        self.start_hour, self.mean_price = start_hour, mean_price
        self.types, self.units, self.horizon = config.resource_types, config.units, config.horizon
        self.site = config.site if config.power == "trace" else None
        self.stored = self.site.battery.initial_kwh if self.site else 0.0
        values = job_values(jobs, config.price_list).tolist()
        self.future = [self.make_job(jobs, i, values[i]) for i in range(len(jobs))]
        self.jobs: list[Job] = []
        self.now = 0
        self.phi = 0.0
        self.counts = dict.fromkeys(
            ("decisions", "invalid", "swaps", "power_suspensions", "broken", "left", "used", "powered"), 0
        )
        self.energy = dict.fromkeys(
            (
                "solar",
                "wind",
                "critical",
                "pool",
                "charged",
                "discharged",
                "grid",
                "curtailed",
                "unserved",
                "carbon",
            ),
            0.0,
        )
        self.commanded = config.power_levels is not None
        self.mode = "auto"
        self.on = self.on_next = self.ordered = config.power_levels[-1] if self.commanded else 0
        self.starting = self.switched = 0
        self.switching_kwh = self.grid_cost = self.shortfall = self.settled_carbon = 0.0
        self.accrued_cost = 0.0
        self.accrued_reward = 0.0
        self.levels = self.forecast()
        self.admit()

    def make_job(self, jobs: JobArrays, i: int, value: float) -> Job:
        units = [int(u) for u in jobs.units[i]]
        arrival, duration, qos = int(jobs.arrival[i]), int(jobs.duration[i]), float(jobs.qos[i])
        latest = arrival + math.floor(duration / qos + 1e-9)
        return Job(i, arrival, duration, units, qos, value, latest, duration)

    # --- the pool --------------------------------------------------------------------------------------

    def placed(self) -> list[Job]:
        return [job for job in self.jobs if job.status in (RESERVED, RUNNING)]

    def running(self) -> list[Job]:
        return [job for job in self.jobs if job.status == RUNNING]

    def occupied(self, h: int, k: int, u: int, without: Job | None = None) -> Job | None:
        """The job that has unit u of type k in row h."""
        for job in self.placed():
            if job is without or not job.start <= self.now + h < job.end:
                continue
            if job.blocks[k] <= u < job.blocks[k] + job.units[k]:
                return job
        return None

    def grid(self, without: Job | None = None) -> list[list[list[Job | None]]]:
        cells: list[list[list[Job | None]]] = [
            [[None] * self.units for _ in range(self.types)] for _ in range(self.horizon)
        ]
        for job in self.placed():
            if job is without:
                continue
            for t in range(max(job.start, self.now), job.end):
                for k in range(self.types):
                    for u in range(job.blocks[k], job.blocks[k] + job.units[k]):
                        assert cells[t - self.now][k][u] is None, "a unit is used twice"
                        cells[t - self.now][k][u] = job
        return cells

    def may_use_brown(self, job: Job) -> bool:
        limit = self.site.grid_qos_above if self.site else None
        return limit is not None and job.qos > limit

    def length(self, job: Job) -> int:
        return self.config.start_delay + job.remaining + self.config.end_delay

    def blocks_at(self, job: Job, start: int, grid: list[list[list[Job | None]]]) -> list[int] | None:
        """The lowest block of each type that is usable from row start on, for as long as the job needs."""
        rows = range(start, start + self.length(job))
        powered = self.units if self.may_use_brown(job) else min(self.levels[h] for h in rows)
        blocks = []
        for k in range(self.types):
            usable = [u < powered and all(grid[h][k][u] is None for h in rows) for u in range(self.units)]
            need = job.units[k]
            places = [u for u in range(self.units - need + 1) if all(usable[u : u + need])]
            if need == 0:
                places = [0]
            if not places:
                return None
            blocks.append(places[0])
        return blocks

    def earliest(self, job: Job, grid: list[list[list[Job | None]]]) -> tuple[int, list[int]] | None:
        for start in range(self.horizon - self.length(job) + 1):
            blocks = self.blocks_at(job, start, grid)
            if blocks is not None:
                return start, blocks
        return None

    # --- the queue -------------------------------------------------------------------------------------

    def hopeless(self, job: Job) -> bool:
        return self.now + self.length(job) > job.latest

    def apply_late_rule(self) -> None:
        for job in self.jobs:
            if job.status == WAITING and self.hopeless(job):
                if self.config.late_jobs == "leave":
                    job.status = LEFT
                    self.counts["left"] += 1
                elif self.config.late_jobs == "demote":
                    job.demoted = True

    def queue(self) -> list[Job]:
        waiting = [job for job in self.jobs if job.status == WAITING]
        if self.config.queue_order == "arrival":
            return sorted(waiting, key=lambda job: (job.demoted, job.arrival, job.id))
        return sorted(waiting, key=lambda job: (job.demoted, self.place_by_latest_start(job), job.id))

    def place_by_latest_start(self, job: Job) -> int:
        return 0 if job.demoted else job.latest - self.length(job)

    def ready(self) -> list[Job]:
        return self.queue()[: self.config.ready_pool_size]

    def admit(self) -> None:
        while self.future and self.future[0].arrival <= self.now:
            self.jobs.append(self.future.pop(0))
        self.apply_late_rule()

    # --- actions ---------------------------------------------------------------------------------------

    def schedule_choice(
        self, job: Job, grid: list[list[list[Job | None]]] | None = None
    ) -> tuple[int, list[int]] | None:
        """Start offset and blocks if scheduling the job is valid."""
        found = self.earliest(job, grid or self.grid())
        if found is None or job.barred == self.now:
            return None
        if found[0] > 0 and (self.config.placement == "now" or self.config.mask != "valid"):
            return None
        if self.config.mask == "now_on_time" and self.hopeless(job):
            return None
        return found

    def swap_choice(self) -> tuple[Job, Job | None, list[int]] | None:
        """Who gives way, who starts (with pausing: perhaps no one), and where, if suspend is valid."""
        running = self.running()
        if not self.config.suspend or not running:
            return None
        victim = min(running, key=lambda job: job.value / ((job.end - self.now) * sum(job.units)))
        grid = self.grid(without=victim)
        candidates = [
            (job, blocks)
            for job in self.ready()
            if job.barred != self.now
            and not (self.config.mask == "now_on_time" and self.hopeless(job))
            and (blocks := self.blocks_at(job, 0, grid)) is not None
        ]
        if not candidates:
            return (victim, None, []) if self.config.pausing else None
        job, blocks = max(candidates, key=lambda c: c[0].value / (self.length(c[0]) * sum(c[0].units)))
        return victim, job, blocks

    def mask(self) -> list[bool]:
        ready, grid = self.ready(), self.grid()
        slots = [self.schedule_choice(job, grid) is not None for job in ready]
        slots += [False] * (self.config.ready_pool_size - len(ready))
        return [*slots, self.swap_choice() is not None, *self.allowed_commands()]

    def allowed_commands(self) -> list[bool]:
        """Which commands of power are valid; one of no meaning where there are none."""
        if not self.commanded:
            return [True]
        battery = self.site.battery
        may_hold = self.stored > battery.min_charge * battery.energy_kwh and battery.discharge_kw > 0
        may_charge = self.stored < battery.max_charge * battery.energy_kwh and battery.charge_kw > 0
        return [True, may_hold, may_charge] * len(self.config.power_levels)

    def place(self, job: Job, start: int, blocks: list[int]) -> float:
        job.start, job.end = self.now + start, self.now + start + self.length(job)
        job.blocks = blocks
        job.status = RESERVED
        return self.begin(job) if start == 0 else 0.0

    def begin(self, job: Job) -> float:
        job.status = RUNNING
        if job.first_start < 0:
            job.first_start = self.now
            return 0.0
        return self.config.weights.resumption * job.value

    def release(self, job: Job) -> None:
        worked = self.now - job.start - self.config.start_delay
        job.remaining -= min(max(worked, 0), job.remaining)
        job.status = WAITING
        job.demoted = False

    def suspend(self, job: Job) -> float:
        self.release(job)
        job.suspensions += 1
        return self.config.weights.suspension * job.value

    def step(self, action: int) -> tuple[float, float, int, bool]:
        """Take a decision: reward, cost, time steps advanced, truncated."""
        n = self.config.ready_pool_size
        before = self.now
        self.reward, self.cost = 0.0, 0.0
        self.counts["decisions"] += 1
        valid = self.mask()[action]
        if valid and action < n:
            job = self.ready()[action]
            self.reward += self.place(job, *self.schedule_choice(job))
        elif valid and action == n:
            victim, job, blocks = self.swap_choice()
            self.reward -= self.suspend(victim)
            victim.barred = self.now
            self.counts["swaps"] += 1
            if job is not None:
                self.reward += self.place(job, 0, blocks)
            self.apply_late_rule()
        else:
            self.counts["invalid"] += not valid
            if self.commanded:
                level, mode = divmod(action - n - 1, 3)
                self.ordered = self.config.power_levels[level] if action > n else self.on_next
                self.mode = ("auto", "hold", "charge")[mode] if valid else "auto"
            self.advance()
        while self.config.skip_forced and not self.over() and not any(self.mask()[:-1]):
            self.advance()
        weights = self.config.weights
        if weights.potential > 0:
            phi = 0.0
            for job in self.placed():
                if job.end <= job.latest:
                    phi += job.value
            self.reward += weights.potential * (self.config.shaping_gamma * phi - self.phi)
            self.phi = phi
        self.reward /= self.mean_value
        self.accrued_reward += self.reward
        return self.reward, self.cost, self.now - before, self.over()

    def over(self) -> bool:
        return self.now >= self.config.episode_steps

    # --- time ------------------------------------------------------------------------------------------

    def advance(self) -> None:
        weights = self.config.weights
        self.account()
        self.now += 1
        for job in self.jobs:  # lateness of the step that has passed
            unfinished = job.status not in (FINISHED, LEFT)
            cap = weights.lateness_cap * job.value
            if unfinished and self.now > job.latest and weights.lateness > 0 and job.late_paid < cap:
                charge = min(weights.lateness * job.value, cap - job.late_paid)
                job.late_paid += charge
                self.reward -= charge
        for job in self.placed():
            if job.end == self.now:
                job.status, job.finish, job.remaining = FINISHED, self.now, 0
                if self.now <= job.latest:
                    self.reward += weights.on_time * job.value
        if self.commanded:
            self.starting = max(self.ordered - self.on_next, 0)
            self.on = min(self.ordered, self.on_next) if self.config.switch_delay else self.ordered
            self.on_next = self.ordered
        self.levels = self.forecast()
        for job in self.placed():
            highest = max(b + u for b, u in zip(job.blocks, job.units, strict=True))
            if self.may_use_brown(job):
                continue
            if job.status == RUNNING and highest > self.levels[0]:
                self.reward -= self.suspend(job)
                self.counts["power_suspensions"] += 1
            elif job.status == RESERVED and any(
                highest > self.levels[t - self.now] for t in range(job.start, job.end)
            ):
                self.release(job)
                self.counts["broken"] += 1
        for job in self.placed():
            if job.start == self.now:
                self.reward += self.begin(job)
        self.admit()
        active = [job for job in self.jobs if job.status not in (FINISHED, LEFT)]
        delayed = sum(self.now > job.latest for job in active)
        waiting = sum(job.first_start < 0 for job in active)
        delayed_weight, waiting_weight = {
            "delayed": (1, 0),
            "waiting": (0, 1),
            "weighted": self.config.cost_weights,
        }.get(self.config.cost, (0, 0))
        cost = delayed_weight * delayed + waiting_weight * waiting
        self.cost += cost
        self.accrued_cost += cost

    def account(self) -> None:
        """Work, units and energy of the step that ends."""
        used = dark = 0
        for job in self.running():
            worked = self.now - job.start - self.config.start_delay
            if self.config.weights.executed > 0 and 0 <= worked < job.remaining:
                self.reward += self.config.weights.executed * (job.value / job.duration)
            for k in range(self.types):
                for u in range(job.blocks[k], job.blocks[k] + job.units[k]):
                    used += 1
                    dark += u >= self.levels[0]
        self.counts["used"] += used
        self.counts["powered"] += self.levels[0] * self.types + dark
        if self.site:
            self.account_energy(used, self.levels[0] * self.types - (used - dark))

    def account_energy(self, used: int, idle: int) -> None:
        site, hours = self.site, self.config.step_hours
        solar, wind, carbon, _, price = self.series[self.now]
        unit_kw = site.pool_kw / (self.units * self.types)
        draw = unit_kw * (used + site.idle_fraction * idle)
        if self.starting:
            kwh = unit_kw * self.config.switch_hours * (self.starting * self.types)
            self.switched += self.starting * self.types
            self.switching_kwh += kwh
            self.reward -= self.config.weights.switching * (self.starting * self.types)
            draw += kwh / hours
        demand = min(draw, self.available_kw)
        brown = draw - demand if site.grid == "qos_above" else 0.0
        flows = dispatch(site, hours, self.stored, solar + wind, demand, brown, self.mode)
        self.stored = flows["stored"]
        self.flows = flows
        for name, power in (
            ("solar", solar),
            ("wind", wind),
            ("critical", flows["critical"]),
            ("pool", flows["pool"]),
            ("charged", flows["charge"]),
            ("discharged", flows["discharge"]),
            ("grid", flows["grid"]),
            ("curtailed", flows["curtailed"]),
            ("unserved", max(site.critical_kw - flows["critical"], 0.0)),
        ):
            self.energy[name] += power * hours
        self.energy["carbon"] += flows["grid"] * hours * carbon
        self.grid_cost += flows["grid"] * hours * price
        self.pay_energy(flows["grid"] * hours, carbon, price)
        if self.now + 1 == self.config.episode_steps:
            self.settle_battery()

    def pay_energy(self, kwh: float, carbon: float, price: float) -> None:
        """Reward and cost of grid energy."""
        weights = self.config.weights
        self.reward -= kwh * (weights.carbon * carbon + weights.brown + weights.price * price)
        per_kg, per_kwh = {"carbon": (0.01, 0.0), "brown": (0.0, 0.01)}.get(self.config.cost, (0.0, 0.0))
        cost = kwh * (per_kg * carbon + per_kwh)
        self.cost += cost
        self.accrued_cost += cost

    def settle_battery(self) -> None:
        """At the end, six tenths of what the battery lacks are bought, at the episode's means."""
        steps, carbon, price = self.config.episode_steps, 0.0, 0.0
        for row in self.series[:steps]:
            carbon += row[2]
            price += row[4]
        self.shortfall = max(self.site.battery.initial_kwh - self.stored, 0.0)
        bought = 0.6 * self.shortfall
        self.settled_carbon = bought * (carbon / steps)
        self.pay_energy(bought, carbon / steps, price / steps)

    def forecast(self) -> list[int]:
        """Powered units of each row, as foreseen now; row 0 is what is."""
        levels, stored = [], self.stored
        if self.commanded:
            self.available_kw = math.inf
            return [self.on] + [self.on_next] * (self.horizon - 1)
        for h in range(self.horizon):
            solar, wind, _, walk, _ = self.series[self.now + h]
            drift = walk - self.series[self.now][3]
            factor = max(0.0, 1.0 + self.config.forecast_error * drift)
            if self.site:
                flows = dispatch(
                    self.site, self.config.step_hours, stored, (solar + wind) * factor, self.site.pool_kw, 0.0
                )
                stored = flows["stored"]
                level = flows["pool"] / self.site.pool_kw
                if h == 0:
                    self.available_kw = flows["pool"]
            else:
                level = min(solar * factor, 1.0)
            levels.append(math.floor(level * self.units + 1e-9))
        return levels
