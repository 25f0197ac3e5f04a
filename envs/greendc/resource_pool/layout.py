"""The state of a batch of pools: what each number is called, and the codes used in them.

Compiled code works on one pool at a time, a :class:`Pool`: records whose fields have names, and arrays of
one kind of thing each. :func:`pool_at` takes it out of the arrays of the batch, :class:`PoolState`, whose
first axis is the environment: few arrays, because each one that is given to a compiled call costs time.

The row of time ``t`` is ring row ``t % H``: when time goes on, the row that has passed becomes the new last
row, and nothing else moves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.by_reference import by_reference
from greendc.compiled import expanded
from greendc.energy.kernel import SITE
from greendc.resource_pool.config import MOST_LEVELS

Record = Any
"""A record of compiled code: its fields are attributes."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[Any]

CONFIG = np.dtype(
    [
        ("site", SITE),
        *((name, np.int64) for name in (
            "units", "types", "horizon", "ready_pool_size", "episode_steps", "late_rule", "place_now",
            "may_suspend", "mask_rule", "skip_forced", "start_delay", "end_delay", "words", "has_site",
            "exact_levels", "context_rows", "commands", "switch_delay", "pausing", "outlook_rows",
            "prices_energy", "by_latest_start",
        )),
        ("command_units", np.int64, (MOST_LEVELS,)),
        *((name, np.float64) for name in (
            "step_hours", "mean_value", "gamma", "pay_executed", "pay_on_time", "charge_suspension",
            "pay_resumption", "charge_lateness", "lateness_cap", "pay_potential", "cost_delayed",
            "cost_waiting", "forecast_error", "brown_above", "cell_scale", "battery_kwh",
            "initial_kwh", "total_kw", "switch_hours", "mean_price", "charge_carbon", "charge_brown",
            "charge_price", "charge_switching", "cost_carbon", "cost_brown",
        )),
    ]
)  # fmt: skip
"""The configuration; ``words`` is how many words hold the bits of one type's units; ``commands`` is how many
commands of power there are, 1 where the agent has none, and ``command_units`` the units of their levels."""

LEAVE, DEMOTE, STAY = 0, 1, 2
MASK_VALID, MASK_NOW, MASK_NOW_ON_TIME = 0, 1, 2

COUNTS = (
    "decisions",
    "invalid",
    "agent_suspensions",
    "power_suspensions",
    "broken_reservations",
    "left",
    "used_unit_steps",
    "powered_unit_steps",
    "switched_units",
)
SUMS = (
    "accrued_cost",
    "accrued_reward",
    "solar_kwh",
    "wind_kwh",
    "critical_kwh",
    "pool_kwh",
    "charged_kwh",
    "discharged_kwh",
    "grid_kwh",
    "curtailed_kwh",
    "unserved_kwh",
    "carbon_kg",
    "grid_cost",
    "switching_kwh",
    "shortfall_kwh",
    "settled_carbon_kg",
)
"""What is counted and summed over an episode."""

ENV = np.dtype(
    [
        # of the last decision
        ("reward", np.float64),
        ("cost", np.float64),
        ("time_advanced", np.int64),
        # the clock; `head` is `now` modulo the horizon, the ring row of the image's row 0
        ("now", np.int64),
        ("head", np.int64),
        ("start_hour", np.float64),
        # lengths of the lists, and how far each has been read
        ("n_jobs", np.int64),
        ("next_arrival", np.int64),
        ("n_queue", np.int64),
        ("n_late", np.int64),
        ("n_placed", np.int64),
        ("n_overdue", np.int64),
        ("next_overdue", np.int64),
        # jobs that count for the cost
        ("n_delayed", np.int64),
        ("n_not_started", np.int64),
        # what choices rest on: `epoch` counts whenever a cell became free; the job that `suspend` would
        # suspend, and the ready slot of the one that it would start, or -1
        ("epoch", np.int64),
        ("victim", np.int64),
        ("successor", np.int64),
        ("potential", np.float64),
        # power now
        ("stored_kwh", np.float64),
        ("available_kw", np.float64),
        # what is commanded: units on, on in the next step, starting in this one; the battery's mode
        ("units_on", np.int64),
        ("units_next", np.int64),
        ("units_starting", np.int64),
        ("units_ordered", np.int64),
        ("battery_mode", np.int64),
        *((name, np.int64) for name in COUNTS),
        *((name, np.float64) for name in SUMS),
    ]
)
"""Where an episode stands."""

JOB = np.dtype(
    [
        *((name, np.int64) for name in (
            "arrival", "duration", "latest", "remaining", "status", "start", "end", "finish", "first_start",
            "suspensions", "barred", "delayed", "found_epoch", "found_start", "searched_to",
        )),
        *((name, np.float64) for name in ("value", "qos", "late_paid")),
    ]
)  # fmt: skip
"""A job. ``latest`` is its latest finish; ``start`` and ``end`` are those of its placement; ``barred`` is the
step in which it may not be placed again; ``found_start`` is where it would start, as far as was searched."""

FUTURE, WAITING, RESERVED, RUNNING, FINISHED, LEFT = 0, 1, 2, 3, 4, 5

NEEDS, BLOCKS, FOUND_BLOCKS = 0, 1, 2
QUEUE, LATE, PLACED, BY_LATEST, OVERDUE = range(5)

# --- rows: the level; by type a bitmap of unoccupied and one of free units (`words` words each); by type the
# number of free units and their largest block, the former -1 when both are out of date
LEVEL = 0
BITS = 1
WORD_BITS = 63  # the sign bit stays clear, so that shifts of int64 are logical

# --- series ----------------------------------------------------------------------------------------------
SOLAR = 0  # kW; with no site, the power level in [0, 1]
WIND = 1
CARBON = 2
WALK = 3
PRICE = 4  # of grid energy, for a kWh
SERIES = 5

# --- cells of the image ----------------------------------------------------------------------------------
CELL_FREE = 0
CELL_DARK = 255
CELL_JOB = 64
CELL_JOBS = 128
CELL_STRIDE = 37


class PoolState(NamedTuple):
    """The arrays of ``B`` pools of one configuration; ``J`` jobs at most have room.

    :param config: ``(1,)`` of :data:`CONFIG`
    :param env: ``(B,)`` of :data:`ENV`
    :param counts: ``(B, R + n + 1 + P)``: units in use by type, then the action mask
    :param forecast: ``(B, H)``: the share of the pool that each row can power, as it is foreseen
    :param jobs: ``(B, J)`` of :data:`JOB`, in order of arrival
    :param units: ``(B, 3, J, R)``: of each type, the units that a job needs; the lowest one that it has; and
        the lowest one that it would have at its ``found_start``
    :param lists: ``(B, 5, J)`` job ids: the queue; those that wait behind it because they are late; those
        that are placed; all, by latest finish; the overdue ones
    :param rows: ``(B, H + 1, ...)``: levels and bitmaps of the image's rows, a ring; the last row is scratch
    :param image: ``(B, H, R * M)``: the image's cells as they are shown, the same ring
    :param series: ``(B, T + H, SERIES)``: power, carbon and price of the episode and of its last horizon
    """

    config: NDArray[np.void]
    env: NDArray[np.void]
    counts: Ints
    forecast: Floats
    jobs: NDArray[np.void]
    units: Ints
    lists: Ints
    rows: Ints
    image: Cells
    series: Floats


class NewJobs(NamedTuple):
    """The jobs of an episode that begins, C-contiguous.

    :param arrival: ``(J,)`` steps, like ``duration`` and ``latest``, the latest finish
    :param units: ``(J, R)``
    :param value: ``(J,)``, like ``qos``
    :param by_latest: ``(J,)`` their ids by latest finish
    """

    arrival: Ints
    duration: Ints
    latest: Ints
    units: Ints
    value: Floats
    qos: Floats
    by_latest: Ints

    @classmethod
    def of(cls, *columns: NDArray[Any]) -> NewJobs:
        """Return the jobs in these columns, in the order of the fields."""
        return cls(*(np.ascontiguousarray(column) for column in columns))


class Pool(NamedTuple):
    """One pool, as compiled code sees it; see :class:`PoolState`.

    :param needs: ``(J, R)``, like ``blocks`` and ``found_blocks``
    :param queue: ``(J,)``, like ``late``, ``placed``, ``by_latest`` and ``overdue``
    :param levels: ``(H + 1,)``: units of each type that ring rows power
    """

    config: Record
    env: Record
    in_use: Ints
    mask: Ints
    forecast: Floats
    jobs: Any
    needs: Ints
    blocks: Ints
    found_blocks: Ints
    queue: Ints
    late: Ints
    placed: Ints
    by_latest: Ints
    overdue: Ints
    levels: Ints
    rows: Ints
    image: Cells
    series: Floats


@expanded
def pool_at(state: PoolState, b: int) -> Pool:
    """Return pool ``b`` of a batch."""
    config = state.config[0]
    return by_reference(
        Pool(
            config,
            state.env[b],
            state.counts[b, : config.types],
            state.counts[b, config.types :],
            state.forecast[b],
            state.jobs[b],
            state.units[b, NEEDS],
            state.units[b, BLOCKS],
            state.units[b, FOUND_BLOCKS],
            state.lists[b, QUEUE],
            state.lists[b, LATE],
            state.lists[b, PLACED],
            state.lists[b, BY_LATEST],
            state.lists[b, OVERDUE],
            state.rows[b, :, LEVEL],
            state.rows[b],
            state.image[b],
            state.series[b],
        )
    )
