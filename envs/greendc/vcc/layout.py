"""Names of the columns of the simulator's flat arrays, shared by the kernels and their callers."""

from __future__ import annotations

MICRO = 1_000_000
"""CPU is counted in whole millionths of a machine unit, so that sums are exact in any order."""
DAY = 24

# A job of the trace: ``trace[j, ...]``, int32, sorted by hour, class and input order. ORDER is its
# place in its day by input order.
TRACE_CPU, TRACE_DURATION, TRACE_CLASS, TRACE_ORDER = range(4)
TRACE_FIELDS = 4
CLASSES = 5
FIRST_FLEXIBLE_CLASS = 2
"""Classes: 0 monitoring, 1 production (inflexible); 2 mid, 3 batch, 4 free (flexible)."""

# A job in the cluster: ``slots[s, ...]``, int32. ID orders jobs by submission, then input order.
(
    STATE,
    ID,
    CPU,
    CLASS,
    DURATION,
    SUBMIT,
    LEFT,  # hours of work left: of a waiting job now, of a running one when it started
    DELAY,  # of a running job: hours that it has waited since submission
    FINISH,
    MACHINE,
    POSITION,  # in the queue of its class, for good
    NEXT,  # running jobs that finish in the same hour are a linked list
    PREVIOUS,
    STACKED,  # index in the stack of running flexible jobs
) = range(14)
SLOT_FIELDS = 16  # a cache line
VACANT, WAITING, RUNNING = range(3)
OUTSIDE = -1
"""``MACHINE`` of an inflexible job that no machine has room for, and that runs all the same."""
NOTHING = -1

# Lists: ``lists[l, :]``, int32: the stack of running flexible jobs, vacated slots, the jobs started in
# this hour by class, and the first slot of the linked list of running jobs that finish at each hour.
RUNNING_STACK, VACATED, STARTED_MID = range(3)
FINISHING = STARTED_MID + 3
LISTS = FINISHING + 1

# Load of each machine: ``machines[row, machine]``, int64, millionths of a machine unit: all of it, that
# of inflexible jobs, and the parts of both that leave when the next hour begins.
ALL_JOBS, INFLEXIBLE_JOBS, LEAVING_JOBS, LEAVING_INFLEXIBLE_JOBS = range(4)
MACHINE_ROWS = 4

# Waiting jobs: ``queue[class, ...]``, int32, flat: slots by position, then CPU by position, then the
# least CPU of each block of positions, then of each block of blocks.
BLOCK = 64
NO_JOB = 2**31 - 1
"""CPU of an empty position."""

# Counters: ``counters[...]``, int64.
(
    HOUR,  # hours of the episode that have passed
    MONTH,  # row of the table of emissions
    FORECAST,  # row of the table of forecasts
    ID_BASE,  # id of the first job of today
    STACK_TOP,
    VACATED_TOP,
    HIGH_WATER,  # slots ever used
    LOAD_INFLEXIBLE,  # millionths of a machine unit
    LOAD_FLEXIBLE,
    LEAVING_INFLEXIBLE,  # load of the jobs whose work is done, which leave when the next hour begins
    LEAVING_FLEXIBLE,
    DEMAND_TODAY,  # no-delay load of today's hours so far, summed
    EVICTIONS,
    OUTSIDE_JOBS,
    SUBMITTED_WORK,  # millionths of a machine-unit-hour, still to do at submission
    SUBMITTED_FLEXIBLE_WORK,
    EXECUTED_WORK,
    EXECUTED_FLEXIBLE_WORK,
    LOST_WORK,  # executed, then lost to evictions
    OVERDUE_WAITING,  # the overdue work of waiting jobs, and how fast it grows an hour
    OVERDUE_WAITING_SLOPE,
    OVERDUE_RUNNING,
    OVERDUE_RUNNING_SLOPE,
    LATE_WAITING_CPU,  # waiting 24 h or more
    UNFINISHED,  # what will be undone at the episode's end if nothing is delayed from now on
    WAITING_PAST_END,  # CPU of the waiting jobs that cannot be done by the end
    RUNNING_PAST_END,  # and of the running flexible ones that will not be
    PENDING_OVERDUE,  # Psi
) = range(28)
WAITING_JOBS, POSITIONS = 28, 31  # one for each flexible class
COUNTERS = 34

# Lateness: ``lateness[row, column]``, int64.
# Rows 0 to 23: CPU of the waiting jobs that began to wait, on balance, at that hour of any day, by
# hours of work left; then that of all that are lateness, and of all.
LATE_ROW, ALL_ROW = DAY, DAY + 1
# By hour: changes of slope of the overdue work of waiting and of running jobs.
SLOPES_WAITING, SLOPES_RUNNING = DAY + 2, DAY + 3
# By day end (column k is hour 24 k): what is owed there, and the CPU that adds to it an hour.
OWED, LATE_WAITING, LATE_RUNNING = DAY + 4, DAY + 5, DAY + 6
# CPU by delay: of waiting jobs by the hour of the day that they began to wait, then of running jobs
# by delay (24: lateness). Number of flexible jobs done, by delay.
BY_DELAY, DELAYS = DAY + 7, DAY + 8
RUNNING_DELAYS = DAY
# By the hour of the day that they began to wait: no waiting job has more hours of work left.
LONGEST = DAY + 9
LATE_ROWS = DAY + 10

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
SWITCHES = 10

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
N_DELAY_BINS = 6
PENDING = DELAY_BINS + N_DELAY_BINS
PAUSE_CHARGE = PENDING + 1
EXTENDED_SIZE = PAUSE_CHARGE + 1
