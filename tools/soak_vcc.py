"""Invariants of the VCC datacenter, checked from outside: work, jobs, machines, carbon, lateness.

Work is counted in whole millionths of a machine-unit-hour, so most sums must agree exactly.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from soak_pool import close, require

from greendc.vcc import VCCSimulator
from greendc.vcc.layout import FIRST_FLEXIBLE_CLASS, MICRO

Ints = NDArray[np.int64]


class VCCWatch:
    """Watches a batch of datacenters from their first reset on.

    :param simulator: the batch
    """

    def __init__(self, simulator: VCCSimulator) -> None:
        self.simulator, self.config = simulator, simulator.config
        trace, n = simulator.trace, simulator.num_envs
        hours, flexible = trace.submit_hour, trace.job_class >= FIRST_FLEXIBLE_CLASS
        work = trace.cpu.astype(np.int64) * trace.duration

        def by_hour(values: NDArray[np.integer]) -> Ints:
            sums = np.zeros(24 * trace.days, np.int64)
            np.add.at(sums, hours, values)
            return sums

        self._arriving = by_hour(work), by_hour(work * flexible), by_hour(flexible.astype(np.int64))
        self._submitted, self._flexible, self._jobs = (np.zeros(n, np.int64) for _ in range(3))
        self._executed, self._executed_flexible = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._evictions, self._carbon, self._hour = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64)

    def reset(self, index: int, look: bool = True) -> None:
        """Take note of an environment that has been reset: the jobs of the day before are there.

        :param index: its number
        :param look: check its jobs, too
        """
        cluster = self.simulator.state.cluster[index]
        self._submitted[index] = cluster["submitted_work"]
        self._flexible[index] = cluster["submitted_flexible_work"]
        self._jobs[index] = self.simulator.state.delays[index].sum() + cluster["waiting_jobs"]
        for account in (self._executed, self._executed_flexible, self._evictions, self._hour):
            account[index] = 0
        self._carbon[index] = 0.0
        require(cluster["executed_work"] == 0 and cluster["now"] == 0, "an episode begins at nothing")
        if look:
            self.look([index])

    def step(self) -> None:
        """Check what an hour has done in every environment, from sums."""
        simulator, config = self.simulator, self.config
        state, told = simulator.state, simulator.step_info
        cluster, every = state.cluster, np.arange(simulator.num_envs)
        hour = simulator.world.days[every, 1 + self._hour // 24] * 24 + self._hour % 24
        demand = simulator.world.no_delay[every, self._hour] / MICRO
        self._hour += 1
        require(cluster["now"] == self._hour, "an hour has passed", cluster["now"])
        require(simulator.truncated == (self._hour == simulator.hours), "truncated at the end")
        for account, arriving in zip(
            (self._submitted, self._flexible, self._jobs), self._arriving, strict=True
        ):
            account += arriving[hour]
        require(cluster["submitted_work"] == self._submitted, "the work of all jobs is submitted")
        require(cluster["submitted_flexible_work"] == self._flexible, "and of the flexible ones")
        inflexible, flexible = cluster["load_inflexible"], cluster["load_flexible"]
        load = inflexible + flexible
        self._executed += load
        self._executed_flexible += flexible
        require(cluster["executed_work"] == self._executed, "work done is the load of the hours")
        require(cluster["executed_flexible_work"] == self._executed_flexible, "and the flexible work")
        require(cluster["evictions"] >= self._evictions, "evictions never fall", cluster["evictions"])
        self._evictions[:] = cluster["evictions"]
        seen = state.delays.sum(axis=1) + cluster["waiting_jobs"]
        require(seen == self._jobs, "flexible jobs: have run, or wait", seen, self._jobs)
        self._machines(load)
        require(
            (told["load"] == load / MICRO) & (told["inflexible_load"] == inflexible / MICRO), "loads told"
        )
        carbon = config.kw_per_unit * load / MICRO * told["moer"]
        require(close(told["carbon"], carbon), "carbon is energy times intensity", told["carbon"], carbon)
        self._carbon += told["carbon"]
        saved = config.kw_per_unit * demand * told["moer"] if config.reward_baseline == "no_delay" else 0.0
        reward = -config.carbon_weight * (carbon - saved)
        if not config.constrained:
            reward = reward - config.slo_weight * told["slo"]
        size = config.carbon_weight * carbon + config.slo_weight * np.abs(told["slo"])
        require(close(simulator.rewards, reward, size), "the reward is carbon and SLO", reward)

        self._tolerance()

    def _tolerance(self) -> None:
        """Check the charge at every day end but the last: overdue work beyond 3 % of the demand."""
        simulator = self.simulator
        for i in np.flatnonzero((self._hour % 24 == 0) & ~simulator.truncated):
            day = simulator.world.no_delay[i, self._hour[i] - 24 : self._hour[i]].sum() / MICRO
            overdue = simulator.state.cluster[i]["overdue_work"] / MICRO
            told, charge = simulator.step_info["overdue"][i], max(0.0, overdue - 0.03 * day)
            require(
                close(told, charge, overdue), "overdue work beyond the tolerance is charged", told, charge
            )

    def _machines(self, load: Ints) -> None:
        state, config = self.simulator.state, self.config
        cluster, inflexible = state.cluster, state.cluster["load_inflexible"]
        on_machines, fixed = state.loads, state.inflexible_loads
        require((on_machines <= MICRO).all(axis=1), "no machine holds more than it can")
        require(((fixed >= 0) & (fixed <= on_machines)).all(axis=1), "loads are sums of both kinds")
        outside = inflexible - fixed.sum(axis=1)
        require(outside >= 0, "inflexible jobs run on machines or outside", outside)
        require(on_machines.sum(axis=1) + outside == load, "machines hold the whole load", load)
        require((outside == 0) | (cluster["outside_jobs"] > 0), "a job that runs outside is counted")
        if config.evict:
            budget = np.floor(cluster["last_vcc"] * self.simulator.capacity)
            require(load <= np.maximum(budget, inflexible), "the load obeys the curve", load, budget)

    def look(self, environments: Iterable[int]) -> None:
        """Check the unfinished jobs of some environments one by one, against everything that counts them."""
        for index in environments:
            self._unfinished(index)

    def _unfinished(self, index: int) -> None:
        simulator = self.simulator
        cluster, jobs = simulator.state.cluster[index], simulator.unfinished_jobs(index)
        require(
            (jobs.cpu > 0).all() and (jobs.left > 0).all() and (jobs.delay >= 0).all(), "jobs have work left"
        )
        kept = cluster["executed_work"] - cluster["lost_work"]
        left = int((jobs.cpu * jobs.left).sum())
        require(cluster["submitted_work"] == kept + left, "work: submitted is done and left", kept, left)
        flexible, running = jobs.flexible, jobs.running
        kept = cluster["executed_flexible_work"] - cluster["lost_work"]
        left = int((jobs.cpu * jobs.left)[flexible].sum())
        same = cluster["submitted_flexible_work"] == kept + left
        require(same, "flexible work: submitted is done and left", kept, left)
        waiting = np.count_nonzero(~running)
        require(cluster["waiting_jobs"] == waiting, "waiting jobs are counted", waiting)
        bins = np.searchsorted([1, 6, 12, 18, 24], jobs.delay, side="right")
        of_bins = np.bincount(bins[running & flexible], jobs.cpu[running & flexible], 6).astype(np.int64)
        require((cluster["running_by_delay"] == of_bins).all(), "running CPU by delay", of_bins)
        late = np.clip(np.minimum(jobs.left, jobs.delay - 24), 0, None)
        overdue = int((jobs.cpu * late)[flexible].sum())
        require(cluster["overdue_work"] == overdue, "overdue work is that of the late jobs", overdue)
        if simulator.truncated[index] or cluster["now"] % 24 == 0:
            self._metrics(index)

    def _metrics(self, index: int) -> None:
        told = self.simulator.episode_metrics(index)
        require(close(told["carbon_kg"], self._carbon[index]), "carbon adds up", told["carbon_kg"])
        done = told["executed_work"] - told["lost_work"] + told["queued_work"]
        require(close(done, told["submitted_work"]), "the metrics lose no work", told)
