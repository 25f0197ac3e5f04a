"""What the agent observes: each column by name."""

from __future__ import annotations

import math

from greendc.cluster.layout import FIRST_OFFSET, LEAST_HOURS, OFFSETS

JOB_FEATURES = (
    "log_wait",  # log(1 + seconds since its submission)
    "log_request",  # log(1 + requested seconds)
    "processors",  # over the cluster's
    "can_start",  # whether it may start now
    "log_until_fit",  # log(1 + seconds until its processors are free, by estimates and forecast)
    "log_slowdown",  # log of the bounded slowdown that it would have, run as requested, if it started now
    "log_area",  # log(1 + requested processor-seconds)
    "rank",  # among the waiting jobs by weight (WSPT), over their number; the least is 0
    "log_expected",  # log(1 + expected seconds), from the user's jobs so far
    "expected_inverse",  # ten seconds over the run time, expected likewise
    "least_capacity",  # the least forecast capacity while it would run as requested, over the cluster's
    "valid",  # 1: there is a job in this row
)
"""Columns of ``jobs``; a row without a job is 0 throughout."""

(
    LOG_WAIT,
    LOG_REQUEST,
    SHARE,
    CAN_START,
    LOG_UNTIL_FIT,
    LOG_SLOWDOWN,
    LOG_AREA,
    RANK,
    LOG_EXPECTED,
    EXPECTED_INVERSE,
    LEAST_CAPACITY,
    VALID,
) = range(len(JOB_FEATURES))

LOG_SCALE = 1.0 / math.log(30 * 86_400.0)
"""Logarithms are divided by that of a month in seconds, ..."""
MOST_LOG = 2.0
"""... and cut at twice it, above 200,000 years."""

CLUSTER_FEATURES = (
    "free",  # processors that have power and run nothing, over all; below 0: more run than have power
    "waiting",  # w / (w + K), of w waiting jobs
    "running",  # r / (r + K), of r running jobs
    "arriving",  # share of the episode's jobs that have yet to arrive
    "sin_day",  # of the time of day
    "cos_day",
    *(f"free_in_{FIRST_OFFSET << k}" for k in range(OFFSETS)),  # seconds from now, by estimates and forecast
)
"""Columns of ``cluster``."""
FREE, QUEUE, RUN, ARRIVING, SIN_DAY, COS_DAY, FREE_IN = range(7)

CAPACITY_FEATURES = (
    *(f"in_{FIRST_OFFSET << k}" for k in range(OFFSETS)),
    *(f"least_in_{hours}h" for hours in LEAST_HOURS),
)
"""Columns of ``capacity``: the forecast, and the least of it from now on, over the cluster's processors."""
