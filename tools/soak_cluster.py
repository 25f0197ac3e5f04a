"""Invariants of the cluster in event time, checked from outside: jobs, processors, work, power, rewards.

Times and processors are whole numbers, so most sums must agree exactly. What the kernel adds up by
events is taken here from the series and from the tables of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from soak_pool import close, require

from greendc.cluster import layout as at
from greendc.cluster.kernel_groups import OLDER
from greendc.cluster.simulator import ClusterSimulator
from greendc.records import Floats, Records

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ACCOUNTS = (
    *("arrived", "finished", "starts", "preemptions", "busy", "powered", "excess", "wasted"),
    *("value", "carbon", "decisions", "invalid"),
)
"""Sums over the episode that never fall."""


class ClusterWatch:
    """Watches a batch of clusters from their first reset on.

    :param simulator: the batch
    """

    def __init__(self, simulator: ClusterSimulator) -> None:
        self.simulator, self.config, self.world = simulator, simulator.config, simulator.world
        self.settings = simulator.world.settings[0]
        n = simulator.num_envs
        self._before = {name: np.zeros(n) for name in ACCOUNTS}
        self._now, self._begin = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._rewards, self._costs = np.zeros(n), np.zeros(n)
        self._history = np.zeros((n, max(0, int(self.world.log["user"].max()) + 1)), np.int64)
        self._lengths = np.diff(np.r_[simulator.world.power_times, self.settings["power_period"]])

    # --- what a step has done, in every environment ------------------------------------------------

    def reset(self, index: int, look: bool = True) -> None:
        """Take note of an environment that has been reset.

        :param index: its number
        :param look: check its jobs, too
        """
        cluster = self.simulator.state.cluster[index]
        for name, before in self._before.items():
            before[index] = cluster[name]
        self._now[index], self._rewards[index], self._costs[index] = cluster["now"], 0.0, 0.0
        first = int(cluster["first"])
        self._begin[index] = self.world.log["submit"][first]
        users = self.world.log["user"][:first]
        known = (users >= 0) & (self.world.done_before[:first] <= self._begin[index])
        self._history[index] = np.bincount(users[known], minlength=self._history.shape[1])
        require(cluster["starts"] == 0 and cluster["decisions"] == 0, "an episode begins at nothing", cluster)
        if look:
            self.look([index])

    def step(self) -> None:
        """Check what a step has done in every environment, from the accounts alone."""
        simulator, settings, told = self.simulator, self.settings, self.simulator.report
        cluster = simulator.state.cluster
        require(np.isfinite(told.rewards), "a reward is a finite number", told.rewards)
        require(told.cost >= 0.0, "a cost is at least 0", told.cost)
        self._now += told.seconds.astype(np.int64)
        require(cluster["now"] == self._now, "the clock goes on by the seconds that are told", cluster["now"])
        require(cluster["now"] <= cluster["limit"], "an episode ends in time", cluster["now"])
        require(told.truncated == (cluster["over"] != 0), "truncated at the end")
        known = cluster["waiting"] + cluster["running"] + cluster["finished"]
        require(known == cluster["arrived"], "a job that has arrived waits, runs or is done", known)
        starts = cluster["preemptions"] + cluster["running"] + cluster["finished"]
        require(cluster["starts"] == starts, "what starts is preempted, runs or is done", starts)
        used, capacity = cluster["used"], cluster["capacity"]
        require((used >= 0) & (used <= settings["processors"]), "processors in use: none to all", used)
        if settings["on_drop"] != at.ADMIT_ONLY:
            require((used <= capacity) & (cluster["excess"] == 0), "nothing runs in the dark", used, capacity)
        goes_on = cluster["over"] == 0
        expected = self._capacity(cluster["now"] + cluster["shift"])
        require(~goes_on | (capacity == expected), "the capacity is that of the series", capacity, expected)
        powered = self._energy(cluster["now"] + cluster["shift"])
        powered -= self._energy(self._begin + cluster["shift"])
        require(cluster["powered"] == powered, "power adds up", cluster["powered"], powered)
        self._rewards += told.rewards
        earned = self._earned(range(len(cluster)))
        require(close(self._rewards, earned), "rewards add up", self._rewards, earned)
        self._costs += told.cost
        lost = (cluster["wasted"] + cluster["excess"]) / 3600.0
        require(close(self._costs, lost), "costs add up", self._costs, lost)
        self._emissions(cluster)
        for name, before in self._before.items():
            require(cluster[name] >= before, f"{name} never falls", cluster[name], before)
            before[:] = cluster[name]

    def _capacity(self, time: Ints) -> Ints:
        if not self.settings["power_period"]:
            return np.full(len(time), self.settings["processors"], np.int64)
        at_phase = np.searchsorted(self.world.power_times, time % self.settings["power_period"], "right") - 1
        found: Ints = self.world.power[at_phase]
        return found

    def _energy(self, time: Ints) -> Ints:
        """Return the integral of the capacity from 0 to a time."""
        period = int(self.settings["power_period"])
        if not period:
            return time * int(self.settings["processors"])
        sums = np.r_[0, np.cumsum(self.world.power * self._lengths)]
        phase = time % period
        k = np.searchsorted(self.world.power_times, phase, "right") - 1
        within = sums[k] + self.world.power[k] * (phase - self.world.power_times[k])
        found: Ints = time // period * sums[-1] + within
        return found

    def _earned(self, environments: Sequence[int]) -> Floats:
        """Return the sum of which rewards are differences."""
        settings, cluster = self.settings, self.simulator.state.cluster[environments]
        slowdown, delay = np.array([self._waited(index) for index in environments]).T
        earned: dict[int, Floats] = {
            at.REWARD_SLOWDOWN: -(cluster["slowdown"] + slowdown) / settings["jobs"],
            at.REWARD_WAIT: -(cluster["delay"] + delay) / (3600.0 * settings["jobs"]),
            at.REWARD_CARBON: -cluster["carbon"],
            at.REWARD_VALUE: cluster["value"] / settings["mean_value"],
        }
        return earned[int(settings["reward"])]

    def _waited(self, index: int) -> tuple[float, float]:
        """Return the slowdown and the delay that the waiting jobs would add if they started now."""
        state = self.simulator.state
        waits = state.jobs[index]["phase"] == at.WAITING
        jobs, log = state.jobs[index][waits], self.simulator.episode_jobs(index)[waits]
        restores = (self.settings["on_drop"] == at.CHECKPOINT) & (jobs["worked"] > 0)
        left = restores * self.settings["checkpoint"] + log["run"] - jobs["worked"]
        spent = state.cluster["now"][index] + left - log["submit"]
        slowdown = np.maximum(1.0, spent / np.maximum(log["run"], 10))
        return (
            float((slowdown - np.maximum(1.0, jobs["charged"])).sum()),
            float((spent - log["run"] - jobs["delay"]).sum()),
        )

    def _emissions(self, cluster: Records) -> None:
        """Check that emissions lie between those of the cleanest and of the dirtiest energy."""
        settings, intensity = self.settings, self.world.carbon
        idle = cluster["powered"] - cluster["busy"] + cluster["excess"]
        require(idle >= 0, "processors in use have power, or are counted as excess", idle)
        energy = (cluster["busy"] * settings["busy_kw"] + idle * settings["idle_kw"]) / 3600.0
        least, most = energy * intensity.min(), energy * intensity.max()
        margin = 1e-9 * (1.0 + most)
        held = (cluster["carbon"] >= least - margin) & (cluster["carbon"] <= most + margin)
        require(held, "emissions are energy times intensity", cluster["carbon"], least, most)

    # --- the jobs of an environment ----------------------------------------------------------------

    def look(self, environments: Iterable[int]) -> None:
        """Check the jobs of some environments one by one, against everything that counts them."""
        for index in environments:
            self._jobs(index)

    def _jobs(self, index: int) -> None:
        state, cluster = self.simulator.state, self.simulator.state.cluster[index]
        jobs, log = state.jobs[index], self.simulator.episode_jobs(index)
        phase, now, arrived = jobs["phase"], int(cluster["now"]), int(cluster["arrived"])
        require((phase[arrived:] == at.TO_COME).all(), "a job that has not arrived is nowhere")
        require((phase[:arrived] != at.TO_COME).all(), "a job that has arrived is somewhere")
        require((log["submit"][:arrived] <= now).all(), "nothing arrives before it is submitted")
        if self.settings["profile"] != at.RLSCHEDULER and not cluster["over"]:
            require((log["submit"][arrived:] > now).all(), "what is submitted arrives")
        done, runs, waits = (phase == one for one in (at.DONE, at.RUNNING, at.WAITING))
        for name, marked in (("finished", done), ("running", runs), ("waiting", waits)):
            require(cluster[name] == marked.sum(), f"{name} counts jobs", cluster[name], marked.sum())
        self._lists(index, cluster, np.flatnonzero(waits), np.flatnonzero(runs))
        processors, run = log["processors"], log["run"]
        require(cluster["used"] == processors[runs].sum(), "processors in use are those of running jobs")
        end = jobs["start"] + jobs["restore"] + run - jobs["worked"]
        require(
            (jobs["finish"][done] == end[done]).all(), "a job runs for its run time", jobs["finish"][done]
        )
        started = done | runs
        held = (jobs["start"] >= jobs["first_start"]) & (jobs["first_start"] >= log["submit"])
        require(held[started].all(), "nothing starts before it is submitted")
        require((end[runs] >= now).all(), "what runs has not ended")
        require(((jobs["worked"] >= 0) & (jobs["worked"] <= run)).all(), "work done is part of the work")
        work = (processors * run)[done].sum() + (processors * jobs["worked"])[waits].sum()
        work += (processors * (jobs["worked"] + now - jobs["start"]))[runs].sum()
        require(cluster["busy"] == work + cluster["wasted"], "work: what was done, and what was lost", work)
        self._sums(index, cluster, jobs, log, done)

    def _lists(self, index: int, cluster: np.void, waits: Ints, runs: Ints) -> None:
        state, log = self.simulator.state, self.simulator.episode_jobs(index)
        queue, light = (one[index, : len(waits)] for one in (state.queue, state.light))
        require(np.array_equal(queue, waits), "the queue holds the waiting jobs in order", queue, waits)
        require(np.array_equal(np.sort(light), waits), "waiting jobs are listed by weight once each", light)
        require((np.diff(log["weight"][light]) >= 0).all(), "the lightest is first", light)
        running, endings = (one[index, : len(runs)] for one in (state.running, state.endings))
        jobs = state.jobs[index]
        for name, ids in (("estimate", running["job"]), ("end", endings["job"])):
            require(np.array_equal(np.sort(ids), runs), f"running jobs are listed by {name} once each", ids)
        begun = jobs["start"] + jobs["restore"] - jobs["worked"]
        estimates = (begun + log["request"])[running["job"]]
        require(np.array_equal(running["estimate"], estimates), "estimates are of the requests", estimates)
        ends = (begun + log["run"])[endings["job"]]
        require(np.array_equal(endings["end"], ends), "ends are of the run times", ends)
        require((np.diff(estimates) >= 0).all() and (np.diff(ends) >= 0).all(), "the first to end is first")
        require(
            np.array_equal(running["processors"], log["processors"][running["job"]]), "running processors"
        )

    def _sums(self, index: int, cluster: np.void, jobs: Records, log: Records, done: Bools) -> None:
        require(cluster["delay"] == jobs["delay"].sum(), "delays add up", cluster["delay"])
        require(close(cluster["slowdown"], jobs["charged"].sum()), "slowdowns add up", cluster["slowdown"])
        if done.any():
            late = jobs["finish"] - log["submit"] - log["run"]
            require((jobs["delay"][done] == late[done]).all(), "a delay is what a job was late", late[done])
        worth = log["value"][done & (jobs["finish"] <= log["deadline"])].sum()
        require(close(cluster["value"], worth), "value is that of the jobs on time", cluster["value"], worth)
        known = log["user"][done & (log["user"] >= 0)]
        counts = self._history[index] + np.bincount(known, minlength=self._history.shape[1])
        count_for = (1.0 - OLDER**counts) / (1.0 - OLDER)
        users = self.simulator.state.groups["jobs"][index, : len(counts)]
        require(np.allclose(users, count_for), "users are known by their jobs that are done", counts)
        if cluster["over"]:
            ended = cluster["finished"] == self.settings["jobs"] or cluster["now"] == cluster["limit"]
            require(ended, "an episode ends with its jobs, or is cut", cluster)
