"""What the agent of the resource pool sees: spaces, and the meaning of every number."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.resource_pool.config import ResourcePoolConfig

JOB_FEATURES = (
    "present",  # 1 if the slot holds a job; all else is 0 in an empty slot
    "value",  # v / (v + mean value of the workload)
    "qos",  # QoS value
    "latest_finish",  # latest finish - now, over 10 horizons, clipped to [-1, 1]
    "age",  # now - arrival, over 10 horizons, clipped to [0, 1]
    "duration",  # over the horizon
    "remaining",  # remaining run time over the horizon
    "slack",  # how much later than now it may start and be on time, over the horizon, clipped to [-1, 1]
    "start_offset",  # earliest start - now, over the horizon; 1 if there is none
    "starts_now",  # 1 if the earliest start is now
    "on_time",  # 1 if that start finishes on time
    "hopeless",  # 1 if it could not finish on time even if started now
    "valid",  # 1 if scheduling it is a valid action
)
"""Columns of ``jobs``; the units needed of each resource type, over ``M``, follow them, and then, where the
configuration asks for them, what a start does to the largest free blocks
(:class:`~greendc.resource_pool.fragmentation.Fragmentation`), and the
:class:`~greendc.resource_pool.lookahead.Lookahead` of starting the job."""

PRESENT = JOB_FEATURES.index("present")
VALUE = JOB_FEATURES.index("value")
QOS = JOB_FEATURES.index("qos")
LATEST_FINISH = JOB_FEATURES.index("latest_finish")
AGE = JOB_FEATURES.index("age")
DURATION = JOB_FEATURES.index("duration")
REMAINING = JOB_FEATURES.index("remaining")
SLACK = JOB_FEATURES.index("slack")
START_OFFSET = JOB_FEATURES.index("start_offset")
STARTS_NOW = JOB_FEATURES.index("starts_now")
ON_TIME = JOB_FEATURES.index("on_time")
HOPELESS = JOB_FEATURES.index("hopeless")
VALID = JOB_FEATURES.index("valid")
UNITS = len(JOB_FEATURES)

FRAGMENTATION_ROWS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24)
"""The steps from now for which ``fragmentation`` says what a start leaves, as far as the horizon goes."""

CONTEXT_FEATURES = (
    "waiting_beyond",  # jobs that wait beyond the ready pool
    "waiting_beyond_hopeful",  # those of them that can still be on time
    "sin_hour",
    "cos_hour",
)
"""The first numbers of ``context``; the others depend on the configuration (:func:`context_features`)."""

WAITING_BEYOND = CONTEXT_FEATURES.index("waiting_beyond")
WAITING_BEYOND_HOPEFUL = CONTEXT_FEATURES.index("waiting_beyond_hopeful")
SIN_HOUR = CONTEXT_FEATURES.index("sin_hour")
COS_HOUR = CONTEXT_FEATURES.index("cos_hour")
MORE_CONTEXT = len(CONTEXT_FEATURES)

SUSPEND_FEATURES = (
    "value",  # v / (v + mean value of the workload)
    "remaining",  # steps from now to its end, if it starts now or goes on, over the horizon, clipped to 1
    "slack",  # how much later than that it may end and be on time, over the horizon, clipped to [-1, 1]
)
"""What ``context`` tells, with lookahead, of the two jobs of ``suspend``; the units follow, over ``M``."""

SUSPEND_VALUE = SUSPEND_FEATURES.index("value")
SUSPEND_REMAINING = SUSPEND_FEATURES.index("remaining")
SUSPEND_SLACK = SUSPEND_FEATURES.index("slack")
SUSPEND_UNITS = len(SUSPEND_FEATURES)


OUTLOOK_FEATURES = (
    "carbon",  # kg/kWh, at most 1
    "price",  # p / (p + mean price)
    "green_share",  # sun and wind g as g / (g + full draw of the site), as they are foreseen
)
"""What ``context`` tells of each of the next rows where power is commanded."""


def context_features(config: ResourcePoolConfig) -> tuple[str, ...]:
    """Return the name of each number in ``context``.

    Numbers of jobs ``c`` appear as ``c / (c + ready_pool_size)``.
    """
    names = list(CONTEXT_FEATURES)
    if battery_kwh(config) > 0.0:
        names.append("state_of_charge")
    for k in range(config.resource_types):
        for h in range(config.summary_rows):
            names += [f"free_share_{k}_{h}", f"largest_free_block_{k}_{h}"]
    if config.power_levels is not None:
        names += ["units_on", "units_next"]
        names += [f"{what}_{h}" for what in OUTLOOK_FEATURES for h in range(config.outlook_rows)]
    if config.lookahead > 0 and config.suspend:
        units = [f"units_{k}" for k in range(config.resource_types)]
        # The job that would give way and the one that would start, 0 where ``suspend`` is invalid.
        names += [f"{job}_{what}" for job in ("victim", "successor") for what in (*SUSPEND_FEATURES, *units)]
        names.append("lookahead_of_suspending")
    return tuple(names)


def fragmentation_rows(config: ResourcePoolConfig) -> tuple[int, ...]:
    """Return the rows of the image for which ``fragmentation`` says what a start leaves."""
    return tuple(row for row in FRAGMENTATION_ROWS if row < config.horizon) if config.fragmentation else ()


def battery_kwh(config: ResourcePoolConfig) -> float:
    """Return the battery's capacity, 0 where there is none."""
    return config.site_config.battery.energy_kwh if config.power == "trace" else 0.0


def dict_space(config: ResourcePoolConfig) -> spaces.Dict:
    """Return the space of one observation as a dict."""
    n = config.ready_pool_size
    shape = (config.horizon, config.resource_types * config.units)
    if config.cell_dtype == "uint8":
        image = spaces.Box(0, 255, shape, np.uint8)
    else:
        image = spaces.Box(0.0, 1.0, shape, np.float32)
    blocks = 2 * len(fragmentation_rows(config))
    table = (n, len(JOB_FEATURES) + config.resource_types * (1 + blocks) + (config.lookahead > 0))
    return spaces.Dict(
        {
            "resources": image,
            "jobs": spaces.Box(-1.0, 1.0, table, np.float32),
            "context": spaces.Box(-1.0, 1.0, (len(context_features(config)),), np.float32),
            "action_mask": spaces.Box(0, 1, (config.n_actions,), np.int8),
        }
    )


def flat_space(parts: spaces.Dict) -> spaces.Box:
    """Return the space of the flat observation: image, job table and context, one after the other."""
    size = sum(int(np.prod(parts[key].shape or ())) for key in FLAT_PARTS)
    return spaces.Box(-1.0, 1.0, (size,), np.float32)


def write_flat(parts: dict[str, NDArray[Any]], out: NDArray[np.float32], rows: slice) -> None:
    """Write environments ``rows`` of a batch of dict observations into the batch of flat ones."""
    start = 0
    for key in FLAT_PARTS:
        part = parts[key].reshape(len(out), -1)
        out[rows, start : start + part.shape[1]] = part[rows]
        start += part.shape[1]


KERNEL_ORDER = ("resources", "jobs", "context", "action_mask")
"""The parts of an observation in the order in which the kernel takes them. (Gymnasium sorts the keys.)"""

FLAT_PARTS = ("resources", "jobs", "context")
"""What the flat observation consists of; the action mask is in ``jobs`` already, as ``valid``."""
