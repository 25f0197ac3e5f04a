"""The recorder of energy: by source, step by step, for pictures and analyses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from greendc.config import require
from greendc.resource_pool import layout as at
from greendc.resource_pool.energy_record import SUMS, EnergyRecord
from greendc.resource_pool.env import ResourcePoolEnv
from greendc.resource_pool.recording import seen


class EnergyRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps the energy of each episode of a resource pool at a site.

    :param env: a :class:`~greendc.resource_pool.env.ResourcePoolEnv` with ``power="trace"``, wrapped or not
    :raises ValueError: for another environment, or one with ``skip_forced``, which passes over steps unseen
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        base = env.unwrapped
        if not isinstance(base, ResourcePoolEnv) or base.config.power != "trace":
            raise ValueError(f"env={env!r}: must be a resource-pool environment with power='trace'")
        require(not base.config.skip_forced, "skip_forced", True, "False to record every step")
        self._pool = base.simulator
        self._steps: list[tuple[list[float], float, int, int]] = []
        self._episode = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and begin a new record."""
        result = super().reset(**options)
        self._steps.clear()
        self._episode = int(self._pool.episodes[0])
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment; if time goes on, the step that passes is added to the record.

        :raises RuntimeError: if the episode is over or not begun, or as :meth:`record`
        """
        view = seen(self._pool, self._episode, len(self._steps))
        env = self._pool.state.env[0]
        before, stored = self._sums(), float(env["stored_kwh"])
        units = int(view.levels[0])
        result = super().step(action)
        if result[4]["time_advanced"]:
            after = [now - then for now, then in zip(self._sums(), before, strict=True)]
            self._steps.append((after, stored, units, int(env["battery_mode"])))
        return result

    def _sums(self) -> list[float]:
        env = self._pool.state.env[0]
        return [float(env[f"{name}_kwh"]) for name in SUMS]

    def record(self) -> EnergyRecord:
        """Return the record of the episode so far.

        :raises RuntimeError: if no episode has begun, or if the pool was reset or stepped past the recorder
        """
        steps = len(self._steps)
        seen(self._pool, self._episode, steps)
        kwh, stored, units, modes = zip(*self._steps, strict=True) if steps else ((), (), (), ())
        series = self._pool.power_series()[0][:steps]
        return EnergyRecord(
            self._pool.config,
            np.array(kwh, np.float64).reshape(steps, len(SUMS)),
            np.array(stored, np.float64),
            np.array(units, np.int64),
            np.array(modes, np.int64),
            series[:, at.CARBON],
            series[:, at.PRICE],
        )
