"""What DiscreteSAC's options ask of a replay buffer, be it its own, one of SB3's or one that was saved."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from greendc.config import require
from sb3_greendc.discrete_sac.buffers import DictNStepReplayBuffer, FlatNStepReplayBuffer

OURS = (DictNStepReplayBuffer, FlatNStepReplayBuffer)
WITH_RETURNS = (*OURS, NStepReplayBuffer)
"""Buffers that know ``n_steps`` and ``gamma``."""
FLAT = (ReplayBuffer, NStepReplayBuffer, FlatNStepReplayBuffer)
"""Buffers of observations that are one array."""


class BuffersByOptions(OffPolicyAlgorithm):
    """The part of DiscreteSAC that gives replay buffers what its options say."""

    replay_buffer: ReplayBuffer | None
    n_steps: int
    entropy_penalty: float
    _loaded_buffer: tuple[ReplayBuffer, str] | None = None
    """The replay buffer that was loaded last, and its file."""

    def _buffer_arguments(self, cls: type[ReplayBuffer]) -> dict[str, Any]:
        """Return the keyword arguments of a replay buffer of this model.

        :raises ValueError: if the buffer cannot hold its observations, or do what the options ask for
        """
        held = cls not in FLAT or not isinstance(self.observation_space, spaces.Dict)
        require(held, "replay_buffer_class", cls, "a DictReplayBuffer: observations are a Dict")
        return buffer_arguments(
            cls, self.replay_buffer_kwargs, self.n_steps, self.gamma, self.entropy_penalty
        )

    def load_replay_buffer(
        self, path: str | pathlib.Path | io.BufferedIOBase, truncate_last_traj: bool = True
    ) -> None:
        """Load a replay buffer that was saved; see SB3. Its returns are then those of this model's options.

        :param path: the file, a pickle: load only what you made yourself
        :param truncate_last_traj: as for SB3's ``load_replay_buffer``
        :raises ValueError: if the buffer is of other spaces, or has no n-step returns or no entropies, and
            the options ask for them
        """
        kept = self.replay_buffer
        super().load_replay_buffer(path, truncate_last_traj)
        loaded, self.replay_buffer = self.replay_buffer, kept
        assert loaded is not None
        named = f"replay buffer {path}" if isinstance(path, str | pathlib.Path) else "replay buffer"
        for name in ("observation_space", "action_space"):
            theirs, ours = getattr(loaded, name), getattr(self, name)
            if theirs != ours:
                raise ValueError(f"{named}: its {name} is {theirs}, the model's is {ours}")
        adapt_buffer(loaded, self._buffer_arguments(type(loaded)), self.entropy_penalty)
        self.replay_buffer, self._loaded_buffer = loaded, (loaded, named)

    def _adapt_buffer(self) -> None:
        """Let the replay buffer give the returns that the options ask for now."""
        if self.replay_buffer is not None:
            arguments = self._buffer_arguments(type(self.replay_buffer))
            adapt_buffer(self.replay_buffer, arguments, self.entropy_penalty)

    def _begin_with_buffer(self) -> None:
        """Prepare the replay buffer for a call of ``learn``: by decisions, until a callback says otherwise.

        :raises ValueError: if it is of another number of environments than there are
        """
        buffer = self.replay_buffer
        if buffer is None:
            return
        if self.env is not None and buffer.n_envs != self.env.num_envs:
            loaded = self._loaded_buffer
            named = loaded[1] if loaded is not None and loaded[0] is buffer else "replay buffer"
            raise ValueError(
                f"{named}: of {buffer.n_envs} environments, the model's has {self.env.num_envs}: "
                "go on with as many, or with an empty buffer"
            )
        if isinstance(buffer, OURS) and not self.replay_buffer_kwargs.get("by_time", False):
            buffer.discount_by_decisions()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_loaded_buffer"]


def buffer_arguments(
    cls: type[ReplayBuffer], given: Mapping[str, Any], n_steps: int, gamma: float, entropy_penalty: float
) -> dict[str, Any]:
    """Return the keyword arguments of a replay buffer: what the options say, and what the user gave.

    A buffer that was given its own ``n_steps`` or ``gamma`` keeps it.

    :param cls: class of the buffer
    :param given: the user's ``replay_buffer_kwargs``
    :param n_steps: rewards in a return
    :param gamma: discount
    :param entropy_penalty: above 0 if the buffer must store entropies
    :raises ValueError: if the buffer cannot do what the options ask for
    """
    if n_steps > 1 and not issubclass(cls, WITH_RETURNS):
        raise ValueError(f"n_steps={n_steps}: {cls.__name__} has no n-step returns")
    if entropy_penalty > 0 and not issubclass(cls, OURS):
        raise ValueError(f"entropy_penalty={entropy_penalty}: {cls.__name__} does not store entropies")
    options: dict[str, Any] = {}
    if issubclass(cls, WITH_RETURNS):
        options |= {"n_steps": n_steps, "gamma": gamma}
    if issubclass(cls, OURS):
        options["store_entropy"] = entropy_penalty > 0
        _check_not_of_old(given, options)
    return {**options, **given}


def _check_not_of_old(given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise a ``ValueError`` where a file of an earlier version, which kept options here, has others."""
    if "store_entropy" not in given:
        return
    for name, value in options.items():
        if given.get(name, value) != value:
            raise ValueError(
                f"replay_buffer_kwargs={dict(given)}: contradicts {name}={value!r} of the options; files of "
                "earlier versions hold options there too: pass replay_buffer_kwargs={} to load"
            )


def adapt_buffer(buffer: ReplayBuffer, arguments: Mapping[str, Any], entropy_penalty: float) -> None:
    """Make a buffer give the returns that it would give if it had been made anew.

    :param buffer: is changed
    :param arguments: of a new one, from :func:`buffer_arguments`
    :param entropy_penalty: for which entropies are stored, if it is above 0
    :raises ValueError: if entropies are asked for, and the buffer holds none
    """
    if isinstance(buffer, WITH_RETURNS):
        buffer.n_steps, buffer.gamma = arguments["n_steps"], arguments["gamma"]
    if isinstance(buffer, OURS):
        if entropy_penalty == 0:
            buffer.entropies = None
        else:
            try:
                buffer.store_entropies()
            except ValueError as error:
                raise ValueError(f"entropy_penalty={entropy_penalty}: {error}") from None
