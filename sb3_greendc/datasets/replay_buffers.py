"""Replay buffers of Stable-Baselines3, read and filled.

SB3's off-policy algorithms keep ``Box`` actions scaled to [-1, 1] in their buffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from greendc.config import require_class
from greendc.simulator import Observation
from sb3_greendc.core.spaces import require_bounds
from sb3_greendc.datasets.dataset import OfflineDataset, require_data
from sb3_greendc.datasets.validation import check_spaces

_UNSCALED = ", for scaled actions; scaled_actions=False takes them as they are"
"""What is said of bounds that are missing."""


def from_replay_buffer(
    buffer: ReplayBuffer, assume_terminal: bool | None = None, scaled_actions: bool = True
) -> OfflineDataset:
    """Return what a replay buffer of Stable-Baselines3 holds as a data set, from the oldest transition on.

    The newest transition of each environment counts as truncated unless it ended the episode.

    :param buffer: plain or ``Dict``
    :param assume_terminal: what ended episodes are in a buffer with ``handle_timeout_termination=False``
    :param scaled_actions: ``Box`` actions lie in [-1, 1] whatever the space, as SB3 has them
    :raises ValueError: if the buffer is empty, shares next observations, does not say which episodes were
        truncated, or is of spaces that data sets do not have, or of actions that nobody can unscale
    """
    require_class("buffer", buffer, (ReplayBuffer,), "a replay buffer of Stable-Baselines3")
    check_spaces(buffer.observation_space, buffer.action_space)
    if buffer.size() == 0:
        raise ValueError("the replay buffer holds no transitions")
    if buffer.optimize_memory_usage:
        raise ValueError(
            "the replay buffer was made with optimize_memory_usage=True: truncation is lost in it"
        )
    if not buffer.handle_timeout_termination and assume_terminal is None:
        raise ValueError(
            "the replay buffer was made with handle_timeout_termination=False, which says nothing of "
            "truncation: say assume_terminal=True or False"
        )
    order = np.arange(buffer.size())
    if buffer.full:
        order = np.roll(order, -buffer.pos)  # from the oldest to the newest
    n_envs = buffer.n_envs
    ended = _by_env(buffer.dones, order) > 0.5
    timeouts = _by_env(buffer.timeouts, order) > 0.5
    if not buffer.handle_timeout_termination:
        timeouts = np.full(len(ended), not assume_terminal)
    newest = np.tile(np.arange(len(order)) == len(order) - 1, n_envs)
    truncated = (ended & timeouts) | (newest & ~ended)
    data = {
        "obs": _observations_by_env(buffer.observations, order),
        "next_obs": _observations_by_env(buffer.next_observations, order),
        "actions": _unscale(_by_env(buffer.actions, order), buffer.action_space, scaled_actions),
        "rewards": _by_env(buffer.rewards, order),
        "terminated": ended & ~timeouts,
        "truncated": truncated,
    }
    return OfflineDataset.from_dict(data, buffer.observation_space, buffer.action_space, ["replay_buffer"])


def to_replay_buffer(
    data: OfflineDataset, buffer_size: int | None = None, device: Any = "auto", scaled_actions: bool = True
) -> ReplayBuffer:
    """Return a replay buffer of Stable-Baselines3 of one environment that holds the data.

    Rewards are rounded to float32, as are ``Box`` actions by their scaling. Costs, episodes, sources,
    labels and metadata are lost; an episode both terminated and truncated counts as terminated.

    :param data: of any kind
    :param buffer_size: capacity, default: the number of transitions
    :param device: of the samples
    :param scaled_actions: scale ``Box`` actions to [-1, 1], as SB3's algorithms expect them
    :raises ValueError: if the buffer would be too small, or actions without bounds would be scaled
    """
    require_data("data", data)
    n = len(data)
    size = n if buffer_size is None else buffer_size
    if size < n:
        raise ValueError(f"buffer_size={buffer_size}: must be at least {n:,}, the number of transitions")
    cls = DictReplayBuffer if isinstance(data.observation_space, spaces.Dict) else ReplayBuffer
    buffer = cls(size, data.observation_space, data.action_space, device)  # type: ignore[arg-type]
    _fill(buffer.observations, data.observations)
    _fill(buffer.next_observations, data.next_observations)
    actions = _scale(data.actions, data.action_space, scaled_actions)
    buffer.actions[:n, 0] = actions.reshape(n, -1)
    buffer.rewards[:n, 0] = data.rewards
    buffer.dones[:n, 0] = data.terminated | data.truncated
    buffer.timeouts[:n, 0] = data.truncated & ~data.terminated
    buffer.pos, buffer.full = n % size, n == size
    return buffer


def _by_env(array: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    """Turn ``(steps, n_envs, ...)`` into rows, the first environment's first."""
    rows: NDArray[Any] = array[order].swapaxes(0, 1)
    return rows.reshape(-1, *array.shape[2:])


def _observations_by_env(observations: Any, order: NDArray[np.int64]) -> Observation:
    if isinstance(observations, dict):
        return {key: _by_env(array, order) for key, array in observations.items()}
    return _by_env(observations, order)


def _fill(target: Any, observations: Observation) -> None:
    if isinstance(observations, dict):
        for key, array in observations.items():
            target[key][: len(array), 0] = array.reshape(len(array), *target[key].shape[2:])
    else:
        target[: len(observations), 0] = observations.reshape(len(observations), *target.shape[2:])


def _scale(actions: NDArray[Any], space: spaces.Space[Any], scaled: bool) -> NDArray[Any]:
    if not scaled or not isinstance(space, spaces.Box):
        return actions
    require_bounds(space, _UNSCALED)
    result: NDArray[Any] = 2.0 * (actions - space.low) / (space.high - space.low) - 1.0
    return result


def _unscale(actions: NDArray[Any], space: spaces.Space[Any], scaled: bool) -> NDArray[Any]:
    if not isinstance(space, spaces.Box):
        return actions.astype(np.int64)
    actions = actions.reshape(-1, *space.shape)
    if not scaled:
        return actions
    require_bounds(space, _UNSCALED)
    unscaled = space.low + 0.5 * (actions + 1.0) * (space.high - space.low)
    # Rounding may lead past the bounds.
    clipped: NDArray[Any] = np.clip(unscaled, space.low, space.high).astype(space.dtype)
    return clipped
