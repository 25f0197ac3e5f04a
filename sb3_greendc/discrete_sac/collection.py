"""Checks of what environments return, and the uniform policy over valid actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sb3_greendc.core.masking import ACTION_MASK


def live_masks(observations: Any, n_envs: int, n_actions: int) -> NDArray[np.bool_]:
    """Return the masks ``(n_envs, n_actions)`` of observations that wait for an action.

    :param observations: batched; those without a mask allow every action
    :raises ValueError: if a mask allows no action, or is not made of zeros and ones
    """
    if not isinstance(observations, Mapping) or ACTION_MASK not in observations:
        return np.ones((n_envs, n_actions), dtype=np.bool_)
    values = np.asarray(observations[ACTION_MASK])
    masks = values.astype(np.bool_)
    if not (masks == values).all():
        raise ValueError(f"{ACTION_MASK}: holds values other than 0 and 1")
    dead = np.flatnonzero(~masks.any(axis=1))
    if dead.size:
        raise ValueError(
            f"{ACTION_MASK} of environment {dead[0]}: no action is valid, and the episode goes on"
        )
    return masks


def uniform_valid_actions(masks: NDArray[np.bool_], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a valid action a row, each with the same probability.

    :param masks: ``(n_envs, n_actions)``, no row empty
    :param generator: source of randomness
    """
    # The greatest of independent uniform numbers is at each valid place with the same probability.
    actions: NDArray[np.int64] = (generator.random(masks.shape) * masks).argmax(axis=1)
    return actions


def require_finite(what: str, values: NDArray[Any] | Mapping[str, NDArray[Any]]) -> None:
    """Raise a ``ValueError`` that names the first NaN or infinity in a reward or an observation.

    :param what: its name in the message
    :param values: an array, or a dict of arrays, the first axis over environments
    """
    if isinstance(values, Mapping):
        for key, array in values.items():
            require_finite(f"{what} {key!r}", array)
        return
    values = np.asarray(values)
    # The sum is finite unless an entry is not (or it overflows): cheaper than a test of every entry.
    if values.dtype.kind == "f" and not np.isfinite(values.sum(dtype=np.float64)):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            place = tuple(int(i) for i in bad[0])
            raise ValueError(f"{what} is {values[place]} at index {place} (first axis: environment)")


def require_finite_step(observations: Any, rewards: NDArray[Any], infos: list[dict[str, Any]]) -> None:
    """Raise a ``ValueError`` that names the first NaN or infinity in what a step of environments returned."""
    require_finite("reward", rewards)
    require_finite("observation", observations)
    for info in infos:
        if "terminal_observation" in info:
            require_finite("terminal observation", info["terminal_observation"])


class FiniteCollection(OffPolicyAlgorithm):
    """An off-policy algorithm that stores nothing that is not finite."""

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: NDArray[Any],
        new_obs: NDArray[Any] | dict[str, NDArray[Any]],
        reward: NDArray[Any],
        dones: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Store a transition of every environment; see SB3.

        :raises ValueError: if a reward or an observation is not finite
        """
        require_finite_step(new_obs, reward, infos)
        self._note(infos)
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)

    def _note(self, infos: list[dict[str, Any]]) -> None:
        """Write into each ``info`` what the buffer should keep besides."""
