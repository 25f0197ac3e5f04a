"""A look into one environment of a resource-pool batch: its queue, its jobs and its cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig

DARK, FREE = -2, -1
"""What :attr:`PoolView.cell_jobs` calls cells that no job occupies."""

READY_JOB_COLUMNS = ("job", "arrival", "duration", "remaining", "latest_finish", "value", "qos")
"""Columns of :meth:`PoolView.ready_jobs`; the units of each resource type follow them."""

STATUS_NAMES = ("future", "waiting", "reserved", "running", "finished", "left")

JOB_COLUMNS = {
    "arrival": at.ARRIVAL,
    "duration": at.DURATION,
    "latest_finish": at.LATEST,
    "remaining": at.REMAINING,
    "status": at.STATUS,
    "start": at.START,
    "end": at.END,
    "finish": at.FINISH,
    "first_start": at.FIRST_START,
    "suspensions": at.SUSPENSIONS,
}


class PoolView:
    """What is in one pool now. Reads the simulator's arrays; every array that it returns is a copy.

    :param config: the configuration; the other parameters are the environment's rows of the kernel's arrays
    """

    def __init__(
        self,
        config: ResourcePoolConfig,
        env: NDArray[np.int64],
        env_f: NDArray[np.float64],
        jobs: NDArray[np.int64],
        jobs_f: NDArray[np.float64],
        lists: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> None:
        self.config = config
        self._env, self._env_f, self._jobs, self._jobs_f = env, env_f, jobs, jobs_f
        self._lists, self._rows = lists, rows

    @property
    def now(self) -> int:
        """Time steps since the episode began."""
        return int(self._env[at.NOW])

    @property
    def queue(self) -> NDArray[np.int64]:
        """Ids of all waiting jobs in queue order; the first ``ready_pool_size`` are the ready pool."""
        counts = (at.QUEUE, at.N_QUEUE), (at.LATE, at.N_LATE)
        return np.concatenate([self._lists[which, : self._env[size]] for which, size in counts])

    @property
    def placed(self) -> NDArray[np.int64]:
        """Ids of the jobs that run or are reserved, ascending."""
        return self._lists[at.PLACED, : self._env[at.N_PLACED]].copy()

    @property
    def stored_kwh(self) -> float:
        """Energy in the battery."""
        return float(self._env_f[at.STORED_KWH])

    @property
    def levels(self) -> NDArray[np.int64]:
        """``(horizon,)``: units of each type that each row of the image powers."""
        return np.roll(self._rows[: self.config.horizon, at.LEVEL], -(self.now % self.config.horizon))

    def job_table(self) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
        """Return the columns of all jobs that have arrived; row ``j`` is job ``j``.

        Times are steps of the episode. ``status`` counts through :data:`STATUS_NAMES`; ``start``, ``end``
        and ``block`` ``(jobs, R)`` belong to the latest placement, ``units`` is ``(jobs, R)``; ``finish``
        and ``first_start`` are -1 until they happen. ``remaining`` is the work left when the job was last
        placed or suspended, and 0 once it is finished.
        """
        arrived, types = int(self._env[at.NEXT_ARRIVAL]), self.config.resource_types
        jobs = self._jobs[:arrived]
        table: dict[str, NDArray[np.int64] | NDArray[np.float64]] = {
            name: jobs[:, column].copy() for name, column in JOB_COLUMNS.items()
        }
        table["units"] = jobs[:, at.JOB_I : at.JOB_I + types].copy()
        table["block"] = jobs[:, at.JOB_I + types : at.JOB_I + 2 * types].copy()
        table["value"] = self._jobs_f[:arrived, at.VALUE].copy()
        table["qos"] = self._jobs_f[:arrived, at.QOS].copy()
        return table

    def ready_jobs(self) -> NDArray[np.float64]:
        """Return the raw ready jobs, ``(ready_pool_size, len(READY_JOB_COLUMNS) + R)``; -1 in empty slots."""
        types = self.config.resource_types
        out = np.full((self.config.ready_pool_size, len(READY_JOB_COLUMNS) + types), -1.0)
        ids = self.queue[: self.config.ready_pool_size]
        rows = self._jobs[ids]
        out[: len(ids), 0] = ids
        for i, column in enumerate((at.ARRIVAL, at.DURATION, at.REMAINING, at.LATEST), start=1):
            out[: len(ids), i] = rows[:, column]
        out[: len(ids), 5] = self._jobs_f[ids, at.VALUE]
        out[: len(ids), 6] = self._jobs_f[ids, at.QOS]
        out[: len(ids), 7:] = rows[:, at.JOB_I : at.JOB_I + types]
        return out

    def cell_jobs(self) -> NDArray[np.int64]:
        """Return the image with job ids: ``(horizon, R * M)``, :data:`FREE` or :data:`DARK` elsewhere."""
        config, types = self.config, self.config.resource_types
        dark = np.arange(config.units) >= self.levels[:, None]
        cells = np.tile(np.where(dark, DARK, FREE).astype(np.int64), (1, types))
        for job in self.placed:
            row = self._jobs[job]
            steps = slice(max(row[at.START] - self.now, 0), row[at.END] - self.now)
            for k in range(types):
                first = k * config.units + row[at.JOB_I + types + k]
                cells[steps, first : first + row[at.JOB_I + k]] = job
        return cells
