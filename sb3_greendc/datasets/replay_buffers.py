"""Replay buffers of Stable-Baselines3, read and filled.

SB3's off-policy algorithms keep ``Box`` actions scaled to [-1, 1] in their buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from greendc.simulator import Observation

if TYPE_CHECKING:
    from sb3_greendc.datasets.dataset import OfflineDataset


def read_replay_buffer(buffer: ReplayBuffer, assume_terminal: bool | None, scaled: bool) -> dict[str, Any]:
    """Return arguments of ``OfflineDataset.from_dict``; see ``from_replay_buffer``.

    :raises ValueError: for an empty buffer, one that shares next observations, or one that says nothing of
        truncation
    """
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
    return {
        "data": {
            "obs": _observations_by_env(buffer.observations, order),
            "next_obs": _observations_by_env(buffer.next_observations, order),
            "actions": _unscale(_by_env(buffer.actions, order), buffer.action_space, scaled),
            "rewards": _by_env(buffer.rewards, order),
            "terminated": ended & ~timeouts,
            "truncated": truncated,
        },
        "observation_space": buffer.observation_space,
        "action_space": buffer.action_space,
        "sources": ["replay_buffer"],
    }


def fill_replay_buffer(
    data: OfflineDataset, buffer_size: int | None, device: Any, scaled: bool
) -> ReplayBuffer:
    """Return a buffer that holds the data; see ``OfflineDataset.to_replay_buffer``."""
    n = len(data)
    size = n if buffer_size is None else buffer_size
    if size < n:
        raise ValueError(f"buffer_size={buffer_size}: must be at least {n:,}, the number of transitions")
    cls = DictReplayBuffer if isinstance(data.observation_space, spaces.Dict) else ReplayBuffer
    buffer = cls(size, data.observation_space, data.action_space, device)  # type: ignore[arg-type]
    _fill(buffer.observations, data.observations)
    _fill(buffer.next_observations, data.next_observations)
    actions = _scale(data.actions, data.action_space, scaled)
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
            target[key][: len(array), 0] = array
    else:
        target[: len(observations), 0] = observations.reshape(len(observations), *target.shape[2:])


def _scale(actions: NDArray[Any], space: spaces.Space[Any], scaled: bool) -> NDArray[Any]:
    if not scaled or not isinstance(space, spaces.Box):
        return actions
    result: NDArray[Any] = 2.0 * (actions - space.low) / (space.high - space.low) - 1.0
    return result


def _unscale(actions: NDArray[Any], space: spaces.Space[Any], scaled: bool) -> NDArray[Any]:
    if isinstance(space, spaces.Discrete):
        return actions.astype(np.int64)
    assert isinstance(space, spaces.Box)
    actions = actions.reshape(-1, *space.shape)
    if not scaled:
        return actions
    unscaled = space.low + 0.5 * (actions + 1.0) * (space.high - space.low)
    # Rounding may lead past the bounds.
    clipped: NDArray[Any] = np.clip(unscaled, space.low, space.high).astype(space.dtype)
    return clipped
