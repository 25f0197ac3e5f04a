"""Constraint costs: read from ``info["cost"]``, checked, and summed over episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

COST = "cost"
"""The key under which an environment reports the constraint cost of a step."""


class NoCostError(KeyError):
    """An environment does not report the cost of a step."""

    def __str__(self) -> str:
        """Return the message as it is; that of a ``KeyError`` has quotes around it."""
        return str(self.args[0])


def cost_of(info: Mapping[str, Any]) -> float:
    """Return the cost of one step.

    :param info: what ``step`` returned last
    :raises NoCostError: if the environment reports no cost; it is never taken to be 0
    :raises ValueError: if the cost is negative, infinite or not a number
    """
    return float(costs_of([info])[0])


def costs_of(infos: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.float64]:
    """Return the cost of one step of each environment.

    :param infos: the ``info`` of each environment
    :raises NoCostError: if an environment reports no cost; it is never taken to be 0
    :raises ValueError: if a cost is negative, infinite or not a number
    """
    try:
        costs = np.array([float(info[COST]) for info in infos], dtype=np.float64)
    except KeyError:
        index = next(i for i, info in enumerate(infos) if COST not in info)
        raise NoCostError(
            f"environment {index} reports no info[{COST!r}]: a constrained algorithm needs the cost of every "
            f"step, a float >= 0; its info has {sorted(map(str, infos[index]))}"
        ) from None
    except (TypeError, ValueError):
        raise ValueError(
            f"info[{COST!r}] must be a number >= 0, got {[info[COST] for info in infos]}"
        ) from None
    wrong = ~(np.isfinite(costs) & (costs >= 0.0))
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ValueError(f"environment {index}: info[{COST!r}]={costs[index]}: must be finite and >= 0")
    return costs


class EpisodeCosts:
    """Undiscounted cost of each episode, for several environments side by side.

    An episode may last longer than a rollout: its sum so far is kept until it ends.
    """

    def __init__(self) -> None:
        self.running: npt.NDArray[np.float64] = np.zeros(0)
        self.finished: list[float] = []

    def restart(self, n_envs: int) -> None:
        """Forget all episodes: every environment was reset, or others have taken their place.

        :param n_envs: number of environments
        """
        self.running = np.zeros(n_envs)
        self.forget_finished()

    def forget_finished(self) -> None:
        """Forget the finished episodes; unfinished ones go on."""
        self.finished = []

    def add(self, costs: npt.NDArray[np.float64], dones: npt.NDArray[np.bool_]) -> None:
        """Count one step of each environment.

        :param costs: ``(n_envs,)``, raw cost of the step
        :param dones: ``(n_envs,)``, whether the step ended the episode (terminated or truncated)
        """
        self.running += costs
        for index in np.flatnonzero(dones):
            self.finished.append(float(self.running[index]))
            self.running[index] = 0.0

    def take_mean(self, min_episodes: int = 1) -> float | None:
        """Return the mean cost of the episodes that finished since the last call, and forget them.

        :param min_episodes: with fewer than this, return ``None`` and keep them for the next call
        """
        if len(self.finished) < max(min_episodes, 1):
            return None
        mean = float(np.mean(self.finished))
        self.forget_finished()
        return mean
