"""The simulator's state: constants, records, and the named tuples that hold their arrays.

n environments, P places, M machines, T hours, D = T / 24 days. ``State``, ``World`` and ``Report`` hold the
arrays of a whole batch, as Python does; ``Datacenter`` is one environment, as the compiled code sees it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.records import Floats, Int32, Int64, Ints, Ints32, Real, Records, Table, dtype_of
from greendc.vcc.columns import N_DELAY_BINS

MICRO = 1_000_000
"""CPU is counted in whole millionths of a machine unit, so that sums are exact in any order."""
DAY = 24
NOTHING = -1
OUTSIDE = -1
"""Machine of an inflexible job that no machine has room for, and that runs all the same."""

FIRST_FLEXIBLE_CLASS = 2
"""Classes: 0 monitoring, 1 production (inflexible); 2 mid, 3 batch, 4 free (flexible)."""
FLEXIBLE_GROUPS = 3
MID, BATCH, FREE = range(FLEXIBLE_GROUPS)
"""Groups of flexible jobs: group ``g`` is class ``FIRST_FLEXIBLE_CLASS + g``."""

BLOCK = 64
"""Places in a block of waiting jobs, and blocks in the next: see :mod:`greendc.vcc.kernel_queue`."""
NO_JOB = 2**31 - 1
CALENDAR_ROWS = DAY + 2
"""Rows of calendars: 0 to 24 hours after the last midnight, and all that is later."""
CHUNK = 16
"""Hours of work left whose sums are neighbors in memory."""


class TraceJob:
    """A job of the trace; jobs are sorted by hour, class and input order."""

    cpu: Int32
    duration: Int32
    job_class: Int32
    order: Int32
    """Its place in its day by input order."""


class Place:
    """The place of a flexible job that lasts or has to wait, filled in while it waits.

    Each group has a stretch of places for the episode, taken in the order of submission.
    """

    left: Int32
    """Hours of work left."""
    origin: Int32
    """Hour since when it would have waited, had it waited all its delay at one go."""
    id: Int32
    """Orders jobs by submission, then input order."""
    duration: Int32


class RunningJob:
    """A running job; of an inflexible one CPU, finish and machine alone."""

    cpu: Int32
    finish: Int32
    """Hour in which its work is done; at or before now, the entry is one of a job that runs no more."""
    delay: Int32
    """Hours waited since submission."""
    machine: Int32
    place: Int32
    id: Int32
    duration: Int32
    padding: Int32
    """Half a cache line in all."""


class DayEnd:
    """The end of a day of the episode: lateness there."""

    owed: Int64
    """What is owed, if nothing is delayed from now on."""
    late_waiting: Int64
    """CPU of the waiting late jobs whose last day end before they are done is this, if not delayed."""
    late_jobs: Int64
    """The same of all late jobs."""


class LeftHours:
    """The waiting jobs with so many hours of work left (T: or more): their CPU."""

    waiting: Int64
    late: Int64
    """Of those that are late."""


class Cluster:
    """The numbers of one environment; CPU in millionths of a machine unit, work in those times hours."""

    now: Int64
    """Hours of the episode that have passed."""
    midnight: Int64
    """Hour of the last midnight."""
    month: Int64
    """Row of the table of emissions."""
    forecast: Int64
    """Row of the table of forecasts."""
    id_base: Int64
    """Id of the first job of today."""
    stack_top: Int64
    """Entries of ``stack``, and of ``fixed``."""
    fixed_jobs: Int64
    waiting_jobs: Int64
    load_inflexible: Int64
    load_flexible: Int64
    demand_today: Int64
    """No-delay load of today's hours so far, summed."""
    evictions: Int64
    outside_jobs: Int64
    submitted_work: Int64
    """Still to do at submission."""
    submitted_flexible_work: Int64
    executed_work: Int64
    executed_flexible_work: Int64
    lost_work: Int64
    """Executed, then lost to evictions."""
    overdue_work: Int64
    """Now, and how fast it grows an hour."""
    overdue_slope: Int64
    unfinished: Int64
    """What will be undone at the episode's end if nothing is delayed from now on."""
    waiting_past_end: Int64
    """CPU of the waiting jobs that cannot be done by the end."""
    running_past_end: Int64
    """And of the running flexible ones that will not be."""
    pending_overdue: Int64
    """Psi."""
    late_cpu: Int64
    """CPU of the waiting jobs that are late."""
    last_vcc: Real
    vcc_today: Real
    running_by_delay: Annotated[Ints, np.int64, N_DELAY_BINS]
    """CPU of the running flexible jobs, by bin of delay."""
    ends: Annotated[Ints, np.int64, FLEXIBLE_GROUPS]
    """End of the places of each group that are taken."""
    waiting_by_origin: Annotated[Ints, np.int64, DAY]
    """CPU of the waiting jobs that are not late, by origin modulo 24."""
    chunks_used: Annotated[Ints, np.int64, DAY]
    """By origin modulo 24: bits of the chunks of ``waiting`` that have been in use."""


class Settings:
    """The configuration, as the compiled code needs it."""

    hours: Int64
    """Length of the episode."""
    capacity: Int64
    """Millionths of a machine unit."""
    evict: Int64
    eviction_loss: Int64
    slo_overdue: Int64
    """Whether the SLO is ``overdue``, else the page's."""
    incurred: Int64
    """Whether overdue work is charged when incurred, else at the day's end."""
    baseline: Int64
    """Whether the no-delay schedule's emissions are subtracted."""
    constrained: Int64
    extended: Int64
    """Whether the observation is."""
    tolerance: Int64
    """Overdue work forgiven on a future day, millionths of a machine-unit-hour."""
    mean_day: Real
    """Demand of the trace's mean day, millionths of a machine-unit-hour."""
    carbon_weight: Real
    slo_weight: Real
    kw_per_unit: Real
    first_places: Annotated[Ints, np.int64, FLEXIBLE_GROUPS]
    """Of each group."""


TRACE_JOB, PLACE, RUNNING_JOB = dtype_of(TraceJob), dtype_of(Place), dtype_of(RunningJob)
DAY_END, LEFT_HOURS = dtype_of(DayEnd), dtype_of(LeftHours)
CLUSTER, SETTINGS = dtype_of(Cluster), dtype_of(Settings)


class World(NamedTuple):
    """What the environments of a batch run on."""

    settings: Records
    """``(1,)`` :class:`Settings`."""
    start: Records
    """``(1,)`` :class:`Cluster`: what an episode begins with."""
    trace: Records
    """``(J,)`` :class:`TraceJob`."""
    input_order: Ints32
    """``(J,)``: rows of the trace by hour, then input order."""
    hour_offsets: Ints
    """``(24 * trace days + 1,)``: first job of each hour of the trace."""
    days: Ints
    """``(n, D + 1)``: the trace's day before t = 0, then one for each day."""
    moer: Floats
    """``(months, T)``: kg CO2/kWh."""
    forecast: Floats
    """``(tables, T + 1, 27)``: 24 hours, then rank, mean and gap of the first."""
    no_delay: Ints
    """``(n, T)``: load of the no-delay schedule, millionths of a machine unit."""
    scale: Floats
    """``(43,)``: what raw observations are multiplied by."""
    started: Records
    """``(FLEXIBLE_GROUPS, F + 1)`` :class:`RunningJob`: working space for the jobs that start in an hour."""


class State(NamedTuple):
    """The state of a batch of environments."""

    cluster: Records
    """``(n,)`` :class:`Cluster`."""
    places: Records
    """``(n, P)`` :class:`Place`: flexible jobs that wait."""
    keys: Ints32
    """``(n, ...)``: CPU of the job that waits in each place, or ``NO_JOB``, and the least of blocks."""
    stack: Records
    """``(n, F)`` :class:`RunningJob`: flexible jobs by start, then id, and some that run no more."""
    fixed: Records
    """``(n, ...)`` :class:`RunningJob`: inflexible jobs, and some that run no more."""
    loads: Ints
    """``(n, M)``: load of each machine."""
    inflexible_loads: Ints
    """``(n, M)``: load of inflexible jobs on each machine."""
    leaving: Ints
    """``(n, CALENDAR_ROWS, 2 M + 1)``: load of the jobs that will be done then, if not evicted: of flexible
    jobs by machine, of inflexible ones by machine, and of those outside."""
    leaving_bins: Ints
    """``(n, CALENDAR_ROWS, N_DELAY_BINS)``: CPU of the flexible ones among them, by bin of delay."""
    waiting: Ints
    """``(n, T // CHUNK + 1, 24, CHUNK)``: CPU of the waiting jobs that are not late and have more than an
    hour of work left, by ``left // CHUNK``, origin modulo 24, ``left % CHUNK``. Cell (0, 0, 0) is scratch."""
    left: Records
    """``(n, T + 1)`` :class:`LeftHours`."""
    day_ends: Records
    """``(n, D + 1)`` :class:`DayEnd`: of hour 24 k in column k."""
    kinks: Ints
    """``(n, T + 2)``: by hour, CPU of the late jobs whose overdue work ceases to grow with time."""
    delays: Ints
    """``(n, T + 49)``: number of flexible jobs that have done their work, or run to its end, by delay."""


ZEROED = ("leaving", "leaving_bins", "left", "day_ends")
"""Tables of :class:`State` that Python fills with zeros before an episode begins."""


class Report(NamedTuple):
    """What a step tells of a batch."""

    info: Records
    """``(n,)`` :class:`~greendc.vcc.columns.Hour`."""
    history: Records
    """``(n, T)`` :class:`~greendc.vcc.columns.Hour`."""
    rewards: Floats
    """``(n,)``"""
    truncated: NDArray[np.bool_]
    """``(n,)``"""
    observation: Records
    """``(n,)`` :class:`~greendc.vcc.columns.Observation`: before scaling."""
    raw: Floats
    """``(n, 43)``: the same memory, as numbers."""


class Datacenter(NamedTuple):
    """One environment, with what it runs on; see :class:`World` and :class:`State`."""

    settings: Settings
    trace: Table[TraceJob]
    hour_offsets: Ints
    started: Table[RunningJob]
    cluster: Cluster
    places: Table[Place]
    keys: Ints32
    stack: Table[RunningJob]
    fixed: Table[RunningJob]
    loads: Ints
    inflexible_loads: Ints
    leaving: Ints
    leaving_bins: Ints
    waiting: Ints
    left: Table[LeftHours]
    day_ends: Table[DayEnd]
    kinks: Ints
    delays: Ints


class Job(NamedTuple):
    """A flexible job that starts or begins to wait."""

    cpu: int
    left: int
    """Hours of work left."""
    delay: int
    """Hours waited so far, and work lost to evictions."""
    id: int
    duration: int
