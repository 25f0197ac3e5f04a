"""The simulator's state: constants, records, and the named tuples that hold their arrays.

n environments, J jobs an episode, K visible jobs. ``World``, ``State`` and ``Report`` hold the arrays of a
whole batch, as Python does; ``Site`` is one environment, as the compiled code sees it. All times are whole
seconds of the job log.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.records import Floats, Int64, Ints, Ints32, Real, Records, Table, dtype_of

NEVER = 2**62
"""A time that does not come."""
DAY = 86_400
MOST_SECONDS = 2**40
"""A time of a log or a series beyond this is refused."""
SHORT_RUN = 10
"""Bounded slowdown takes a job to run at least so many seconds."""
NOBODY = -1
"""The user of a job whose log does not tell."""

RLSCHEDULER, EASY = range(2)
"""Profiles."""
NO_BACKFILL, EASY_BACKFILL, CONSERVATIVE = range(3)
ADMIT_ONLY, KILL_REQUEUE, SUSPEND, CHECKPOINT = range(4)
"""What happens to running jobs when the capacity falls."""
ADMIT_NOW, ADMIT_FORECAST = range(2)
"""What a job that starts must fit under: the capacity of now, or also that of the forecast."""
REWARD_SLOWDOWN, REWARD_WAIT, REWARD_VALUE, REWARD_CARBON = range(4)
TO_COME, WAITING, RUNNING, DONE = range(4)
"""What becomes of a job in turn."""

OFFSETS = 10
"""The observation shows the cluster at ``900 * 2 ** k`` seconds from now, k below this."""
FIRST_OFFSET = 900
LEAST_HOURS = (1, 4, 12, 24)
"""The observation shows the least forecast capacity over so many hours."""


class LogJob:
    """A job of the log, as it is known before it runs, and its run time, which planners are not told."""

    submit: Int64
    run: Int64
    """Seconds that it runs; in the profile ``easy`` no more than requested."""
    request: Int64
    """Seconds that its user asked for."""
    processors: Int64
    user: Int64
    """0, 1, ... by user, or ``NOBODY``."""
    group: Int64
    """The narrowest :class:`Group` that it belongs to, or ``NOBODY``."""
    deadline: Int64
    """When it must be done to be on time, or ``NEVER``."""
    value: Real
    inverse: Real
    """One over its run time, which counts as at least ten seconds."""
    weight: Real
    """Request times at least ten seconds times processors: the lowest is first by WSPT."""
    log_request: Real
    log_area: Real
    share: Real
    """Processors over those of the cluster."""


class JobState:
    """What has become of a job in this episode."""

    phase: Int64
    start: Int64
    """Its last start."""
    first_start: Int64
    """Or ``NEVER``."""
    worked: Int64
    """Seconds of its work that were done before its last start, and kept."""
    restore: Int64
    """Seconds that its last start needs before it works on."""
    finish: Int64
    """When it was done, or ``NEVER``."""
    order: Int64
    """Number of its last start among all starts."""
    piece: Int64
    delay: Int64
    """Seconds in which it will not have done its work when its last start is over, from its submission."""
    charged: Real
    """Its bounded slowdown by that delay."""


class Running:
    """A running job by the time at which it would end if it used all that it requested."""

    estimate: Int64
    processors: Int64
    job: Int64


class Ending:
    """A running job by the time at which it will end, which planners are not told."""

    end: Int64
    job: Int64


class Piece:
    """A stretch of time in which a job ran, for pictures."""

    job: Int64
    start: Int64
    stop: Int64
    """Or ``NEVER`` while it runs."""


class Group:
    """What is known of a user's jobs that are done, or of those with the same request and processors.

    Whenever one more is done, what those before it count is multiplied by ``kernel_groups.OLDER``.
    """

    jobs: Real
    """How much they count."""
    runs: Real
    """Sum of their run times."""
    inverses: Real
    """Sum of one over their run times, each at least ten seconds."""


class Cluster:
    """The numbers of one environment."""

    first: Int64
    """Row of the log with which the episode begins."""
    now: Int64
    limit: Int64
    """When the episode is cut."""
    over: Int64
    shift: Int64
    """What is added to the log's seconds to read the power and its forecast."""
    carbon_shift: Int64
    """The same for the carbon series."""
    capacity: Int64
    """Processors that have power."""
    next_change: Int64
    """When the capacity changes."""
    used: Int64
    """Processors that run jobs."""
    waiting: Int64
    """Jobs in the queue."""
    running: Int64
    arrived: Int64
    finished: Int64
    visible: Int64
    """Jobs that the agent sees."""
    starts: Int64
    pieces: Int64
    decisions: Int64
    invalid: Int64
    """Actions that were invalid."""
    preemptions: Int64
    busy: Int64
    """Processor-seconds, as all that follow: in use, ..."""
    powered: Int64
    """... with power, ..."""
    excess: Int64
    """... in use beyond the capacity, ..."""
    wasted: Int64
    """... lost to preemptions and restores."""
    delay: Int64
    """Delay of all jobs that have started, seconds."""
    slowdown: Real
    """Their bounded slowdown, summed."""
    value: Real
    """Value of the jobs that were done on time."""
    carbon: Real
    """kg."""
    paid_slowdown: Real
    """What rewards and costs so far have counted: of :class:`Totals`, ..."""
    paid_delay: Int64
    paid_value: Real
    paid_carbon: Real
    paid_lost: Int64
    """... and of ``wasted`` and ``excess`` together."""


class Settings:
    """The configuration, as the compiled code needs it."""

    profile: Int64
    backfill: Int64
    on_drop: Int64
    admission: Int64
    reward: Int64
    enforce: Int64
    """Whether jobs are killed at their limit."""
    processors: Int64
    jobs: Int64
    """Of an episode."""
    limit: Int64
    """Seconds from the first arrival to the cut."""
    midnight: Int64
    """What the clock shows at second 0 of the log, in seconds from midnight."""
    checkpoint: Int64
    """Seconds that a job needs to go on from its checkpoint."""
    horizon: Int64
    """Seconds that plans look into the forecast."""
    greatest: Int64
    """The greatest capacity of series and forecast."""
    power_period: Int64
    """Seconds after which the power series repeats; 0 without one."""
    forecast_period: Int64
    carbon_period: Int64
    visible: Int64
    """K."""
    busy_kw: Real
    """Of a processor that runs a job."""
    idle_kw: Real
    """Of one that has power and no job."""
    mean_value: Real


LOG_JOB, JOB_STATE, RUNNING_JOB, ENDING = map(dtype_of, (LogJob, JobState, Running, Ending))
PIECE, GROUP, CLUSTER, SETTINGS = map(dtype_of, (Piece, Group, Cluster, Settings))


class Point:
    """From when on how many processors are free, by the estimates of what runs and is promised."""

    time: Int64
    free: Int64


POINT = dtype_of(Point)


class World(NamedTuple):
    """What the environments of a batch run on."""

    settings: Records
    """``(1,)`` :class:`Settings`."""
    log: Records
    """``(N,)`` :class:`LogJob`, in the order of the log."""
    done_before: Ints
    """``(N,)``: when each job of the log was done in the log; history of an episode that begins later."""
    by_done: Ints
    """``(N,)``: the jobs of the log, the first that was done in the log first."""
    wider: Ints
    """``(G,)``: the wider group of each group, or ``NOBODY``."""
    power_times: Ints
    """``(S,)``: when the capacity changes, from 0 to below the period."""
    power: Ints
    """``(S,)``: processors."""
    forecast_times: Ints
    """``(F,)``"""
    forecast: Ints
    """``(F,)``"""
    carbon_times: Ints
    """``(C,)``"""
    carbon: Floats
    """``(C,)``: kg CO2/kWh."""
    carbon_sums: Floats
    """``(C + 1,)``: its integral from 0, kg s/kWh."""
    points: Records
    """``(...)`` :class:`Point`: working space for plans."""
    minima: Records
    """``(...)`` :class:`Point`: working space for the least of the forecast."""
    rank: Ints32
    """``(J,)``: working space."""


class State(NamedTuple):
    """The state of a batch of environments."""

    cluster: Records
    """``(n,)`` :class:`Cluster`."""
    jobs: Records
    """``(n, J)`` :class:`JobState`."""
    queue: Ints32
    """``(n, J)``: waiting jobs in order of arrival."""
    light: Ints32
    """``(n, J)``: waiting jobs by weight, the least first."""
    running: Records
    """``(n, R)`` :class:`Running`, by estimated end, then start."""
    endings: Records
    """``(n, R)`` :class:`Ending`, by end, then start."""
    visible: Ints32
    """``(n, K)``: the job behind each action."""
    groups: Records
    """``(n, G)`` :class:`Group`."""
    pieces: Records
    """``(n, P)`` :class:`Piece`: the last ones, in a ring."""


class Report(NamedTuple):
    """What a step tells of a batch."""

    rewards: Floats
    """``(n,)``"""
    truncated: NDArray[np.bool_]
    """``(n,)``"""
    cost: Floats
    """``(n,)``: processor-hours that the step lost to preemptions or ran beyond the capacity."""
    seconds: Floats
    """``(n,)``: time that passed in the step."""
    started: Ints
    """``(n,)``: jobs that started in the step."""


class Seen(NamedTuple):
    """A batch of observations."""

    jobs: NDArray[np.float32]
    """``(n, K, features)``"""
    cluster: NDArray[np.float32]
    capacity: NDArray[np.float32]
    mask: NDArray[np.int8]
    """``(n, actions)``"""


class Site(NamedTuple):
    """One environment, with what it runs on; see :class:`World` and :class:`State`."""

    settings: Settings
    log: Table[LogJob]
    power_times: Ints
    power: Ints
    forecast_times: Ints
    forecast: Ints
    carbon_times: Ints
    carbon: Floats
    carbon_sums: Floats
    points: Table[Point]
    minima: Table[Point]
    rank: Ints32
    wider: Ints
    cluster: Cluster
    jobs: Table[JobState]
    queue: Ints32
    light: Ints32
    running: Table[Running]
    endings: Table[Ending]
    visible: Ints32
    groups: Table[Group]
    pieces: Table[Piece]


class Totals(NamedTuple):
    """Sums of which the reward is a difference: those of :class:`Cluster`, and what waiting jobs add."""

    slowdown: float
    delay: int
    value: float
    carbon: float


class Rule(NamedTuple):
    """An order of the waiting jobs."""

    kind: int
    """Index into :data:`greendc.cluster.rules.RULES`."""
    fitting: int
    """Whether jobs that can start now come first."""
    predicted: int
    """Whether run times are expected from the user's jobs so far instead of requested ones."""
    weights: Floats
    """Of the rule ``"evolved"``, :data:`greendc.cluster.kernel_evolved.WEIGHTS` of them."""
