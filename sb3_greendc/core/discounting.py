"""Discounts by time, for decisions some of which take none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

TIME_ADVANCED = "time_advanced"
"""The key under which an environment reports how many time steps a decision took."""


class NoTimeError(ValueError):
    """An environment does not say how many time steps its decisions take."""


class DiscountByTime(BaseCallback):
    """Let PPO, A2C, PIDLagrangianPPO and DiscreteSAC discount by the time that passes, not by decisions.

    On the resource pool time passes on ``no_op`` alone, and with ``skip_forced`` several steps at once. An
    agent that discounts by decisions can put off costs by deciding often: where jobs may be suspended it
    learns to suspend and resume them for nothing. Here gamma and lambda of a decision are raised to the
    number of time steps that it took (a semi-Markov decision process; Sutton, Precup and Singh, 1999), so
    that decisions which take no time cost none of the future. With one step a decision nothing changes.

    The advantages and returns of each rollout are computed again when it ends, from what the algorithm's own
    buffer holds. The value with which the algorithm extends an episode that a time limit cut is discounted
    by one step, whatever the last decision took. DiscreteSAC's replay buffers keep the time of each decision,
    and discount targets by it. It counts for the call of ``learn`` that it is passed to, saved models too.

    Hyperparameter files say ``callback: DiscountByTime``; in code it is passed to ``learn``.
    """

    def _init_callback(self) -> None:
        replay = getattr(self.model, "replay_buffer", None)
        self._of_rollouts = replay is None
        by_time = getattr(replay, "discount_by_time", None)
        if by_time is not None:
            by_time()
            return
        buffer = getattr(self.model, "rollout_buffer", None)
        if not isinstance(buffer, RolloutBuffer | DictRolloutBuffer):
            raise ValueError(
                f"DiscountByTime: {type(self.model).__name__} must be an on-policy algorithm, such as PPO, "
                "A2C, MaskablePPO or PIDLagrangianPPO, or DiscreteSAC with its own replay buffer"
            )
        if not buffer.gamma > 0.0:
            raise ValueError(f"DiscountByTime: gamma={buffer.gamma}: must be above 0")

    @property
    def buffer(self) -> RolloutBuffer:
        """The algorithm's rollout buffer."""
        assert isinstance(self.model, OnPolicyAlgorithm)
        return self.model.rollout_buffer

    def _on_rollout_start(self) -> None:
        self._steps: list[NDArray[np.float32]] = []

    def _on_step(self) -> bool:
        if self._of_rollouts:
            self._steps.append(steps_of(self.locals["infos"]))
        return True

    def _on_rollout_end(self) -> None:
        if not self._of_rollouts:
            return
        buffer = self.buffer
        steps = np.stack(self._steps)
        # The value after the last decision, 0 where that ended the episode: the buffer keeps it nowhere else.
        last_values = (buffer.advantages[-1] - buffer.rewards[-1] + buffer.values[-1]) / buffer.gamma
        buffer.advantages = advantages_by_time(
            buffer.rewards,
            buffer.values,
            buffer.episode_starts,
            last_values,
            steps,
            buffer.gamma,
            buffer.gae_lambda,
        )
        buffer.returns = buffer.advantages + buffer.values
        if hasattr(buffer, "time_steps"):  # a buffer of costs, which the algorithm evaluates after this
            buffer.time_steps = steps


def advantages_by_time(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    episode_starts: NDArray[np.float32],
    last_values: NDArray[np.float32],
    steps: NDArray[np.float32],
    gamma: float,
    gae_lambda: float,
) -> NDArray[np.float32]:
    """Return generalized advantage estimates (Schulman et al., 2016) with discounts by time, ``(T, n_envs)``.

    :param rewards: ``(T, n_envs)``
    :param values: of the observations before the decisions, ``(T, n_envs)``
    :param episode_starts: 1 where an observation is the first of an episode, ``(T, n_envs)``
    :param last_values: of the observations after the last decisions, 0 where these ended the episode
    :param steps: time steps that each decision took, ``(T, n_envs)``
    :param gamma: discount of a time step
    :param gae_lambda: decay of a time step
    """
    goes_on = np.ones_like(values)
    goes_on[:-1] = 1.0 - episode_starts[1:]
    after = np.concatenate([values[1:], last_values[None]]) * goes_on
    discounts = np.float32(gamma) ** steps
    errors = rewards + discounts * after - values
    decays = np.float32(gamma * gae_lambda) ** steps * goes_on
    advantages = np.zeros_like(values)
    later = np.zeros_like(last_values)
    for t in reversed(range(len(values))):
        later = errors[t] + decays[t] * later
        advantages[t] = later
    return advantages


def steps_of(infos: Sequence[Mapping[str, Any]]) -> NDArray[np.float32]:
    """Return how many time steps the last decision took in each environment.

    :param infos: the ``info`` of each environment
    :raises NoTimeError: if an environment does not say
    """
    try:
        return np.array([info[TIME_ADVANCED] for info in infos], dtype=np.float32)
    except KeyError:
        index = next(i for i, info in enumerate(infos) if TIME_ADVANCED not in info)
        raise NoTimeError(
            f"environment {index} reports no info[{TIME_ADVANCED!r}], how many time steps a decision took: "
            "DiscountByTime is for environments some of whose decisions take no time"
        ) from None
