"""A look into one environment of a resource-pool batch: its queue, its jobs and its cells."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.layout import PoolState

DARK, FREE = -2, -1
"""What :attr:`PoolView.cell_jobs` calls cells that no job occupies."""

READY_JOB_COLUMNS = ("job", "arrival", "duration", "remaining", "latest_finish", "value", "qos")
"""Columns of :meth:`PoolView.ready_jobs`; the units of each resource type follow them."""

STATUS_NAMES = ("future", "waiting", "reserved", "running", "finished", "left")

JOB_COLUMNS = {
    "arrival": "arrival",
    "duration": "duration",
    "latest_finish": "latest",
    "remaining": "remaining",
    "status": "status",
    "start": "start",
    "end": "end",
    "finish": "finish",
    "first_start": "first_start",
    "suspensions": "suspensions",
}


class HoldsState(Protocol):
    """A simulator, seen from here."""

    @property
    def state(self) -> PoolState:
        """Its arrays."""


class PoolView:
    """What is in one pool now. Reads the simulator's arrays; every array that it returns is a copy.

    :param config: the configuration
    :param pools: holds the arrays of the batch as ``state``; they are replaced when there are more jobs
    :param index: the environment
    """

    def __init__(self, config: ResourcePoolConfig, pools: HoldsState, index: int) -> None:
        self.config = config
        self._pools, self._index = pools, index

    @property
    def _env(self) -> np.void:
        env: np.void = self._pools.state.env[self._index]
        return env

    @property
    def _jobs(self) -> NDArray[np.void]:
        jobs: NDArray[np.void] = self._pools.state.jobs[self._index]
        return jobs

    @property
    def _lists(self) -> NDArray[np.int64]:
        lists: NDArray[np.int64] = self._pools.state.lists[self._index]
        return lists

    def _units(self, which: int) -> NDArray[np.int64]:
        units: NDArray[np.int64] = self._pools.state.units[self._index, which]
        return units

    @property
    def now(self) -> int:
        """Time steps since the episode began."""
        return int(self._env["now"])

    @property
    def queue(self) -> NDArray[np.int64]:
        """Ids of all waiting jobs in queue order; the first ``ready_pool_size`` are the ready pool."""
        counts = (at.QUEUE, "n_queue"), (at.LATE, "n_late")
        return np.concatenate([self._lists[which, : self._env[size]] for which, size in counts])

    @property
    def placed(self) -> NDArray[np.int64]:
        """Ids of the jobs that run or are reserved, ascending."""
        return self._lists[at.PLACED, : self._env["n_placed"]].copy()

    @property
    def stored_kwh(self) -> float:
        """Energy in the battery."""
        return float(self._env["stored_kwh"])

    @property
    def levels(self) -> NDArray[np.int64]:
        """``(horizon,)``: units of each type that each row of the image powers."""
        return np.roll(
            self._pools.state.rows[self._index, : self.config.horizon, at.LEVEL],
            -(self.now % self.config.horizon),
        )

    def job_table(self) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
        """Return the columns of all jobs that have arrived; row ``j`` is job ``j``.

        Times are steps of the episode. ``status`` counts through :data:`STATUS_NAMES`; ``start``, ``end``
        and ``block`` ``(jobs, R)`` belong to the latest placement, ``units`` is ``(jobs, R)``; ``finish``
        and ``first_start`` are -1 until they happen. ``remaining`` is the work left when the job was last
        placed or suspended, and 0 once it is finished.
        """
        arrived = int(self._env["next_arrival"])
        jobs = self._jobs[:arrived]
        table: dict[str, NDArray[np.int64] | NDArray[np.float64]] = {
            name: jobs[column].copy() for name, column in JOB_COLUMNS.items()
        }
        table["units"] = self._units(at.NEEDS)[:arrived].copy()
        table["block"] = self._units(at.BLOCKS)[:arrived].copy()
        table["value"], table["qos"] = jobs["value"].copy(), jobs["qos"].copy()
        return table

    def ready_jobs(self) -> NDArray[np.float64]:
        """Return the raw ready jobs, ``(ready_pool_size, len(READY_JOB_COLUMNS) + R)``; -1 in empty slots."""
        types = self.config.resource_types
        out = np.full((self.config.ready_pool_size, len(READY_JOB_COLUMNS) + types), -1.0)
        ids = self.queue[: self.config.ready_pool_size]
        out[: len(ids), 0] = ids
        jobs = self._jobs[ids]
        for i, name in enumerate(("arrival", "duration", "remaining", "latest", "value", "qos"), start=1):
            out[: len(ids), i] = jobs[name]
        out[: len(ids), 7:] = self._units(at.NEEDS)[ids]
        return out

    def cell_jobs(self) -> NDArray[np.int64]:
        """Return the image with job ids: ``(horizon, R * M)``, :data:`FREE` or :data:`DARK` elsewhere."""
        config, types = self.config, self.config.resource_types
        dark = np.arange(config.units) >= self.levels[:, None]
        cells = np.tile(np.where(dark, DARK, FREE).astype(np.int64), (1, types))
        needs, blocks = self._units(at.NEEDS), self._units(at.BLOCKS)
        for job in self.placed:
            row = self._jobs[job]
            steps = slice(max(row["start"] - self.now, 0), row["end"] - self.now)
            for k in range(types):
                first = k * config.units + blocks[job, k]
                cells[steps, first : first + needs[job, k]] = job
        return cells
