"""The VCC simulator in plain Python, written for reading: the kernel must agree with it bit for bit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

MICRO = 1_000_000


@dataclass
class Job:
    id: int
    cpu: int  # millionths of a machine unit
    duration: int
    submit: int
    job_class: int  # 0 monitoring, 1 production, 2 mid, 3 batch, 4 free
    done: int = 0
    start: int = 0
    machine: int | None = None

    @property
    def flexible(self):
        return self.job_class >= 2

    @property
    def left(self):
        return self.duration - self.done


@dataclass
class Reference:
    """One datacenter. ``arrivals[t]`` are the jobs of hour t; ``earlier`` those of the day before."""

    config: object
    capacity: int
    mean_load: float
    arrivals: list[list[Job]]
    earlier: list[Job]
    moer: list[float]
    forecast: list[list[float]]
    hour: int = 0
    running: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    finished: list[Job] = field(default_factory=list)
    vcc_today: float = 0.0
    last_vcc: float = 1.0
    evictions: int = 0
    outside: int = 0
    lost: int = 0

    def __post_init__(self):
        self.hours = 24 * self.config.days
        everything = [*self.earlier, *(job for jobs in self.arrivals for job in jobs)]
        self.no_delay = [
            sum(job.cpu for job in everything if job.submit <= t < job.submit + job.duration)
            for t in range(self.hours)
        ]
        self.machines = [0] * math.ceil(self.capacity / MICRO)
        for job in self.earlier:
            if job.submit + job.duration > 0:
                self.warm_up(job)
        self.pending = self.psi(self.hour, self.flexible_jobs())

    def warm_up(self, job):
        job.done = -job.submit
        machine = self.least_loaded()
        if self.machines[machine] + job.cpu <= MICRO:
            self.run(job, machine, job.submit)
        elif job.flexible:
            self.waiting.append(job)
        else:
            self.outside += 1
            self.run(job, None, job.submit)

    # --- an hour -----------------------------------------------------------------------------------

    def step(self, vcc):
        hour, budget = self.hour, math.floor(vcc * self.capacity)
        for job in [job for job in self.running if job.left == 0]:
            self.stop(job)
            self.finished.append(job)
        for job in sorted(self.arrivals[hour], key=lambda job: (job.job_class, job.id)):
            if job.flexible:
                self.waiting.append(job)
            else:
                self.start_inflexible(job)
        if self.config.evict:
            while self.load() > budget and any(job.flexible for job in self.running):
                self.evict(self.next_to_evict(self.running))
        for job in sorted(self.waiting, key=lambda job: (job.job_class, job.id)):
            machine = self.least_loaded()
            if self.load() + job.cpu <= budget and self.machines[machine] + job.cpu <= MICRO:
                self.waiting.remove(job)
                self.run(job, machine, hour)
        for job in self.running:
            job.done += 1
        self.hour = hour + 1
        self.vcc_today += vcc
        self.last_vcc = vcc
        return self.charge(hour, vcc)

    def charge(self, hour, vcc):
        config = self.config
        load = self.load() / MICRO
        slo, overdue_charge, cost = self.slo()
        carbon = config.kw_per_unit * load * self.moer[hour]
        saved = carbon
        if config.reward_baseline == "no_delay":
            saved = config.kw_per_unit * (load - self.no_delay[hour] / MICRO) * self.moer[hour]
        reward = -config.carbon_weight * saved
        if not config.constrained:
            reward -= config.slo_weight * slo
        inflexible = sum(job.cpu for job in self.running if not job.flexible) / MICRO
        info = {
            "cost": cost,
            "carbon": carbon,
            "slo": slo,
            "overdue": overdue_charge,
            "vcc": vcc,
            "load": load,
            "inflexible_load": inflexible,
            "waiting": float(len(self.waiting)),
            "moer": self.moer[hour],
        }
        return reward, info

    def slo(self):
        """The SLO charged in the hour that has just ended, its plain overdue form, and the cost."""
        charge = overdue_charge = cost = 0.0
        jobs = self.flexible_jobs()
        if self.hour % 24 == 0:
            demand = sum(self.no_delay[self.hour - 24 : self.hour])
            overdue = sum(self.overdue(job, self.hour, job.done) for job in jobs)
            undone = sum(self.undone(job, self.hour, job.done) for job in jobs)
            missing = undone if self.hour == self.hours else 0
            overdue_charge = max(0.0, overdue / MICRO - 0.03 * (demand / MICRO)) + missing / MICRO
            if self.config.slo == "overdue":
                charge, shortfall = overdue_charge, overdue + missing
            else:
                allocated = self.vcc_today * self.capacity
                charge = max(0.0, 0.97 * demand - allocated) / MICRO
                shortfall = max(0.0, demand - allocated)
            cost = shortfall / (demand if demand > 0 else 24 * self.mean_load * MICRO)
            self.vcc_today = 0.0
        pending = self.psi(self.hour, jobs)
        if self.config.charge == "incurred":
            charge += (pending - self.pending) / MICRO
        self.pending = pending
        return charge, overdue_charge, cost

    # --- lateness ----------------------------------------------------------------------------------

    @staticmethod
    def overdue(job, when, done):
        """Work that 24 h of delay would have allowed by ``when``, and that is not done."""
        return job.cpu * max(0, min(job.duration, when - job.submit - 24) - done)

    @staticmethod
    def undone(job, when, done):
        """Work that the no-delay schedule would have done by ``when``, and that is not done."""
        return job.cpu * max(0, min(job.duration, when - job.submit) - done)

    def psi(self, start, jobs):
        """Overdue work still to be charged if all ``jobs`` run from ``start`` on without delay."""
        if self.config.slo != "overdue":
            return self.undone_at_end(start, jobs)
        tolerance = math.floor(0.03 * 24 * self.mean_load * MICRO)
        total = 0
        for day_end in range(24, self.hours + 1, 24):
            if day_end > self.hour:
                owed = sum(self.overdue(job, day_end, self.done_by(job, start, day_end)) for job in jobs)
                total += max(0, owed - tolerance)
        return total + self.undone_at_end(start, jobs)

    def undone_at_end(self, start, jobs):
        if self.hour == self.hours:
            return 0
        return sum(self.undone(job, self.hours, self.done_by(job, start, self.hours)) for job in jobs)

    def flexible_work_done(self):
        """Flexible work done since t = 0, as a share of what the no-delay schedule would have done."""
        jobs = [job for job in [*self.waiting, *self.running, *self.finished] if job.flexible]
        if not any(self.undone(job, self.hour, job.done) for job in jobs):
            return 1.0
        begun = [max(0, -job.submit) for job in jobs]
        pairs = list(zip(jobs, begun, strict=True))
        done = sum(job.cpu * max(0, job.done - first) for job, first in pairs)
        return done / sum(
            job.cpu * (min(job.duration, self.hour - job.submit) - first) for job, first in pairs
        )

    @staticmethod
    def done_by(job, start, when):
        return min(job.duration, job.done + max(0, when - start))

    # --- observation -------------------------------------------------------------------------------

    def observation(self):
        forecast = self.forecast[self.hour]
        values = [self.last_vcc, self.load() / MICRO, float(len(self.waiting)), *forecast]
        if self.config.observation == "page":
            return values
        today = self.hour - self.hour % 24
        angle = 2.0 * math.pi * (self.hour % 24) / 24.0
        mean = 0.0
        for value in forecast:
            mean += value
        mean /= 24.0
        jobs = self.flexible_jobs()
        overdue = sum(self.overdue(job, self.hour, job.done) for job in jobs)
        bins = [0] * 6
        for job in jobs:
            delay = self.hour - job.submit - job.done
            bins[0 if delay == 0 else 1 + min(delay // 6, 4)] += job.cpu
        paused = 0 if self.hour == self.hours else self.psi(self.hour + 1, jobs)
        return [
            *values,
            math.sin(angle),
            math.cos(angle),
            self.vcc_today / 24.0,
            sum(self.no_delay[today : self.hour]) / MICRO / 24.0,
            overdue / MICRO,
            sum(value < forecast[0] for value in forecast) / 23.0,
            mean,
            forecast[0] - mean,
            *(cpu / MICRO for cpu in bins),
            self.pending / MICRO,
            (paused - self.pending) / MICRO,
        ]

    # --- machines ----------------------------------------------------------------------------------

    def load(self):
        return sum(job.cpu for job in self.running)

    def flexible_jobs(self):
        """Flexible jobs with work left, waiting or running."""
        return [job for job in [*self.waiting, *self.running] if job.flexible and job.left > 0]

    def least_loaded(self):
        return self.machines.index(min(self.machines))

    def run(self, job, machine, hour):
        job.machine, job.start = machine, hour
        if machine is not None:
            self.machines[machine] += job.cpu
        self.running.append(job)

    def stop(self, job):
        if job.machine is not None:
            self.machines[job.machine] -= job.cpu
        self.running.remove(job)

    @staticmethod
    def next_to_evict(jobs):
        return max((job for job in jobs if job.flexible), key=lambda job: (job.start, job.id))

    def evict(self, job):
        self.stop(job)
        lost = min(job.done, self.config.eviction_loss_hours)
        job.done -= lost
        self.lost += lost * job.cpu
        self.evictions += 1
        self.waiting.append(job)

    def start_inflexible(self, job):
        machine = self.least_loaded()
        if self.machines[machine] + job.cpu > MICRO:
            machine = self.make_room(job.cpu) if self.config.evict else None
            self.outside += machine is None
        self.run(job, machine, self.hour)

    def make_room(self, cpu):
        """Evict from the machine of least inflexible load; None where that cannot be enough."""
        inflexible = [
            sum(job.cpu for job in self.running if job.machine == machine and not job.flexible)
            for machine in range(len(self.machines))
        ]
        machine = inflexible.index(min(inflexible))
        if inflexible[machine] + cpu > MICRO:
            return None
        while self.machines[machine] + cpu > MICRO:
            self.evict(self.next_to_evict([job for job in self.running if job.machine == machine]))
        return machine
