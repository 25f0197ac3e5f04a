"""The contract between a family's simulator and the environments that wrap it."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from operator import index as as_index
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array
from numpy.typing import NDArray

from greendc.config import require

Observation: TypeAlias = "NDArray[Any] | dict[str, NDArray[Any]]"
"""One observation, or a batch of them: an array, or a dict of arrays for a ``Dict`` space."""


class Simulator(abc.ABC):
    """``num_envs`` independent environments of one configuration, kept in flat arrays.

    The single environment, Gymnasium's vector environment and the SB3 ``VecEnv`` are thin wrappers
    around this class; the single environment is the batch of one. Nothing here resets by itself:
    wrappers decide when an environment is reset and which random generator it gets.

    Subclasses set the attributes below in their constructor and never replace the arrays.
    """

    observation_space: spaces.Space[Any]
    """The space of one environment's observation."""
    action_space: spaces.Space[Any]
    """The space of one environment's action."""
    num_envs: int
    rewards: NDArray[np.float64]
    """``(num_envs,)``: the rewards of the last step."""
    truncated: NDArray[np.bool_]
    """``(num_envs,)``: whether the last step ended the episode because its time was up."""
    step_info: dict[str, NDArray[Any]]
    """``(num_envs, ...)`` arrays that ``info`` shows after each step; always has ``cost`` (float64)."""

    instead_of_invalid = ""
    """What an invalid action did, as a past tense, for families that mask actions."""

    _begun: NDArray[Any]
    """``(num_envs,)``: not zero where an episode has begun, for families that use :meth:`in_episode`."""

    def in_range(self, index: int) -> int:
        """Return the index of an environment.

        :raises ValueError: if there is no such environment
        """
        i = as_index(index)
        require(0 <= i < self.num_envs, "index", index, f"an environment, from 0 to {self.num_envs - 1}")
        return i

    def in_episode(self, index: int) -> int:
        """Return the index of an environment that has been reset.

        :raises ValueError: if there is no such environment
        :raises RuntimeError: if no episode has begun in it
        """
        i = self.in_range(index)
        if not self._begun[i]:
            raise RuntimeError(f"environment {i}: no episode has begun, call reset()")
        return i

    @abc.abstractmethod
    def reset_env(self, index: int, rng: np.random.Generator, options: dict[str, Any] | None = None) -> None:
        """Start a new episode in environment ``index``; ``rng`` fixes everything random in it."""

    @abc.abstractmethod
    def step(self, actions: NDArray[Any], out: Observation) -> None:
        """Advance every environment by one step and write the observations that follow.

        :param actions: ``(num_envs, *action_space.shape)``
        :param out: a batch of observations as made by :meth:`empty_observations`, overwritten
        :raises ValueError: if an action has the wrong shape or is not in the action space
        """

    @abc.abstractmethod
    def observe(self, out: Observation, index: int | None = None) -> None:
        """Write the present observation of environment ``index`` (``None``: all) into the batch ``out``."""

    @abc.abstractmethod
    def episode_metrics(self, index: int) -> dict[str, float]:
        """Return the metrics of environment ``index`` over its episode so far."""

    def reset_info(self, index: int) -> dict[str, Any]:
        """Return the ``info`` of ``reset`` for environment ``index``."""
        return {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(num_envs, n_actions)``, true where an action is valid, for families that mask actions."""
        raise AttributeError(f"{type(self).__name__} has no invalid actions to mask")

    def empty_observations(self) -> Observation:
        """Allocate a batch of observations, of any content, for :meth:`step` and :meth:`observe` to fill."""
        return create_empty_array(self.observation_space, self.num_envs, fn=np.empty)  # type: ignore[return-value]


def reset_options(options: Mapping[str, Any] | None, known: str) -> Mapping[str, Any]:
    """Return the options of a reset.

    :param options: ``None`` for none
    :param known: the only one that there is
    :raises TypeError: if they are no mapping
    :raises ValueError: for any other option
    """
    options = {} if options is None else options
    if not isinstance(options, Mapping):
        raise TypeError(f"reset options: must be a mapping, not {type(options).__name__}")
    unknown = sorted(set(options) - {known})
    if unknown:
        raise ValueError(f"reset options {unknown}: only {known!r} is known")
    return options


def row(observations: Observation, index: int, copy: bool = True) -> Observation:
    """Return observation ``index`` of a batch, by default as a copy."""
    if isinstance(observations, dict):
        return {key: value[index].copy() if copy else value[index] for key, value in observations.items()}
    result: NDArray[Any] = observations[index]
    return result.copy() if copy else result
