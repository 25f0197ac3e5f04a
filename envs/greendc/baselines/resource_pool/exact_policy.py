"""Policies of a tiny pool played in the environment, and what any other policy loses there by each action."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import BaselinePolicy
from greendc.baselines.resource_pool.exact import WAIT, ExactPool, Floats, Ints, Played
from greendc.baselines.resource_pool.policy import require_pool
from greendc.config import require
from greendc.resource_pool import ResourcePoolSimulator
from greendc.resource_pool import layout as at
from greendc.simulator import Observation


class StateReader:
    """Finds out in which state of an :class:`~greendc.baselines.resource_pool.exact.ExactPool` pools are.

    A state has a number of its own: the steps that each unit is taken, and the class at each age, are its
    digits. At most one job comes in a step, so that no two jobs have the same age.

    :param pool: the states
    """

    def __init__(self, pool: ExactPool) -> None:
        self._taken_base = int(pool.duration.max()) + 1
        self._queue_base = len(pool.duration) + 1
        self._units = pool.config.units
        self._kinds = (pool.duration, pool.units, np.array([one.qos for one in pool.workload.classes]))
        codes = np.array([self._code(state.taken, state.queue) for state in pool.states])
        self._order = np.argsort(codes)
        self._codes = codes[self._order]

    def _code(self, taken: tuple[int, ...], queue: tuple[tuple[int, int], ...]) -> int:
        code = sum(steps * self._taken_base**unit for unit, steps in enumerate(taken))
        waiting = sum((kind + 1) * self._queue_base**age for kind, age in queue)
        return int(code + waiting * self._taken_base**self._units)

    def read(self, simulator: ResourcePoolSimulator) -> Ints:
        """Return the state of each environment, ``(B,)``.

        :raises ValueError: if one is in a state that the pool cannot reach, as with jobs of other classes
        """
        state = simulator.state
        now, jobs = state.env["now"][:, None], state.jobs
        there = np.arange(jobs.shape[1]) < state.env["next_arrival"][:, None]
        need, block = state.units[:, at.NEEDS, :, 0], state.units[:, at.BLOCKS, :, 0]
        duration, units, qos = self._kinds
        kind = np.full(jobs.shape, -1)
        for k in range(len(duration)):
            kind[(jobs["duration"] == duration[k]) & (need == units[k]) & (jobs["qos"] == qos[k])] = k
        runs = there & (jobs["status"] == at.RUNNING)
        waits = there & (jobs["status"] == at.WAITING)
        left = np.where(runs, jobs["end"] - now, 0)
        code = np.zeros(len(now), np.int64)
        for unit in range(self._units):
            on_unit = (block <= unit) & (unit < block + need)
            code += (left * on_unit).sum(axis=1) * self._taken_base**unit
        age = np.where(waits, now - jobs["arrival"], 0)
        digits = np.where(waits, (kind + 1) * self._queue_base**age, 0)
        code += digits.sum(axis=1) * self._taken_base**self._units
        found = np.minimum(np.searchsorted(self._codes, code), len(self._codes) - 1)
        strange = (kind < 0) & (runs | waits)
        known = (self._codes[found] == code) & ~strange.any(axis=1)
        if not known.all():
            culprit = int(np.argmin(known))
            raise ValueError(
                f"environment {culprit}: is in a state that the exact model of its pool does not have"
            )
        states: Ints = self._order[found]
        return states


class ExactPolicy(BaselinePolicy[ResourcePoolSimulator]):
    """Plays a policy of the exact model in the environment.

    :param simulator: of the same configuration as the model
    :param pool: the model
    :param played: the policy, such as ``pool.optimum()``
    :raises ValueError: for a simulator with another workload or other rules
    """

    reads_state = True

    def __init__(self, simulator: ResourcePoolSimulator, pool: ExactPool, played: Played) -> None:
        super().__init__(require_pool(simulator))
        for name in ("units", "workload", "episode_steps", "placement", "late_jobs", "queue_order"):
            found, wanted = getattr(simulator.config, name), getattr(pool.config, name)
            require(found == wanted, name, found, f"{wanted!r}, as in the exact model")
        self.pool, self.played, self._reader = pool, played, StateReader(pool)

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the action in each environment."""
        self.simulator.require_begun()
        chosen = self.played.actions[self.simulator.state.env["now"], self._reader.read(self.simulator)]
        return np.where(chosen == WAIT, self.simulator.config.ready_pool_size + 1, chosen)

    def losses(self, actions: NDArray[Any]) -> Floats:
        """Return what is lost by each action, if the policy goes on afterwards, ``(B,)``.

        Of the optimum this is the regret of the action. An episode's sum of it is, on average, what a policy
        earns less than the optimum, and is far less noisy than the difference of what both earn.

        :param actions: ``(B,)``, one for each environment; an invalid one waits
        """
        worth = self.worth()
        taken = np.where(actions < self.simulator.config.ready_pool_size, actions, worth.shape[1] - 1)
        of_action = np.take_along_axis(worth, taken[:, None], axis=1)[:, 0]
        of_action = np.where(np.isfinite(of_action), of_action, worth[:, -1])
        now, states = self.simulator.state.env["now"], self._reader.read(self.simulator)
        losses: Floats = self.played.values[now, states] - of_action
        return losses

    def advantages(self, observations: Observation) -> NDArray[np.float32]:
        """Return what each valid action is worth more than the mean of the valid ones, in mean job values.

        As :meth:`~greendc.baselines.resource_pool.Rollout.advantages`, and without any noise.

        :return: ``(n, ready_pool_size + 2)``, NaN for invalid actions
        """
        worth = np.where(self.simulator.action_masks(), self.worth() / self.simulator.mean_value, np.nan)
        worth -= np.nanmean(worth, axis=1, keepdims=True)
        return worth.astype(np.float32)

    def worth(self) -> Floats:
        """Return what each action is worth, ``(B, ready_pool_size + 2)``, -inf where a job does not fit.

        That is what is earned from now on by jobs that have not started yet, if the policy goes on.
        """
        pool, values = self.pool, self.played.values
        now, states = self.simulator.state.env["now"], self._reader.read(self.simulator)
        worth = np.full((len(states), self.simulator.config.ready_pool_size + 2), -np.inf)
        worth[:, -1] = (values[now[:, None] + 1, pool.later[states]] * pool.probabilities).sum(axis=1)
        for place in range(pool.after.shape[1]):
            after = pool.after[states, place]
            earned = pool.pay(now, pool.kinds[states, place]) + values[now, after]
            worth[:, place] = np.where(after >= 0, earned, -np.inf)
        return worth
