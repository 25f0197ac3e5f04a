"""Views of a pool whose power is commanded: the scheduler alone, or the power manager alone.

Both halves at once are the environment itself. In each view a rule fixes the other half, so that one can be
learned, judged, or trained in turn with the other.
"""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.baselines.registry import find_simulator
from greendc.baselines.resource_pool.power_rules import AsNeeded, require_commands
from greendc.config import require
from greendc.resource_pool import ResourcePoolSimulator

MASK = "action_mask"


class Partner(Protocol):
    """What takes the half of the decisions that a view fixes: a rule, or a network that is not trained."""

    @property
    def simulator(self) -> ResourcePoolSimulator:
        """The simulator that it acts on."""

    def choose(self, index: int, mask: NDArray[np.bool_]) -> int:
        """Return an action in environment ``index``; one that lets time go on if no job is to start."""

    def command(self, index: int, mask: NDArray[np.bool_]) -> int:
        """Return an action that lets time go on in environment ``index``."""


class _Half(gym.Wrapper[Any, Any, Any, Any]):
    """One half of the actions, ``first .. last - 1`` of the environment's.

    :raises ValueError: if the environment's power is not commanded, its observations are not dicts, or the
        rule acts in another one
    """

    def __init__(self, env: gym.Env[Any, Any], rule: Partner | None, first: int, last: int) -> None:
        super().__init__(env)
        self._pool = require_commands(find_simulator(env))
        observation = self._pool.config.observation
        require(observation == "dict", "observation", observation, "'dict' in a view of one half")
        self.rule = AsNeeded(self._pool) if rule is None else rule
        acts_here = self.rule.simulator is self._pool
        require(acts_here, "rule", self.rule, "a rule of this environment's simulator")
        self._part = slice(first, last)
        parts = dict(self._pool.observation_space.spaces)  # type: ignore[attr-defined]
        parts[MASK] = spaces.Box(0, 1, (last - first,), np.int8)
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Discrete(last - first)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions of this half are valid."""
        masks: NDArray[np.bool_] = self._pool.action_masks()[0, self._part]
        return masks

    def _seen(self, observation: dict[str, Any]) -> dict[str, Any]:
        return {**observation, MASK: self.action_masks().astype(np.int8)}


class SchedulerView(_Half):
    """The scheduler alone: it places, suspends and lets time go on; a rule commands the power.

    ``Discrete(n + 2)``, as in a pool without commands.

    :param env: a resource pool with ``power_levels``
    :param rule: what commands; the default orders units as they are needed
    """

    def __init__(self, env: gym.Env[Any, Any], rule: Partner | None = None) -> None:
        ready = require_commands(find_simulator(env)).config.ready_pool_size
        super().__init__(env, rule, 0, ready + 2)
        self._no_op = ready + 1

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        observation, info = super().reset(**options)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one decision of the scheduler.

        :raises ValueError: if the action is not in the action space
        """
        require(0 <= int(action) <= self._no_op, "action", action, f"in {self.action_space}")
        if int(action) == self._no_op:
            action = self.rule.command(0, self._pool.action_masks()[0])
        observation, reward, terminated, truncated, info = super().step(action)
        return self._seen(observation), reward, terminated, truncated, info


class PowerView(_Half):
    """The power manager alone: it commands once for each time step; a rule places the jobs.

    ``Discrete(P)``. Rewards and costs of the placements are those of the step that they follow.

    :param env: a resource pool with ``power_levels``
    :param rule: what places jobs; the default places all that will be on time, of the highest QoS value first
    """

    def __init__(self, env: gym.Env[Any, Any], rule: Partner | None = None) -> None:
        config = require_commands(find_simulator(env)).config
        self._first = config.ready_pool_size + 1
        super().__init__(env, rule, self._first, config.n_actions)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and place the first jobs."""
        observation, info = super().reset(**options)
        observation, _ = self._place(observation)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Command the power of a step, and place jobs in the next one.

        :raises ValueError: if the action is not in the action space
        """
        require(0 <= int(action) < self.action_space.n, "action", action, f"in {self.action_space}")  # type: ignore[attr-defined]
        observation, reward, terminated, truncated, info = super().step(self._first + int(action))
        if not truncated:
            observation, placed = self._place(observation)
            reward = float(reward) + placed
        return self._seen(observation), reward, terminated, truncated, info

    def _place(self, observation: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """Place jobs until the rule has none; return what is seen then, and their reward."""
        total = 0.0
        while True:
            action = self.rule.choose(0, self._pool.action_masks()[0])
            if action >= self._first:
                return observation, total
            observation, reward, _, _, _ = self.env.step(action)
            total += float(reward)
