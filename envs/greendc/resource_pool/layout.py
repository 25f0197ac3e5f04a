"""Where the kernel keeps what: columns of its flat arrays, and the codes used in them.

The state of a batch is a handful of arrays, grouped by dtype because each array argument of a compiled
call costs time. Their first axis is the environment.

==========  ========================  ==================================================================
array       shape                     holds
==========  ========================  ==================================================================
``env``     ``(B, ENV_I + R + n+2)``  counters, then units in use by type, then the action mask
``env_f``   ``(B, ENV_F + H)``        results of the last step, energies; then the levels of all rows
``jobs``    ``(B, J, JOB_I + 3R)``    a row a job, by arrival; units, block and cached block of each type
``jobs_f``  ``(B, J, JOB_F)``         value, QoS value, lateness charged
``lists``   ``(B, LISTS, J)``         job ids: the queue, placed jobs, ...
``rows``    ``(B, H + 1, ...)``       bitmaps of the image's rows, a ring; the last row is scratch
``image``   ``(B, H, R * M)``         the image's cells as they are shown, the same ring
``series``  ``(B, T + H, SERIES)``    power and carbon intensity of the episode and of its last horizon
==========  ========================  ==================================================================

The row of time ``t`` is ring row ``t % H``: when time goes on, the row that has passed becomes the new last
row, and nothing else moves.
"""

from __future__ import annotations

from greendc.energy.kernel import SITE_COLUMNS

# --- config_i: whole numbers of the configuration ------------------------------------------------------
UNITS = 0
TYPES = 1
HORIZON = 2
READY = 3
EPISODE_STEPS = 4
LATE_RULE = 5
PLACE_NOW = 6
SUSPEND_ALLOWED = 7
MASK_RULE = 8
SKIP_FORCED = 9
START_DELAY = 10
END_DELAY = 11
WORDS = 12
HAS_SITE = 13
EXACT_LEVELS = 14
CONTEXT_ROWS = 15
CONFIG_I = 16

LEAVE, DEMOTE, STAY = 0, 1, 2
MASK_VALID, MASK_NOW, MASK_NOW_ON_TIME = 0, 1, 2

# --- config_f: real numbers of the configuration, after those of the site (greendc.energy.kernel) --------
STEP_HOURS = SITE_COLUMNS
MEAN_VALUE = SITE_COLUMNS + 1
GAMMA = SITE_COLUMNS + 2
PAY_EXECUTED = SITE_COLUMNS + 3
PAY_ON_TIME = SITE_COLUMNS + 4
CHARGE_SUSPENSION = SITE_COLUMNS + 5
PAY_RESUMPTION = SITE_COLUMNS + 6
CHARGE_LATENESS = SITE_COLUMNS + 7
LATENESS_CAP = SITE_COLUMNS + 8
PAY_POTENTIAL = SITE_COLUMNS + 9
COST_DELAYED = SITE_COLUMNS + 10
COST_WAITING = SITE_COLUMNS + 11
FORECAST_ERROR = SITE_COLUMNS + 12
BROWN_ABOVE = SITE_COLUMNS + 13
CELL_SCALE = SITE_COLUMNS + 14
BATTERY_KWH = SITE_COLUMNS + 15
CONFIG_F = SITE_COLUMNS + 16

# --- env_i -----------------------------------------------------------------------------------------------
NOW = 0
N_JOBS = 1
NEXT_ARRIVAL = 2
N_QUEUE = 3
N_LATE = 4
N_PLACED = 5
N_OVERDUE = 6
NEXT_OVERDUE = 7
EPOCH = 8
N_DELAYED = 9
N_NOT_STARTED = 10
TIME_ADVANCED = 11
SWAP_VICTIM = 12
SWAP_SLOT = 13
DECISIONS = 14
INVALID = 15
SWAPS = 16
POWER_SUSPENSIONS = 17
BROKEN = 18
LEFT_COUNT = 19
USED_UNIT_STEPS = 20
POWERED_UNIT_STEPS = 21
HEAD = 22  # NOW modulo the horizon: the ring row of the image's row 0
ENV_I = 23

# --- env_f -----------------------------------------------------------------------------------------------
REWARD = 0
COST = 1
PHI = 2
STORED_KWH = 3
AVAILABLE_KW = 4
START_HOUR = 5
ACCRUED_COST = 6
ACCRUED_REWARD = 7
SOLAR_KWH = 8
WIND_KWH = 9
CRITICAL_KWH = 10
POOL_KWH = 11
CHARGED_KWH = 12
DISCHARGED_KWH = 13
GRID_KWH = 14
CURTAILED_KWH = 15
UNSERVED_KWH = 16
CARBON_KG = 17
ENV_F = 18

# --- jobs_i ----------------------------------------------------------------------------------------------
ARRIVAL = 0
DURATION = 1
LATEST = 2
REMAINING = 3
STATUS = 4
START = 5
END = 6
FINISH = 7
FIRST_START = 8
SUSPENSIONS = 9
BARRED = 10
DELAYED = 11
FOUND_EPOCH = 12
FOUND_START = 13
SEARCHED_TO = 14
JOB_I = 15

FUTURE, WAITING, RESERVED, RUNNING, FINISHED, LEFT = 0, 1, 2, 3, 4, 5

# --- jobs_f ----------------------------------------------------------------------------------------------
VALUE = 0
QOS = 1
LATE_PAID = 2
JOB_F = 3

# --- lists -----------------------------------------------------------------------------------------------
QUEUE = 0
LATE = 1
PLACED = 2
BY_LATEST = 3
OVERDUE = 4
LISTS = 5

# --- rows: the level; by type a bitmap of unoccupied and one of free units (`WORDS` words each); by type the
# number of free units and their largest block, the former -1 when both are out of date
LEVEL = 0
BITS = 1
WORD_BITS = 63  # the sign bit stays clear, so that shifts of int64 are logical

# --- series ----------------------------------------------------------------------------------------------
SOLAR = 0  # kW; with no site, the power level in [0, 1]
WIND = 1
CARBON = 2
WALK = 3
SERIES = 4

# --- cells of the image ----------------------------------------------------------------------------------
CELL_FREE = 0
CELL_DARK = 255
CELL_JOB = 64
CELL_JOBS = 128
CELL_STRIDE = 37

# --- columns of the job table that the agent sees, before the units of each type --------------------------
JOB_FEATURES = 13
