"""A guard around any policy: an empty pool does not idle while a waiting job could start and be on time."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import ResourcePoolSimulator
from greendc.resource_pool import layout as at
from greendc.simulator import Observation, Simulator


class WorkConserving:
    """Acts as a policy does, but starts a job where the policy would leave an empty pool idle.

    Where the policy says ``no_op``, nothing runs, and a job of the ready pool can start in this step and
    finish on time, the one of the greatest value per unit and step of work left starts (ties: the lowest
    slot). Only valid actions are chosen. It is meant for decisions on live queues, where an operator does not
    accept idle machines beside waiting jobs; `docs/evaluation.md` says what it changes.

    It reads the simulator: row i of a batch of observations belongs to environment i.

    :param simulator: the simulator behind the environment or batch that the policy acts in
    :param policy: anything with SB3's ``predict``; where that takes ``action_masks``, they are passed on
    :raises ValueError: if the simulator is not a resource pool
    """

    def __init__(self, simulator: Simulator, policy: Any) -> None:
        if not isinstance(simulator, ResourcePoolSimulator):
            raise ValueError(
                f"work_conserving: must be a policy of a resource pool, not of {type(simulator).__name__}"
            )
        self.simulator, self.policy = simulator, policy
        self.interventions = 0
        """How many decisions were not the policy's."""
        self._takes_masks = "action_masks" in inspect.signature(policy.predict).parameters

    def predict(
        self,
        observation: Observation,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], Any]:
        """Choose actions, as SB3's ``predict`` does.

        :param observation: one observation, or a batch ``(n, ...)`` of them
        :param state: of the policy
        :param episode_start: ``(n,)`` whether an episode begins
        :param deterministic: ask the policy for its most likely action
        :param action_masks: for policies that take them
        :return: one action, or ``(n,)`` of them, and the policy's state
        :raises ValueError: if the batch is not that of the simulator's environments
        :raises RuntimeError: if an episode has not begun
        """
        masks = {"action_masks": action_masks} if self._takes_masks else {}
        actions, state = self.policy.predict(observation, state, episode_start, deterministic, **masks)
        guarded = start_where_idle(self.simulator, np.atleast_1d(actions))
        self.interventions += int(np.count_nonzero(guarded != np.atleast_1d(actions)))
        return (guarded if np.ndim(actions) else guarded[0]), state


def start_where_idle(simulator: ResourcePoolSimulator, actions: NDArray[Any]) -> NDArray[Any]:
    """Return actions in which no empty pool idles for nothing; see :class:`WorkConserving`.

    :param simulator: a batch in which every episode has begun
    :param actions: ``(num_envs,)``, not changed
    :raises ValueError: if there is not one action for each environment
    :raises RuntimeError: if an episode has not begun
    """
    simulator.require_begun()
    config, state = simulator.config, simulator.state
    if actions.shape != (simulator.num_envs,):
        raise ValueError(
            f"actions of shape {actions.shape}: must be one for each of {simulator.num_envs} environments, "
            "whose state decides"
        )
    guarded = actions.copy()
    idle = (actions > config.ready_pool_size) & ~state.counts[:, : config.resource_types].any(axis=1)
    for i in np.flatnonzero(idle):
        slot = _best_startable(simulator, int(i))
        if slot >= 0:
            guarded[i] = slot
    return guarded


def _best_startable(simulator: ResourcePoolSimulator, index: int) -> int:
    """Return the slot of the best ready job that can start now and be on time, -1 if there is none."""
    config, state = simulator.config, simulator.state
    env, now = state.env[index], state.env[index]["now"]
    lists = state.lists[index]
    queue = np.concatenate([lists[at.QUEUE, : env["n_queue"]], lists[at.LATE, : env["n_late"]]])
    ready = queue[: config.ready_pool_size]
    jobs, units = state.jobs[index, ready], state.units[index, at.NEEDS, ready].sum(axis=1)
    steps = config.start_delay + jobs["remaining"] + config.end_delay
    may_start = simulator.action_masks()[index, : len(ready)] & (jobs["found_start"] == now)
    may_start &= now + steps <= jobs["latest"]
    if not may_start.any():
        return -1
    return int(np.where(may_start, jobs["value"] / (steps * units), -np.inf).argmax())
