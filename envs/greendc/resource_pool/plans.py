"""What looking ahead on plans needs around the compiled ones: their shape, and memory for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.kernel_plan import JOB, LOOK, Memory


def day_steps(config: ResourcePoolConfig) -> int:
    """Return the time steps of a day, at least one."""
    return max(round(24.0 / config.step_hours), 1)


def make_memory(config: ResourcePoolConfig, depth: int, order: int, min_qos: float, backfill: bool) -> Memory:
    """Return the memory of a planner that has no jobs yet; see :func:`with_jobs`.

    :param config: of the pool
    :param depth: steps that are looked ahead
    :param order: code of the order in which the heuristic starts jobs (:mod:`greendc.resource_pool.orders`)
    :param min_qos: the heuristic starts no job of a lesser QoS value
    :param backfill: whether a job without a place holds one for later
    """
    brown = config.power == "trace" and config.site_config.grid == "qos_above"
    day, types, kinds = day_steps(config), config.resource_types, 1 + brown
    words, rows = -(-config.units // at.WORD_BITS), depth + config.horizon
    look = np.zeros(1, LOOK)
    look["types"], look["words"], look["kinds"], look["units"] = types, words, kinds, config.units
    look["depth"], look["rows"], look["backfill"] = depth, rows, backfill
    look["day"] = day if day <= config.horizon else 1
    look["order"], look["min_qos"] = order, min_qos
    return Memory(
        look=look,
        plans=np.zeros((3, rows + 1, types * kinds * words), np.int64),
        table=np.zeros(0, JOB),
        needs=np.zeros((0, types), np.int64),
        bank=np.zeros(2, np.int64),
        queue=np.zeros(0, np.int64),
    )


def with_jobs(
    memory: Memory,
    bank: NDArray[np.int64],
    table: NDArray[np.void],
    needs: NDArray[np.int64],
    waiting: int,
) -> Memory:
    """Return the memory with these sampled jobs, and room for so many waiting ones behind them.

    :param bank: ``(K + 1,)``, where each future begins
    :param table: ``(jobs,)``
    :param needs: ``(jobs, R)``
    """
    memory.look["sampled"] = len(table)
    return memory._replace(
        table=np.concatenate([table, np.zeros(waiting, JOB)]),
        needs=np.concatenate([needs, np.zeros((waiting, needs.shape[1]), np.int64)]),
        bank=bank,
        queue=np.zeros(waiting + int(np.diff(bank).max()), np.int64),
    )
