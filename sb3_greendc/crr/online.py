"""CRR with an environment: how it is tuned to it, and batches of old and new transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import Schedule

from greendc.config import require, require_kinds
from sb3_greendc.crr.action_scale import scale_actions
from sb3_greendc.crr.batches import Batch
from sb3_greendc.crr.data import BatchStream


@dataclass(frozen=True)
class FinetuneSettings:
    """How a model is tuned to an environment; see :meth:`CRR.finetune`.

    :raises ValueError: for a value outside its range
    """

    steps: int
    offline_fraction: float = 0.5
    learning_starts: int = 1000
    gradient_steps: int = 1
    train_freq: int = 1
    log_interval: int | None = 10
    learning_rate: float | Schedule | None = None

    def __post_init__(self) -> None:
        require_kinds(self.__annotations__, vars(self))
        fraction = self.offline_fraction
        require(0.0 <= fraction <= 1.0, "offline_fraction", fraction, "at least 0 and at most 1")
        for name, least in (("steps", 1), ("learning_starts", 0), ("gradient_steps", 1), ("train_freq", 1)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"at least {least}")
        logs = self.log_interval
        require(logs is None or logs >= 1, "log_interval", logs, "at least 1, or None")
        rate = self.learning_rate
        number = isinstance(rate, (int, float, np.floating))
        usable = rate is None or callable(rate) or (number and 0.0 < rate < float("inf"))
        require(usable, "learning_rate", rate, "finite and above 0, or a function of the remaining progress")


class OnlineData:
    """What the environment gave so far, and batches that mix it with the data set.

    :param buffer: transitions of the environment; ``Box`` actions scaled to [-1, 1], as SB3 has them
    :param offline_fraction: share of a batch that comes from the data set
    :param scale: factor on rewards
    :param gamma: discount
    """

    def __init__(self, buffer: ReplayBuffer, offline_fraction: float, scale: float, gamma: float) -> None:
        self.buffer = buffer
        self.offline_fraction = offline_fraction
        self.scale = scale
        self.gamma = gamma

    def __len__(self) -> int:
        """Number of transitions of the environment, of all environments together."""
        return self.buffer.size() * self.buffer.n_envs

    def mixed_batch(self, stream: BatchStream | None, batch_size: int, update: int) -> Batch:
        """Return transitions of both, the data set's first.

        :param stream: the data set's batches, of ``batch_size`` each; ``None`` without data
        :param batch_size: transitions in all
        :param update: number of the update
        """
        n_offline = round(self.offline_fraction * batch_size)
        if stream is None or n_offline == 0:
            return self._sample(batch_size)
        offline = stream.batch(update).part(slice(n_offline))
        return offline if n_offline == batch_size else offline.joined(self._sample(batch_size - n_offline))

    def _sample(self, n: int) -> Batch:
        samples = self.buffer.sample(n)
        space = self.buffer.observation_space
        return Batch(
            _as_in_data(samples.observations, space),
            _as_taken(samples.actions, self.buffer.action_space),
            _as_in_data(samples.next_observations, space),
            samples.rewards.flatten() * self.scale,
            self.gamma * (1.0 - samples.dones.flatten()),
        )


def _as_in_data(observations: Any, space: spaces.Space[Any]) -> Any:
    """Return observations of a replay buffer in the shape of their space: SB3 makes numbers vectors."""
    if isinstance(space, spaces.Dict):
        return {key: _as_in_data(values, space[key]) for key, values in observations.items()}
    return observations.squeeze(1) if isinstance(space, spaces.Discrete) else observations


def _as_taken(actions: th.Tensor, space: spaces.Space[Any]) -> th.Tensor:
    """Return actions of a replay buffer as the environment takes them, and as data have them."""
    if not isinstance(space, spaces.Box):
        return actions.long().squeeze(1)
    low, high = (
        th.as_tensor(bound, dtype=th.float32).to(actions.device) for bound in (space.low, space.high)
    )
    return low + 0.5 * (actions.float() + 1.0) * (high - low)


def with_place(held: ReplayBuffer, empty: ReplayBuffer) -> ReplayBuffer:
    """Return a buffer that goes on from one, with at least as much place as another.

    :param held: what was collected before; returned itself where it has the place
    :param empty: for the environment at hand; returned with what the first holds where it is the larger
    :raises ValueError: if the first is of other spaces, or of another number of environments, or does not say
        on which scale its actions are
    """
    for name in ("observation_space", "action_space", "n_envs"):
        theirs, ours = getattr(held, name), getattr(empty, name)
        if theirs != ours:
            raise ValueError(
                f"replay_buffer: its {name} is {theirs}, the environment's is {ours}: pass an environment "
                "like the one it was collected in, or reset_num_timesteps=True to begin with an empty one"
            )
    scale_actions(held)
    if held.buffer_size >= empty.buffer_size:
        return held
    n = held.size()
    oldest = held.pos if held.full else 0
    order = (oldest + np.arange(n)) % held.buffer_size
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        _copy_rows(getattr(held, name), getattr(empty, name), order)
    empty.pos = n
    return empty


def _copy_rows(source: Any, target: Any, rows: NDArray[np.int64]) -> None:
    if isinstance(source, dict):
        for key, array in source.items():
            _copy_rows(array, target[key], rows)
    else:
        target[: len(rows)] = source[rows]


def make_buffer(
    steps: int,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    device: th.device,
    n_envs: int,
) -> ReplayBuffer:
    """Return a replay buffer that holds so many transitions of all environments, and no full step more.

    :param steps: transitions of all environments together; rounded up to a multiple of ``n_envs``
    :param observation_space: of the environments
    :param action_space: of the environments; ``Box`` actions are to be kept scaled to [-1, 1]
    :param device: of samples
    :param n_envs: number of environments
    """
    size = -(-steps // n_envs) * n_envs  # SB3 rounds down
    cls = DictReplayBuffer if isinstance(observation_space, spaces.Dict) else ReplayBuffer
    buffer = cls(size, observation_space, action_space, device=device, n_envs=n_envs)  # type: ignore[arg-type]
    scale_actions(buffer)
    return buffer
