"""Vector entry points for Gymnasium 0.29, which calls them without the id's keyword arguments.

Each id is an attribute of this module, so that an entry point is text and a spec can be written as JSON:
``greendc.vector_entry_points:VCC-2021-v1``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greendc.config import require
from greendc.environments import SimulatorVectorEnv
from greendc.registration import FAMILIES, make_vec


def __getattr__(env_id: str) -> Callable[..., SimulatorVectorEnv]:
    if not any(env_id in entry.presets for entry in FAMILIES):
        raise AttributeError(f"module {__name__!r} has no attribute {env_id!r}")

    def entry_point(
        num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any
    ) -> SimulatorVectorEnv:
        require(
            max_episode_steps is None,
            "max_episode_steps",
            max_episode_steps,
            "None in a compiled batch; options of the environment set how long its episodes are",
        )
        return make_vec(env_id, num_envs, **kwargs)

    return entry_point
