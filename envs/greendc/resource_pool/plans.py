"""What whoever looks ahead on plans needs around the compiled ones: their shape, and memory for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import kernel_plan as kp
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig


def day_steps(config: ResourcePoolConfig) -> int:
    """Return the time steps of a day, at least one."""
    return max(round(24.0 / config.step_hours), 1)


def plan_shape(config: ResourcePoolConfig, depth: int, backfill: bool) -> NDArray[np.int64]:
    """Return the whole numbers of a planner, by the columns of :mod:`~greendc.resource_pool.kernel_plan`.

    :param config: of the pool
    :param depth: steps that are looked ahead
    :param backfill: whether a job without a place holds one for later
    """
    brown = config.power == "trace" and config.site_config.grid == "qos_above"
    day = day_steps(config)
    shape = np.zeros(kp.SHAPE, np.int64)
    shape[kp.TYPES], shape[kp.KINDS], shape[kp.UNITS] = config.resource_types, 1 + brown, config.units
    shape[kp.WORDS] = -(-config.units // at.WORD_BITS)
    shape[kp.DEPTH], shape[kp.ROWS] = depth, depth + config.horizon
    shape[kp.DAY] = day if day <= config.horizon else 1
    shape[kp.BACKFILL] = backfill
    return shape


def empty_plans(shape: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return memory for the three plans; see :mod:`~greendc.resource_pool.kernel_plan`."""
    return np.zeros((3, shape[kp.ROWS] + 1, shape[kp.TYPES] * shape[kp.KINDS] * shape[kp.WORDS]), np.int64)
