"""Names of the columns of the simulator's flat arrays, shared by the kernels and their callers."""

from __future__ import annotations

MICRO = 1_000_000
"""CPU is counted in whole millionths of a machine unit, so that sums are exact in any order."""
DAY = 24
NOTHING = -1

# A job of the trace: ``trace[j, ...]``, int32, sorted by hour, class and input order. ORDER is its
# place in its day by input order.
TRACE_CPU, TRACE_DURATION, TRACE_CLASS, TRACE_ORDER = range(4)
TRACE_FIELDS = 4
FIRST_FLEXIBLE_CLASS = 2
"""Classes: 0 monitoring, 1 production (inflexible); 2 mid, 3 batch, 4 free (flexible)."""

FLEXIBLE_GROUPS = 3
MID, BATCH, FREE = range(FLEXIBLE_GROUPS)
"""Groups of flexible jobs: group ``g`` is class ``FIRST_FLEXIBLE_CLASS + g``."""

# The place of a flexible job that lasts or has to wait: ``places[j, ...]``, int32, filled in while it
# waits. Each group has a stretch of places for the episode, taken in the order of submission.
(
    LEFT,  # hours of work left
    ORIGIN,  # hour since when it would have waited, had it waited all its delay at one go
    ID,  # orders jobs by submission, then input order
    DURATION,
) = range(4)
PLACE_FIELDS = 4

# A running job: ``stack[r, ...]`` if flexible, ``fixed[r, ...]`` if not, int32.
(
    CPU,
    FINISH,  # hour in which its work is done
    DELAY,  # hours waited since submission
    MACHINE,
    PLACE,
    RUNNING_ID,
    RUNNING_DURATION,
) = range(7)
RUNNING_FIELDS = 8  # half a cache line

# Waiting jobs: ``keys[j]``, int32: CPU of the job that waits in place j, or NO_JOB; behind them the
# least of each block of keys, then of each block of blocks. See kernel_queue.
BLOCK = 64
NO_JOB = 2**31 - 1

# Load of each machine: ``machines[row, machine]``, int64, millionths of a machine unit.
ALL_JOBS, INFLEXIBLE_JOBS = range(2)
MACHINE_ROWS = 2
OUTSIDE = -1
"""``MACHINE`` of an inflexible job that no machine has room for, and that runs all the same."""

# The jobs that will be done, if not evicted, 1 to 24 hours after the last midnight (the last row has all
# others): ``calendar[hours, ...]``, int64. First the CPU of flexible jobs by bin of delay; then the load
# on machines, of flexible jobs, of inflexible ones, and that outside.
N_DELAY_BINS = 6
LATE = N_DELAY_BINS - 1
"""Bins of delay: 0, 1-5, 6-11, 12-17 and 18-23 hours, and 24 or more, which is late."""
LEAVING = N_DELAY_BINS
CALENDAR_ROWS = DAY + 2

# Counters: ``counters[...]``, int64.
(
    HOUR,  # hours of the episode that have passed
    MIDNIGHT,  # hour of the last midnight
    MONTH,  # row of the table of emissions
    FORECAST,  # row of the table of forecasts
    ID_BASE,  # id of the first job of today
    STACK_TOP,
    FIXED_JOBS,  # entries of ``fixed``
    WAITING_JOBS,
    LOAD_INFLEXIBLE,  # millionths of a machine unit
    LOAD_FLEXIBLE,
    DEMAND_TODAY,  # no-delay load of today's hours so far, summed
    EVICTIONS,
    OUTSIDE_JOBS,
    SUBMITTED_WORK,  # millionths of a machine-unit-hour, still to do at submission
    SUBMITTED_FLEXIBLE_WORK,
    EXECUTED_WORK,
    EXECUTED_FLEXIBLE_WORK,
    LOST_WORK,  # executed, then lost to evictions
    OVERDUE_WORK,  # now, and how fast it grows an hour
    OVERDUE_SLOPE,
    UNFINISHED,  # what will be undone at the episode's end if nothing is delayed from now on
    WAITING_PAST_END,  # CPU of the waiting jobs that cannot be done by the end
    RUNNING_PAST_END,  # and of the running flexible ones that will not be
    PENDING_OVERDUE,  # Psi
) = range(24)
RUNNING_BINS = 24  # CPU of the running flexible jobs, by bin of delay
END_PLACES = RUNNING_BINS + N_DELAY_BINS  # end of the places of each group that are taken
COUNTERS = END_PLACES + FLEXIBLE_GROUPS

# CPU of the waiting jobs that are not late and have more than an hour of work left, by ORIGIN modulo 24
# and hours of work left: ``waiting[left // CHUNK, row, left % CHUNK]``, int64. Cells that are used together
# are neighbors in memory. What is missing from BY_ROW has an hour of work left. Cell (0, 0, 0) is scratch.
CHUNK = 16
LATE_ROW = DAY
"""The row of all waiting jobs that are late, in BY_ROW."""

# Lateness: ``lateness[row, column]``, int64.
# By day end (column k is hour 24 k): what is owed there; the CPU of the late jobs whose last day end
# before they are done is this, if not delayed any more: of those that wait, and of all.
OWED, LATE_WAITING, LATE_JOBS = range(3)
# By ORIGIN modulo 24, or LATE_ROW: CPU of the waiting jobs, and the bits of the chunks of ``waiting``
# that have been in use.
BY_ROW, USED = 3, 4
# By hours of work left: CPU of the waiting jobs, of all and of those that are late.
BY_LEFT, LATE_BY_LEFT = 5, 6
# By delay: number of flexible jobs that have done their work, or that run to its end.
DELAYS = 7
# By hour: CPU of the late jobs whose overdue work ceases to grow with time.
KINKS = 8
LATE_ROWS = 9

# Sums: ``sums[...]``, float64.
LAST_VCC, VCC_TODAY = range(2)
SUMS = 2

# What a step reports: ``info[...]``, float64, and ``history[hour, ...]``.
INFO = ("cost", "carbon", "slo", "overdue", "vcc", "load", "inflexible_load", "waiting", "moer")
(
    INFO_COST,
    INFO_CARBON,
    INFO_SLO,
    INFO_OVERDUE,
    INFO_VCC,
    INFO_LOAD,
    INFO_INFLEXIBLE,
    INFO_WAITING,
    INFO_MOER,
) = range(len(INFO))

# Settings: ``settings[...]``, float64, and ``switches[...]``, int64.
CARBON_WEIGHT, SLO_WEIGHT, KW_PER_UNIT = range(3)
SETTINGS = 3
(
    HOURS,  # length of the episode
    CAPACITY,  # millionths of a machine unit
    EVICT,
    EVICTION_LOSS,
    SLO_OVERDUE,  # else the page's
    INCURRED,  # else charged at the day's end
    BASELINE,  # subtract the no-delay schedule's emissions
    CONSTRAINED,
    TOLERANCE,  # overdue work forgiven on a future day, millionths of a machine-unit-hour
    EXTENDED,  # observation
) = range(10)
FIRST_PLACES = 10  # of each group
SWITCHES = FIRST_PLACES + FLEXIBLE_GROUPS

# The observation: SustainGym's 27 numbers, then those of the extended one.
PAGE_SIZE = 27
FORECAST_FEATURES = 27
"""Columns of the table of forecasts: 24 hours, then rank, mean and gap of the first."""
(
    SINE,
    COSINE,
    VCC_SPENT,
    DEMAND,
    OVERDUE,
    MOER_RANK,
    MOER_MEAN,
    MOER_GAP,
    DELAY_BINS,
) = range(PAGE_SIZE, PAGE_SIZE + 9)
PENDING = DELAY_BINS + N_DELAY_BINS
PAUSE_CHARGE = PENDING + 1
EXTENDED_SIZE = PAUSE_CHARGE + 1
