"""Rollout buffers that hold costs, cost values and, where the environment gives them, action masks."""

from __future__ import annotations

from collections.abc import Generator
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.type_aliases import TensorDict

from sb3_greendc.pid_ppo.advantages import combine_advantages, cost_gae
from sb3_greendc.pid_ppo.return_scale import Moments


class CostRolloutBufferSamples(NamedTuple):
    """A minibatch: Stable-Baselines3's fields, then those of the cost."""

    observations: th.Tensor | TensorDict
    actions: th.Tensor
    old_values: th.Tensor
    old_log_prob: th.Tensor
    advantages: th.Tensor
    returns: th.Tensor
    old_cost_values: th.Tensor
    cost_returns: th.Tensor
    action_masks: th.Tensor | None


class CostRolloutBuffer(RolloutBuffer):
    """A rollout buffer with one cost per transition beside the reward.

    The rollout loop of Stable-Baselines3 calls :meth:`add` without a cost, so the algorithm hands the costs
    over just before, with :meth:`add_costs`; it fills ``cost_values`` once the rollout is complete.
    Takes the arguments of its parent. The arrays are ``(buffer_size, n_envs)`` until :meth:`get` flattens
    them.
    """

    samples_class: ClassVar[Any] = CostRolloutBufferSamples

    costs: npt.NDArray[np.float32]
    cost_values: npt.NDArray[np.float32]
    cost_advantages: npt.NDArray[np.float32]
    cost_returns: npt.NDArray[np.float32]
    action_masks: npt.NDArray[np.bool_] | None
    timeouts: list[tuple[int, int, Any]]
    """Step, environment and last observation of each episode that a time limit cut."""
    time_steps: npt.NDArray[np.float32] | float
    """Time steps that each decision took: 1, or what
    :class:`~sb3_greendc.core.discounting.DiscountByTime` counted."""
    moments: tuple[Moments, Moments]
    """Those that values and cost values were predicted with."""

    def reset(self) -> None:
        """Empty the buffer."""
        super().reset()
        for name in ("costs", "cost_values", "cost_advantages", "cost_returns"):
            setattr(self, name, np.zeros((self.buffer_size, self.n_envs), dtype=np.float32))
        self.action_masks = None
        self.timeouts = []
        self.time_steps = 1.0
        self.moments = Moments(), Moments()

    def add_costs(
        self, costs: npt.NDArray[np.float64], infos: list[dict[str, Any]], dones: npt.NDArray[np.bool_]
    ) -> None:
        """Store the costs of the transition that the next :meth:`add` completes.

        :param costs: ``(n_envs,)``, raw
        :param infos: as the vectorized environment returned them
        :param dones: ``(n_envs,)``
        """
        self.costs[self.pos] = costs
        for index in np.flatnonzero(dones):
            last_obs = infos[index].get("terminal_observation")
            if last_obs is not None and infos[index].get("TimeLimit.truncated", False):
                # A copy: it is read when the rollout is over, and environments may reuse their arrays.
                self.timeouts.append((self.pos, int(index), deepcopy(last_obs)))

    def add_action_masks(self, action_masks: npt.NDArray[np.bool_]) -> None:
        """Store the masks under which the actions of the next :meth:`add` are drawn.

        :param action_masks: ``(n_envs, ...)``, non-zero where valid
        """
        action_masks = np.asarray(action_masks).reshape(self.n_envs, -1)
        if self.action_masks is None:
            self.action_masks = np.ones((self.buffer_size, *action_masks.shape), dtype=bool)
        self.action_masks[self.pos] = action_masks

    def compute_cost_returns_and_advantage(
        self,
        last_cost_values: npt.NDArray[np.float32],
        timeout_cost_values: npt.NDArray[np.float32],
        dones: npt.NDArray[np.bool_],
        gamma: float,
        gae_lambda: float,
    ) -> None:
        """Fill ``cost_advantages`` and ``cost_returns``; ``cost_values`` must be filled.

        :param last_cost_values: ``(n_envs,)``, values of the observations after the last step
        :param timeout_cost_values: one value for each entry of ``timeouts``
        :param dones: ``(n_envs,)``, whether the last step ended an episode
        :param gamma: discount factor of the cost
        :param gae_lambda: GAE factor of the cost
        """
        costs = self.costs.copy()
        for (step, index, _), value in zip(self.timeouts, timeout_cost_values, strict=True):
            costs[step, index] += gamma * value
        all_dones = np.concatenate([self.episode_starts[1:] > 0.5, np.asarray(dones, dtype=bool)[None]])
        self.cost_advantages, self.cost_returns = cost_gae(
            costs, self.cost_values, last_cost_values, all_dones, gamma, gae_lambda, self.time_steps
        )

    def combine_advantages(self, lagrange_multiplier: float, adv_norm: str) -> None:
        """Replace the reward's advantages by the combined ones, see :func:`~.advantages.combine_advantages`.

        :param lagrange_multiplier: lambda
        :param adv_norm: how to normalize
        """
        self.advantages = combine_advantages(
            self.advantages, self.cost_advantages, lagrange_multiplier, adv_norm
        )

    # `Any`: the parents of the subclasses below have samples of four unrelated types.
    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Yield shuffled minibatches of type ``samples_class``.

        :param batch_size: ``None``: everything at once
        """
        if not self.generator_ready:
            self.cost_values = self.swap_and_flatten(self.cost_values)
            self.cost_returns = self.swap_and_flatten(self.cost_returns)
            if self.action_masks is not None:
                self.action_masks = self.swap_and_flatten(self.action_masks)
        yield from super().get(batch_size)

    def _rows(self, array: npt.NDArray[Any]) -> th.Tensor:
        """Return the rows of a minibatch in the order of its other fields."""
        return self.to_torch(array)

    def _get_samples(self, batch_inds: npt.NDArray[np.intp], *args: Any, **kwargs: Any) -> Any:
        samples = super()._get_samples(batch_inds, *args, **kwargs)  # first: it prepares `_rows`
        return self.samples_class(
            *samples,
            old_cost_values=self._rows(self.cost_values[batch_inds]).flatten(),
            cost_returns=self._rows(self.cost_returns[batch_inds]).flatten(),
            action_masks=None if self.action_masks is None else self._rows(self.action_masks[batch_inds]),
        )


class CostDictRolloutBuffer(CostRolloutBuffer, DictRolloutBuffer):
    """:class:`CostRolloutBuffer` for ``Dict`` observations."""
