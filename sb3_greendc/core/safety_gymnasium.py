"""The six-value ``step`` of Safety-Gymnasium, for constrained algorithms of other libraries."""

from __future__ import annotations

from typing import Any, SupportsFloat, TypeVar

import gymnasium as gym

from sb3_greendc.core.costs import cost_of

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")


class SafetyGymnasiumStep(gym.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Make ``step`` return ``(observation, reward, cost, terminated, truncated, info)``.

    That is the interface of Safety-Gymnasium, which omnisafe and similar libraries expect. The cost is
    that of ``info["cost"]``, which stays there. Put this wrapper outermost: other Gymnasium wrappers, and
    Stable-Baselines3, expect five values.

    :param env: an environment that reports ``info["cost"]``
    """

    def step(  # type: ignore[override]  # six values are the point of this wrapper
        self, action: ActType
    ) -> tuple[ObsType, SupportsFloat, float, bool, bool, dict[str, Any]]:
        """Take one step.

        :param action: action of the wrapped environment
        :raises KeyError: if the environment reports no cost
        :raises ValueError: if the cost is negative, infinite or not a number
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, cost_of(info), terminated, truncated, info
