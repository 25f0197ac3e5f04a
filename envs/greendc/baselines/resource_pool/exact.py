"""The exact optimum of a tiny pool, by dynamic programming over the environment's own rules.

A pool of a few units of one type, whose jobs come from a
:class:`~greendc.baselines.resource_pool.job_classes.ClassWorkload`, has few states: for each unit, for how
many steps it is still taken, and for each waiting job its class and its age. So the value of every policy
that looks at the state, and the best such policy, can be computed and need not be estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.resource_pool.job_classes import ClassWorkload
from greendc.config import require
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.jobs import job_values

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WAIT = -1
"""The action that lets a step pass; others are places in the queue, the oldest job first."""

MOST_STATES = 1_000_000
TIE = 1e-12
"""Actions whose values differ by less are equally good."""


class State(NamedTuple):
    """Where a tiny pool stands when it is to decide.

    :param taken: for each unit, how many more steps it is taken
    :param queue: ``(class, age in steps)`` of each waiting job, the oldest first
    """

    taken: tuple[int, ...]
    queue: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Played:
    """A policy of a tiny pool with its exact values.

    :param actions: ``(T, S)``: what it does in each step and state, :data:`WAIT` or a place in the queue
    :param values: ``(T + 1, S)``: what it earns from there to the end of the episode
    """

    actions: Ints
    values: Floats


class ExactPool:
    """The states of a tiny pool, what leads from one to another, and the best that can be done.

    The environment must have the rules under which this is the whole truth: one resource type, constant full
    power, no suspension, no delays, ``placement="now"`` and ``late_jobs="leave"``, and room in the ready pool
    for all jobs that can wait at once.

    :param config: of the environment; its ``workload`` is a
        :class:`~greendc.baselines.resource_pool.job_classes.ClassWorkload`
    :raises ValueError: for another rule (the field is named), or if there are more than a million states
    """

    def __init__(self, config: ResourcePoolConfig) -> None:
        self.workload = require_tiny(config)
        self.config = config
        jobs = self.workload.of_each()
        self.duration, self.units = jobs.duration, jobs.units[:, 0]
        self.slack, self.value = self.workload.slack, job_values(jobs, config.price_list)
        self.states = self._reachable()
        self._index = {state: s for s, state in enumerate(self.states)}
        self._link()

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self.states)

    # --- the rules --------------------------------------------------------------------------------------

    def start(self, state: State, place: int) -> State | None:
        """Return the state after the job at ``place`` in the queue starts, ``None`` if it does not fit.

        It gets the lowest block of contiguous free units. No time passes.
        """
        kind = state.queue[place][0]
        need = int(self.units[kind])
        for first in range(len(state.taken) - need + 1):
            if not any(state.taken[first : first + need]):
                block = (int(self.duration[kind]),) * need
                taken = (*state.taken[:first], *block, *state.taken[first + need :])
                return State(taken, state.queue[:place] + state.queue[place + 1 :])
        return None

    def wait(self, state: State, arriving: int | None) -> State:
        """Return the state one step later.

        Jobs that can no longer be on time have left.

        :param arriving: class of the job that comes, or ``None``
        """
        taken = tuple(max(steps - 1, 0) for steps in state.taken)
        queue = [(kind, age + 1) for kind, age in state.queue if age + 1 <= self.slack[kind]]
        if arriving is not None:
            queue.append((arriving, 0))
        return State(taken, tuple(queue))

    @cached_property
    def probabilities(self) -> Floats:
        """``(1 + K,)``: that no job comes in a step, and that one of each class does."""
        coming = self.workload.probability
        return np.concatenate([[1.0 - coming], coming * self.workload.shares])

    def arrivals(self) -> list[int | None]:
        """Return what may come in a step, in the order of :attr:`probabilities`."""
        return [None, *range(len(self.value))]

    # --- the states -------------------------------------------------------------------------------------

    def first_states(self) -> list[State]:
        """Return the states in which an episode may begin, in the order of :attr:`probabilities`."""
        free = (0,) * self.config.units
        return [State(free, () if kind is None else ((kind, 0),)) for kind in self.arrivals()]

    def _reachable(self) -> list[State]:
        found = dict.fromkeys(self.first_states())
        waiting = list(found)
        while waiting:
            state = waiting.pop()
            after = [self.start(state, place) for place in range(len(state.queue))]
            after += [self.wait(state, kind) for kind in self.arrivals()]
            for other in after:
                if other is not None and other not in found:
                    found[other] = None
                    waiting.append(other)
            require(
                len(found) <= MOST_STATES,
                "workload",
                self.workload,
                f"one of {MOST_STATES:,} states or fewer",
            )
        longest = max(len(state.queue) for state in found)
        room = self.config.ready_pool_size
        require(room >= longest, "ready_pool_size", room, f"at least {longest}, for all jobs that can wait")
        return sorted(found, key=lambda state: len(state.queue))

    def _link(self) -> None:
        """Write down what leads where.

        ``after[s, place]`` is the state after the job at ``place`` starts, or -1; ``kinds`` has the job's
        class there, and the ages are in ``ages``. ``later[s, k]`` is the state one step later.
        """
        most = len(self.states[-1].queue)
        self.after = np.full((len(self), most), -1)
        self.kinds = np.full((len(self), most), -1)
        self.ages = np.full((len(self), most), -1)
        self.later = np.empty((len(self), len(self.probabilities)), np.int64)
        for s, state in enumerate(self.states):
            for place, (kind, age) in enumerate(state.queue):
                self.kinds[s, place], self.ages[s, place] = kind, age
                after = self.start(state, place)
                if after is not None:
                    self.after[s, place] = self._index[after]
            self.later[s] = [self._index[self.wait(state, kind)] for kind in self.arrivals()]
        lengths = np.array([len(state.queue) for state in self.states])
        edges = np.searchsorted(lengths, np.arange(most + 2))
        self._by_length = [slice(int(a), int(b)) for a, b in pairwise(edges)]

    # --- values -----------------------------------------------------------------------------------------

    def optimum(self) -> Played:
        """Return the best policy of all that know the state and the time, with its values."""
        return self._backward(None)

    def evaluate(self, actions: Ints) -> Played:
        """Return a policy with its values.

        :param actions: ``(T, S)``, or ``(S,)`` of a policy that does not look at the time
        :raises ValueError: if it starts a job that does not fit
        """
        actions = np.broadcast_to(actions, (self.config.episode_steps, len(self)))
        for row in np.unique(actions, axis=0):
            started = np.flatnonzero(row != WAIT)
            fits = self.after[started, row[started]] >= 0
            require(bool(fits.all()), "actions", "a start", "of a job that fits")
        return self._backward(actions)

    def improve(self, policy: Played) -> Played:
        """Return one step of policy improvement.

        Each action is worth what ``policy`` earns after it, exactly; the best one is taken. This is what a
        rollout over ``policy`` would be with infinitely many futures, to the end of the episode.
        """
        best = np.full(policy.actions.shape, WAIT)
        for t in range(len(best)):
            for rows in self._by_length:
                worth = self._worth(policy.values, t, rows)
                best[t, rows] = np.argmax(worth >= worth.max(axis=1, keepdims=True) - TIE, axis=1) - 1
        return self._backward(best)

    def first_value(self, policy: Played) -> float:
        """Return what a policy earns in an episode, on average."""
        first = [self._index[state] for state in self.first_states()]
        return float(self.probabilities @ policy.values[0, first])

    def pay(self, t: int | Ints, kind: Ints) -> Floats:
        """Return what starting jobs of these classes in step ``t`` earns: nothing if the end comes first."""
        paid: Floats = np.where(t + self.duration[kind] <= self.config.episode_steps, self.value[kind], 0.0)
        return paid

    def _worth(self, values: Floats, t: int, rows: slice) -> Floats:
        """Return the value of each action in states of equally long queues, -inf where a job does not fit.

        :return: ``(rows, 1 + places)``: of waiting, and of starting each job
        """
        places = len(self.states[rows.start].queue) if rows.start < rows.stop else 0
        worth = np.full((rows.stop - rows.start, 1 + places), -np.inf)
        worth[:, 0] = values[t + 1][self.later[rows]] @ self.probabilities
        for place in range(places):
            after = self.after[rows, place]
            earned = self.pay(t, self.kinds[rows, place]) + values[t][after]
            worth[:, 1 + place] = np.where(after >= 0, earned, -np.inf)
        return worth

    def _backward(self, actions: Ints | None) -> Played:
        """Go back from the end of the episode; a start leads to a shorter queue, which is done before."""
        steps = self.config.episode_steps
        taken = np.full((steps, len(self)), WAIT) if actions is None else actions
        values = np.zeros((steps + 1, len(self)))
        for t in range(steps - 1, -1, -1):
            for rows in self._by_length:
                worth = self._worth(values, t, rows)
                if actions is None:
                    taken[t, rows] = np.argmax(worth, axis=1) - 1
                values[t, rows] = np.take_along_axis(worth, taken[t, rows, None] + 1, axis=1)[:, 0]
        return Played(taken, values)

    def by_rule(self, keys: Floats) -> Ints:
        """Return the policy that starts the first job in an order that fits, and never waits on purpose.

        :param keys: ``(S, places)``: the least goes first, of equals the older job
        :return: ``(S,)``
        """
        keys = np.where(self.after >= 0, keys, np.inf)
        first = np.argmin(keys, axis=1)
        fits = np.isfinite(keys[np.arange(len(self)), first])
        return np.where(fits, first, WAIT)

    def deadline_never(self) -> Ints:
        """Return ``deadline_never`` as a policy of the states, ``(S,)``: the highest QoS value first."""
        qos = np.array([one.qos for one in self.workload.classes])
        return self.by_rule(-qos[self.kinds])


def require_tiny(config: ResourcePoolConfig) -> ClassWorkload:
    """Return the workload of a pool whose rules are those of :class:`ExactPool`.

    :raises ValueError: names the field that is otherwise
    """
    for name, wanted in (
        ("resource_types", 1),
        ("power", "constant"),
        ("power_level", 1.0),
        ("suspend", False),
        ("start_delay", 0),
        ("end_delay", 0),
        ("forecast_error", 0.0),
        ("placement", "now"),
        ("late_jobs", "leave"),
        ("queue_order", "arrival"),
    ):
        found = getattr(config, name)
        require(found == wanted, name, found, f"{wanted!r} for an exact optimum")
    workload = config.workload
    if not isinstance(workload, ClassWorkload):
        raise ValueError(f"workload={workload!r}: must be a ClassWorkload for an exact optimum")
    jobs = workload.of_each()
    fits = jobs.units.max() <= config.units and jobs.duration.max() <= config.longest_job
    require(
        bool(fits),
        "workload",
        workload,
        f"of jobs that fit {config.units} units and {config.longest_job} steps",
    )
    return workload
