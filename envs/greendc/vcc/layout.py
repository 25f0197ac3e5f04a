"""Names of the columns of the simulator's flat arrays, shared by the kernel and its callers."""

from __future__ import annotations

MICRO = 1_000_000
"""CPU is counted in whole millionths of a machine unit, so that sums are exact in any order."""

# A job of the trace: ``trace[j, ...]``, int32.
TRACE_CPU, TRACE_DURATION, TRACE_HOUR, TRACE_CLASS = range(4)
TRACE_FIELDS = 4

# A job in the cluster: ``slots[s, ...]``, int32. ID orders jobs by submission, then input order.
ID, CPU, DURATION, SUBMIT, CLASS, DONE, START, MACHINE = range(8)
SLOT_FIELDS = 8
OUTSIDE = -1
"""``MACHINE`` of an inflexible job that no machine has room for, and that runs all the same."""

# Lists of slots: ``lists[l, :]``, int32; their lengths are the counters of the same number.
QUEUE_MID, QUEUE_BATCH, QUEUE_FREE, RUNNING_INFLEXIBLE, RUNNING_FLEXIBLE, EVICTED, UNUSED = range(7)
LISTS = 7
FIRST_FLEXIBLE_CLASS = 2
"""Classes: 0 monitoring, 1 production (inflexible); 2 mid, 3 batch, 4 free (flexible)."""

# Counters: ``counters[...]``, int64; the first LISTS of them are the lists' lengths.
(
    HOUR,  # hours of the episode that have passed
    MONTH,  # row of the table of emissions
    FORECAST,  # row of the table of forecasts
    NEXT_ID,
    LOAD_INFLEXIBLE,  # millionths of a machine unit
    LOAD_FLEXIBLE,
    EVICTIONS,
    OUTSIDE_JOBS,
    FINISHED_FLEXIBLE,
    SUBMITTED_WORK,  # millionths of a machine-unit-hour, still to do at submission
    SUBMITTED_FLEXIBLE_WORK,
    EXECUTED_WORK,
    EXECUTED_FLEXIBLE_WORK,
    LOST_WORK,  # executed, then lost to evictions
    PENDING_OVERDUE,  # Psi, see kernel.assess
) = range(LISTS, LISTS + 15)
COUNTERS = LISTS + 15

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

# The observation: SustainGym's 27 numbers, then those of the extended one.
PAGE_SIZE = 27
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
