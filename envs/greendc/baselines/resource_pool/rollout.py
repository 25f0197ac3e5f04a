"""The planner that tries each action in sampled futures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import BaselinePolicy
from greendc.baselines.resource_pool.futures import FutureBank, Futures
from greendc.baselines.resource_pool.policy import require_no_commands
from greendc.compiled import EntryPoint
from greendc.config import require, require_one_of
from greendc.resource_pool import ResourcePoolSimulator, kernel_race, kernel_rollout, orders
from greendc.resource_pool.plans import make_memory, with_jobs
from greendc.simulator import Observation

BASES = {
    "qos": orders.QOS,
    "density": orders.DENSITY,
    "hvf": orders.HVF,
    "sjf": orders.SJF,
    "edf": orders.EDF,
    "fcfs": orders.FCFS,
}
"""Orders in which the heuristic inside a rollout starts jobs."""

DISPATCHES = ("skip", "easy")
"""What it does about a job that does not fit: pass over it, or keep the earliest place for it."""

Prior: TypeAlias = Callable[[Observation], NDArray[np.float64]]
"""What is thought of each action before it is tried: values ``(n, n_actions)``, in mean job values."""

LEAST_BANK = 1024
MARGIN = 0.01
"""By how much, in mean job values, actions that are never taken are at least worse than ``no_op``."""


class Rollout(BaselinePolicy[ResourcePoolSimulator]):
    """``rollout``: try each valid action in sampled futures, and take the best.

    One step of policy improvement over a heuristic (Tesauro and Galperin, 1996; Bertsekas and Castañon,
    1999): after each valid action the heuristic goes on for ``depth`` steps in each of ``futures`` sampled
    futures, the same ones for every action. An action is worth the value of the jobs that are placed so
    that they finish on time, on average over the futures; of a job that runs on after ``depth`` steps, the
    share of its run time before.

    It takes starts of jobs that will be on time, ``suspend`` and ``no_op``. Not reservations: the
    next step's plan can make them, and knows more. Not late starts, which pay nothing. Rollouts
    overrate a reservation, since the heuristic never makes it later: taken at that value, they end up
    below the heuristic.

    What it knows is what an operator knows: all waiting jobs (not the ready pool alone), what is placed,
    the power forecast in the rows of the image (beyond them its last day is taken to repeat), and the
    workload, of which it draws futures of its own. The true future arrivals play no part. It does not know
    that an episode ends. It takes the forecast to be exact.

    With a ``prior`` it is a short search on top of a network distilled from rollouts: the few futures of a
    decision are noisy, and the network has averaged over those of thousands. Both valuations are averaged,
    the network's with the weight of ``trust`` futures.

    :param simulator: the simulator to act on
    :param futures: sampled futures of each decision
    :param depth: steps that a rollout looks ahead, this one included
    :param base: the heuristic inside a rollout starts the waiting jobs in this order (:data:`BASES`), as soon
        as they fit, those that would be late not at all; ``"qos"`` is ``deadline_never``
    :param dispatch: what it does about a job that does not fit: ``"skip"`` passes over it; ``"easy"`` starts
        others only where they do not delay the first such job that can still be on time (backfilling)
    :param min_qos: nor does it start jobs of a lesser QoS value; under heavy load a heuristic that leaves
        them earns more, and rollouts with it
    :param seed: fixes the futures
    :param prior: a function of observations; ``sb3_greendc.evaluation.prior.read_prior`` makes one of a
        distilled model, and commands take its path, ``pretrained`` or ``pretrained:NAME``
    :param trust: how many futures the prior counts as
    :param race: an action is tried no further once it is behind the best by more than so many standard errors
        of their difference, after 16, 32, 64 ... futures (Maron and Moore, "Hoeffding Races", NIPS 1994).
        With 2, 128 futures take three fifths of the time and earn as much (docs/planners.md); default: never.
        ``advantages`` are of all futures
    :raises ValueError: for a number out of range, another base or dispatch, or a prior that does not fit
    """

    reads_state = True

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        futures: int = 100,
        depth: int = 40,
        base: str = "qos",
        seed: int = 0,
        dispatch: str = "skip",
        min_qos: float = 0.0,
        prior: Prior | None = None,
        trust: int = 32,
        race: float | None = None,
    ) -> None:
        super().__init__(require_no_commands(simulator))
        require(futures >= 1, "futures", futures, "at least 1")
        require(depth >= 1, "depth", depth, "at least 1 step")
        require(seed >= 0, "seed", seed, "at least 0")
        require(min_qos >= 0, "min_qos", min_qos, "at least 0")
        require(trust >= 1, "trust", trust, "at least 1")
        require(race is None or race > 0, "race", race, "above 0 standard errors")
        require_one_of("base", base, BASES)
        require_one_of("dispatch", dispatch, DISPATCHES)
        require(prior is None or callable(prior), "prior", prior, "a function of observations")
        self.futures, self.depth, self.base, self.seed = futures, depth, base, seed
        self.min_qos, self.trust = float(min_qos), trust
        self.prior = prior
        self.race = None if race is None else float(race)
        self._order = BASES[base]
        size = max(LEAST_BANK, 4 * futures)
        self._bank = FutureBank(
            simulator, size, depth, self._order, np.random.default_rng(seed), self.min_qos
        )
        backfill = dispatch == "easy"
        self._memory = make_memory(simulator.config, depth, self._order, self.min_qos, backfill)
        self._keep_candidates = EntryPoint(kernel_rollout.keep_candidates)
        self._value_actions = EntryPoint(kernel_rollout.value_actions)
        self._race_actions = EntryPoint(kernel_race.race_actions)
        self._imagine(self._bank, 64)

    def _imagine(self, futures: Futures, waiting: int) -> None:
        """Take these futures, in a table that holds so many waiting jobs behind theirs."""
        self._memory = with_jobs(self._memory, futures.first, futures.table, futures.needs, waiting)
        self._room = waiting

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the best candidate in each environment."""
        candidates = self._candidates()
        judge = self._judge if self.race is None else self._judge_by_race
        best: NDArray[Any] = np.nanargmax(judge(candidates, observations), axis=1)
        return best

    def advantages(self, observations: Observation) -> NDArray[np.float32]:
        """Return what each valid action is worth more than the mean of the valid ones, in mean job values.

        Reservations and late starts are valued too, but always a little below ``no_op``: no planner does
        better by taking them (see the class). So the greatest advantage is that of the action taken.

        :param observations: a batch, one row for each environment of the simulator; the state itself is read
        :return: ``(n, ready_pool_size + 2)``, NaN for invalid actions
        """
        values = self._judge(self.simulator.action_masks(), observations) / self.simulator.mean_value
        dominated = ~self._candidates()
        values[dominated] = np.minimum(values, values[:, -1:] - MARGIN)[dominated]
        advantages: NDArray[np.float32] = values - np.nanmean(values, axis=1, keepdims=True)
        return advantages.astype(np.float32)

    def _candidates(self) -> NDArray[np.bool_]:
        """Return ``(n, ready_pool_size + 2)``: starts now that will be on time, ``suspend``, ``no_op``."""
        masks = self.simulator.action_masks()
        self._keep_candidates(masks, self.simulator.state, 0)
        return masks

    def _judge(self, actions: NDArray[np.bool_], observations: Observation) -> NDArray[np.float64]:
        """Return the values of actions; those of candidates averaged with the prior's, if there is one."""
        values = self._values(actions)
        if self.prior is None:
            return values
        judged = self._candidates() & np.isfinite(values)
        surplus = np.where(judged, self._prior_of(actions, observations) - values, 0.0)
        # Only differences between actions matter: the means of both valuations are made the same.
        surplus -= surplus.sum(axis=1, keepdims=True) / judged.sum(axis=1, keepdims=True)
        return np.where(judged, values + self.trust / (self.trust + self.futures) * surplus, values)

    def _judge_by_race(self, candidates: NDArray[np.bool_], observations: Observation) -> NDArray[np.float64]:
        """Return the values, with the prior's share, of candidates not left behind, NaN elsewhere."""
        values, handicaps = np.empty(candidates.shape), np.zeros(candidates.shape)
        if self.prior is not None:
            prior = self._prior_of(candidates, observations)
            handicaps = np.where(candidates, self.trust / self.futures * prior, 0.0)
        futures = self._futures_of(candidates)
        outcomes = np.empty((candidates.shape[1], futures.shape[1]))
        state, margin = self.simulator.state, self.race
        self._race_actions(values, candidates, handicaps, futures, self._memory, state, outcomes, margin)
        return values + handicaps

    def _values(self, candidates: NDArray[np.bool_]) -> NDArray[np.float64]:
        values, futures = np.empty(candidates.shape), self._futures_of(candidates)
        self._value_actions(values, candidates, futures, self._memory, self.simulator.state, 0)
        return values

    def _futures_of(self, candidates: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the futures of each decision, with room for the jobs that wait."""
        self.simulator.require_begun()
        env = self.simulator.state.env
        return self._chosen_futures(candidates, int((env["n_queue"] + env["n_late"]).max()) + 1)

    def _prior_of(self, actions: NDArray[np.bool_], observations: Observation) -> NDArray[np.float64]:
        """Return the prior's values of actions, on the scale of the rollouts'."""
        assert self.prior is not None
        prior = np.asarray(self.prior(observations))
        allowed = f"a function that returns {actions.shape}"
        require(prior.shape == actions.shape, "prior", prior.shape, allowed)
        scaled: NDArray[np.float64] = prior * self.simulator.mean_value
        return scaled

    def _chosen_futures(self, candidates: NDArray[np.bool_], waiting: int) -> NDArray[np.int64]:
        """Return the futures of each decision, ``(B, F, 2)``, with room for so many waiting jobs.

        The state alone decides which: so the same state gets the same answer, alone or in a batch, now or
        later.
        """
        if waiting > self._room:
            self._imagine(self._bank, 2 * waiting)
        env = self.simulator.state.env
        size = len(self._bank.first) - 1
        # Odd multipliers scatter neighboring states over the bank.
        first = 7919 * env["now"] + 104_729 * env["decisions"] + 1_299_709 * env["next_arrival"]
        chosen = np.empty((len(env), self.futures, 2), np.int64)
        chosen[:, :, 0] = (first[:, None] + np.arange(self.futures)) % size
        chosen[:, :, 1] = self._bank.next_step(env["now"])[:, None]
        return chosen
