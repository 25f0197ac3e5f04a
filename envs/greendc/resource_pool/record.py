"""The record of an episode: which job was on which unit in each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool.config import ResourcePoolConfig


@dataclass(frozen=True, eq=False)
class EpisodeRecord:
    """What happened in the first ``T`` steps of an episode.

    :param config: the configuration
    :param cells: ``(T, R * M)`` int64, the job on each unit, or ``FREE`` or ``DARK`` of
        :mod:`greendc.resource_pool.view`
    :param powered: ``(T,)`` units of each type that had power
    :param waiting: ``(T,)`` jobs that waited when the step passed
    :param stored_kwh: ``(T,)`` energy in the battery when the step began
    :param power_kw: ``(T, 2)`` sun and wind in kW; without a site, zeros
    :param jobs: columns of all jobs that arrived, as in
        :meth:`~greendc.resource_pool.view.PoolView.job_table`
    """

    config: ResourcePoolConfig
    cells: NDArray[np.int64]
    powered: NDArray[np.int64]
    waiting: NDArray[np.int64]
    stored_kwh: NDArray[np.float64]
    power_kw: NDArray[np.float64]
    jobs: dict[str, NDArray[Any]]

    @property
    def steps(self) -> int:
        """Time steps recorded."""
        return len(self.cells)

    @property
    def late(self) -> NDArray[np.bool_]:
        """``(jobs,)`` whether each job finished late, or was not finished by its latest finish."""
        finish = np.where(self.jobs["finish"] >= 0, self.jobs["finish"], self.steps)
        result: NDArray[np.bool_] = finish > self.jobs["latest_finish"]
        return result


def last_step(steps: int, first: int, last: int | None) -> int:
    """Return the end of the steps ``first .. last - 1`` of a record that a picture shows.

    :param steps: of the record
    :param last: ``None`` for the record's end
    :raises ValueError: if there are no such steps
    """
    last = steps if last is None else last
    if not 0 <= first < last <= steps:
        raise ValueError(f"first={first}, last={last}: must be steps 0 <= first < last <= {steps}")
    return last
