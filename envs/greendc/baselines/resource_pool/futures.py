"""Sampled futures: jobs that may come, drawn once from the workload, for planners to imagine with."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import ResourcePoolSimulator
from greendc.resource_pool import kernel_rollout as kr
from greendc.resource_pool.jobs import job_values, latest_finish
from greendc.resource_pool.kernel_plan import JOB
from greendc.resource_pool.plans import day_steps


class Futures(Protocol):
    """Jobs that may come."""

    first: NDArray[np.int64]
    """``(size + 1,)``: rows of future ``k`` are ``first[k] .. first[k + 1] - 1``."""
    table: NDArray[np.void]
    """``(jobs,)`` of :data:`~greendc.resource_pool.kernel_plan.JOB`."""
    needs: NDArray[np.int64]
    """``(jobs, R)`` units of each type."""


class FutureBank(Futures):
    """``size`` futures of a simulator's workload, drawn when built.

    Each begins at midnight and is a day longer than asked for, so that one looks ahead from any hour: a
    workload may have its rush hours.

    :param simulator: whose workload and rules
    :param size: number of futures
    :param steps: how many steps a planner looks ahead
    :param order: code of the order that sorts the jobs (:mod:`greendc.resource_pool.orders`)
    :param rng: fixes the futures
    :param min_qos: jobs of a lesser QoS value get an infinite key
    :raises ValueError: if the workload draws a job that can never fit
    """

    duration: NDArray[np.int64]
    """``(jobs,)`` steps of work."""
    qos: NDArray[np.float64]
    """``(jobs,)``"""

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        size: int,
        steps: int,
        order: int,
        rng: np.random.Generator,
        min_qos: float = 0.0,
    ) -> None:
        config = simulator.config
        self.day_steps = day_steps(config)
        brown_above = np.inf
        if config.power == "trace" and config.site_config.grid_qos_above is not None:
            brown_above = config.site_config.grid_qos_above
        drawn = [
            simulator.fitting(simulator.workload.sample(rng, steps + self.day_steps)) for _ in range(size)
        ]
        arrival, self.duration, self.qos = (
            np.concatenate([getattr(jobs, name) for jobs in drawn]) for name in ("arrival", "duration", "qos")
        )
        self.first = np.cumsum([0, *map(len, drawn)])
        self.needs = np.concatenate([jobs.units for jobs in drawn])
        self.table = np.zeros(len(arrival), JOB)
        self.table["arrival"] = arrival
        self.table["latest"] = np.concatenate([latest_finish(jobs) for jobs in drawn])
        self.table["length"] = self.duration + config.start_delay + config.end_delay
        self.table["is_brown"] = self.qos > brown_above
        self.table["value"] = np.concatenate([job_values(jobs, config.price_list) for jobs in drawn])
        kr.sort_jobs(order, min_qos, self.table, self.needs, self.duration, self.qos)

    def next_step(self, now: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the step of a future, within its first day, that follows each step of an episode."""
        return (now + 1) % self.day_steps
